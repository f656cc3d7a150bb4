"""What a person must know about a swap: what an old image has and the new one does not, and what uses that.

What is between the stages of a Dockerfile is in stage_caveats.py, what takes another Python than the image's in
other_pythons.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.swap.dockerfile import RUNS
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
# Commands of Alpine's packages, with what is instead in Debian.
ALPINES_OWN = {"/sbin/tini": "/usr/bin/tini (package tini)", "su-exec": "gosu (package gosu)"}
# Where a command starts: a line, behind a sign or a word of the shell, in a text for another shell, or for a runner.
AT_COMMAND = (
    r"(?:^|[;&|(`]\s*|\b(?:then|do|else|sudo|exec|time|CMD(?:-SHELL)?)\s+|-l?c\s+[\"']?\s*"
    r"|\b(?:uv|poetry|pdm|pipenv|hatch)\s+run\s+(?:--\S+\s+)*)"
)
APT = re.compile(rf"{AT_COMMAND}(?:apt-get|apt|aptitude)\b[^;&|\n]*\binstall\b([^;&|\n]*)", re.MULTILINE)
APK = re.compile(rf"{AT_COMMAND}apk\s+(?:--\S+\s+)*add\b", re.MULTILINE)
# Package managers of other systems than Debian, whatever image had them.
OTHERS_PACKAGES = re.compile(rf"{AT_COMMAND}(apk|dnf|microdnf|yum|tdnf|zypper|pacman)(?=\s)", re.MULTILINE)
PIP = re.compile(r"\bpip[\d.]*\s+(?:--\S+\s+)*(?:install|wheel|download)\b")
BUSYBOX_OPTIONS = re.compile(rf"{AT_COMMAND}(?:adduser|addgroup)\s[^;&|]*-[a-zA-Z]*[DSGH]", re.MULTILINE)
# Of Debian's package adduser, which slim images have up to bookworm.
ADDUSER = ("adduser", "addgroup", "deluser", "delgroup")
# Of Debian, with its own libpython.
EMBEDDING = re.compile(r"(?:uwsgi-plugin-(?:asyncio-)?python3|libapache2-mod-wsgi-py3)(?:=\S*)?")
# A release of Debian in a line for apt: `deb URL bookworm-pgdg main`, `-t bookworm-backports`.
SUITE_NAMED = re.compile(
    r"(?:\bdeb\s(?:(?!\bdeb\s)[^\n])*?\s|\s-t\s+|\bSuites:\s*)(buster|bullseye|bookworm|trixie)(?:-[\w-]+)?\b"
)
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


def by_weight(told: Iterable[Caveat]) -> list[Caveat]:
    """Return the caveats, the heaviest first; what is to know of the whole file is one, and what is said twice too."""
    lines: dict[tuple[str, Weight], list[int]] = {}
    for caveat in told:
        lines.setdefault((caveat.text, caveat.weight), []).append(caveat.line)
    standing = "; ".join(text for (text, weight), held in lines.items() if weight is Weight.KNOW and not min(held))
    once = [Caveat(0, standing, Weight.KNOW)] if standing else []
    for (text, weight), held in lines.items():
        first, *further = sorted(set(held))
        also = f" (and in line {', '.join(map(str, further))})" if further else ""
        if first or weight is not Weight.KNOW:
            once.append(Caveat(first, f"{text}{also}", weight))
    return sorted(once, key=lambda caveat: (list(Weight).index(caveat.weight), caveat.line))


def image_caveats(chosen: Sequence[ImageLine], to: NewImage) -> list[Caveat]:
    """Return the caveats that the images' names tell, those of one old image together."""
    told = [Caveat(0, text, Weight.KNOW) for text in _new_image_caveats(to)]
    said = set[str]()
    for image_line in chosen:
        texts = [text for text in _old_image_caveats(image_line, to) if text not in said]
        said |= set(texts)
        told += [Caveat(image_line.line, "; ".join(texts))] if texts else []
        if image_line.python is not None and "onbuild" in image_line.python.name.tag.split("-"):
            text = f"{image_line.image} has ONBUILD triggers (it copies and installs by itself): write them out"
            told.append(Caveat(image_line.line, text, Weight.BREAKS))
    return told


def _new_image_caveats(to: NewImage) -> Iterator[str]:
    """Yield what is to know of the new image."""
    if not to.pinned:
        yield f"{to.reference} is in no registry: push it, or builds on other machines do not find it"
    if to.unoptimised:
        yield f"{to.variant} is built without profile-guided and link-time optimisation"
    if to.free_threaded:
        yield "an extension module that does not know free threading switches the GIL back on: see `interlock audit`"


def _old_image_caveats(old: ImageLine, to: NewImage) -> Iterator[str]:
    """Yield the caveats of replacing an old image."""
    if old.python is None:
        yield f"{old.image} does not look like a Python image: everything else in it is lost"
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
    wanted = [platform for platform in [*asked, OF_NAMESPACE.get(namespace, "")] if platform and "$" not in platform]
    missing = [platform for platform in wanted if platform.removesuffix("/v8") not in to.platforms]
    if to.platforms and missing:
        yield Caveat(line.line, f"is for {missing[0]}, and {is_for(to)}", Weight.BREAKS)


