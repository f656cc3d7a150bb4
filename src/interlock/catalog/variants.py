"""The contents of variants/: interpreters, where they come from, how they are built, and the modes they run in."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from interlock.catalog.sources import Archive, Download, Release
from interlock.catalog.types import (
    AbsolutePath,
    Data,
    Date,
    EnvironmentName,
    FileName,
    MachinePath,
    ModuleName,
    Name,
    PackageName,
    PinnedReference,
    ShellWord,
    Text,
    Version,
    first_twice,
    label_of,
)

# A line of text that can stand in a Dockerfile's label, between double quotes.
Line = Annotated[str, StringConstraints(pattern=r'^[^"\n$\\]+$')]
MakeTarget = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")]
Licence = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.+ -]+$")]

# The folder of variants/ with the files that a key names.
FOLDERS = {"patches": "patches", "prepare": "steps", "signature.key": "keys", "finish.steps": "steps"}
# A name that no registry answers to, so that an engine without the image does not find somebody else's.
LOCAL_NAME = "localhost/interlock/python"


class SourceRecipe(Data):
    """How a source is made ready and configured."""

    patches: list[FileName] = Field(default=[], description="Files in variants/patches/, applied in this order.")
    prepare: list[FileName] = Field(
        default=[], description="Scripts in variants/steps/ that run in the source tree before configure."
    )
    environment: dict[EnvironmentName, ShellWord] = Field(
        default={}, description="Environment variables of configure, such as CFLAGS; $PREFIX is filled in."
    )
    configure: list[ShellWord] = Field(default=[], description="Options of configure; $PREFIX is filled in.")


class LibraryRecipe(SourceRecipe):
    """A library that is built before the interpreter, into the same prefix."""

    name: Name = Field(description="Name of the library in logs and in the SBOM.")
    source: Name = Field(description="Source of the library: a table of variants/sources.toml.")
    parallel: bool = Field(default=True, description="Whether its Makefile works with several jobs at once.")


class Source(SourceRecipe, Download):
    """A source archive and how it is configured."""


class Library(LibraryRecipe, Download):
    """A library with its source."""


class Finish(Data):
    """What is done to an installed interpreter before its image is made."""

    steps: list[FileName] = Field(min_length=1, description="Scripts in variants/steps/, run in this order.")
    downloads: list[Download] = Field(default=[], description="Files that the steps need.")


class ExistingImage(Data):
    """An image that others publish."""

    reference: PinnedReference = Field(description="The image, with its digest: NAME@sha256:….")


class Prefix(Data):
    """An interpreter of this machine or of an archive."""

    places: list[MachinePath] = Field(
        min_length=1,
        description="Folders of this machine to look in, below /, ~ or $VARIABLE; {machine} is filled in. The first "
        "one that exists is packed into an image, unless there is an archive, and used in place without containers.",
    )
    python: FileName = Field(default="python", description="Name of the interpreter below bin/ there.")
    archive: Archive | None = Field(
        default=None,
        description="An archive with the interpreter in its only folder: what an image is made of, and what is used "
        "without containers where none of the places exists.",
    )

    @property
    def archives(self) -> dict[str, Download]:
        """Return what is fetched, by machine."""
        return (
            {name: self.archive.of(name, sha256) for name, sha256 in self.archive.sha256.items()}
            if self.archive
            else {}
        )


class Packages(Data):
    """An interpreter that Debian packages."""

    names: list[PackageName] = Field(min_length=1, description="The packages to install.")
    python: AbsolutePath = Field(description="Path of the interpreter in them.")


class SourceKind(StrEnum):
    """Where a variant's interpreter comes from."""

    SOURCE = "source"
    IMAGE = "image"
    PREFIX = "prefix"
    ARCHIVE = "archive"
    PACKAGES = "packages"


class Base(Data):
    """A parent image: what a generated FROM names, and how to make its equal where no registry answers."""

    reference: PinnedReference
    suite: Name
    build_packages: list[PackageName]
    runtime_packages: list[PackageName]


class SupportPhase(StrEnum):
    """Phase of a release line, in the words of Python's developer guide."""

    PRERELEASE = "prerelease"
    BUGFIX = "bugfix"
    SECURITY = "security"
    END_OF_LIFE = "end-of-life"


class Support(Data):
    """Whether this interpreter still gets fixes, and until when."""

    phase: SupportPhase = Field(description="Phase of the release line, in the words of Python's developer guide.")
    end_of_life: Date | None = Field(
        default=None, description="Day on which fixes end or ended; without it upstream names none."
    )


