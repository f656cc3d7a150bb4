"""The data about packages of Debian's releases and of the official images that comes with Interlock."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from interlock.swap.debian_lists import DebianTable, read_table

FILE, OFFICIAL = "debian.txt", "official.toml"


@cache
def table() -> DebianTable:
    """Return the table that `interlock facts debian` made."""
    return read_table(_text(FILE))


@cache
def official() -> dict[str, Any]:
    """Return what the official images have in addition to Python."""
    return tomllib.loads(_text(OFFICIAL))


def _text(name: str) -> str:
    return resources.files("interlock.swap").joinpath(name).read_text(encoding="utf-8")
