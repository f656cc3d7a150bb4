"""The project: where it and its cache are, and what its variants/ and workloads/ say.

Every file is validated and every reference resolved; an error names file and key.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock import untrusted
from interlock.catalog import trained
from interlock.catalog.claims import ClaimsFile, Question, QuestionsFile
from interlock.catalog.overlay import OwnFile, lay, own_files, own_folder
from interlock.catalog.published import Published, load_published
from interlock.catalog.reading import load_files, load_table, parse, read_sections, read_toml
from interlock.catalog.sources import FILE as SOURCES
from interlock.catalog.sources import Download, Sources
from interlock.catalog.sources import load as load_sources
from interlock.catalog.trained import TrainedProfile
from interlock.catalog.types import LIMIT, TWIN, Data, Right
from interlock.catalog.variants import (
    FOLDERS,
    Base,
    Difference,
    Family,
    Library,
    Optimisation,
    Source,
    Variant,
    VariantFile,
)
from interlock.catalog.workloads import Workload, WorkloadFile
from interlock.errors import CatalogError, UsageError, did_you_mean, nearest


class FileTexts(Data):
    """The files that generated files are made of: their texts by file name."""

    templates: dict[str, str]
    patches: dict[str, str] = {}
    steps: dict[str, str] = {}
    keys: dict[str, str] = {}
    profiles: dict[str, bytes] = {}


class Catalog(Data):
    """Everything that variants/ and workloads/ say, by name."""

    bases: dict[str, Base]
    families: dict[str, Family]
    differences: dict[str, Difference]  # of all images of a kind
    variants: dict[str, Variant]
    workloads: dict[str, Workload]
    published: dict[str, Published] = {}  # by variant
    sources: Sources = Sources()
    trained: dict[str, TrainedProfile] = {}

    def at(self, versions: Mapping[str, str]) -> Catalog:
        """Return the catalog with these variants at these of the versions that they may be built from."""
        variants = {
            name: variant.at(versions[name]) if versions.get(name) in variant.versions else variant
            for name, variant in self.variants.items()
        }
        return self.model_copy(update={"variants": variants})


def check_consistency(catalog: Catalog) -> None:
    """Raise CatalogError for a dangling reference, a reserved name, a tag of two variants or a file with two sums."""
    _check_reserved_names(catalog)
    _check_references(catalog)
    _check_tags(catalog)
    _check_sums(catalog)
    _check_rights(catalog)


def _check_reserved_names(catalog: Catalog) -> None:
    """Refuse names that would mean two things: limits are stored under a variant's name, twins under a mode's."""
    reserved = [
        (f"variants/{LIMIT}.toml", "name", LIMIT, LIMIT in catalog.variants),
        *(
            (variant.file, "modes", TWIN, any(mode.name == TWIN for mode in variant.modes))
            for variant in catalog.variants.values()
        ),
    ]
    for file, key, name, is_taken in reserved:
        if is_taken:
            raise CatalogError(file=file, key=key, found=f"'{name}' is reserved", todo="Choose another name.")


def _check_rights(catalog: Catalog) -> None:
    """Raise CatalogError for a workload whose benchmarks or limits use a right that it does not ask for."""
    for workload in catalog.workloads.values():
        for right, why in _needed_rights(workload).items():
            if right not in workload.rights:
                wanted = ", ".join(f'"{asked}"' for asked in (*workload.rights, right))
                raise CatalogError(
                    file=workload.file,
                    key="rights",
                    found=why,
                    todo=f"Write rights = [{wanted}] in front of its tables.",
                )


def _needed_rights(workload: Workload) -> dict[Right, str]:
    """Return the rights that a workload has to ask for, each with the reason.

    Cold benchmarks have to know which parts of a file are in memory, and the kernel tells that only to its owner.
    """
    needed: dict[Right, str] = {}
    if any(benchmark.cold for benchmark in workload.benchmarks):
        needed["root"] = "has cold benchmarks, whose cells have to be root's (without any capability)"
    commands = [
        *(limit.command for limit in workload.limits),
        *([*benchmark.arguments, *(benchmark.command or []), *benchmark.set_up] for benchmark in workload.benchmarks),
    ]
    if any("{disk}" in word for command in commands for word in command):
        needed["disk"] = "uses {disk}, which only cells of a workload with that right have"
    return needed


def _check_references(catalog: Catalog) -> None:
    for variant in catalog.variants.values():
        for key, name, known in (
            ("base", variant.base, catalog.bases.keys()),
            ("family", variant.family, catalog.families.keys()),
            ("control", variant.control, catalog.variants.keys()),
            ("stands_for", variant.stands_for, catalog.variants.keys()),
        ):
            if name is not None and name not in known:
                raise CatalogError(
                    file=variant.file, key=key, found=f"'{name}' does not exist", todo=nearest(name, known)
                )


def _check_tags(catalog: Catalog) -> None:
    owners: dict[str, str] = {}
    for variant in catalog.variants.values():
        tag = variant.image_tag
        if tag in owners:
            raise CatalogError(
                file=variant.file,
                key="tag",
                found=f"variants/{owners[tag]}.toml has the tag '{tag}' too",
                todo="Give each variant its own tag.",
            )
        owners[tag] = variant.name


def _check_sums(catalog: Catalog) -> None:
    """Require one SHA-256 for each file name, wherever it is declared, to catch a slip in one of several copies."""
    declared: list[tuple[str, str, Download]] = [
        *((SOURCES, f"sources.{name}.sha256", source) for name, source in catalog.sources.sources.items()),
        *((variant.file, "sha256", download) for variant in catalog.variants.values() for download in variant.fetched),
    ]
    seen: dict[str, tuple[str, str]] = {}
    for file, key, download in declared:
        sha256, owner = seen.setdefault(download.file, (download.sha256, file))
        if sha256 != download.sha256:
            raise CatalogError(
                file=file,
                key=key,
                found=f"{download.file} has another SHA-256 than in {owner}",
                todo="Use upstream's SHA-256 in both places.",
            )


CLAIMS = "workloads/claims.toml"
QUESTIONS = "docs/findings.toml"
OPTIMISATIONS = "variants/optimisations.toml"


def load(root: Path) -> Catalog:
    """Return everything that variants/ and workloads/ of `root` say.

    Raises CatalogError for the first thing that is wrong, with its file and key.
    """
    differences = load_table(root, "variants/differences.toml", Difference)
    files = load_files(root, "variants", VariantFile, VariantFile)
    known = load_sources(root)
    optimisations = load_table(root, OPTIMISATIONS, Optimisation)
    variants = complete(root, files, known, differences.values(), optimisations)
    catalog = Catalog(
        bases=load_table(root, "variants/bases.toml", Base),
        families=load_table(root, "variants/families.toml", Family),
        differences=differences,
        sources=known,
        variants=variants,
        workloads=load_files(root, "workloads", Workload, WorkloadFile),
        published=load_published(root, variants),
        trained=trained.load(root),
    )
    check_consistency(catalog)
    _check_files(root, catalog)
    return catalog


def load_claims(root: Path, file: Path | None = None) -> ClaimsFile:
    """Return what `file`, or the project in `root`, says of claims; CatalogError for the first thing that is wrong."""
    data = read_toml(root, file) if file else read_sections(root, CLAIMS)
    return parse(root, file or root / CLAIMS, ClaimsFile, data)


def load_questions(root: Path) -> list[Question]:
    """Return the questions that the page of findings answers; none if the project has none."""
    path = root / QUESTIONS
    return parse(root, path, QuestionsFile, read_toml(root, path)).questions if path.is_file() else []


def read_texts(root: Path) -> FileTexts:
    """Return the templates, patches, scripts and keys that generated files are made of."""
    parts = root / "variants"
    scripts = ("*.j2", "*.sh")
    return FileTexts(
        templates={path.name: _text(path) for glob in scripts for path in sorted((root / "dockerfiles").glob(glob))},
        patches=_texts(parts / "patches"),
        steps=_texts(parts / "steps"),
        keys=_texts(parts / "keys"),
        profiles=trained.read_archives(root),
    )


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: _text(path) for path in sorted(folder.glob("*"))}


def _text(path: Path) -> str:
    try:
        return untrusted.read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogError(file=str(path), found=f"cannot be read: {error}", todo="Restore it, or remove it.") from None


def complete(
    root: Path,
    files: Mapping[str, VariantFile],
    known: Sources,
    differences: Iterable[Difference],
    optimisations: Mapping[str, Optimisation],
) -> dict[str, Variant]:
    """Return the variants with their sources and what they share: builds, optimisations, differences by kind."""
    named = {name: _with_sources(root, name, files, known, optimisations) for name in files}
    return {name: _with_differences(variant, differences) for name, variant in named.items()}


def _with_differences(variant: Variant, differences: Iterable[Difference]) -> Variant:
    common = {
        difference.name: difference.reason
        for difference in differences
        if difference.contract and variant.kind in difference.kinds
    }
    for name in variant.keeps:
        if name not in common:
            raise CatalogError(
                file=variant.file, key="keeps", found=f"unknown contract check '{name}'", todo=nearest(name, common)
            )
    kept = {name: reason for name, reason in common.items() if name not in variant.keeps}
    return variant.model_copy(update={"differences": {**kept, **variant.differences}})


# What a variant takes from the one whose build it starts from.
SHARED = ("source", "interpreter", "libraries", "build_packages", "optimise")


def _with_sources(
    root: Path,
    name: str,
    files: Mapping[str, VariantFile],
    known: Sources,
    optimisations: Mapping[str, Optimisation],
) -> Variant:
    """Return the variant that a file declares, with its sources, or its owner's, filled in."""
    file, path = files[name], f"variants/{name}.toml"
    _require_one_version(path, file)
    given = {key: getattr(file, key) for key in file.model_fields_set}
    if file.build_of is not None:
        owner = _owner(path, file.build_of, files)
        given |= {key: getattr(owner, key) for key in SHARED}
        given |= {"build_of": None, "shared_build": file.build_of}
        path = f"variants/{file.build_of}.toml"
    if given.get("interpreter") is not None:
        newest, *fallbacks = known.require(given["source"] or "", path, "source")
        given |= {"version": newest.version, "fallbacks": fallbacks}
        given["interpreter"] = Source(**dict(given["interpreter"]), **newest.as_download)
        given["libraries"] = [
            Library(**dict(library), **known.require(library.source, path, "libraries.source")[0].as_download)
            for library in given.get("libraries", [])
        ]
    asked = given.pop("optimise", None)
    if asked is not None:
        if asked.like is not None and asked.like not in optimisations:
            problem, todo = f"{OPTIMISATIONS} has no table '{asked.like}'", nearest(asked.like, optimisations)
            raise CatalogError(file=path, key="optimise.like", found=problem, todo=todo)
        given["optimise"] = asked.filled_in(optimisations[asked.like] if asked.like else Optimisation())
    return parse(root, root / f"variants/{name}.toml", Variant, {**given, "name": name})


