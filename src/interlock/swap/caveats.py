"""What a person must know about a swap: what the old image has and the new one does not, and what stays unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.swap.dockerfile import Dockerfile, Instruction, Stage, own_argument, unquoted
from interlock.swap.image_names import Flavour, ImageLine, Maker, NewImage, python_image, variables
from interlock.swap.paths import FROM_OPTION, copied_paths, python_of

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
# Of Debian's package adduser, which slim images have up to bookworm.
ADDUSER = ("adduser", "addgroup", "deluser", "delgroup")
COMPILERS = frozenset({"build-essential", "gcc", "g++"})
# What needs a part of python:X-slim that a variant may lack, by the difference's name (variants/differences.toml).
USERS = {
    "pip": PIP,
    "libpython": re.compile(
        r"\buwsgi\b|\bunitd?\b(?=.*\bunit|:)|nginx/unit|\bmod_wsgi\b|\bpyinstaller\b|\blibpython\d", re.I
    ),
    "threads": re.compile(
        rf"{AT_COMMAND}(?:\S*/)?(?:gunicorn|uvicorn|hypercorn|waitress-serve|celery|daphne)(?=[\s\",])", re.M
    ),
    "site-packages": re.compile(r"/lib/python[\d.]+t?/(?:site|dist)-packages"),
    "command-python-config": re.compile(r"\bpython[\d.]*-config\b"),
    "venv": re.compile(r"\bpython[\d.]*t?\s+-m\s+venv\b"),
}
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
DEBIAN_PYTHON = {"bookworm": "3.11", "trixie": "3.13"}
# Paths with packages of a Python, by the names that people give them.
PACKAGES = re.compile(r"(?:site|dist)-packages|venv|/lib/python|/install\b|/deps\b|/packages\b")
TOOLS = frozenset({"uv", "uvx"})
# What makes uv take another interpreter although the image names its own in UV_PYTHON.
UV_OTHER = re.compile(
    r"\buv\s+python\s+(?:install|pin)\b|--managed-python\b|UV_MANAGED_PYTHON=|UV_PYTHON_PREFERENCE=\"?only-managed"
)
UV_VERSION = re.compile(r"(?:/uv:|\buv==)(\d+)\.(\d+)")
FIRST_UV = (0, 5)  # that knows the names of free-threaded builds
OTHERS_ASK = re.compile(
    rf"{AT_COMMAND}((?:poetry\s+env\s+use|pdm\s+use|pipenv\s[^;&|]*--python|pyenv\s+(?:install|global|local)"
    r"|(?:conda|mamba|micromamba)\s+(?:create|install)|hatch\s+(?:env|run|python))\b)",
    re.MULTILINE,
)
OF_NAMESPACE = {"amd64": "linux/amd64", "arm64v8": "linux/arm64", "i386": "linux/386", "s390x": "linux/s390x"}
SEVERAL_PLATFORMS = re.compile(r"\b(?:TARGETPLATFORM|TARGETARCH|BUILDPLATFORM)\b")


class Weight(StrEnum):
    """How much a caveat matters; the first ones come first."""

    BREAKS = "breaks"
    MAY_BREAK = "may break"
    KNOW = "know"


@dataclass(frozen=True)
class Caveat:
    """A warning about a swap, and the line that it is about (0: the whole file)."""

    line: int
    text: str
    weight: Weight = Weight.MAY_BREAK


def by_weight(found: Iterable[Caveat]) -> list[Caveat]:
    """Return the caveats, the heaviest first; what is to know of the whole file is one."""
    different = list(dict.fromkeys(found))
    standing = [one.text for one in different if not one.line and one.weight is Weight.KNOW]
    others = [one for one in different if one.line or one.weight is not Weight.KNOW]
    joined = [Caveat(0, "; ".join(standing), Weight.KNOW)] if standing else []
    return sorted([*others, *joined], key=lambda one: (list(Weight).index(one.weight), one.line))


def caveats(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> list[Caveat]:
    """Return the caveats of swapping the chosen stages of a Dockerfile, in the order of the lines."""
    found = [
        *image_caveats(chosen, to),
        *_foreign_files(dockerfile, chosen, to),
        *_variable_caveats(dockerfile, chosen),
        *_platform_caveats(dockerfile, chosen, to),
    ]
    told = {one.line for one in found}
    found += [
        Caveat(line, f"still takes files from {name}: a swap edits the images of FROM lines alone")
        for line, name in named_images(dockerfile)
        if line not in told
    ]
    for stage in chosen:
        found += _instruction_caveats(stage, _below(dockerfile, stage), to)
    return sorted(dict.fromkeys(found), key=lambda one: one.line)


def image_caveats(chosen: Sequence[ImageLine], to: NewImage) -> list[Caveat]:
    """Return the caveats that the images' names tell, those of one old image together."""
    found = [Caveat(0, text, Weight.KNOW) for text in _new_image_caveats(to)]
    said = set[str]()
    for one in chosen:
        texts = [text for text in _old_image_caveats(one, to) if text not in said]
        said |= set(texts)
        found += [Caveat(one.line, "; ".join(texts))] if texts else []
        if one.python is not None and "onbuild" in one.python.name.tag.split("-"):
            text = f"{one.image} has ONBUILD triggers (it copies and installs by itself): write them out"
            found.append(Caveat(one.line, text, Weight.BREAKS))
    return found


