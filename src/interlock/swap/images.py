"""An image's name taken apart, and what Python is in the image that it names. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from interlock.model import Variant

# Debian's releases as tags of official images name them.
SUITES = frozenset({"jessie", "stretch", "buster", "bullseye", "bookworm", "trixie", "forky", "duke", "sid"})
# Of one architecture each, by the makers of the official images.
ARCHITECTURES = frozenset(
    {"amd64", "arm32v5", "arm32v6", "arm32v7", "arm64v8", "i386", "mips64le", "ppc64le", "riscv64", "s390x"}
)
# Publishers behind whose `python` is more than Python, or another layout than the official image's.
OTHER_PUBLISHERS = frozenset(
    {"bitnami", "bitnamilegacy", "chainguard", "cimg", "circleci", "devcontainers", "distroless", "lambda"}
)
OFFICIAL_TAG = re.compile(r"(\d+\.\d+t?)(?=[.abcr-]|$)")
INTERLOCK_TAG = re.compile(r"(?:^|-)(\d+\.\d+t?)(?=[.-]|$)")
OTHER_TAG = re.compile(r"(?:^|python|py|-)-?(3\.\d+|2\.7)(?![\d])")
OTHER_NAME = re.compile(r"python-?(3|2)(\d+)$")
# What separates the interpreter from the rest of a base image's name or tag: `uv:python3.12-bookworm`.
NAMES_PYTHON = re.compile(r"python|pypy|conda", re.IGNORECASE)


class Flavour(StrEnum):
    """How much of a system an image has besides Python; the word of the official image's tags."""

    FULL = "full"
    SLIM = "slim"
    ALPINE = "alpine"
    WINDOWS = "windows"
    UNKNOWN = "unknown"  # a digest says nothing


class Maker(StrEnum):
    """Whose image it is, which decides whether another one can take its place."""

    OFFICIAL = "official"  # python, from Docker Hub or a mirror of it
    PYPY = "pypy"
    NOGIL = "nogil"
    INTERLOCK = "interlock"
    OTHER = "other"  # Python with something else that a swap would lose


@dataclass(frozen=True)
class ImageName:
    """registry/repository:tag@digest; what a name does not say is empty."""

    registry: str
    repository: str
    tag: str
    digest: str

    @property
    def untagged(self) -> str:
        return f"{self.registry}/{self.repository}" if self.registry else self.repository


@dataclass(frozen=True)
class PythonImage:
    """An image with Python in it: whose, which Python, and what is around it, as far as its name says."""

    name: ImageName
    maker: Maker
    python: str | None  # '3.12' or '3.14t', as in lib/python3.14t; None where the tag names no minor version
    implementation: str  # as a command is called: python or pypy
    flavour: Flavour
    suite: str | None  # 'bookworm', 'alpine3.20'; None where the tag leaves it open

    @property
    def agrees_on(self) -> tuple[str, str | None]:
        """What stages of one program must have in common: code compiled for one Python loads in no other."""
        return self.implementation, self.python


@dataclass(frozen=True)
class NewImage:
    """The image to swap in."""

    reference: str  # what the FROM line will name
    variant: str
    python: str  # '3.14t': of lib/python3.14t, of the command python3.14t and, without the dot, of wheels' tags
    implementation: str  # python or pypy
    suite: str
    profile: str
    profiles: tuple[str, ...]  # that the variant has
    differences: dict[str, str]  # from python:X-slim, with reasons
    free_threaded: bool = False

    @property
    def command(self) -> str:
        """As the interpreter is called: python3.14t."""
        return f"{self.implementation}{self.python}"

    @property
    def pinned(self) -> bool:
        """Whether the reference names a digest, so that a registry has it."""
        return "@" in self.reference


def new_image(variant: Variant, profile: str, reference: str) -> NewImage:
    """What swapping needs to know of a variant's image; the reference is `Built.reference`, or the tag alone."""
    line = variant.release_line
    # What a build calls itself is in its tag: 3.14t. The fork nogil-3.9 calls itself 3.9.
    python = f"{line}t" if f"{variant.tag}-".startswith(f"{line}t-") else line
    return NewImage(
        reference=reference,
        variant=variant.name,
        python=python,
        implementation="python" if variant.proof.implementation == "cpython" else variant.proof.implementation,
        suite=variant.base,
        profile=profile,
        profiles=tuple(variant.profiles),
        differences=dict(variant.differences),
        free_threaded=variant.proof.gil == "off",
    )


def parse_name(text: str) -> ImageName:
    """The parts of an image's name; the first one is a registry if it has a dot or a port, or is localhost."""
    rest, _, digest = text.partition("@")
    head, slash, tail = rest.partition("/")
    registry = head if slash and (set(head) & set(".:") or head == "localhost") else ""
    rest = tail if registry else rest
    folder, slash, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    return ImageName(registry, folder + slash + last, tag, digest)


def python_image(text: str) -> PythonImage | None:
    """The Python in the image of this name, or None if the name shows none."""
    name = parse_name(text)
    maker = _maker(name)
    if maker is None:
        return None
    parts = name.tag.split("-")
    return PythonImage(
        name=name,
        maker=maker,
        python=_python(name, maker),
        implementation="pypy" if maker is Maker.PYPY or "pypy" in parts else "python",
        flavour=_flavour(name, maker, parts),
        suite=next((part for part in parts if part in SUITES or re.fullmatch(r"alpine[\d.]+", part)), None),
    )


def _maker(name: ImageName) -> Maker | None:
    *folders, last = name.repository.lower().split("/")
    owner = folders[-1] if folders else ""
    if last == "python" and owner in {"interlock", "nogil"}:
        return Maker(owner)
    if last in {"python", "pypy"} and _is_official(name.registry, owner):
        return Maker.OFFICIAL if last == "python" else Maker.PYPY
    return Maker.OTHER if NAMES_PYTHON.search(last) or NAMES_PYTHON.search(name.tag) else None


def _is_official(registry: str, owner: str) -> bool:
    """Mirrors and vendored copies keep the name, below folders of their own; Docker Hub's other owners make their own.

    Amazon's `public.ecr.aws/docker/library/python`, a proxy's `harbor.example/hub/library/python`, a team's
    `registry:5000/python`.
    """
    if owner in {"", "library"} or owner in ARCHITECTURES:
        return True
    return registry not in {"", "docker.io", "index.docker.io"} and owner not in OTHER_PUBLISHERS


def _python(name: ImageName, maker: Maker) -> str | None:
    if maker is Maker.OTHER:
        in_name = OTHER_NAME.search(name.repository)
        in_tag = OTHER_TAG.search(name.tag)
        return in_tag[1] if in_tag else f"{in_name[1]}.{in_name[2]}" if in_name else None
    found = OFFICIAL_TAG.match(name.tag) if maker is not Maker.INTERLOCK else INTERLOCK_TAG.search(name.tag)
    return found[1] if found else None


def _flavour(name: ImageName, maker: Maker, parts: list[str]) -> Flavour:
    if maker in {Maker.INTERLOCK, Maker.NOGIL}:
        return Flavour.SLIM
    if not name.tag and name.digest:
        return Flavour.UNKNOWN
    for start, flavour in (
        ("alpine", Flavour.ALPINE),
        ("windowsservercore", Flavour.WINDOWS),
        ("nanoserver", Flavour.WINDOWS),
        ("slim", Flavour.SLIM),
    ):
        if any(part.startswith(start) for part in parts):
            return flavour
    return Flavour.UNKNOWN if maker is Maker.OTHER else Flavour.FULL