class ThreadFlavour(StrEnum):
    """How an interpreter makes threads."""

    PTHREAD = "pthread"
    GNU_PTH = "gnu-pth"
    NONE = "none"
    FREE_THREADED = "free-threaded"


class Gil(StrEnum):
    """Whether an interpreter runs with its global interpreter lock."""

    ON = "on"
    OFF = "off"


class Proof(Data):
    """What the built image must show; otherwise it gets no tag."""

    thread_flavour: ThreadFlavour = Field(description="What the interpreter's threads are made of.")
    gil: Gil = Field(description="Whether the global interpreter lock is on after a plain start.")
    thread_library: str | None = Field(
        default=None,
        description="The shared library that threads come from, as `ldd` names it for the interpreter: libc.so.6, "
        "libpth.so.20. Left out only where thread_flavour is 'none'.",
    )
    optimisation: Annotated[str, StringConstraints(pattern=r"^(-O.|unknown)$")] = Field(
        default="-O3",
        description="The last -O option that the interpreter was compiled with, as sysconfig reports it. Images of "
        "others often have -O2; 'unknown' where the interpreter does not report it.",
    )
    implementation: Name = Field(default="cpython", description="Name of the implementation: cpython, pypy.")

    @model_validator(mode="after")
    def _library_belongs_to_threads(self) -> Proof:
        if (self.thread_flavour is ThreadFlavour.NONE) != (self.thread_library is None):
            raise ValueError("thread_library is what `ldd` shows: needed unless thread_flavour is 'none'")
        return self


class Optimisation(Data):
    """How a build is optimised besides -O3: profile-guided (PGO) and link-time (LTO), and what belongs to these."""

    configure: list[ShellWord] = Field(default=[], description="Further options of configure.")
    training: ShellWord | None = Field(
        default=None, description="The work that profile-guided optimisation learns from (default: the version's own)."
    )
    make: list[ShellWord] = Field(default=[], description="Further words for make while it trains.")
    training_targets: list[MakeTarget] = Field(
        default=["profile-run-stamp"], description="The Makefile's targets that train, in this order."
    )
    target: MakeTarget = Field(
        default="profile-opt", description="The Makefile's target that compiles by what was counted."
    )
    builtin_modules: list[ModuleName] = Field(
        default=[],
        description="Standard library modules to link into the interpreter, by Modules/Setup.stdlib of 3.11 and later.",
    )


class OptimisedLike(Optimisation):
    """An optimisation of variants/optimisations.toml, in which what stands beside its name is another."""

    like: Name | None = Field(default=None, description="The optimisation: a table of variants/optimisations.toml.")

    def filled_in(self, known: Optimisation) -> Optimisation:
        """Return the optimisation of this name with these settings changed."""
        return known.model_copy(update={key: getattr(self, key) for key in self.model_fields_set - {"like"}})


class Mode(Data):
    """A way to run a variant without another build."""

    name: Name = Field(description="Name of the mode; orders and results name it VARIANT+NAME.")
    summary: Line = Field(description="What the mode changes, in one line.")
    environment: dict[EnvironmentName, str] = Field(default={}, description="Environment variables of the interpreter.")
    options: list[str] = Field(default=[], description="Options of the interpreter, before its arguments.")
    gil: Gil | None = Field(default=None, description="State of the GIL in this mode (default: as without it).")
    core: bool = Field(default=False, description="Whether it is in the core set, which `matrix` uses by default.")


class Family(Data):
    """What a group of variants is there to show; docs/variants.md has a section for each, in the file's order."""

    name: Name
    title: Text
    summary: Text


class Difference(Data):
    """How the images of these kinds of source differ from python:X-slim, and why."""

    name: Name
    reason: Text
    kinds: Annotated[list[SourceKind], Field(min_length=1)]
    contract: bool = False  # whether a check of the contract has this name; variants of these kinds declare it


