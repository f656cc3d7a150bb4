"""Reads variants/ and workloads/: every file validated, every reference resolved, every error names file and key."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from interlock import consistency
from interlock.errors import CatalogError, UsageError, meant
from interlock.model import (
    Base,
    Catalog,
    Claim,
    ClaimsFile,
    Condition,
    Difference,
    Family,
    Profile,
    Texts,
    Variant,
    VariantFile,
    Workload,
    WorkloadFile,
    split_label,
)

Item = TypeVar("Item", bound=BaseModel)
SHARED_FILES = ("bases", "profiles", "families", "differences")
# The folder of variants/ in which what a key names must be.
NAMED_IN = {"patches": "patches", "prepare": "steps", "signature.key": "keys", "finish.steps": "steps"}
CLAIMS = "workloads/claims.toml"
# As a name: all there are.
EVERYTHING = "all"
NO_WORKLOADS = ("claims", "conditions")


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
    bases = _load_table(root, "variants/bases.toml", Base, lambda _: {})
    profiles = _load_table(root, "variants/profiles.toml", Profile, lambda name: {"name": name})
    families = _load_table(root, "variants/families.toml", Family, lambda name: {"name": name})
    differences = _load_table(root, "variants/differences.toml", Difference, lambda name: {"name": name})
    conditions = _load_table(root, "workloads/conditions.toml", Condition, lambda name: {"name": name})
    variants = {
        path.stem: _validate(root, path, Variant, VariantFile, path.stem)
        for path in sorted((root / "variants").glob("*.toml"), key=lambda path: path.stem)
        if path.stem not in SHARED_FILES
    }
    workloads = {
        path.stem: _validate(root, path, Workload, WorkloadFile, path.stem)
        for path in sorted((root / "workloads").glob("*.toml"), key=lambda path: path.stem)
        if path.stem not in NO_WORKLOADS
    }
    catalog = Catalog(
        bases=bases,
        profiles=profiles,
        families=families,
        differences=differences,
        variants=_fill_in(variants, differences.values()),
        workloads=workloads,
        conditions=conditions,
    )
    consistency.check(catalog)
    _check_files(root, catalog)
    return catalog


def load_claims(root: Path, file: Path | None = None) -> list[Claim]:
    """The claims of `file`, or of the project in `root`, in their order.

    Raises CatalogError for the first thing that is wrong, with its file and key.
    """
    path = file or root / CLAIMS
    return list(_parse(root, path, ClaimsFile, _read_toml(root, path)).claims.values())


def texts(root: Path) -> Texts:
    """What generated files are made of."""
    parts = root / "variants"
    scripts = ("*.j2", "fetch.sh")
    return Texts(
        templates={path.name: _text(path) for glob in scripts for path in sorted((root / "dockerfiles").glob(glob))},
        patches=_texts(parts / "patches"),
        steps=_texts(parts / "steps"),
        keys=_texts(parts / "keys"),
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: _text(path) for path in sorted(folder.glob("*"))}


def select_names(known: Iterable[str], wanted: list[str] | None, kind: str) -> list[str]:
    """The wanted names in the order given, or all known ones; UsageError names what does not exist."""
    known = list(known)
    if not wanted or wanted == [EVERYTHING]:
        return known
    for name in wanted:
        if name not in known:
            choice = f"Choose from: {', '.join(known)}."
            raise UsageError(found=f"there is no {kind} '{name}'", todo=f"{meant(name, known)} {choice}".lstrip())
    return list(dict.fromkeys(wanted))


def select_labels(variants: Mapping[str, Variant], wanted: list[str] | None) -> list[str]:
    """The wanted `variant` and `variant+mode` labels in the order given, or every variant with all of its modes.

    Raises UsageError for a variant or a mode that does not exist.
    """
    wanted = None if wanted == [EVERYTHING] else wanted
    for label in wanted or []:
        name, mode = split_label(label)
        select_names(variants, [name], "variant")
        modes = [one.name for one in variants[name].modes]
        if mode is not None and mode not in modes:
            raise UsageError(
                found=f"{name} has no mode '{mode}'",
                todo=f"Choose from: {', '.join(modes)}." if modes else "It has none.",
            )
    every = [label for variant in variants.values() for label in variant.labels]
    return list(dict.fromkeys(wanted or every))


def _name(root: Path, path: Path) -> str:
    """How errors name a file: below `root`, or as it was given if it is elsewhere."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _read_toml(root: Path, path: Path) -> dict[str, Any]:
    name = _name(root, path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CatalogError(file=name, found="the file is missing", todo="Restore it from git.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CatalogError(file=name, found=f"not valid TOML: {error}", todo="Correct the syntax there.") from None


def _load_table(root: Path, file: str, item: type[Item], extra: Callable[[str], dict[str, Any]]) -> dict[str, Item]:
    path = root / file
    items = {}
    for name, value in _read_toml(root, path).items():
        if not isinstance(value, dict):
            raise CatalogError(
                file=file,
                key=name,
                found=f"{value!r} outside of any table",
                todo=f"Put it below the [table] of one of the {path.stem}.",
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
        found, todo = _explain(item, first["type"], first["msg"], first.get("input"))
        raise CatalogError(file=_name(root, path), key=key.strip("."), found=found, todo=todo) from None


def _explain(item: type[BaseModel], kind: str, message: str, value: Any) -> tuple[str, str]:
    """pydantic's error as what was found and what to do."""
    if kind == "missing":
        places = {VariantFile: "variants/variant.schema.json", ClaimsFile: "docs/claims.md"}
        return "the key is missing", f"Add it ({places.get(item, 'src/interlock/model/')} has all of them)."
    if kind == "extra_forbidden":
        return f"unknown key (its value is {value!r})", "Remove it or correct its spelling."
    if kind == "value_error":
        return message.removeprefix("Value error, "), "Correct the file."
    return f"found {value!r}", f"{message}."


def _fill_in(variants: dict[str, Variant], differences: Iterable[Difference]) -> dict[str, Variant]:
    """The variants with what they share with others: a build, and the differences of all of their kind."""
    built = {name: _with_build(variant, variants) for name, variant in variants.items()}
    return {name: _with_differences(variant, differences) for name, variant in built.items()}


def _with_differences(variant: Variant, differences: Iterable[Difference]) -> Variant:
    common = {one.name: one.reason for one in differences if one.contract and variant.kind in one.kinds}
    for name in variant.keeps:
        if common.pop(name, None) is None:
            raise CatalogError(
                file=f"variants/{variant.name}.toml",
                key="keeps",
                found=f"'{name}' is no difference of its kind of source that `interlock check` asks about",
                todo="Remove it, or correct its spelling (variants/differences.toml has them).",
            )
    return variant.model_copy(update={"differences": {**common, **variant.differences}})


def _with_build(variant: Variant, variants: Mapping[str, Variant]) -> Variant:
    if variant.build_of is None:
        return variant
    lender = variants.get(variant.build_of)
    if lender is None or lender.interpreter is None or lender.finish is not None:
        raise CatalogError(
            file=f"variants/{variant.name}.toml",
            key="build_of",
            found=f"'{variant.build_of}' has no build to share",
            todo="Name a variant with [interpreter] and without [finish].",
        )
    shared = ("interpreter", "libraries", "build_packages", "release")
    filled = {key: getattr(lender, key) for key in shared}
    return variant.model_copy(update={**filled, "build_of": None, "lender": lender.name})


def _check_files(root: Path, catalog: Catalog) -> None:
    for variant in catalog.variants.values():
        for key, names in _named_files(variant).items():
            for name in names:
                _must_exist(root, f"variants/{variant.name}.toml", key, f"variants/{NAMED_IN[key]}/{name}")


def _named_files(variant: Variant) -> dict[str, list[str]]:
    """What a variant names of variants/, by key."""
    return {
        "patches": [name for part in variant.parts for name in part.patches],
        "prepare": [name for part in variant.parts for name in part.prepare],
        "signature.key": [part.signature.key for part in variant.downloads if part.signature],
        "finish.steps": variant.finish.steps if variant.finish else [],
    }


def _must_exist(root: Path, file: str, key: str, path: str) -> None:
    if not (root / path).is_file():
        raise CatalogError(file=file, key=key, found=f"{path} does not exist", todo="Add the file or correct the name.")