def _require_one_version(path: str, file: VariantFile) -> None:
    """Require `source` if it is compiled and `version` if others built it; with build_of both are the owner's."""
    needed = "source" if file.interpreter is not None else None if file.build_of is not None else "version"
    for key in ("source", "version"):
        value = getattr(file, key)
        if key == needed and value is None:
            meaning = VariantFile.model_fields[key].description
            raise CatalogError(file=path, key=key, found="the key is missing", todo=f"Add it: {meaning}")
        if key != needed and value is not None:
            problem = f"found '{value}', but " + ("it is the source's" if needed == "source" else "nothing is compiled")
            raise CatalogError(file=path, key=key, found=problem, todo="Remove it.")


def _owner(path: str, name: str, files: Mapping[str, VariantFile]) -> VariantFile:
    """Return the variant whose build another one starts from."""
    owner = files.get(name)
    if owner is None or owner.interpreter is None or owner.finish is not None:
        raise CatalogError(
            file=path,
            key="build_of",
            found=f"'{name}' is not built from source, so its build cannot be shared",
            todo="Name a variant with [interpreter] and without [finish].",
        )
    return owner


def _check_files(root: Path, catalog: Catalog) -> None:
    named = [
        *(
            (SOURCES, f"sources.{name}.signature.key", f"variants/keys/{source.signature.key}")
            for name, source in catalog.sources.sources.items()
            if source.signature
        ),
        *(
            (variant.file, key, f"variants/{FOLDERS[key]}/{name}")
            for variant in catalog.variants.values()
            for key, names in variant.named_files.items()
            for name in names
        ),
    ]
    for file, key, path in named:
        if not (root / path).is_file():
            todo = "Add the file or correct the name."
            raise CatalogError(file=file, key=key, found=f"{path} does not exist", todo=todo)


