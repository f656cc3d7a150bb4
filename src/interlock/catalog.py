"""Reads variants/ and workloads/: every file validated, every reference resolved, every error names file and key."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from interlock.errors import CatalogError, UsageError
from interlock.model import Base, Catalog, Profile, Variant, VariantFile, Workload, WorkloadFile

Item = TypeVar("Item", bound=BaseModel)
SHARED_FILES = ("bases", "profiles")


def find_root(start: Path) -> Path:
    """The project folder: the nearest one, from `start` up, that has variants/ and workloads/."""
    for folder in (start, *start.parents):
        if (folder / "variants" / "bases.toml").is_file() and (folder / "workloads").is_dir():
            return folder
    raise UsageError(
        file=str(start),
        found="no folder from here up has variants/bases.toml and workloads/",
        todo="Run interlock inside a clone of the project.",
    )


def load(root: Path) -> Catalog:
    """Everything under variants/ and workloads/ of `root`.

    Raises CatalogError for the first thing that is wrong, with its file and key.
    """
    bases = _load_table(root, "bases", Base, lambda _: {})
    profiles = _load_table(root, "profiles", Profile, lambda name: {"name": name})
    variants = {
        path.stem: _validate(root, path, Variant, VariantFile, path.stem)
        for path in sorted((root / "variants").glob("*.toml"), key=lambda path: path.stem)
        if path.stem not in SHARED_FILES
    }
    workloads = {
        path.stem: _validate(root, path, Workload, WorkloadFile, path.stem)
        for path in sorted((root / "workloads").glob("*.toml"), key=lambda path: path.stem)
    }
    catalog = Catalog(bases=bases, profiles=profiles, variants=variants, workloads=workloads)
    for check in (_check_references, _check_tags, _check_sums):
        check(catalog)
    _check_files(root, catalog)
    return catalog


def templates(root: Path) -> dict[str, str]:
    """The templates of generated files, by file name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((root / "dockerfiles").glob("*.j2"))}


def patches(root: Path) -> dict[str, str]:
    """The patches that variants may name, by file name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((root / "variants/patches").glob("*"))}


def select_names(known: Iterable[str], wanted: list[str] | None, kind: str) -> list[str]:
    """The wanted names in the order given, or all known ones; UsageError names what does not exist."""
    known = list(known)
    if not wanted:
        return known
    for name in wanted:
        if name not in known:
            raise UsageError(
                found=f"there is no {kind} '{name}'",
                todo=f"Choose from: {', '.join(known)}.",
            )
    return list(dict.fromkeys(wanted))


def _read_toml(root: Path, path: Path) -> dict[str, Any]:
    name = str(path.relative_to(root))
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CatalogError(file=name, found="the file is missing", todo="Restore it from git.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CatalogError(file=name, found=f"not valid TOML: {error}", todo="Correct the syntax there.") from None


def _load_table(root: Path, stem: str, item: type[Item], extra: Callable[[str], dict[str, Any]]) -> dict[str, Item]:
    path = root / "variants" / f"{stem}.toml"
    items = {}
    for name, value in _read_toml(root, path).items():
        if not isinstance(value, dict):
            raise CatalogError(
                file=str(path.relative_to(root)),
                key=name,
                found=f"{value!r} outside of any table",
                todo=f"Put it below the [table] of one of the {stem}.",
            )
        items[name] = _parse(root, path, item, {**value, **extra(name)}, prefix=f"{name}.")
    return items


def _validate(root: Path, path: Path, item: type[Item], shape: type[BaseModel], name: str) -> Item:
    """The file must fit `shape` (which has no name: that is the file's own) and becomes an `item`."""
    data = _read_toml(root, path)
    _parse(root, path, shape, data)
    return _parse(root, path, item, {**data, "name": name})


def _parse(root: Path, path: Path, item: type[Item], data: dict[str, Any], prefix: str = "") -> Item:
    try:
        return item.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = prefix + ".".join(str(part) for part in first["loc"])
        found, todo = _explain(first["type"], first["msg"], first.get("input"))
        raise CatalogError(file=str(path.relative_to(root)), key=key.strip("."), found=found, todo=todo) from None


def _explain(kind: str, message: str, value: Any) -> tuple[str, str]:
    """pydantic's error as what was found and what to do."""
    if kind == "missing":
        return "the key is missing", "Add it (variants/variant.schema.json has all of them)."
    if kind == "extra_forbidden":
        return f"unknown key (its value is {value!r})", "Remove it or correct its spelling."
    if kind == "value_error":
        return message.removeprefix("Value error, "), "Correct the file."
    return f"found {value!r}", f"{message}."


def _check_references(catalog: Catalog) -> None:
    bases, profiles, variants = set(catalog.bases), set(catalog.profiles), set(catalog.variants)
    for variant in catalog.variants.values():
        for key, name, known in (
            ("base", variant.base, bases),
            ("control", variant.control, variants),
            *((profile, profile, profiles) for profile in variant.profiles),
        ):
            if name is not None and name not in known:
                raise CatalogError(
                    file=f"variants/{variant.name}.toml",
                    key=key,
                    found=f"'{name}' does not exist",
                    todo=f"Name one of: {', '.join(sorted(known))}.",
                )


def _check_tags(catalog: Catalog) -> None:
    owners: dict[str, str] = {}
    for variant in catalog.variants.values():
        tag = variant.image_tag("standard")
        if tag in owners:
            raise CatalogError(
                file=f"variants/{variant.name}.toml",
                key="tag",
                found=f"'{tag}' is the tag of variants/{owners[tag]}.toml too",
                todo="Give each variant a tag of its own.",
            )
        owners[tag] = variant.name


def _check_sums(catalog: Catalog) -> None:
    """One file name has one sum, whichever variants use it: a slip in one of several copies is caught."""
    seen: dict[str, tuple[str, str]] = {}
    for variant in catalog.variants.values():
        for part in variant.parts:
            sha256, owner = seen.setdefault(part.file, (part.sha256, variant.name))
            if sha256 != part.sha256:
                raise CatalogError(
                    file=f"variants/{variant.name}.toml",
                    key="sha256",
                    found=f"{part.file} has another sum than in variants/{owner}.toml",
                    todo="Use the sum that upstream publishes in both.",
                )


def _check_files(root: Path, catalog: Catalog) -> None:
    for variant in catalog.variants.values():
        for part in variant.parts:
            for patch in part.patches:
                _must_exist(root, f"variants/{variant.name}.toml", "patches", f"variants/patches/{patch}")
    for workload in catalog.workloads.values():
        if workload.program is not None:
            _must_exist(root, f"workloads/{workload.name}.toml", "program", f"workloads/{workload.program}")


def _must_exist(root: Path, file: str, key: str, path: str) -> None:
    if not (root / path).is_file():
        raise CatalogError(file=file, key=key, found=f"{path} does not exist", todo="Add the file or correct the name.")