def _new_image_caveats(to: NewImage) -> Iterator[str]:
    """Yield what is to know of the new image."""
    if not to.pinned:
        yield f"{to.reference} is in no registry: push it, or builds on other machines do not find it"
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
        yield f"Debian {old.python.suite} becomes {to.suite}: packages may have other names"
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
            yield Caveat(stage.line, f"the image no longer depends on {names}", Weight.KNOW)


def _platform_caveats(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> Iterator[Caveat]:
    """Yield the architectures that a stage is built for and the new image is not for."""
    if not to.platforms:
        return
    has = f"{to.reference} is for {' and '.join(to.platforms)} alone"
    for stage in chosen:
        asked = [unquoted(flag.text.partition("=")[2]) for flag in stage.instruction.flags]
        namespace = stage.python.name.repository.split("/")[0] if stage.python else ""
        wanted = next((one for one in [*asked, OF_NAMESPACE.get(namespace, "")] if one and "$" not in one), None)
        if wanted is not None and wanted.removesuffix("/v8") not in to.platforms:
            yield Caveat(stage.line, f"is built for {wanted}, and {has}", Weight.BREAKS)
    if len(to.platforms) == 1 and (found := SEVERAL_PLATFORMS.search(dockerfile.text)):
        line = dockerfile.text.count("\n", 0, found.start()) + 1
        yield Caveat(line, f"the file is built for several architectures, and {has}")


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
                said = f"runs {command}, which the new image does not have: install {needed}"
                yield Caveat(instruction.line, said, Weight.BREAKS)
        if flavour is Flavour.ALPINE and (APK.search(text) or BUSYBOX_OPTIONS.search(text)):
            said = "is written for Alpine: Debian has apt-get, useradd and groupadd"
            yield Caveat(instruction.line, said, Weight.BREAKS)
        elif "adduser" not in installed and (used := [one for one in ADDUSER if _runs_command(one, text)]):
            todo = f"write {used[0].replace('add', '').replace('del', '')}{'add' if 'add' in used[0] else 'del'}"
            said = f"runs {used[0]}, which {to.suite}'s slim image does not have: {todo}, or install adduser"
            yield Caveat(instruction.line, said, Weight.BREAKS)
    for instruction in instructions:
        yield from _difference_caveats(instruction, to)
        yield from _installer_caveats(instruction, to)


def _difference_caveats(instruction: Instruction, to: NewImage) -> Iterator[Caveat]:
    """Yield what an instruction needs of python:X-slim that the new image does without, and the way out."""
    runs = instruction.keyword in RUNS
    text = _script(instruction) if runs else instruction.text
    for name, users in USERS.items():
        found = (
            users.search(text) if name in to.differences and (runs or name in {"libpython", "site-packages"}) else None
        )
        if found:
            out = f"; use {to.ways_out[name]}" if name in to.ways_out else ""
            used = found[0].strip(' [";&|(`')
            yield Caveat(instruction.line, f"needs {name} ({used}): {to.differences[name]}{out}", Weight.BREAKS)
    if DEBIAN_PACKAGES in text and DEBIAN_PYTHON.get(to.suite) != to.python:
        said = f"{DEBIAN_PACKAGES} has packages for Debian's python{DEBIAN_PYTHON.get(to.suite, '3')}, not {to.command}"
        yield Caveat(instruction.line, said, Weight.BREAKS)


def _installer_caveats(instruction: Instruction, to: NewImage) -> Iterator[Caveat]:
    """Yield where uv, poetry and others are told which Python to take."""
    text = f"{instruction.text}\n{instruction.heredoc}"
    if found := UV_OTHER.search(text):
        said = f"{found[0]}: uv takes a Python of its own, or ends, because the image forbids downloads: leave it out"
        yield Caveat(instruction.line, said, Weight.BREAKS)
    version = UV_VERSION.search(text)
    if version and to.free_threaded and (int(version[1]), int(version[2])) < FIRST_UV:
        said = f"uv {version[1]}.{version[2]} does not know python{to.python}: take 0.5 or later"
        yield Caveat(instruction.line, said, Weight.BREAKS)
    if instruction.keyword in {"COPY", "ADD"} and ".python-version" in text:
        said = (
            f".python-version is copied in: uv takes {to.python} all the same (UV_PYTHON of the image), pyenv does not"
        )
        yield Caveat(instruction.line, said, Weight.KNOW)
    if found := OTHERS_ASK.search(_script(instruction)) if instruction.keyword in RUNS else None:
        said = (
            f"{' '.join(found[1].split())}: takes or fetches the Python that it is told, not the image's {to.command}"
        )
        yield Caveat(instruction.line, said)


def _script(instruction: Instruction) -> str:
    """Return what an instruction runs: its joined text without the keyword, and its heredocs' lines."""
    return re.sub(r"^\s*\S+\s+(?:--\S+\s+)*(?:CMD\s+)?", "", instruction.text, count=1) + f"\n{instruction.heredoc}"


def _runs_command(command: str, text: str) -> bool:
    return re.search(rf"{AT_COMMAND}{re.escape(command)}(?=[\s\";]|$)", text, re.MULTILINE) is not None


def _foreign_files(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> Iterator[Caveat]:
    """Yield what goes between the chosen stages and a Python that stays, and the stages that could not be checked."""
    swapped = {stage.index for stage in chosen}
    for stage in dockerfile.stages:
        if stage.missing is not None:
            yield Caveat(stage.line, f"{stage.missing} has no default: stage {stage.label} was not checked")
        here = dockerfile.root_of(stage)
        for instruction, name in _copies_from(stage):
            source = dockerfile.find(name, stage.index)
            there = dockerfile.root_of(source) if source else None
            if there is not None and there.index in swapped and here.index not in swapped:
                yield from _files_that_leave(dockerfile, stage, instruction, there, to)
                yield from _difference_caveats(instruction, to)
            elif here.index in swapped and (there is None or there.index not in swapped):
                where = (
                    f"stage {source.label}, which stays {there.image}" if source and there else f"{name}, which stays"
                )
                python = there.python if there else python_image(name)
                if (
                    python is not None
                    and python.agrees_on != (to.implementation, to.python)
                    and not _tools(instruction)
                ):
                    text = f"takes files from {where}: what was compiled there does not load in {to.command}"
                    yield Caveat(instruction.line, text, Weight.BREAKS)


def _files_that_leave(
    dockerfile: Dockerfile, stage: Stage, instruction: Instruction, source: Stage, to: NewImage
) -> Iterator[Caveat]:
    """Yield that files of a swapped stage go into one that keeps its own Python."""
    here = dockerfile.root_of(stage)
    said = (
        f"takes files from stage {source.label}, which becomes {to.command}: what was compiled there does not load in"
    )
    if here.python is not None:
        if here.python.agrees_on != (to.implementation, to.python) and not _tools(instruction):
            own = f"{here.python.implementation}{here.python.python}" if here.python.python else "the Python"
            yield Caveat(instruction.line, f"{said} {own} of {here.image}, which stays", Weight.BREAKS)
    elif python_of(dockerfile, stage) == here.index and any(map(PACKAGES.search, copied_paths(instruction))):
        yield Caveat(instruction.line, f"{said} another Python, and {here.image} does not show which it has")


def named_images(dockerfile: Dockerfile) -> list[tuple[int, str]]:
    """Return the lines that copy or mount from a Python image itself, not from a stage, with its name."""
    return [
        (instruction.line, name)
        for stage in dockerfile.stages
        for instruction, name in _copies_from(stage)
        if dockerfile.find(name, stage.index) is None
        and (python := python_image(name)) is not None
        and python.maker is not Maker.OTHER
        and not _tools(instruction)
    ]


def _tools(instruction: Instruction) -> bool:
    """Return whether only programs are copied that run without a Python: uv."""
    names = {path.rpartition("/")[2] for path in copied_paths(instruction)}
    return instruction.keyword == "COPY" and bool(names) and names <= TOOLS


def _copies_from(stage: Stage) -> list[tuple[Instruction, str]]:
    """Return the instructions that copy or mount from a stage or an image, with its name."""
    found = [(instruction, FROM_OPTION.search(flag.text)) for instruction in stage.body for flag in instruction.flags]
    return [(instruction, match[1].strip("\"'")) for instruction, match in found if match]
