"""The names of images in users' files: their parts, their variables, and which Python they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from interlock.catalog.variants import SourceKind, Variant

# Debian releases, as in the tags of official images, the oldest first.
SUITES = ("jessie", "stretch", "buster", "bullseye", "bookworm", "trixie", "forky", "duke", "sid")
# Namespaces of official images for one architecture each.
ARCHITECTURES = frozenset(
    {"amd64", "arm32v5", "arm32v6", "arm32v7", "arm64v8", "i386", "mips64le", "ppc64le", "riscv64", "s390x"}
)
# Publishers whose `python` image has more than Python, or another layout than the official one.
OTHER_PUBLISHERS = frozenset(
    {
        "bitnami",
        "bitnamilegacy",
        "chainguard",
        "cimg",
        "circleci",
        "devcontainers",
        "distroless",
        "lambda",
        "playwright",
    }
)
# Registries in which all images are one publisher's.
OTHER_REGISTRIES = frozenset({"cgr.dev", "dhi.io"})
# The Debian release of tags that name no release, and no longer move because their Python's support has ended.
STOPPED = {
    "2.7": "buster",
    "3.3": "jessie",
    "3.4": "stretch",
    "3.5": "buster",
    "3.6": "bullseye",
    "3.7": "bookworm",
    "3.8": "bookworm",
}
# The same for tags with a patch release: the first one on bookworm, and the first one on trixie.
MOVED = {"3.9": (17, 23), "3.10": (12, 18), "3.11": (4, 13), "3.12": (0, 11), "3.13": (0, 6)}
DISTROLESS = {"python3-debian11": "3.9", "python3-debian12": "3.11", "python3-debian13": "3.13"}
OFFICIAL_TAG = re.compile(r"(\d+\.\d+t?)(?=[.abcr-]|$)")
# The form of the official image's tags: a version or a word for one, and the system.
OFFICIAL_FORM = re.compile(
    r"(?:[23](?:\.\d{1,2}){0,2}(?:(?:a|b|rc)\d+|-rc)?t?|rc|latest)?(?:-?(?:slim|alpine[\d.]*|onbuild|wheezy|pypy"
    rf"|(?:windowsservercore|nanoserver)[\w-]*|{'|'.join(SUITES)}))*"
)
INTERLOCK_TAG = re.compile(r"(?:^|-)(\d+\.\d+t?)(?=[.-]|$)")
OTHER_TAG = re.compile(r"(?:^|python|py|-)-?(3\.\d+|2\.\d)(?![\d])")
OTHER_NAME = re.compile(r"python-?(3|2)(\d+)$")
# Docker Hub's names.
HUB = ("", "docker.io", "index.docker.io")
# Images of frameworks that bring their own Python.
WITH_PYTHON = re.compile(
    r"^tiangolo/|(?:^|/)(?:apache/airflow|docker-airflow|apache/superset|jupyter/|prefecthq/prefect|dagster/|mlflow/mlflow"
    r"|home-assistant$|home-assistant/home-assistant|rasa/rasa|odoo$|getsentry/sentry|locustio/locust|robotframework/)"
)
# What shows Python in the name or tag of another image: `uv:python3.12-bookworm`.
NAMES_PYTHON = re.compile(r"python|pypy|conda", re.IGNORECASE)
# What to do about images that no variant's can replace, by their names.
KNOWN_BASES = (
    (
        re.compile(r"(?:^|/)playwright"),
        "A variant's image has no browsers: start from python:X-slim, swap that, and add "
        "`RUN pip install playwright && playwright install --with-deps`.",
    ),
    (
        re.compile(r"(?:^|/)(?:nvidia|pytorch|tensorflow|vllm|rapidsai)/"),
        "A variant's image is Debian without CUDA: start from python:X-slim, with CUDA's libraries as packages of pip "
        "(torch brings them), and swap that.",
    ),
    (
        re.compile(r"(?:^|/)(?:ubi\d|ubi-|centos|rocky|rockylinux|almalinux|oraclelinux|amazonlinux|fedora)"),
        "A variant's image is Debian: start from python:X-slim, with packages of apt-get in place of dnf's, "
        "and swap that.",
    ),
)


class Flavour(StrEnum):
    """How much of a system an image has besides Python, in the words of the official tags."""

    FULL = "full"
    SLIM = "slim"
    ALPINE = "alpine"
    WINDOWS = "windows"
    UNKNOWN = "unknown"  # the name has only a digest


class Maker(StrEnum):
    """Who makes an image, which decides whether another one can replace it."""

    OFFICIAL = "official"  # python, from Docker Hub or a mirror of it
    PYPY = "pypy"
    NOGIL = "nogil"
    INTERLOCK = "interlock"
    UV = "uv"  # python:X with uv in it, as uv's documentation has it for builders
    OTHER = "other"  # Python with something else that a swap would lose


@dataclass(frozen=True)
class ImageName:
    """registry/repository:tag@digest; parts that a name does not have are empty."""

    registry: str
    repository: str
    tag: str
    digest: str

    @property
    def untagged(self) -> str:
        return f"{self.registry}/{self.repository}" if self.registry else self.repository

    @property
    def instead(self) -> str:
        """Return what to do about a known image, with a blank at the end; empty for any other."""
        return next((f"{todo} " for base, todo in KNOWN_BASES if base.search(self.repository)), "")


@dataclass(frozen=True)
class PythonImage:
    """An image with Python in it: its maker, its Python and its system, as far as its name tells."""

    name: ImageName
    maker: Maker
    python: str | None  # '3.12' or '3.14t', as in lib/python3.14t; None where the tag names no minor version
    implementation: str  # the command: python or pypy
    flavour: Flavour
    suite: str | None  # 'bookworm', 'alpine3.20'; None if the tag does not name it
    copied: bool = False  # from a registry that may have more in it than the official image has

    @property
    def patch(self) -> str:
        """Return the version with a patch that the tag names, such as 3.14.7; empty without a patch."""
        match = re.match(r"\d+\.\d+\.\d+(?![\w.])", self.name.tag) if self.maker is Maker.OFFICIAL else None
        return match[0] if match else ""

    @property
    def agrees_on(self) -> tuple[str, str | None]:
        """Return what the stages of one program must share, because compiled code loads in no other Python."""
        return self.implementation, self.python


@dataclass(frozen=True)
class NewImage:
    """The image to swap in."""

    reference: str  # for the FROM line
    variant: str
    python: str  # '3.14t', as in lib/python3.14t, the command python3.14t and, without the dot, the tags of wheels
    implementation: str  # python or pypy
    suite: str
    unoptimised: bool  # known to be built without profile-guided and link-time optimisation
    differences: dict[str, str]  # from python:X-slim, with reasons
    free_threaded: bool = False
    ways_out: Mapping[str, str] = field(default_factory=dict)  # for each difference a variant without it
    platforms: tuple[str, ...] = ()  # the image's platforms, such as linux/arm64; empty if they are not known
    version: str = ""  # with the patch: 3.14.4

    @property
    def command(self) -> str:
        """Return the interpreter's command: python3.14t."""
        return f"{self.implementation}{self.python}"

    @property
    def is_for(self) -> str:
        """Return its architectures in words."""
        return f"{self.reference} is for {' and '.join(self.platforms)} alone"

    def way_out(self, difference: str) -> str:
        """Return why it lacks something, and which variant has it."""
        out = f"; use {self.ways_out[difference]}" if difference in self.ways_out else ""
        return f"{self.differences[difference]}{out}"

    @property
    def pinned(self) -> bool:
        """Return whether the reference has a digest, which only a registry gives."""
        return "@" in self.reference


