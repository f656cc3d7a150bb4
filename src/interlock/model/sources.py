"""Where interpreters come from: archives to compile, images of others, folders of this machine, Debian's packages."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from interlock.model.common import (
    AbsolutePath,
    Data,
    EnvironmentName,
    FileName,
    MachinePath,
    Name,
    PackageName,
    PinnedReference,
    Place,
    Sha256,
    ShellWord,
)


class Signature(Data):
    """An OpenPGP signature of a source: where it is, and the key in variants/keys/ that must have made it."""

    places: Annotated[list[Place], Field(min_length=1)]
    key: FileName


class Download(Data):
    """A file that a build fetches: one SHA-256 and the places to try, in this order."""

    file: FileName
    sha256: Sha256
    sum_from: Annotated[str, StringConstraints(min_length=1)] | None = None  # who published the sum
    places: Annotated[list[Place], Field(min_length=1)]
    signature: Signature | None = None


class Source(Download):
    """A source archive and how it is configured."""

    patches: list[FileName] = []  # of variants/patches/
    prepare: list[FileName] = []  # scripts of variants/steps/ that run in the source tree before configure
    environment: dict[EnvironmentName, ShellWord] = {}  # of configure
    configure: list[ShellWord] = []


class Library(Source):
    """A library that is built before the interpreter, into the same prefix."""

    name: Name
    parallel: bool = True


class Finish(Data):
    """What is done to an installed interpreter: scripts of variants/steps/, in order, and the files that they need."""

    steps: Annotated[list[FileName], Field(min_length=1)]
    downloads: list[Download] = []


class ExistingImage(Data):
    """An image that others publish."""

    reference: PinnedReference


class Prefix(Data):
    """An interpreter that is installed on this machine; the first place that exists is packed."""

    places: Annotated[list[MachinePath], Field(min_length=1)]


class Packages(Data):
    """An interpreter that Debian packages."""

    names: Annotated[list[PackageName], Field(min_length=1)]
    python: AbsolutePath


class SourceKind(StrEnum):
    """Where a variant's interpreter comes from."""

    SOURCE = "source"
    IMAGE = "image"
    PREFIX = "prefix"
    PACKAGES = "packages"
