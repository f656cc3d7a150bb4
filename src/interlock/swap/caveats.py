"""What a person must know about a swap: what an old image has and the new one does not, and what uses that.

What is between the stages of a Dockerfile is in stage_caveats.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.swap.image_names import Flavour, ImageLine, Maker, NewImage, PythonImage

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
# Where a command starts: a line, behind a sign or a word of the shell, in a text for another shell, or for a runner.
AT_COMMAND = (
    r"(?:^|[;&|(`]\s*|\b(?:then|do|else|sudo|exec|time|CMD(?:-SHELL)?)\s+|-l?c\s+[\"']?\s*"
    r"|\b(?:uv|poetry|pdm|pipenv|hatch)\s+run\s+(?:--\S+\s+)*)"
)
FEATURE = "feature"  # of a devcontainer, as the keyword of a use
RUNS = frozenset({"RUN", "CMD", "ENTRYPOINT", "HEALTHCHECK", "SHELL"})
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
        r"\buwsgi\b|\bunitd\b|nginx/unit|(?<![\w.-])unit:\d|\bmod_wsgi\b|\bpyinstaller\b|\blibpython\d", re.I
    ),
    "threads": re.compile(
        rf"(?:{AT_COMMAND}(?:\S*/)?|\s-m\s+)(?:gunicorn|uvicorn|hypercorn|waitress|celery|daphne)\b", re.M
    ),
    # That of an environment is the same everywhere.
    "site-packages": re.compile(r"/usr/local/lib/python[^/\s]+/site-packages"),
    "command-python-config": re.compile(r"\bpython[\d.]*-config\b"),
    "venv": re.compile(r"\bpython[\d.]*t?\s+-m\s+venv\b"),
}
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
DEBIAN_PYTHON = {"bookworm": "3.11", "trixie": "3.13"}
# What makes uv take another interpreter although the image names its own in UV_PYTHON.
UV_OTHER = re.compile(
    r"\buv\s+python\s+(?:install|pin)\b|--managed-python\b|UV_MANAGED_PYTHON=|UV_PYTHON_PREFERENCE=\"?only-managed"
)
UV_VERSION = re.compile(r"(?:/uv:|\buv==)([0-9]{1,9})\.([0-9]{1,9})")
FIRST_UV = (0, 5)  # that knows the names of free-threaded builds
# What brings a Python of its own, where PATH has it first.
OTHER_PATH = re.compile(r"\bPATH[=\s]\"?[^\s:$]*(?:conda|mamba|miniforge|/\.?pyenv/|/mise/|/\.?asdf/)[^\s:]*")
CONDA = r"(?:\S*/)?(?:conda|mamba|micromamba)"
OTHERS_ASK = re.compile(
    rf"{AT_COMMAND}((?:poetry\s+env\s+use|pdm\s+use|pipenv\s[^;&|]*--python|pyenv\s+(?:install|global|local)"
    rf"|{CONDA}\s+(?:env\s+)?(?:create|install|update)|hatch\s+python\s+install)\b)",
    re.MULTILINE,
)
OTHERS_RUN = re.compile(
    rf"{AT_COMMAND}({CONDA}\s+(?:run|activate)\b|\S*/[^/\s]*(?:conda|mamba|miniforge)\S*/bin/(?:python|pip)[\d.]*)",
    re.MULTILINE,
)
# Which Python these take is in files of the project, as tests/proofs/test_installers.py has it of the real ones.
PROJECTS_CHOICE = {
    "pdm": (
        "fetches another Python where .python-version is not {0} (ENV PDM_USE_PYTHON_VERSION=0 leaves that file aside) "
        "or requires-python does not admit {1}"
    ),
    "pipenv": "ends where the Pipfile's python_version is not {1}",
    "hatch": "fetches another Python where an environment's `python` in its settings is not {0}",
}
INSTALLER = re.compile(
    rf"(?:{AT_COMMAND}(?:\S*/)?|\s-m\s+)({'|'.join(PROJECTS_CHOICE)})"
    r"\s+(?:-\S+\s+)*(?:install|sync|update|add|lock|run|build|env|venv|test|shell|export)\b",
    re.MULTILINE,
)
# What leaves the project's choice aside.
CHOSEN = re.compile(r"\b(?:PDM_USE_PYTHON_VERSION=\"?(?:0|false)|PDM_PYTHON=|PIPENV_PYTHON=|HATCH_PYTHON=)", re.I)
# Features of a devcontainer that put a Python of their own first in PATH.
OTHER_FEATURE = re.compile(r".*/(?:python|conda|anaconda|miniforge)(?:[:@].*)?")
# Interpreters of Debian, Lambda and Bitnami. That of python:X is in /usr/local/bin.
ELSEWHERE = re.compile(r"(?<![\w/.-])(?:/usr/bin|/bin|/var/lang/bin|/opt/bitnami/python/bin)/python[\d.]*(?![\w/.-])")
OF_NAMESPACE = {"amd64": "linux/amd64", "arm64v8": "linux/arm64", "i386": "linux/386", "s390x": "linux/s390x"}


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


@dataclass(frozen=True)
class Use:
    """A line by which a container uses its image: what it runs there, or an instruction with a path in the image."""

    line: int
    text: str  # of what is run; of any other instruction all of it
    keyword: str = "CMD"

    @property
    def runs(self) -> bool:
        return self.keyword in RUNS


def by_weight(found: Iterable[Caveat]) -> list[Caveat]:
    """Return the caveats, the heaviest first; what is to know of the whole file is one, and what is said twice too."""
    lines: dict[tuple[str, Weight], list[int]] = {}
    for one in found:
        lines.setdefault((one.text, one.weight), []).append(one.line)
    standing = "; ".join(text for (text, weight), held in lines.items() if weight is Weight.KNOW and not min(held))
    once = [Caveat(0, standing, Weight.KNOW)] if standing else []
    for (text, weight), held in lines.items():
        first, *others = sorted(set(held))
        also = f" (and in line {', '.join(map(str, others))})" if others else ""
        if first or weight is not Weight.KNOW:
            once.append(Caveat(first, f"{text}{also}", weight))
    return sorted(once, key=lambda one: (list(Weight).index(one.weight), one.line))


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


def other_platform(line: ImageLine, asked: Sequence[str], to: NewImage) -> Iterator[Caveat]:
    """Yield that a line asks, by itself or by its image's namespace, for a platform that the new image is not for."""
    namespace = line.python.name.repository.split("/")[0] if line.python else ""
    wanted = next((one for one in [*asked, OF_NAMESPACE.get(namespace, "")] if one and "$" not in one), None)
    if to.platforms and wanted is not None and wanted.removesuffix("/v8") not in to.platforms:
        yield Caveat(line.line, f"is built for {wanted}, and {is_for(to)}", Weight.BREAKS)


