"""What a person must know about a swap: what an image's name tells, and what a variant does without.

What lines need of the system is in system.py, what is between the stages of a Dockerfile in stage_caveats.py, what
takes another Python than the image's in other_pythons.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.swap.image_names import Flavour, ImageLine, Maker, NewImage, PythonImage
from interlock.swap.instructions import RUNS

# Where a command starts: a line, behind a sign or a word of the shell, in a text for another shell, or for a runner.
AT_COMMAND = (
    r"(?:^|[;&|(`]\s*|\b(?:then|do|else|sudo|exec|time|CMD(?:-SHELL)?)\s+|-l?c\s+[\"']?\s*"
    r"|\b(?:uv|poetry|pdm|pipenv|hatch)\s+run\s+(?:--\S+\s+)*)"
)
APT = re.compile(rf"{AT_COMMAND}(?:apt-get|apt|aptitude)\b[^;&|\n]*\binstall\b([^;&|\n]*)", re.MULTILINE)
PIP = re.compile(r"\bpip[\d.]*\s+(?:--\S+\s+)*(?:install|wheel|download)\b")
# Of Debian, with its own libpython, and that itself.
EMBEDDING = re.compile(r"(?:uwsgi-plugin-(?:asyncio-)?python3|libapache2-mod-wsgi-py3)(?:=\S*)?")
LIBPYTHON = re.compile(r"libpython3(?:\.\d+)?(?:-dev)?(?:=\S*)?")
# Signs between commands, and how much of a command is looked at.
COMMANDS, LONGEST_COMMAND = re.compile(r"([;&|\n])"), 4096
# What names a user, a folder or a text, and runs nothing of that name.
NAMES_ALONE = re.compile(
    rf"{AT_COMMAND}(?:useradd|groupadd|adduser|addgroup|usermod|chown|chgrp|chmod|mkdir|install|rm|cp|mv|ln|touch|echo)"
    r"\s[^;&|\n]*",
    re.MULTILINE,
)
# What needs a part of python:X-slim that a variant may lack, by the difference's name (variants/differences.toml).
USERS = {
    "pip": PIP,
    "libpython": re.compile(
        r"\buwsgi\b|\bunitd\b|nginx/unit|(?<![\w.-])unit:\d|\bmod_wsgi\b|\bpyinstaller\b"
        r"|\blibpython\d(?![\d.]*(?:t64|-\w))|(?<=[\s\"']-l)python\d",
        re.I,
    ),
    "threads": re.compile(
        rf"(?:{AT_COMMAND}(?:[^\s;&|(`]*/)?|\s-m\s+)(?:gunicorn|uvicorn|hypercorn|waitress|celery|daphne)\b", re.M
    ),
    # That of an environment is the same everywhere.
    "site-packages": re.compile(r"/usr/local/lib/python[^/\s]+/site-packages"),
    "command-python-config": re.compile(r"\bpython[\d.]*-config\b"),
    "venv": re.compile(r"\bpython[\d.]*t?\s+-m\s+venv\b"),
}
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
DEBIAN_PYTHON = {"bookworm": "3.11", "trixie": "3.13"}
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
    foreign: bool = False  # it brings files of another Python, which stays
    expanded: str = ""  # the text with the values of its variables, as far as the file has them

    def __post_init__(self) -> None:
        """Leave out what of one command is longer than any is: patterns look from each word of it to its end."""
        for name in ("text", "expanded"):
            if len(value := getattr(self, name)) > LONGEST_COMMAND:
                cut = "".join(part[:LONGEST_COMMAND] for part in COMMANDS.split(value))
                object.__setattr__(self, name, cut)

    @property
    def full(self) -> str:
        """Return what is run, as far as it is known."""
        return self.expanded or self.text

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
        if image_line.python is not None and _older_patch(image_line.python, to):
            text = (
                f"{image_line.image} has Python {image_line.python.patch}, the new image {to.version}: an older patch"
            )
            told.append(Caveat(image_line.line, text, Weight.KNOW))
        if image_line.python is not None and "onbuild" in image_line.python.name.tag.split("-"):
            text = f"{image_line.image} has ONBUILD triggers (it copies and installs by itself): write them out"
            told.append(Caveat(image_line.line, text, Weight.BREAKS))
    return told


def _older_patch(old: PythonImage, to: NewImage) -> bool:
    """Return whether the new image is of an earlier release of the same line than the old one's tag says."""
    same_line = old.patch and to.version.startswith(f"{old.python}.") and re.fullmatch(r"[\d.]+", to.version)
    return bool(same_line) and [*map(int, to.version.split("."))] < [*map(int, old.patch.split("."))]


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
    if old.python.copied:
        yield f"{old.image} need not be the official image: what its publisher added to it is lost"
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


def apt_packages(text: str) -> list[str]:
    """Return the words behind `apt-get install`, to the end of the line or where it goes on in the next one."""
    joined = text.replace("\\\n", " ")
    return [word.strip("\"'") for command in APT.finditer(joined) for word in command[1].split()]


def difference_caveats(use: Use, to: NewImage, brought: Collection[str] = ()) -> Iterator[Caveat]:
    """Yield what a line needs of python:X-slim that the new image does without and nothing brings, and the way out."""
    for name, users in USERS.items():
        if name not in to.differences or name in brought or use.foreign:
            continue
        anywhere = name in {"libpython", "site-packages"}
        # A free-threaded build differs in its version alone, which is in the list of paths.
        if not (use.runs or anywhere) or (name == "site-packages" and to.free_threaded):
            continue
        text = NAMES_ALONE.sub("", use.text) if use.runs and name != "site-packages" else use.text
        if match := users.search(text):
            used = match[0].strip(' [";&|(`')
            yield Caveat(use.line, f"needs {name} ({used}): {way_out(name, to)}", Weight.BREAKS)
    if DEBIAN_PACKAGES in use.text and DEBIAN_PYTHON.get(to.suite) != to.python:
        said = f"{DEBIAN_PACKAGES} has packages for Debian's python{DEBIAN_PYTHON.get(to.suite, '3')}, not {to.command}"
        yield Caveat(use.line, said, Weight.BREAKS)


def way_out(difference: str, to: NewImage) -> str:
    """Return why the new image does without something, and which variant has it."""
    out = f"; use {to.ways_out[difference]}" if difference in to.ways_out else ""
    return f"{to.differences[difference]}{out}"
