"""Many experiments read to be compared; their changes and hosts as text and as data for JSON."""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from interlock.analysis import comparison
from interlock.analysis.changes import UNCHANGED, Change, Changes, ChangeTable, Side
from interlock.analysis.cohorts import Extract, HostRow, HostTable, KindSummary, extract
from interlock.analysis.statistics import Interval
from interlock.analysis.verdicts import DIFFERENT, Comparison, Verdict
from interlock.report.tables import Section, markdown_lines, ratio_text, rich_parts
from interlock.results import store
from interlock.untrusted import printable

CHANGE = ("variant", "before", "after", "change", "verdict", "image")
RATIOS_ONLY = "compared are ratios to each experiment's own baseline, never times"
LEGENDS = {
    "changes": (
        "before, after: time per unit of work divided by the baseline's in the same experiment [95 % interval]; "
        "change: after divided by before, above 1 is slower than before. 'slower' and 'faster': p of equals is below "
        f"{DIFFERENT:g}, adjusted for the ratios of the table (Benjamini and Hochberg); 'same': a change of 5 % or "
        "more is ruled out; else undecided. The intervals do not cover what differs from day to day: rows whose images "
        "did not change show how much that is."
    ),
    "hosts": (
        "ratio: geometric mean over the hosts of their ratios to their own baselines [95 % t interval over the hosts; "
        "of a single host over its rounds]; verdicts as in a report. slower, faster, same, undecided: number of hosts "
        "by the verdict of their own report."
    ),
}


@dataclass(frozen=True)
class Document:
    """A comparison as text: a title, lines about what was compared, tables, and how to read them."""

    title: str
    head: tuple[str, ...]
    sections: tuple[Section, ...]
    legend: str
    left_out: tuple[str, ...] = ()


def markdown(documents: Sequence[Document]) -> str:
    """Return the documents as Markdown, one after the other."""
    lines: list[str] = []
    for document in documents:
        lines += [f"# {document.title}", "", "```", *document.head, "```", "", document.legend, ""]
        for section in document.sections:
            lines += markdown_lines(section)
        if document.left_out:
            lines += ["## left out", "", *(f"- {line}" for line in document.left_out), ""]
    return printable("\n".join(lines))


def terminal(documents: Sequence[Document]) -> RenderableType:
    """Return the documents for a terminal, one after the other."""
    parts: list[RenderableType] = []
    for document in documents:
        parts += [Text(), Text(document.title, style="bold"), *(Text(line, style="dim") for line in document.head)]
        parts += [part for section in document.sections for part in rich_parts(section)]
        if document.left_out:
            parts += [Text(), Text("left out", style="bold"), *(Text(f"  {line}") for line in document.left_out)]
        parts += [Text(), Text(document.legend, style="dim")]
    return Group(*parts[1:])


def changes_document(found: Changes) -> Document:
    """Return what changed between two experiments."""
    before, after = found.before, found.after
    rows = [row for table in found.tables for row in table.rows]
    head = [
        f"before   {_side_line(before)}",
        f"after    {_side_line(after)}",
        f"kind     {before.extract.cohort}",
        f"image    of the baseline {found.baseline_image}"
        f"{', and it is in every ratio' if found.baseline_image != UNCHANGED else ''}",
        f"changed  {len(found.differing)} of {len(rows)} ratios; {RATIOS_ONLY}",
        *_noise_line(found),
    ]
    sections = [_changed_section(found)] if found.differing else []
    sections += [_change_section(table, before.extract.cohort.baseline) for table in found.tables]
    title = f"{before.name} to {after.name}"
    return Document(title, tuple(head), tuple(sections), LEGENDS["changes"], found.left_out)


def _side_line(side: Side) -> str:
    one = side.extract
    return f"{one.name}, {one.started}, Interlock {one.tool_version}, host {one.host}"


def _noise_line(found: Changes) -> list[str]:
    same = found.same_images
    if not same:
        return []
    apart = sum(row.change.verdict.differs for row in same)
    return [
        f"noise    {apart} of {len(same)} ratios of images that did not change differ: noise, or an effect of the host"
    ]


def _changed_section(found: Changes) -> Section:
    rows = [(f"{table.workload} {table.benchmark.name}", *_change_cells(row)) for table, row in found.differing]
    return Section("what changed", ("benchmark", *CHANGE), tuple(rows))