def is_for(to: NewImage) -> str:
    """Return what the new image's architectures are."""
    return f"{to.reference} is for {' and '.join(to.platforms)} alone"


def use_caveats(uses: Sequence[Use], old: PythonImage | None, to: NewImage) -> Iterator[Caveat]:
    """Yield what containers of an old image use and the new image does not have."""
    flavour = old.flavour if old else Flavour.UNKNOWN
    commands = {Flavour.FULL: FULL_COMMANDS, Flavour.ALPINE: BUSYBOX_COMMANDS}.get(flavour, {})
    run = [one for one in uses if one.runs]
    installed = {word for one in run for match in APT.finditer(one.text) for word in match[1].split()}
    for one in run:
        missing = {
            command: needed
            for command, needed in commands.items()
            if not installed & {needed, command, *(COMPILERS if needed in COMPILERS else ())}
            and _runs_command(command, one.text)
        }
        if missing:
            what, packages = " and ".join(missing), " and ".join(dict.fromkeys(missing.values()))
            said = f"runs {what}, which the new image does not have: install {packages}"
            yield Caveat(one.line, said, Weight.BREAKS)
        if flavour is Flavour.ALPINE and (APK.search(one.text) or BUSYBOX_OPTIONS.search(one.text)):
            said = "is written for Alpine: Debian has apt-get, useradd and groupadd"
            yield Caveat(one.line, said, Weight.BREAKS)
        elif "adduser" not in installed and (used := [name for name in ADDUSER if _runs_command(name, one.text)]):
            todo = f"write {used[0].replace('add', '').replace('del', '')}{'add' if 'add' in used[0] else 'del'}"
            said = f"runs {used[0]}, which {to.suite}'s slim image does not have: {todo}, or install adduser"
            yield Caveat(one.line, said, Weight.BREAKS)
        if flavour in {Flavour.FULL, Flavour.UNKNOWN} and not any(word.startswith("python3") for word in installed):
            for path in dict.fromkeys(match[0] for match in ELSEWHERE.finditer(one.text)):
                said = f"runs {path}, which the new image does not have: write /usr/local/bin/{to.implementation}"
                yield Caveat(one.line, said, Weight.BREAKS)
    for one in uses:
        yield from difference_caveats(one, to)
        yield from _other_pythons(one, to)
    if old is None or old.agrees_on != (to.implementation, to.python):
        yield from _projects_choices(uses, to)