def new_image(
    variant: Variant, reference: str, alternatives: Iterable[Variant] = (), platforms: Sequence[str] = ()
) -> NewImage:
    """Return a variant's image as a swap needs it; the reference is `Built.reference`, or the tag alone.

    `alternatives` are the other variants, named as ways out if they lack one of its differences.
    """
    return NewImage(
        reference=reference,
        variant=variant.name,
        python=variant.named_version,
        implementation="python" if variant.proof.implementation == "cpython" else variant.proof.implementation,
        suite=variant.base,
        differences=dict(variant.differences),
        free_threaded=variant.proof.gil == "off",
        unoptimised=variant.kind is SourceKind.SOURCE and variant.optimisations == [],
        ways_out={name: way for name in variant.differences if (way := _way_out(variant, name, alternatives))},
        platforms=tuple(platforms),
        version=variant.version,
    )


def _way_out(variant: Variant, difference: str, alternatives: Iterable[Variant]) -> str | None:
    """Return a variant of the same Python that is built here and lacks this difference; None without one."""
    alike = [
        other
        for other in alternatives
        if (other.release_line, other.proof.implementation) == (variant.release_line, variant.proof.implementation)
        and difference not in other.differences
        and other.kind is SourceKind.SOURCE
    ]
    same_gil = [other for other in alike if difference == "threads" or other.proof.gil == variant.proof.gil]
    return min((other.name for other in same_gil), key=len, default=None)


def parse_name(text: str) -> ImageName:
    """Return the parts of an image's name; the first one is a registry if it has a dot or a port, or is localhost."""
    rest, _, digest = text.partition("@")
    head, slash, tail = rest.partition("/")
    registry = head if slash and (set(head) & set(".:") or head == "localhost") else ""
    rest = tail if registry else rest
    folder, slash, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    return ImageName(registry, folder + slash + last, tag, digest)