# Where hatch_build.py puts the project's folders in an installed package; a clone has none.
INSTALLED = Path(__file__).parents[1] / "data"


# What tells the project's folder from a user's own, which may have variants/ and workloads/ too.
OF_PROJECT = ("variants/bases.toml", "workloads/", "dockerfiles/Dockerfile.j2")


def find_root(start: Path) -> Path:
    """Return the project folder: the nearest one, from `start` up, that has what only the project has."""
    for folder in (start, *start.parents):
        if all((folder / name).exists() for name in OF_PROJECT):
            return folder
    raise UsageError(
        file=str(start),
        found=f"no folder from here up has {', '.join(OF_PROJECT[:-1])} and {OF_PROJECT[-1]}",
        todo="Run interlock inside a clone of the project.",
    )


def require_programs(root: Path, workloads: Iterable[Workload]) -> None:
    """Raise CatalogError for the first program that a workload names and that does not exist."""
    for workload in workloads:
        for program in dict.fromkeys([workload.program, *map(workload.program_of, workload.benchmarks)]):
            if program is not None and not (root / "workloads" / program).exists():
                there = [path.name for path in (root / "workloads").glob("*.py")]
                todo = f"Write it, or correct the key. {did_you_mean(program, there)}".rstrip()
                problem = f"there is no workloads/{program}"
                raise CatalogError(file=workload.file, key="program", found=problem, todo=todo)


