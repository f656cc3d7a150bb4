"""Where a swap is not drop-in: what the old image had and the new one has not, and what else has to be known. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interlock.swap.dockerfile import Instruction
from interlock.swap.image_line import ImageLine
from interlock.swap.images import Flavour, Maker, NewImage, python_image
from interlock.swap.paths import FROM_OPTION
from interlock.swap.stages import Dockerfile, Stage, own_argument
from interlock.swap.variables import variables

# Commands of buildpack-deps, which python:X is made from and python:X-slim is not, by the Debian package that has each.
FULL_COMMANDS = {
    **dict.fromkeys(("gcc", "cc", "g++", "c++", "make", "ld", "strip", "ar"), "build-essential"),
    **{name: name for name in ("curl", "wget", "git", "unzip", "file", "patch", "autoconf", "automake")},
    **dict.fromkeys(("ps", "pkill", "top"), "procps"),
    **dict.fromkeys(("ssh", "ssh-keyscan"), "openssh-client"),
    "hg": "mercurial",
    "svn": "subversion",
    "gpg": "gnupg",
    "convert": "imagemagick",
    "xz": "xz-utils",
    "pg_config": "libpq-dev",
    "mysql_config": "default-libmysqlclient-dev",
    "xml2-config": "libxml2-dev",
}
# Those of busybox, in Alpine's images, that Debian's slim ones have not.
BUSYBOX_COMMANDS = {
    "wget": "wget",
    "unzip": "unzip",
    "vi": "vim-tiny",
    "nc": "netcat-openbsd",
    "ps": "procps",
    "xz": "xz-utils",
}
AT_COMMAND = r"(?:^|[;&|(`]\s*|\[\s*\"|\b(?:then|do|else|sudo|exec|time|CMD)\s+)"
RUNS = frozenset({"RUN", "CMD", "ENTRYPOINT", "HEALTHCHECK"})
APT = re.compile(rf"{AT_COMMAND}(?:apt-get|apt|aptitude)\b[^;&|]*\binstall\b([^;&|]*)", re.MULTILINE)
APK = re.compile(rf"{AT_COMMAND}apk\s+(?:--\S+\s+)*add\b", re.MULTILINE)
PIP = re.compile(r"\bpip[\d.]*\s+(?:--\S+\s+)*(?:install|wheel|download)\b")
BUSYBOX_OPTIONS = re.compile(rf"{AT_COMMAND}(?:adduser|addgroup)\s[^;&|]*-[a-zA-Z]*[DSGH]", re.MULTILINE)
COMPILERS = frozenset({"build-essential", "gcc", "g++"})


@dataclass(frozen=True)
class Caveat:
    """A sentence for the person who swaps, and the line that it is about (0: the whole file)."""

    line: int
    text: str


def caveats(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> list[Caveat]:
    """What to know of swapping the chosen stages of a Dockerfile, the first line first."""
    found = [*of_images(chosen, to), *_elsewhere(dockerfile, chosen, to), *_variables(dockerfile, chosen)]
    for stage in chosen:
        found += _of_instructions(stage, _below(dockerfile, stage), to)
    return sorted(dict.fromkeys(found), key=lambda one: one.line)


def of_images(chosen: Sequence[ImageLine], to: NewImage) -> list[Caveat]:
    """What the images' own names say."""
    found = dict.fromkeys(_of_new(to), 0)
    for one in chosen:
        found |= {text: one.line for text in _of_old(one, to) if text not in found}
    return [Caveat(line, text) for text, line in found.items()]


def _of_new(to: NewImage) -> Iterator[str]:
    """Of the new image alone."""
    if not to.pinned:
        yield f"{to.reference} is in no registry: push it, or builds on other machines will not find it"
    if to.profile != "release":
        todo = "--release takes the one that is" if "release" in to.profiles else f"{to.variant} has no other"
        yield f"{to.variant} here is not profile-guided and link-time optimised: {todo}"
    if to.free_threaded:
        yield "an extension module that does not know free threading switches the GIL back on: see `interlock audit`"


def _of_old(old: ImageLine, to: NewImage) -> Iterator[str]:
    """Of an old image beside the new one."""
    if old.python is None:
        yield f"nothing shows that {old.image} has Python in it: what else it has is lost"
        return
    if old.python.maker is Maker.OTHER:
        yield f"{old.image} is not python:X: what its publisher added, and its paths and users, are lost"
    if old.python.agrees_on != (to.implementation, to.python):
        yield _other_python(old, to)
    flavour = old.python.flavour
    if flavour is Flavour.ALPINE:
        yield (
            f"{old.image} is Alpine (musl, busybox, apk), the new image Debian {to.suite} (glibc, coreutils, apt): "
            "musllinux wheels and apk packages do not fit"
        )
    elif old.python.suite not in {None, to.suite}:
        yield f"{old.image} is Debian {old.python.suite}, the new image {to.suite}: packages may be named otherwise"
    if flavour is Flavour.FULL:
        yield (
            f"{old.image} has compilers, headers of libraries, git and curl, the new image is slim: "
            "what pip has to compile needs them installed first"
        )


