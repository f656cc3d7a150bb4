"""What a person must know about a swap: what the old image has and the new one does not, and what stays unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interlock.swap.dockerfile import Dockerfile, Instruction, Stage, own_argument
from interlock.swap.image_names import Flavour, ImageLine, Maker, NewImage, python_image, variables
from interlock.swap.paths import FROM_OPTION

# Commands of buildpack-deps, which python:X contains and python:X-slim does not, with the Debian package of each.
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
# Commands of busybox, in Alpine's images, that Debian's slim images do not have.
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
    """A warning about a swap, and the line that it is about (0: the whole file)."""

    line: int
    text: str


def caveats(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> list[Caveat]:
    """Return the caveats of swapping the chosen stages of a Dockerfile, in the order of the lines."""
    found = [
        *image_caveats(chosen, to),
        *_foreign_files(dockerfile, chosen, to),
        *_variable_caveats(dockerfile, chosen),
    ]
    for stage in chosen:
        found += _instruction_caveats(stage, _below(dockerfile, stage), to)
    return sorted(dict.fromkeys(found), key=lambda one: one.line)


def image_caveats(chosen: Sequence[ImageLine], to: NewImage) -> list[Caveat]:
    """Return the caveats that the images' names tell."""
    found = dict.fromkeys(_new_image_caveats(to), 0)
    for one in chosen:
        found |= {text: one.line for text in _old_image_caveats(one, to) if text not in found}
    return [Caveat(line, text) for text, line in found.items()]


def _new_image_caveats(to: NewImage) -> Iterator[str]:
    """Yield the caveats of the new image."""
    if not to.pinned:
        yield f"{to.reference} is in no registry: push it, or builds on other machines will not find it"
    if to.unoptimised:
        todo = "leave out --profile standard" if "release" in to.profiles else "it has no other build"
        yield f"{to.variant} is built without profile-guided and link-time optimisation: {todo}"
    if to.free_threaded:
        yield "an extension module that does not know free threading switches the GIL back on: see `interlock audit`"


def _old_image_caveats(old: ImageLine, to: NewImage) -> Iterator[str]:
    """Yield the caveats of replacing an old image."""
    if old.python is None:
        yield f"{old.image} does not look like a Python image: whatever else it contains is lost"
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
        yield f"{old.image} is Debian {old.python.suite}, the new image {to.suite}: packages may have other names"
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


def _variable_caveats(dockerfile: Dockerfile, chosen: Sequence[Stage]) -> Iterator[Caveat]:
    """Yield the variables that can choose, or no longer choose, the image from outside."""
    for stage in chosen:
        argument = own_argument(dockerfile, stage, chosen)
        if argument is not None:
            text = f"--build-arg {argument.name}=... from outside still chooses another image"
            yield Caveat(argument.instruction.line, text)
        dropped = variables(argument.raw if argument else stage.token.text) if stage.default is None else []
        if dropped:
            names = " and ".join(dict.fromkeys(one.name for one in dropped))
            yield Caveat(stage.line, f"the image no longer depends on {names}")


def _below(dockerfile: Dockerfile, root: Stage) -> list[Instruction]:
    """Return the instructions that run on a stage's image: its own and those of the stages that start from it."""
    stages = [stage for stage in dockerfile.stages if dockerfile.root_of(stage).index == root.index]
    return [instruction for stage in stages for instruction in stage.body]


def _instruction_caveats(stage: Stage, instructions: Sequence[Instruction], to: NewImage) -> Iterator[Caveat]:
    """Yield what instructions use and the new image does not have."""
    flavour = stage.python.flavour if stage.python else Flavour.UNKNOWN
    commands = {Flavour.FULL: FULL_COMMANDS, Flavour.ALPINE: BUSYBOX_COMMANDS}.get(flavour, {})
    texts = [(one, _script(one)) for one in instructions if one.keyword in RUNS]
    installed = {word for _, text in texts for match in APT.finditer(text) for word in match[1].split()}
    for instruction, text in texts:
        for command, needed in commands.items():
            sufficient = {needed, command, *(COMPILERS if needed in COMPILERS else ())}
            if not installed & sufficient and _runs_command(command, text):
                yield Caveat(instruction.line, f"runs {command}, which the new image does not have: install {needed}")
        if flavour is Flavour.ALPINE and (APK.search(text) or BUSYBOX_OPTIONS.search(text)):
            yield Caveat(instruction.line, "is written for Alpine: Debian has apt-get, useradd and groupadd")
        if "pip" in to.differences and PIP.search(text):
            yield Caveat(instruction.line, f"runs pip: {to.differences['pip']}")


def _script(instruction: Instruction) -> str:
    """Return what an instruction runs: its joined text without the keyword, and its heredocs' lines."""
    return re.sub(r"^\s*\S+\s+(?:--\S+\s+)*(?:CMD\s+)?", "", instruction.text, count=1) + f"\n{instruction.heredoc}"


def _runs_command(command: str, text: str) -> bool:
    return re.search(rf"{AT_COMMAND}{re.escape(command)}(?=[\s\";]|$)", text, re.MULTILINE) is not None


def _foreign_files(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> Iterator[Caveat]:
    """Yield what comes from another Python into the chosen stages, and the stages that could not be checked."""
    swapped = {stage.index for stage in chosen}
    for stage in dockerfile.stages:
        if stage.missing is not None:
            yield Caveat(stage.line, f"{stage.missing} has no default: stage {stage.label} was not checked")
        for instruction, name in _copies_from(stage) if dockerfile.root_of(stage).index in swapped else []:
            source = dockerfile.find(name, stage.index)
            root = dockerfile.root_of(source) if source else None
            python = root.python if root else python_image(name)
            stays = root is None or root.index not in swapped
            if python is not None and stays and python.agrees_on != (to.implementation, to.python):
                where = f"stage {source.label}, which stays {root.image}" if source and root else f"{name}, which stays"
                text = f"takes files from {where}: what was compiled there does not load in {to.command}"
                yield Caveat(instruction.line, text)


def _copies_from(stage: Stage) -> list[tuple[Instruction, str]]:
    """Return the instructions that copy or mount from a stage or an image, with its name."""
    found = [(instruction, FROM_OPTION.search(flag.text)) for instruction in stage.body for flag in instruction.flags]
    return [(instruction, match[1].strip("\"'")) for instruction, match in found if match]