class VariantFile(Data):
    """One file variants/NAME.toml; its JSON Schema is variants/variant.schema.json.

    Exactly one of interpreter, image, prefix, packages and build_of says where the interpreter comes from.
    """

    summary: Line = Field(description="What this variant is, in one line; also the image's label.")
    version: Version | None = Field(
        default=None, description="Exact version of Python: 3.14.4, 3.15.0rc1; what is built from a source has its."
    )
    source: Name | None = Field(
        default=None,
        description="What [interpreter] is built from: a channel of variants/sources.toml, whose fallbacks are built "
        "where its newest release cannot be had; or one source there.",
    )
    base: Name = Field(description="The parent image: a table of variants/bases.toml.")
    tag: Name = Field(description="First part of the image's tag, which ends in the base: 3.14t -> 3.14t-trixie.")
    family: Name = Field(description="The section of docs/variants.md: a table of variants/families.toml.")
    core: bool = Field(
        default=False, description="Whether it is in the core set, which `matrix` uses by default; its modes are not."
    )
    stands_for: Name | None = Field(
        default=None,
        description="The variant of the core set in whose place this one is measured without containers, if it is the "
        "first that is there.",
    )
    control: Name | None = Field(
        default=None, description="The variant that differs from this one only in the thing under study."
    )
    licence: Licence = Field(default="PSF-2.0", description="Licence of the interpreter, as an SPDX expression.")
    support: Support = Field(description="Support of the release line by its developers.")
    proof: Proof = Field(description="Properties that the built image is asked for.")
    interpreter: SourceRecipe | None = Field(default=None, description="How the source is compiled: patches and flags.")
    build_of: Name | None = Field(
        default=None, description="The variant whose build this one starts from; [finish] says what is changed."
    )
    image: ExistingImage | None = Field(default=None, description="An image that others publish.")
    prefix: Prefix | None = Field(default=None, description="An interpreter of this machine or of an archive.")
    packages: Packages | None = Field(default=None, description="Debian packages of an interpreter.")
    libraries: Sequence[LibraryRecipe] = Field(
        default=[], description="Libraries to build before the interpreter, in order."
    )
    build_packages: list[PackageName] = Field(
        default=[], description="Debian packages that this build needs in addition to the base's."
    )
    finish: Finish | None = Field(default=None, description="Steps that change the installed interpreter.")
    optimise: OptimisedLike | None = Field(
        default=None, description="How this build is optimised; without it, by -O3 alone."
    )
    optimised_by: list[Literal["PGO", "LTO"]] | None = Field(
        default=None,
        description="Profile-guided (PGO) and link-time optimisation of an interpreter that others built; left out "
        "where it is not known. What is built here says so by [optimise].",
    )
    keeps: list[Name] = Field(
        default=[], description="Differences of its kind of source (variants/differences.toml) that it does not have."
    )
    differences: dict[Name, Text] = Field(
        default={},
        description="Checks of the contract (`interlock check`) that this image does not meet, each with the reason.",
    )
    modes: list[Mode] = Field(default=[], description="Ways to run this variant without another build.")

    @model_validator(mode="after")
    def _each_mode_has_a_name_of_its_own(self) -> VariantFile:
        if twice := first_twice(mode.name for mode in self.modes):
            raise ValueError(f"two modes have the name '{twice}'")
        return self

    @model_validator(mode="after")
    def _the_interpreter_comes_from_one_source(self) -> VariantFile:
        kinds = ("interpreter", "image", "prefix", "packages", "build_of")
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of {', '.join(kinds)} is needed, found {' and '.join(given) or 'none'}")
        if self.interpreter is None:
            only = ("libraries", "build_packages", "optimise", *(() if self.build_of else ("finish",)))
            for key in only:
                if getattr(self, key) and key in self.model_fields_set:
                    raise ValueError(f"{key} belongs to a variant with [interpreter], this one has {given[0]}")
        if self.optimised_by is not None and given[0] in {"interpreter", "build_of"}:
            raise ValueError(f"optimised_by is of interpreters that others built, this one has {given[0]}")
        if self.build_of is not None and self.finish is None:
            raise ValueError("build_of needs [finish]: the steps that make it differ from that variant")
        return self