def _other_python(old: ImageLine, to: NewImage) -> str:
    python = old.python
    known = f"{python.implementation}{python.python}" if python and python.python else f"the Python of {old.image}"
    return (
        f"{known} becomes {to.command}: what was compiled for the one (wheels, C extensions, lock files with their "
        "hashes) does not load in the other"
    )


def _variables(dockerfile: Dockerfile, chosen: Sequence[Stage]) -> Iterator[Caveat]:
    """Variables that choose the image from outside, or did so."""
    for stage in chosen:
        argument = own_argument(dockerfile, stage, chosen)
        if argument is not None:
            text = f"--build-arg {argument.name}=... from outside still chooses another image"
            yield Caveat(argument.instruction.line, text)
        dropped = variables(argument.raw if argument else stage.token.text) if stage.default is None else []
        if dropped:
            names = " and ".join(dict.fromkeys(one.name for one in dropped))
            yield Caveat(stage.line, f"{names} will have no say in the image any more")


def _below(dockerfile: Dockerfile, root: Stage) -> list[Instruction]:
    """The instructions that run on a stage's image: its own and those of the stages that start from it."""
    stages = [stage for stage in dockerfile.stages if dockerfile.root_of(stage).index == root.index]
    return [instruction for stage in stages for instruction in stage.body]


def _of_instructions(stage: Stage, instructions: Sequence[Instruction], to: NewImage) -> Iterator[Caveat]:
    """What instructions use that the new image has not."""
    flavour = stage.python.flavour if stage.python else Flavour.UNKNOWN
    commands = {Flavour.FULL: FULL_COMMANDS, Flavour.ALPINE: BUSYBOX_COMMANDS}.get(flavour, {})
    texts = [(one, _script(one)) for one in instructions if one.keyword in RUNS]
    installed = {word for _, text in texts for match in APT.finditer(text) for word in match[1].split()}
    for instruction, text in texts:
        for command, needed in commands.items():
            sufficient = {needed, command, *(COMPILERS if needed in COMPILERS else ())}
            if not installed & sufficient and _runs(command, text):
                yield Caveat(instruction.line, f"runs {command}, which the new image has not: install {needed}")
        if flavour is Flavour.ALPINE and (APK.search(text) or BUSYBOX_OPTIONS.search(text)):
            yield Caveat(instruction.line, "is written for Alpine: Debian has apt-get, useradd and groupadd")
        if "pip" in to.differences and PIP.search(text):
            yield Caveat(instruction.line, f"runs pip: {to.differences['pip']}")


def _script(instruction: Instruction) -> str:
    """What an instruction runs, without its keyword: the joined text, and the heredocs' lines below it."""
    return re.sub(r"^\s*\S+\s+(?:--\S+\s+)*(?:CMD\s+)?", "", instruction.text, count=1) + f"\n{instruction.heredoc}"


def _runs(command: str, text: str) -> bool:
    return re.search(rf"{AT_COMMAND}{re.escape(command)}(?=[\s\";]|$)", text, re.MULTILINE) is not None


def _elsewhere(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> Iterator[Caveat]:
    """What comes from another Python into the chosen stages, and what could not be looked at."""
    swapped = {stage.index for stage in chosen}
    for stage in dockerfile.stages:
        if stage.missing is not None:
            yield Caveat(stage.line, f"{stage.missing} has no default: stage {stage.label} was not looked at")
        for instruction, name in _taken(stage) if dockerfile.root_of(stage).index in swapped else []:
            source = dockerfile.find(name, stage.index)
            root = dockerfile.root_of(source) if source else None
            python = root.python if root else python_image(name)
            stays = root is None or root.index not in swapped
            if python is not None and stays and python.agrees_on != (to.implementation, to.python):
                where = f"stage {source.label}, which stays {root.image}" if source and root else f"{name}, which stays"
                text = f"takes files from {where}: what was compiled there does not load in {to.command}"
                yield Caveat(instruction.line, text)


def _taken(stage: Stage) -> list[tuple[Instruction, str]]:
    """The instructions that read from a stage or an image, each with its name."""
    found = [(instruction, FROM_OPTION.search(flag.text)) for instruction in stage.body for flag in instruction.flags]
    return [(instruction, match[1].strip("\"'")) for instruction, match in found if match]
