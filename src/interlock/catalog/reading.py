"""Reads the project's TOML files into models; anything wrong gives one error with file, key and what to do."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from interlock import untrusted
from interlock.catalog.overlay import OWN, TABLES
from interlock.errors import CatalogError, did_you_mean

Item = TypeVar("Item", bound=BaseModel)


def name_of(root: Path, path: Path) -> str:
    """Return a file's name for errors: its path below `root`, or as it was given if it is elsewhere."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def read_toml(root: Path, path: Path) -> dict[str, Any]:
    """Return what a file says; CatalogError if it cannot be read or is not TOML."""
    name = name_of(root, path)
    try:
        return tomllib.loads(untrusted.read_text(path))
    except FileNotFoundError:
        raise CatalogError(file=name, found="the file is missing", todo=f"Restore it: git checkout -- {name}") from None
    except OSError as error:
        todo = "Allow reading it." if isinstance(error, PermissionError) else "Name a file, or shorten it."
        raise CatalogError(file=name, found=f"cannot be read: {error.strerror}", todo=todo) from None
    except (ValueError, RecursionError) as error:  # not UTF-8, or a number of 5,000 digits
        raise CatalogError(file=name, found=f"not valid TOML: {error}", todo="Correct the syntax there.") from None


def read_sections(root: Path, file: str) -> dict[str, Any]:
    """Return a file's sections (`claims` has each [claims.NAME]); the user's own tables are added, or win."""
    known, own = _with_own(root, file)
    both = [key for key in known.keys() & own.keys() if isinstance(known[key], dict) and isinstance(own[key], dict)]
    return known | own | {key: known[key] | own[key] for key in both}


def _with_own(root: Path, file: str) -> tuple[dict[str, Any], dict[str, Any]]:
    own = root / OWN / file  # a link, whose errors name the user's file
    return read_toml(root, root / file), read_toml(root, own.resolve()) if own.is_file() else {}


def load_table(root: Path, file: str, item: type[Item]) -> dict[str, Item]:
    """Return the items of a file with one table for each; those of the user's own file are added, or win."""
    path, items = root / file, {}
    known, own = _with_own(root, file)
    for name, value in (known | own).items():
        if not isinstance(value, dict):
            raise CatalogError(
                file=file, key=name, found=f"{value!r} is outside of any table", todo="Move it below a [table] line."
            )
        named = {"name": name} if "name" in item.model_fields else {}
        items[name] = parse(root, path, item, {**value, **named}, prefix=f"{name}.")
    return items


def load_files(root: Path, folder: str, item: type[Item], shape: type[BaseModel]) -> dict[str, Item]:
    """Return the items of a folder with one file for each, which names it; every file must fit `shape`."""
    items = {}
    for path in sorted((root / folder).glob("*.toml"), key=lambda path: path.stem):
        if f"{folder}/{path.name}" not in TABLES:
            data = read_toml(root, path)
            if not data.keys() <= shape.model_fields.keys():
                parse(root, path, shape, data)  # raises for the first other key
            named = {"name": path.stem} if "name" in item.model_fields else {}
            items[path.stem] = parse(root, path, item, {**data, **named})
    return items


def parse(root: Path, path: Path, item: type[Item], data: dict[str, Any], prefix: str = "") -> Item:
    """Return the item made from a file's data; CatalogError names the first key that is wrong."""
    try:
        return item.model_validate(data)
    except ValidationError as error:
        # If a key has a typo, the unknown key says more than the key that is missing because of it.
        first = min(error.errors(), key=lambda wrong: wrong["type"] != "extra_forbidden")
        key = prefix + ".".join(str(part) for part in first["loc"])
        schema = item.model_json_schema()
        problem, todo = _explain(schema, first["type"], first["msg"], first["loc"], first.get("input"))
        raise CatalogError(file=name_of(root, path), key=key.strip("."), found=problem, todo=todo) from None


def _explain(
    schema: dict[str, Any], kind: str, message: str, location: tuple[int | str, ...], value: Any
) -> tuple[str, str]:
    """Return pydantic's error as what was found and what to do."""
    if kind == "value_error":
        return message.removeprefix("Value error, "), "Correct the file."
    if kind == "extra_forbidden":
        known = _schema_of(schema, location[:-1]).get("properties", {})
        return f"unknown key (its value is {value!r})", did_you_mean(str(location[-1]), known) or "Remove it."
    meaning = _schema_of(schema, location).get("description", "")
    if kind == "missing":
        return "the key is missing", f"Add it: {meaning}" if meaning else "Add it."
    return f"found {value!r}", f"{message}. {meaning}".rstrip()


def _schema_of(schema: dict[str, Any], location: Iterable[int | str]) -> dict[str, Any]:
    """Return the part of a JSON Schema that is about a key; empty if it has none."""
    part_of_it = schema
    for part in location:
        free = [*part_of_it.get("patternProperties", {}).values(), part_of_it.get("additionalProperties")]
        keys = part_of_it.get("properties", {})
        inner = part_of_it.get("items") if isinstance(part, int) else keys.get(part, free[0])
        part_of_it = _resolved(schema, inner or {})
    return part_of_it


def _resolved(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return the part with references resolved, the first of a choice; the description stays the key's own."""
    inner = part.get("anyOf", [part])[0]
    if "$ref" in inner:
        inner = schema["$defs"][inner["$ref"].rpartition("/")[2]]
    return {**inner, **part}