def is_for(to: NewImage) -> str:
    """Return what the new image's architectures are."""
    return f"{to.reference} is for {' and '.join(to.platforms)} alone"


def use_caveats(uses: Sequence[Use], old: PythonImage | None, to: NewImage) -> Iterator[Caveat]:
    """Yield what containers of an old image use and the new image does not have."""
    flavour = old.flavour if old else Flavour.UNKNOWN
    commands = {Flavour.FULL: FULL_COMMANDS, Flavour.ALPINE: BUSYBOX_COMMANDS}.get(flavour, {})
    run = [use for use in uses if use.runs]
    installed = {package for use in run for package in apt_packages(use.text)}
    for use in run:
        missing = {
            command: needed
            for command, needed in commands.items()
            if not installed & {needed, command, *(COMPILERS if needed in COMPILERS else ())}
            and _runs_command(command, use.text)
        }
        if missing:
            what, packages = " and ".join(missing), " and ".join(dict.fromkeys(missing.values()))
            said = f"runs {what}, which the new image does not have: install {packages}"
            yield Caveat(use.line, said, Weight.BREAKS)
        if flavour is Flavour.ALPINE and (APK.search(use.text) or BUSYBOX_OPTIONS.search(use.text)):
            said = "is written for Alpine: Debian has apt-get, useradd and groupadd"
            yield Caveat(use.line, said, Weight.BREAKS)
        elif flavour is Flavour.UNKNOWN and (manager := OTHERS_PACKAGES.search(use.text)):
            yield Caveat(use.line, f"runs {manager[1]}, which Debian does not have: write apt-get", Weight.BREAKS)
        elif "adduser" not in installed and (used := [name for name in ADDUSER if _runs_command(name, use.text)]):
            todo = f"write {used[0].replace('add', '').replace('del', '')}{'add' if 'add' in used[0] else 'del'}"
            said = f"runs {used[0]}, which {to.suite}'s slim image does not have: {todo}, or install adduser"
            yield Caveat(use.line, said, Weight.BREAKS)
        if flavour in {Flavour.FULL, Flavour.UNKNOWN} and not any(word.startswith("python3") for word in installed):
            for path in dict.fromkeys(match[0] for match in ELSEWHERE.finditer(use.text)):
                said = f"runs {path}, which the new image does not have: write /usr/local/bin/{to.implementation}"
                yield Caveat(use.line, said, Weight.BREAKS)
        yield from _of_another_system(use, flavour, to)
    has_own_libpython = any(map(EMBEDDING.fullmatch, installed))
    for use in uses:
        yield from difference_caveats(use, to, {"libpython"} if has_own_libpython else set())


def _of_another_system(use: Use, flavour: Flavour, to: NewImage) -> Iterator[Caveat]:
    """Yield the commands of Alpine's packages, and the names of other releases of Debian in lines for apt."""
    for name in ALPINES_OWN if flavour is Flavour.ALPINE else ():
        if _runs_command(name, use.text):
            yield Caveat(use.line, f"runs {name}, which is Alpine's: write {ALPINES_OWN[name]}", Weight.BREAKS)
    if suites := [name for name in dict.fromkeys(SUITE_NAMED.findall(use.text)) if name != to.suite]:
        said = f"names {' and '.join(suites)}, and the new image is Debian {to.suite}: its packages may not fit"
        yield Caveat(use.line, said)


def apt_packages(text: str) -> list[str]:
    """Return the words behind `apt-get install`, to the end of the line or where it goes on in the next one."""
    return [word for command in APT.finditer(text.replace("\\\n", " ")) for word in command[1].split()]


def difference_caveats(use: Use, to: NewImage, brought: Collection[str] = ()) -> Iterator[Caveat]:
    """Yield what a line needs of python:X-slim that the new image does without and nothing brings, and the way out."""
    for name, users in USERS.items():
        # A free-threaded build differs in its version alone, which is in the list of paths.
        matters = name in to.differences and name not in brought
        matters = matters and not (name == "site-packages" and to.free_threaded)
        match = users.search(use.text) if matters and (use.runs or name in {"libpython", "site-packages"}) else None
        if match:
            out = way_out(name, to)
            used = match[0].strip(' [";&|(`')
            yield Caveat(use.line, f"needs {name} ({used}): {out}", Weight.BREAKS)
    if DEBIAN_PACKAGES in use.text and DEBIAN_PYTHON.get(to.suite) != to.python:
        said = f"{DEBIAN_PACKAGES} has packages for Debian's python{DEBIAN_PYTHON.get(to.suite, '3')}, not {to.command}"
        yield Caveat(use.line, said, Weight.BREAKS)


def way_out(difference: str, to: NewImage) -> str:
    """Return why the new image does without something, and which variant has it."""
    out = f"; use {to.ways_out[difference]}" if difference in to.ways_out else ""
    return f"{to.differences[difference]}{out}"


def _runs_command(command: str, text: str) -> bool:
    return re.search(rf"{AT_COMMAND}{re.escape(command)}(?=[\s\"';)]|$)", text, re.MULTILINE) is not None
