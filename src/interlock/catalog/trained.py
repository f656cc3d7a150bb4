"""The contents of variants/profiles/: the profiles of optimisation that trainings left, and what each one serves.

A compiler that is given a profile needs no training of its own, and makes the same code each time. A profile fits the
source, the flags, the compiler and the machine that it was trained with. gcc drops it for every function that differs,
and from one patch release to the next the interpreter's loop is such a function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from interlock import untrusted
from interlock.catalog.reading import load_files
from interlock.catalog.types import Data, Date, Name, Sha256, ShellWord, Version
from interlock.catalog.variants import FOLDERS, Line, Variant
from interlock.errors import CatalogError

FOLDER = "variants/profiles"
PACKED = ".tar.xz"
# A profile is some 400 kB.
MOST_BYTES = 8 << 20


class BuildRecipe(Data):
    """What decides the code besides the compiler: a profile fits what has the very same."""

    source: Sha256 = Field(description="SHA-256 of the interpreter's source.")
    flags: list[ShellWord] = Field(description="The environment, the options of configure and the built-in modules.")
    files: dict[str, Sha256] = Field(
        default={}, description="SHA-256 of the patches and steps that change the source, and of libraries."
    )


class TrainedProfile(BuildRecipe):
    """A profile of optimisation: what a training counted is in the archive of the same name."""

    name: Name
    variant: Name = Field(description="The variant that was trained; whatever has its recipe is served.")
    version: Version = Field(description="Version of the interpreter that was trained.")
    compiler: Line = Field(description="The compiler, as the first line of `gcc --version` names it.")
    machine: Literal["x86_64", "aarch64"] = Field(description="The machine, as `uname -m` names it.")
    training: ShellWord = Field(description="The work that was counted.")
    trained: Date = Field(description="The day of the training.")
    sha256: Sha256 = Field(description="SHA-256 of the archive.")

    @property
    def file(self) -> str:
        """Return the archive's name."""
        return self.name + PACKED

    @property
    def trained_with(self) -> str:
        """Return compiler and machine, as a build asks for them."""
        return f"{self.compiler}, {self.machine}"

    def fits(self, recipe: BuildRecipe) -> bool:
        """Return whether it was trained with this very recipe."""
        return all(getattr(self, key) == getattr(recipe, key) for key in BuildRecipe.model_fields)


def load(root: Path) -> dict[str, TrainedProfile]:
    """Return the profiles by name; CatalogError for one whose archive is missing or has another SHA-256."""
    profiles = load_files(root, FOLDER, TrainedProfile, TrainedProfile)
    for profile in profiles.values():
        sum_ = hashlib.sha256(read_archive(root, profile.file)).hexdigest()
        if sum_ != profile.sha256:
            raise CatalogError(
                file=f"{FOLDER}/{profile.name}.toml",
                key="sha256",
                found=f"{profile.file} has the SHA-256 {sum_}",
                todo=f"Restore both files: git checkout -- {FOLDER}",
            )
    return profiles


def read_archives(root: Path) -> dict[str, bytes]:
    """Return the archives by their names."""
    return {path.name: read_archive(root, path.name) for path in sorted((root / FOLDER).glob(f"*{PACKED}"))}


def read_archive(root: Path, file: str) -> bytes:
    """Return an archive's bytes; CatalogError if it cannot be read."""
    try:
        return untrusted.read_bytes(root / FOLDER / file, MOST_BYTES)
    except OSError as error:
        problem, todo = f"cannot be read: {error.strerror}", f"Restore it: git checkout -- {FOLDER}"
        raise CatalogError(file=f"{FOLDER}/{file}", found=problem, todo=todo) from None


def recipe_of(variant: Variant, texts: Mapping[str, Mapping[str, str]]) -> BuildRecipe | None:
    """Return what decides a variant's code; None if no training would change it.

    `texts` has the patches and steps, by folder and name.
    """
    source = variant.interpreter
    if source is None or not variant.is_trained:
        return None
    environment = [f"{name}={value}" for name, value in sorted(source.environment.items())]
    builtin = [f"builtin {name}" for name in variant.optimise.builtin_modules]
    changing = [(FOLDERS[key], name) for key in ("patches", "prepare") for name in getattr(source, key)]
    sums = {f"{folder}/{name}": hashlib.sha256(texts[folder][name].encode()).hexdigest() for folder, name in changing}
    return BuildRecipe(
        source=source.sha256,
        flags=[*environment, *variant.optimise.configure, *source.configure, *builtin],
        files=sums | {library.file: library.sha256 for library in variant.libraries},
    )
