"""Reads experiments' folders into the rows of an export, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from interlock import compare, store
from interlock.errors import StoreError
from interlock.export.rows import Record, rows
from interlock.model import Experiment


def rows_of_each(folders: Sequence[Path]) -> Iterator[dict[str, list[Record]]]:
    """Of each experiment, once if it was named twice; StoreError if two others have one name and host."""
    known: dict[tuple[str, str], tuple[Experiment, Path]] = {}
    for folder in folders:
        described = store.read_experiment(folder)
        key = (described.name, described.host["folder"])
        if key not in known:
            known[key] = (described, folder)
            values, profiles = store.read_cells(folder, described)
            yield rows(described, values, profiles, compare.tables(described, values, profiles))
        elif known[key][0] != described:
            raise StoreError(
                file=str(folder),
                found=f"{known[key][1]} is another experiment of the same name and host, '{' / '.join(key)}'",
                todo="Export them into two folders.",
            )
