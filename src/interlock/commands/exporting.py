"""Experiments as tidy tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from interlock import store
from interlock.commands.across import experiments_named
from interlock.commands.options import Results
from interlock.errors import UsageError
from interlock.export.columns import FORMATS, TABLES
from interlock.export.reading import rows_of_each
from interlock.places import Places
from interlock.routines import console


def export_command(
    folders: Annotated[
        list[str] | None,
        typer.Argument(help="Folders of experiments, of one or of several, or names under results/; all by default."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--format", help="parquet or csv; by default what --output ends with, else parquet.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Write this table alone; --output is its file then.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for a file of each table (export/), or with --table the file.")
    ] = None,
    results: Results = None,
) -> None:
    """Write experiments as tidy tables, Parquet or CSV; docs/results.md tells each column."""
    from interlock.export import files  # noqa: PLC0415  loads pyarrow, for which no other command has to wait

    chosen = _format(kind, output)
    paths = _paths(table, output, chosen)
    named = [one for name in folders or [] for one in experiments_named(name, results)]
    found = named or store.experiments_in(results or Places.here().results)
    counts = files.write(paths, chosen, rows_of_each(found))
    for name, path in paths.items():
        console.print(Text(f"{name:12}{counts[name]:>9,} rows  {path}"), soft_wrap=True)


def _format(kind: str | None, output: Path | None) -> str:
    ending = output.suffix.lstrip(".") if output else ""
    chosen = kind or (ending if ending in FORMATS else FORMATS[0])
    if chosen not in FORMATS:
        raise UsageError(found=f"there is no format '{chosen}'", todo=f"It can be {' or '.join(FORMATS)}.")
    if ending in FORMATS and ending != chosen:
        raise UsageError(found=f"'{output}' would hold {chosen}", todo="Let --format and the file's name agree.")
    return chosen


def _paths(table: str | None, output: Path | None, kind: str) -> dict[str, Path]:
    """The file of each table that is to be written."""
    if table is not None:
        if table not in TABLES:
            raise UsageError(found=f"there is no table '{table}'", todo=f"There are: {', '.join(TABLES)}.")
        return {table: output or Path(f"{table}.{kind}")}
    folder = output or Path("export")
    if folder.suffix.lstrip(".") in FORMATS:
        raise UsageError(found=f"'{folder}' is one file for {len(TABLES)} tables", todo="Choose one with --table.")
    return {name: folder / f"{name}.{kind}" for name in TABLES}