def python_image(text: str) -> PythonImage | None:
    """Return the Python in the image of this name; None if the name shows none."""
    name = parse_name(text)
    maker = _maker(name)
    if maker is None:
        return None
    parts = name.tag.split("-")
    copied = maker is Maker.OFFICIAL and not _is_surely_official(name)
    flavour = _flavour(name, maker, parts)
    return PythonImage(
        name=name,
        maker=maker,
        python=_python(name, maker),
        implementation="pypy" if maker is Maker.PYPY or "pypy" in parts else "python",
        flavour=Flavour.UNKNOWN if copied and flavour is Flavour.FULL else flavour,
        suite=_suite(name, maker, parts),
        copied=copied,
    )


def _suite(name: ImageName, maker: Maker, parts: Sequence[str]) -> str | None:
    """Return the release that a tag names; for a tag that no longer moves, the release that it stayed on."""
    named = next((part for part in parts if part in SUITES or re.fullmatch(r"alpine[\d.]+", part)), None)
    version = re.match(r"([0-9]+\.[0-9]+)(?:\.([0-9]{1,5}))?(?=-|$)", name.tag)
    if named is not None or maker is not Maker.OFFICIAL or version is None or "alpine" in name.tag:
        return named
    if version[2] is None:
        return STOPPED.get(version[1])
    bookworm, trixie = MOVED.get(version[1], (0, 0))
    if int(version[2]) >= trixie:
        return None
    return "bookworm" if int(version[2]) >= bookworm else "bullseye"


def _maker(name: ImageName) -> Maker | None:
    *folders, last = name.repository.lower().split("/")
    owner = folders[-1] if folders else ""
    if last == "python" and owner in {"interlock", "nogil"}:
        return Maker(owner)
    if last == "uv" and NAMES_PYTHON.search(name.tag):
        return Maker.UV
    is_official = _is_official(name.registry, owner) and (last == "pypy" or OFFICIAL_FORM.fullmatch(name.tag))
    if last in {"python", "pypy"} and is_official:
        return Maker.OFFICIAL if last == "python" else Maker.PYPY
    named = NAMES_PYTHON.search(last) or NAMES_PYTHON.search(name.tag) or WITH_PYTHON.search(name.repository)
    return Maker.OTHER if named else None


def _is_surely_official(name: ImageName) -> bool:
    """Return whether nobody else can have made the image: it is from Docker Hub, or keeps its name there."""
    owner = name.repository.rpartition("/")[0].rpartition("/")[2]
    return name.registry in HUB or owner == "library" or owner in ARCHITECTURES


def _is_official(registry: str, owner: str) -> bool:
    """Return whether the image is the official one or a copy of it.

    Other owners on Docker Hub build their own images. Mirrors keep the name below folders of their own: Amazon's
    `public.ecr.aws/docker/library/python`, a proxy's `harbor.example/hub/library/python`, a team's
    `registry:5000/python`.
    """
    if registry in OTHER_REGISTRIES:
        return False
    if owner in {"", "library"} or owner in ARCHITECTURES:
        return True
    return registry not in HUB and owner not in OTHER_PUBLISHERS


def _python(name: ImageName, maker: Maker) -> str | None:
    if maker in {Maker.OTHER, Maker.UV}:
        if (known := DISTROLESS.get(name.repository.rpartition("/")[2])) is not None:
            return known
        in_name = OTHER_NAME.search(name.repository)
        in_tag = OTHER_TAG.search(name.tag)
        return in_tag[1] if in_tag else f"{in_name[1]}.{in_name[2]}" if in_name else None
    version = OFFICIAL_TAG.match(name.tag) if maker is not Maker.INTERLOCK else INTERLOCK_TAG.search(name.tag)
    return version[1] if version else None


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


@dataclass(frozen=True)
class ImageLine:
    """A line of a file that names an image."""

    index: int
    name: str | None
    line: int
    image: str  # with variables expanded; as written if one has no value
    missing: str | None  # the variable without a value
    python: PythonImage | None

    @property
    def label(self) -> str:
        """Return its name in quotes, or its number as `docker build --target` takes it."""
        return f"'{self.name}'" if self.name else str(self.index)

    @property
    def option(self) -> str:
        """Return the option that names it."""
        return f"--stage {self.name or self.index}"

    @cached_property
    def parts(self) -> ImageName:
        return parse_name(self.image)

    @property
    def swappable(self) -> bool:
        """Return whether its image has only Python, so that it can be swapped."""
        return self.python is not None and self.python.maker is not Maker.OTHER


AnyImageLine = TypeVar("AnyImageLine", bound=ImageLine)


def find_image_line(image_lines: Sequence[AnyImageLine], name: str) -> AnyImageLine | None:
    """Return the last image line of this name in any case, else the one of this number; None without either."""
    named = [line for line in image_lines if line.name is not None and line.name.lower() == name.lower()]
    if named:
        return named[-1]
    return image_lines[int(name)] if re.fullmatch("[0-9]{1,5}", name) and int(name) < len(image_lines) else None