class Variant(VariantFile):
    """A variant with its name, which is its file's; sources and, of `build_of`, the other's build are filled in."""

    name: Name
    version: Version
    interpreter: Source | None = None
    libraries: Sequence[Library] = []
    optimise: Optimisation = Optimisation()  # type: ignore[assignment]
    fallbacks: list[Release] = []  # what is built instead, in this order, if the interpreter's source cannot be had
    shared_build: Name | None = None  # the variant whose build this one starts from

    @property
    def versions(self) -> list[str]:
        """Return the versions that it may be built from, the newest first."""
        return [self.version, *(release.version for release in self.fallbacks)]

    def at(self, version: str) -> Variant:
        """Return the variant as it is built from one of its versions, without any fallback."""
        release = next((fallback for fallback in self.fallbacks if fallback.version == version), None)
        if release is None or self.interpreter is None:
            return self.model_copy(update={"fallbacks": []})
        source = self.interpreter.model_copy(update=release.as_download)
        return self.model_copy(update={"version": version, "interpreter": source, "fallbacks": []})

    @property
    def file(self) -> str:
        """Return the file that declares it, for errors."""
        return f"variants/{self.name}.toml"

    @property
    def major(self) -> str:
        """Return the major version: '3'."""
        return self.version.split(".", 1)[0]

    @property
    def release_line(self) -> str:
        """Return major and minor version: '3.14'."""
        return self.version.rpartition(".")[0]

    @property
    def named_version(self) -> str:
        """Return the version as the build names itself: '3.14t', but '3.9' for the fork nogil-3.9."""
        line = self.release_line
        return f"{line}t" if f"{self.tag}-".startswith(f"{line}t-") else line

    @property
    def uv_request(self) -> str:
        """Return how uv is asked for this interpreter: '3.14t', 'pypy3.11'."""
        maker = "" if self.proof.implementation == "cpython" else self.proof.implementation
        return f"{maker}{self.named_version}"

    @property
    def kind(self) -> SourceKind:
        """Return where the interpreter comes from."""
        if self.archives:
            return SourceKind.ARCHIVE
        others = (SourceKind.IMAGE, SourceKind.PREFIX, SourceKind.PACKAGES)
        return next((kind for kind in others if getattr(self, kind) is not None), SourceKind.SOURCE)

    @property
    def parts(self) -> list[Source | Library]:
        """Return everything that is built, in order."""
        return [*self.libraries, *([self.interpreter] if self.interpreter else [])]

    @property
    def archives(self) -> dict[str, Download]:
        """Return the archives with the interpreter, by machine; none if it is not fetched as an archive."""
        return self.prefix.archives if self.prefix else {}

    @property
    def downloads(self) -> list[Download]:
        """Return everything that a build fetches, in order, except an archive with the interpreter."""
        return [*self.parts, *(self.finish.downloads if self.finish else [])]

    @property
    def fetched(self) -> list[Download]:
        """Return everything that any machine fetches; each machine fetches only its own archive."""
        return [*self.downloads, *self.fallbacks, *self.archives.values()]

    @property
    def named_files(self) -> dict[str, list[str]]:
        """Return the files of variants/ that it names, in order, by key; FOLDERS maps a key to its folder."""
        return {
            "patches": [name for part in self.parts for name in part.patches],
            "prepare": [name for part in self.parts for name in part.prepare],
            "signature.key": [
                download.signature.key for download in (*self.downloads, *self.fallbacks) if download.signature
            ],
            "finish.steps": self.finish.steps if self.finish else [],
        }

    @property
    def build_name(self) -> str:
        """Return the name of the variant whose build this is: its own, or the one whose build it shares."""
        return self.shared_build or self.name

    @property
    def labels(self) -> list[str]:
        """Return the labels of the variant and of each of its modes: VARIANT, VARIANT+MODE."""
        return [self.name, *(label_of(self.name, mode.name) for mode in self.modes)]

    @property
    def core_labels(self) -> list[str]:
        """Return those of its labels that are in the core set."""
        modes = [label_of(self.name, mode.name) for mode in self.modes if mode.core]
        return [*([self.name] if self.core else []), *modes]

    @property
    def optimisations(self) -> list[str] | None:
        """Return what optimised the interpreter in addition to -O, such as PGO and LTO; None if it is not known."""
        if self.interpreter is None:
            return None if self.optimised_by is None else [*self.optimised_by]
        words = [*self.interpreter.configure, *self.optimise.configure]
        options = {"PGO": "--enable-optimizations", "LTO": "--with-lto"}
        return [name for name, option in options.items() if any(word.startswith(option) for word in words)]

    @property
    def is_trained(self) -> bool:
        """Return whether its build uses a profile: a stored one, or one that it trains first."""
        return self.interpreter is not None and "PGO" in (self.optimisations or [])

    @property
    def compiler(self) -> str:
        """Return the compiler of its interpreter."""
        return self.interpreter.environment.get("CC", "gcc") if self.interpreter else ""

    @property
    def image_tag(self) -> str:
        """Return the image's name on this machine and its tag."""
        return f"{LOCAL_NAME}:{self.tag}-{self.base}"
