"""Reads experiments to compare them, and shows changes and hosts as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from interlock.analysis import comparison
from interlock.analysis.changes import UNCHANGED, Change, Changes, ChangeTable, Side
from interlock.analysis.cohorts import Extract, HostRow, HostTable, KindSummary, extract
from interlock.analysis.statistics import Interval
from interlock.analysis.verdicts import DIFFERENT, Verdict
from interlock.report.tables import Section, markdown_lines, markdown_text, ratio_text, rich_parts
from interlock.results import store
from interlock.results.json_documents import (
    ChangedBenchmark,
    ChangedRow,
    ChangeVerdict,
    Compared,
    ComparedExperiment,
    Ends,
)

CHANGE = ("variant", "before", "after", "change", "verdict", "image")
RATIOS_ONLY = "compared are ratios to each experiment's own baseline, never times"
LEGENDS = {
    "changes": (
        "before, after: time per unit of work divided by the baseline's in the same experiment [95 % interval]; "
        "change: after divided by before, above 1 is slower than before. 'slower' and 'faster': p of equals is below "
        f"{DIFFERENT:g}, adjusted for the ratios of the table (Benjamini and Hochberg); 'same': a change of 5 % or "
        "more is ruled out; else undecided. The intervals do not cover what differs from day to day: rows whose images "
        "and packages did not change show how much that is."
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
    return markdown_text(lines)


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


def changes_document(changes: Changes) -> Document:
    """Return what changed between two experiments."""
    before, after = changes.before, changes.after
    rows = [row for table in changes.tables for row in table.rows]
    head = [
        f"before   {_side_line(before)}",
        f"after    {_side_line(after)}",
        f"kind     {before.extract.cohort}",
        f"image    of the baseline {changes.baseline_image}"
        f"{', and it is in every ratio' if changes.baseline_image != UNCHANGED else ''}",
        *_package_lines(changes),
        f"changed  {len(changes.differing)} of {len(rows)} ratios; {RATIOS_ONLY}",
        *_noise_line(changes),
    ]
    sections = [_changed_section(changes)] if changes.differing else []
    sections += [_change_section(table, before.extract.cohort.baseline) for table in changes.tables]
    title = f"{before.name} to {after.name}"
    return Document(title, tuple(head), tuple(sections), LEGENDS["changes"], changes.left_out)


def _side_line(side: Side) -> str:
    experiment = side.extract
    return f"{experiment.name}, {experiment.started}, Interlock {experiment.tool_version}, host {experiment.host}"


def _package_lines(changes: Changes) -> list[str]:
    """Return a line for each change of packages, with the rows that have it."""
    labels: dict[str, dict[str, None]] = {}
    for table in changes.tables:
        baseline = (changes.before.extract.cohort.baseline, table.baseline_packages)
        for label, changed in (baseline, *((row.label, row.packages) for row in table.rows)):
            if changed:
                labels.setdefault(f"{table.workload}: {changed}", {})[label] = None
    return [f"packages of {changed}, in {', '.join(having)}" for changed, having in labels.items()]


def _noise_line(changes: Changes) -> list[str]:
    same = changes.of_the_same
    if not same:
        return []
    apart = sum(row.change.verdict.differs for row in same)
    what = "images and packages that did not change"
    return [f"noise    {apart} of {len(same)} ratios of {what} differ: noise, or an effect of the host"]


def _changed_section(changes: Changes) -> Section:
    rows = tuple(
        (f"{table.workload} {table.benchmark.name}", *_change_cells(table, row)) for table, row in changes.differing
    )
    return Section("what changed", ("benchmark", *CHANGE), rows)


def _change_section(table: ChangeTable, baseline: str) -> Section:
    title = f"{table.workload}: {table.benchmark.name}, ratio to {baseline}"
    return Section(title, CHANGE, tuple(_change_cells(table, row) for row in table.rows))


def _change_cells(table: ChangeTable, row: Change) -> tuple[str, ...]:
    comparison = row.change
    return (
        row.label,
        ratio_text(row.before),
        ratio_text(row.after),
        ratio_text(comparison.ratio),
        comparison.words,
        f"{row.image}; other packages" if table.has_other_packages(row) else row.image,
    )


def hosts_document(summary: KindSummary) -> Document:
    """Return each ratio over the hosts of one kind."""
    number = len(summary.hosts)
    shown = ", ".join(summary.hosts[:8]) + (", ..." if number > 8 else "")
    head = [
        f"kind     {summary.cohort}",
        f"hosts    {number}: {shown}",
        *([f"older    {summary.older} earlier experiments of these hosts, not counted"] * bool(summary.older)),
        f"ratios   {sum(len(table.rows) for table in summary.tables)}; {RATIOS_ONLY}",
    ]
    means = Section(
        "summary over the workloads",
        ("variant", f"ratio to {summary.cohort.baseline}"),
        tuple((label, ratio_text(mean)) for label, mean in summary.means.items()),
    )
    sections = (means, *(_hosts_section(table, summary) for table in summary.tables))
    return Document(f"{number} host{'s' * (number > 1)} of one kind", tuple(head), sections, LEGENDS["hosts"])


def _hosts_section(table: HostTable, summary: KindSummary) -> Section:
    twin = f"twins {ratio_text(table.twin)}" if table.twin else "no twin"
    columns = ("variant", f"ratio to {summary.cohort.baseline}", "lowest", "highest", *Verdict)
    return Section(f"{table.workload}: {table.benchmark.name} ({twin})", columns, tuple(map(_host_cells, table.rows)))


def _host_cells(row: HostRow) -> tuple[str, ...]:
    ends = [f"{ratio:.3f}x {host}" for ratio, host in (row.lowest, row.highest)]
    counts = (str(row.verdicts[verdict]) for verdict in Verdict)
    return row.label, f"{ratio_text(row.over.ratio)} {row.over.words}", *ends, *counts


def as_json(changes: Changes) -> str:
    """Return what changed as JSON: ratios of time per unit of work; an infinite end of an interval is null."""
    cohort = changes.before.extract.cohort
    tables = [
        ChangedBenchmark(
            workload=table.workload,
            benchmark=table.benchmark.name,
            baseline_packages=table.baseline_packages,
            rows=list(map(_row, table.rows)),
        )
        for table in changes.tables
    ]
    return Compared(
        kind=cohort.kind,
        baseline=cohort.baseline,
        optimised_by=cohort.optimised_by,
        before=ComparedExperiment.model_validate(changes.before.extract, from_attributes=True),
        after=ComparedExperiment.model_validate(changes.after.extract, from_attributes=True),
        baseline_image=changes.baseline_image,
        left_out=list(changes.left_out),
        tables=tables,
    ).model_dump_json(indent=1)


def _row(row: Change) -> ChangedRow:
    change = row.change
    verdict = ChangeVerdict(
        **_ends(change.ratio), p=change.p, p_same=change.p_same, margin=change.margin, verdict=change.verdict
    )
    before, after = Ends(**_ends(row.before)), Ends(**_ends(row.after))
    return ChangedRow(
        variant=row.label, before=before, after=after, change=verdict, image=row.image, packages=row.packages
    )


def _ends(interval: Interval) -> dict[str, float]:
    return {"ratio": interval.estimate, "low": interval.low, "high": interval.high}


def read_extract(folder: Path) -> Extract:
    """Return the extract of one experiment; its profiles are not read, because no comparison needs them."""
    described = store.read_experiment(folder)
    return extract(described, comparison.tables(described, store.read_cell_values(folder, described), {}))
