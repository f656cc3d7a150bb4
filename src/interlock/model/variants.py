"""What variants/ says: interpreters, how they are built, and the modes and surroundings they run in."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from interlock.model.common import (
    Data,
    Date,
    EnvironmentName,
    ModuleName,
    Name,
    PackageName,
    PinnedReference,
    ShellWord,
    Version,
    label_of,
)
from interlock.model.sources import (
    Download,
    ExistingImage,
    Finish,
    Library,
    Packages,
    Prefix,
    Source,
    SourceKind,
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


class SupportPhase(StrEnum):
    """Of a release line, in the words of Python's developer guide."""

    PRERELEASE = "prerelease"
    BUGFIX = "bugfix"
    SECURITY = "security"
    END_OF_LIFE = "end-of-life"


class Support(Data):
    """Whether anybody still mends this interpreter, and until when (planned, unless it is over)."""

    phase: SupportPhase
    end_of_life: Date | None = None  # none where upstream names no day


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
    optimisation: Annotated[str, StringConstraints(pattern=r"^(-O.|unknown)$")] = "-O3"
    implementation: Name = "cpython"

    @model_validator(mode="after")
    def _library_belongs_to_threads(self) -> Proof:
        if (self.thread_flavour is ThreadFlavour.NONE) != (self.thread_library is None):
            raise ValueError("thread_library is what `ldd` shows: needed unless thread_flavour is 'none'")
        return self


class ProfileFlags(Data):
    """What a profile adds to this variant's configure, and the work that profile-guided optimisation learns from."""

    configure: list[ShellWord] = []
    profile_task: ShellWord | None = None  # the version's own without it
    make: list[ShellWord] = []  # further words for make
    # Standard library modules that are linked into the interpreter, by Modules/Setup.stdlib, which 3.11 and later have.
    builtin_modules: list[ModuleName] = []


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
    interpreter: Literal["image", "tmpfs", "volume"] = "image"  # what /usr/local is on
    scratch: Literal["tmpfs", "image"] = "tmpfs"  # what /scratch is on


PRODUCTION = Surroundings()


class Condition(Surroundings):
    """Surroundings that the baseline is measured in once more, so that what containers cost has a figure."""

    name: Name
    summary: str


class Family(Data):
    """What a group of variants is there for; docs/variants.md has a section for each, in the file's order."""

    name: Name
    title: Annotated[str, StringConstraints(min_length=1)]
    summary: Annotated[str, StringConstraints(min_length=1)]


class Difference(Data):
    """How the images of these kinds of source differ from python:X-slim, and why."""

    name: Name
    reason: Annotated[str, StringConstraints(min_length=1)]
    kinds: Annotated[list[SourceKind], Field(min_length=1)]
    contract: bool = False  # a check of the contract has this name; the variants of these kinds declare the difference


class VariantFile(Data):
    """One file variants/<name>.toml; its JSON Schema is variants/variant.schema.json.

    Exactly one of interpreter, image, prefix, packages and build_of says where the interpreter comes from.
    """

    summary: Annotated[str, StringConstraints(pattern=r'^[^"\n$\\]+$')]
    version: Version
    base: Name
    tag: Name
    family: Name
    control: Name | None = None
    licence: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.+ -]+$")] = "PSF-2.0"  # an SPDX expression
    support: Support
    proof: Proof
    interpreter: Source | None = None
    build_of: Name | None = None  # the variant whose build this one shares and then finishes in another way
    image: ExistingImage | None = None
    prefix: Prefix | None = None
    packages: Packages | None = None
    libraries: list[Library] = []
    build_packages: list[PackageName] = []  # besides the base's
    finish: Finish | None = None
    release: ProfileFlags | None = None
    keeps: list[Name] = []  # differences of its kind of source that this one does not have
    differences: dict[Name, Annotated[str, StringConstraints(min_length=1)]] = {}  # from the contract, with reasons
    modes: list[Mode] = []

    @model_validator(mode="after")
    def _each_mode_has_a_name_of_its_own(self) -> VariantFile:
        names = [mode.name for mode in self.modes]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two modes have the name '{name}'")
        return self

    @model_validator(mode="after")
    def _the_interpreter_comes_from_one_place(self) -> VariantFile:
        kinds = ("interpreter", "image", "prefix", "packages", "build_of")
        found = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(found) != 1:
            raise ValueError(f"exactly one of {', '.join(kinds)} is needed, found {' and '.join(found) or 'none'}")
        if self.interpreter is None:
            only = ("libraries", "build_packages", "release", *(() if self.build_of else ("finish",)))
            for key in only:
                if getattr(self, key):
                    raise ValueError(f"{key} belongs to a variant with [interpreter], this one has {found[0]}")
        if self.build_of is not None and self.finish is None:
            raise ValueError("build_of needs [finish]: what it does that the other variant does not")
        return self


class Variant(VariantFile):
    """A variant with its name, which is its file's; of `build_of` the other's build is filled in."""

    name: Name
    lender: Name | None = None  # whose build this one shares

    @property
    def major(self) -> str:
        return self.version.split(".", 1)[0]

    @property
    def release_line(self) -> str:
        return self.version.rpartition(".")[0]

    @property
    def kind(self) -> SourceKind:
        for kind in (SourceKind.IMAGE, SourceKind.PREFIX, SourceKind.PACKAGES):
            if getattr(self, kind) is not None:
                return kind
        return SourceKind.SOURCE

    @property
    def parts(self) -> list[Source]:
        """Everything that is built, in order."""
        return [*self.libraries, *([self.interpreter] if self.interpreter else [])]

    @property
    def downloads(self) -> list[Download]:
        """Everything that is fetched, in order."""
        return [*self.parts, *(self.finish.downloads if self.finish else [])]

    @property
    def build_name(self) -> str:
        """The variant whose build this is."""
        return self.lender or self.name

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
