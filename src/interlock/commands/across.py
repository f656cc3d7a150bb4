"""Commands across experiments: what changed, over time, on many hosts."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from interlock import store
from interlock.across import changes, figures, history, hosts, reading, text
from interlock.across.extract import Extract
from interlock.commands.options import Results
from interlock.errors import UsageError
from interlock.places import Places
from interlock.routines import console, split_names

Named = Annotated[str, typer.Argument(help="An experiment's folder, its name under results/, or a folder of several.")]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of a terminal's tables.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Markdown instead of a terminal's tables.")]


def compare_command(
    before: Named,
    after: Named,
    times: Annotated[
        bool, typer.Option("--times", help="Show the raw times too, though those of two days are not comparable.")
    ] = False,
    as_json: Json = False,
    markdown: Markdown = False,
    results: Results = None,
) -> None:
    """Say which ratios to the baseline changed between two experiments on one kind of host."""
    old, new = (experiments_named(name, results) for name in (before, after))
    # At once, because processes that read are started once then.
    extracts = reading.read_all([*old, *new])
    found = changes.changes((before, extracts[: len(old)]), (after, extracts[len(old) :]))
    if as_json:
        _write_json([figures.of_changes(one, times=times) for one in found])
    else:
        _show([text.of_changes(one, times=times) for one in found], markdown)


def history_command(
    folder: Annotated[
        str | None, typer.Argument(help="A folder of experiments; the project's results/ by default.")
    ] = None,
    variants: Annotated[str | None, typer.Option(help="Comma-separated; all without this option.")] = None,
    workloads: Annotated[str | None, typer.Option(help="Comma-separated; all without this option.")] = None,
    as_json: Json = False,
    markdown: Markdown = False,
) -> None:
    """Show each ratio to the baseline over many experiments, where its level changed, and what else did there."""
    folders = experiments_named(folder, None) if folder else store.experiments_in(Places.here().results)
    extracts = _chosen(reading.read_all(folders), split_names(variants), split_names(workloads))
    found = history.histories(extracts)
    if as_json:
        _write_json([figures.of_history(one) for one in found])
    else:
        _show([text.of_history(one) for one in found], markdown)


def show_hosts(folder: Path, markdown: bool) -> None:
    """What the hosts of each kind say together, of a folder of experiments."""
    found = hosts.summaries(reading.read_all(store.experiments_in(folder)))
    _show([text.of_hosts(one) for one in found], markdown)


def experiments_named(name: str, results: Path | None) -> list[Path]:
    """The experiments in a folder of this path, or of this name under results/ or results/reference/."""
    if Path(name).is_dir():
        return store.experiments_in(Path(name))
    under = results or Places.here().results
    for folder in (under / name, under / "reference" / name):
        if folder.is_dir():
            return store.experiments_in(folder)
    raise UsageError(
        found=f"there is no folder '{name}', nor one of that name in {under} or below its reference/",
        todo="Name an experiment's folder, or a folder of several.",
    )


def _chosen(
    extracts: Sequence[Extract], variants: Sequence[str] | None, workloads: Sequence[str] | None
) -> list[Extract]:
    """The extracts with these variants (and modes) and workloads alone; UsageError for a name that none of them has."""
    known_workloads = {place[0] for one in extracts for place in one.measured}
    known_variants = {label for one in extracts for measured in one.measured.values() for label in measured.points}
    _check_known("variant", variants, known_variants)
    _check_known("workload", workloads, known_workloads)
    return [
        replace(
            one,
            measured={
                place: replace(
                    measured,
                    points={name: point for name, point in measured.points.items() if not variants or name in variants},
                )
                for place, measured in one.measured.items()
                if not workloads or place[0] in workloads
            },
        )
        for one in extracts
    ]


def _check_known(kind: str, names: Sequence[str] | None, known: set[str]) -> None:
    for name in names or []:
        if name not in known:
            raise UsageError(
                found=f"no experiment has a ratio of the {kind} '{name}'",
                todo=f"They have: {', '.join(sorted(known))}.",
            )


def _write_json(found: Sequence[figures.Figures]) -> None:
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


def _show(documents: Sequence[text.Document], markdown: bool) -> None:
    if markdown:
        sys.stdout.write(text.markdown(documents))
    else:
        console.print(text.terminal(documents))