def difference_caveats(use: Use, to: NewImage) -> Iterator[Caveat]:
    """Yield what a line needs of python:X-slim that the new image does without, and the way out."""
    for name, users in USERS.items():
        # A free-threaded build differs in its version alone, which is in the list of paths.
        matters = name in to.differences and not (name == "site-packages" and to.free_threaded)
        found = users.search(use.text) if matters and (use.runs or name in {"libpython", "site-packages"}) else None
        if found:
            out = f"; use {to.ways_out[name]}" if name in to.ways_out else ""
            used = found[0].strip(' [";&|(`')
            yield Caveat(use.line, f"needs {name} ({used}): {to.differences[name]}{out}", Weight.BREAKS)
    if DEBIAN_PACKAGES in use.text and DEBIAN_PYTHON.get(to.suite) != to.python:
        said = f"{DEBIAN_PACKAGES} has packages for Debian's python{DEBIAN_PYTHON.get(to.suite, '3')}, not {to.command}"
        yield Caveat(use.line, said, Weight.BREAKS)


def _other_pythons(use: Use, to: NewImage) -> Iterator[Caveat]:
    """Yield where uv, poetry, conda and others are told to take another Python than the image's."""
    if found := UV_OTHER.search(use.text):
        said = f"{found[0]}: uv takes a Python of its own, or ends, because the image forbids downloads: leave it out"
        yield Caveat(use.line, said, Weight.BREAKS)
    version = UV_VERSION.search(use.text)
    if version and to.free_threaded and (int(version[1]), int(version[2])) < FIRST_UV:
        said = f"uv {version[1]}.{version[2]} does not know python{to.python}: take 0.5 or later"
        yield Caveat(use.line, said, Weight.BREAKS)
    if use.keyword in {"COPY", "ADD"} and ".python-version" in use.text:
        said = (
            f".python-version is copied in: uv takes {to.python} all the same (UV_PYTHON of the image), "
            "pdm and pyenv take what it names"
        )
        yield Caveat(use.line, said, Weight.KNOW)
    if found := OTHER_PATH.search(use.text) if use.keyword == "ENV" else None:
        said = f"{_words(found[0])}: the Python there comes first, so {to.command} does not run"
        yield Caveat(use.line, said, Weight.BREAKS)
    if use.keyword == FEATURE and OTHER_FEATURE.fullmatch(use.text):
        said = f"{use.text}: the Python that it installs comes first, so {to.command} does not run: leave it out"
        yield Caveat(use.line, said, Weight.BREAKS)
    if found := OTHERS_RUN.search(use.text) if use.runs else None:
        yield Caveat(use.line, f"{_words(found[1])}: its Python runs, not the image's {to.command}", Weight.BREAKS)
    if found := OTHERS_ASK.search(use.text) if use.runs else None:
        said = f"{_words(found[1])}: takes or fetches the Python that it is told, not the image's {to.command}"
        yield Caveat(use.line, said)


def _projects_choices(uses: Sequence[Use], to: NewImage) -> Iterator[Caveat]:
    """Yield the installers that take the Python that a file of the project names."""
    chosen = {match[0].partition("_")[0].lower() for one in uses for match in CHOSEN.finditer(one.text)}
    for one in uses:
        told = OTHERS_ASK.search(one.text)
        names = dict.fromkeys(match[1] for match in INSTALLER.finditer(one.text)) if one.runs and not told else ()
        for name in names:
            if name not in chosen:
                choice = PROJECTS_CHOICE[name].format(to.python, to.python.rstrip("t"))
                yield Caveat(one.line, f"{name} {choice}")


def _words(text: str) -> str:
    return " ".join(text.split())


def _runs_command(command: str, text: str) -> bool:
    return re.search(rf"{AT_COMMAND}{re.escape(command)}(?=[\s\"';)]|$)", text, re.MULTILINE) is not None
