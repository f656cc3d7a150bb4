"""What variants/ says: interpreters, how they are built, and the modes and surroundings they run in."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from interlock.model.common import (
    Data,
    EnvironmentName,
    FileName,
    Name,
    PackageName,
    PinnedReference,
    Place,
    Sha256,
    ShellWord,
    Version,
    label_of,
)


class Base(Data):
    """A parent image: what a generated FROM names, and how to make its equal where no registry answers."""

    reference: PinnedReference
    suite: Name
    build_packages: list[PackageName]
    runtime_packages: list[PackageName]


class Profile(Data):
    """An optimisation profile: the OPT of every variant's build."""

    name: Name
    summary: str
    optimise: ShellWord


class Source(Data):
    """A source archive: one SHA-256 and the places to try, in this order."""

    file: FileName
    sha256: Sha256
    places: Annotated[list[Place], Field(min_length=1)]
    patches: list[FileName] = []
    environment: dict[EnvironmentName, ShellWord] = {}
    configure: list[ShellWord] = []


class Library(Source):
    """A library that is built before the interpreter, into the same prefix."""

    name: Name
    parallel: bool = True


class ThreadFlavour(StrEnum):
    PTHREAD = "pthread"
    GNU_PTH = "gnu-pth"
    NONE = "none"
    FREE_THREADED = "free-threaded"


class Gil(StrEnum):
    ON = "on"
    OFF = "off"


class Proof(Data):
    """What the built image must show to be what its name says."""

    thread_flavour: ThreadFlavour
    gil: Gil
    thread_library: str | None = None

    @model_validator(mode="after")
    def _library_belongs_to_threads(self) -> Proof:
        if (self.thread_flavour is ThreadFlavour.NONE) != (self.thread_library is None):
            raise ValueError("thread_library is what `ldd` shows: needed unless thread_flavour is 'none'")
        return self


class ProfileFlags(Data):
    """What a profile adds to this variant's configure, and the work that profile-guided optimisation learns from."""

    configure: list[ShellWord] = []
    profile_task: ShellWord | None = None  # the version's own without it


class Mode(Data):
    """A way to run a variant without another build: what its interpreter is started with."""

    name: Name
    summary: Annotated[str, StringConstraints(pattern=r'^[^"\n$\\]+$')]
    environment: dict[EnvironmentName, str] = {}
    options: list[str] = []  # of the interpreter, before its arguments
    gil: Gil | None = None  # what the mode makes of the variant's


class Surroundings(Data):
    """What a cell's container gives to its processes; the defaults are what production runs."""

    seccomp: Literal["default", "unconfined"] = "default"
    interpreter: Literal["image", "tmpfs"] = "image"  # what /usr/local is on
    scratch: Literal["tmpfs", "image"] = "tmpfs"  # what /scratch is on


PRODUCTION = Surroundings()


class Condition(Surroundings):
    """Surroundings that the baseline is measured in once more, so that what containers cost has a figure."""

    name: Name
    summary: str


class VariantFile(Data):
    """One file variants/<name>.toml; its JSON Schema is variants/variant.schema.json."""

    summary: Annotated[str, StringConstraints(pattern=r'^[^"\n$\\]+$')]
    version: Version
    base: Name
    tag: Name
    control: Name | None = None
    proof: Proof
    libraries: list[Library] = []
    interpreter: Source
    release: ProfileFlags | None = None
    modes: list[Mode] = []

    @model_validator(mode="after")
    def _each_mode_has_a_name_of_its_own(self) -> VariantFile:
        names = [mode.name for mode in self.modes]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two modes have the name '{name}'")
        return self


class Variant(VariantFile):
    """A variant with its name, which is its file's."""

    name: Name

    @property
    def major(self) -> str:
        return self.version.split(".", 1)[0]

    @property
    def parts(self) -> list[Source]:
        """Everything that is fetched and built, in order."""
        return [*self.libraries, self.interpreter]

    @property
    def labels(self) -> list[str]:
        """The variant, and it in each of its modes, as orders name them."""
        return [self.name, *(label_of(self.name, mode.name) for mode in self.modes)]

    @property
    def profiles(self) -> list[str]:
        """The optimisation profiles that this variant has."""
        return ["standard"] if self.release is None else ["standard", "release"]

    def image_tag(self, profile: str) -> str:
        suffix = "" if profile == "standard" else f"-{profile}"
        return f"interlock/python:{self.tag}-{self.base}{suffix}"