@dataclass(frozen=True)
class ProjectPaths:
    """Where the project's files are read from, and the user's cache folder.

    Outside a clone the files are those installed with Interlock, and `home` is the folder that has results/: the user's
    own folder with variants/ or workloads/ (then `own` has its files), else the user's data folder.
    """

    root: Path
    cache: Path
    home: Path | None = None
    own: tuple[OwnFile, ...] = ()

    @property
    def is_clone(self) -> bool:
        """Return whether the project's files are a clone, which the user may change."""
        return self.home is None

    @property
    def results(self) -> Path:
        """Return the folder of results."""
        return (self.home or self.root) / "results"

    @property
    def reference(self) -> Path:
        """Return the folder of the experiments that come with Interlock."""
        return self.root / "results" / "reference"

    @staticmethod
    def find() -> ProjectPaths:
        """Return the paths of the clone around the current folder, or else of the installed package."""
        try:
            return ProjectPaths(find_root(Path.cwd()), cache_folder())
        except UsageError:
            return _outside_a_clone(Path.cwd(), cache_folder())


def _outside_a_clone(here: Path, cache: Path) -> ProjectPaths:
    installed = INSTALLED if INSTALLED.is_dir() else find_root(Path(__file__).parent)
    own = own_folder(here)
    if own is None:
        return ProjectPaths(installed, cache, data_folder())
    return ProjectPaths(lay(installed, own, cache), cache, own, tuple(own_files(installed, own)))


def data_folder() -> Path:
    """Return the user's data folder of Interlock, where results lie outside a clone."""
    return _user_folder("XDG_DATA_HOME", "~/.local/share")


def cache_folder() -> Path:
    """Return the user's cache folder of Interlock."""
    return _user_folder("XDG_CACHE_HOME", "~/.cache")


def _user_folder(variable: str, usual: str) -> Path:
    """Return Interlock's folder in one of the folders of the XDG Base Directory Specification."""
    return Path(os.environ.get(variable) or usual).expanduser() / "interlock"