def _change_section(table: ChangeTable, baseline: str) -> Section:
    title = f"{table.workload}: {table.benchmark.name}, ratio to {baseline}"
    return Section(title, CHANGE, tuple(map(_change_cells, table.rows)))


def _change_cells(row: Change) -> tuple[str, ...]:
    comparison = row.change
    return (
        row.label,
        ratio_text(row.before),
        ratio_text(row.after),
        ratio_text(comparison.ratio),
        comparison.words,
        row.image,
    )


def hosts_document(found: KindSummary) -> Document:
    """Return each ratio over the hosts of one kind."""
    number = len(found.hosts)
    shown = ", ".join(found.hosts[:8]) + (", ..." if number > 8 else "")
    head = [
        f"kind     {found.cohort}",
        f"hosts    {number}: {shown}",
        *([f"older    {found.older} earlier experiments of these hosts, not counted"] * bool(found.older)),
        f"ratios   {sum(len(table.rows) for table in found.tables)}; {RATIOS_ONLY}",
    ]
    means = Section(
        "summary over the workloads",
        ("variant", f"ratio to {found.cohort.baseline}"),
        tuple((label, ratio_text(mean)) for label, mean in found.means.items()),
    )
    sections = (means, *(_hosts_section(table, found) for table in found.tables))
    return Document(f"{number} host{'s' * (number > 1)} of one kind", tuple(head), sections, LEGENDS["hosts"])


def _hosts_section(table: HostTable, found: KindSummary) -> Section:
    twin = f"twins {ratio_text(table.twin)}" if table.twin else "no twin"
    columns = ("variant", f"ratio to {found.cohort.baseline}", "lowest", "highest", *Verdict)
    return Section(f"{table.workload}: {table.benchmark.name} ({twin})", columns, tuple(map(_host_cells, table.rows)))


def _host_cells(row: HostRow) -> tuple[str, ...]:
    ends = [f"{ratio:.3f}x {host}" for ratio, host in (row.lowest, row.highest)]
    counts = (row.slower, row.faster, row.same, row.undecided)
    return row.label, f"{ratio_text(row.over.ratio)} {row.over.words}", *ends, *map(str, counts)


Data = dict[str, Any]


def changes_data(found: Changes) -> Data:
    """Return what changed as plain data: ratios of time per unit of work; an infinite end of an interval is null."""
    cohort = found.before.extract.cohort
    return {
        "kind": cohort.kind._asdict(),
        "baseline": cohort.baseline,
        "optimised_by": cohort.optimised_by,
        "before": _side_data(found.before),
        "after": _side_data(found.after),
        "baseline_image": found.baseline_image,
        "left_out": list(found.left_out),
        "tables": [
            {
                "workload": table.workload,
                "benchmark": table.benchmark.name,
                "rows": [_change_data(row) for row in table.rows],
            }
            for table in found.tables
        ],
    }


def _side_data(side: Side) -> Data:
    one = side.extract
    return {"name": one.name, "host": one.host, "started": one.started, "tool_version": one.tool_version}


def _change_data(row: Change) -> Data:
    return {
        "variant": row.label,
        "before": _interval_data(row.before),
        "after": _interval_data(row.after),
        "change": _comparison_data(row.change),
        "image": row.image,
    }


def _comparison_data(one: Comparison) -> Data:
    return {**_interval_data(one.ratio), "p": one.p, "p_same": one.p_same, "margin": one.margin, "verdict": one.verdict}


def _interval_data(one: Interval) -> Data:
    ends = {"ratio": one.estimate, "low": one.low, "high": one.high}
    return {name: end if math.isfinite(end) else None for name, end in ends.items()}


# Starting another process takes as long as reading this many experiments.
MIN_PER_PROCESS = 16


def read_extract(folder: Path) -> Extract:
    """Return the extract of one experiment; its profiles are not read, because no comparison needs them."""
    described = store.read_experiment(folder)
    return extract(described, comparison.tables(described, store.read_cell_values(folder, described), {}))


def read_extracts(folders: Sequence[Path]) -> list[Extract]:
    """Return the extracts of all experiments, in their order; StoreError for the first that cannot be read."""
    workers = min(os.cpu_count() or 1, len(folders) // MIN_PER_PROCESS)
    if workers < 2:
        return [read_extract(folder) for folder in folders]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _prepare) as pool:
        return list(pool.map(read_extract, folders, chunksize=4))


def _prepare() -> None:
    """Prepare a process: its parent handles signals, and what it reads has no cycles to collect."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
