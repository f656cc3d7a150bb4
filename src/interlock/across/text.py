"""Changes, histories and the hosts of a kind, for a terminal and as Markdown. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from interlock.across.changepoints import SHORTEST_INTERVAL
from interlock.across.changes import UNCHANGED, Change, Changes, ChangeTable, Side
from interlock.across.history import History, HistoryTable, Series
from interlock.across.hosts import HostRow, HostTable, KindSummary
from interlock.compare import SAME
from interlock.model import Benchmark
from interlock.sections import Section, figure, interval, markdown_lines, rich_parts

CHANGE = ("variant", "before", "after", "change", "verdict", "image")
BLOCKS = "▁▂▃▄▅▆▇█"
WIDEST = 40
# Noise must not look like mountains: a line of blocks spans at least this.
LEAST_SPAN = math.log(1.2)
RATIOS_ONLY = "what is compared is the ratio to each experiment's own baseline, never its times"
LEGENDS = {
    "changes": (
        "before, after: time per unit of work divided by the baseline's of the same experiment [95 % interval]; "
        "change: the one divided by the other, above 1 is slower than before. 'slower' and 'faster' need all of: p "
        "below 0.01 (Yuen's test, adjusted by Holm's method for the ratios of its table), an interval without 1, and a "
        "change outside the band: the most that the twins, which are equal images, showed in either experiment or as a "
        "change. Another day is not in an interval: rows whose images did not change show how much it does."
    ),
    "history": (
        "each block is the ratio to the baseline of one experiment (or the mean of some, if they are many), from the "
        "row's lowest to its highest, which are at least a fifth apart. A change is where the level changed: p, "
        "adjusted for all splits of all rows of the table, is below 0.05, whichever one experiment is left out. 'no "
        "change' means that none was shown: with few experiments only a large one can be."
    ),
    "hosts": (
        "ratio: geometric mean over the hosts of their ratios to their own baselines [95 % interval, by bootstrap over "
        "the hosts; of a single host over its rounds], up to a sixth trimmed from each end; 'slower' and 'faster' as "
        "in a report, with the twins of all hosts. slower, faster, no difference: hosts by what their own reports say."
    ),
}


@dataclass(frozen=True)
class Document:
    """A title, lines about what was compared, tables, and how to read them."""

    title: str
    head: tuple[str, ...]
    sections: tuple[Section, ...]
    legend: str
    left_out: tuple[str, ...] = ()


def markdown(documents: Sequence[Document]) -> str:
    lines: list[str] = []
    for document in documents:
        lines += [f"# {document.title}", "", "```", *document.head, "```", "", document.legend, ""]
        for section in document.sections:
            lines += markdown_lines(section)
        if document.left_out:
            lines += ["## left out", "", *(f"- {line}" for line in document.left_out), ""]
    return "\n".join(lines)


def terminal(documents: Sequence[Document]) -> RenderableType:
    parts: list[RenderableType] = []
    for document in documents:
        parts += [Text(), Text(document.title, style="bold"), *(Text(line, style="dim") for line in document.head)]
        parts += [part for section in document.sections for part in rich_parts(section)]
        if document.left_out:
            parts += [Text(), Text("left out", style="bold"), *(Text(f"  {line}") for line in document.left_out)]
        parts += [Text(), Text(document.legend, style="dim")]
    return Group(*parts[1:])


def of_changes(found: Changes, *, times: bool) -> Document:
    """What changed between two sides; with `times` their raw times, labelled as what they are."""
    before, after = found.before, found.after
    rows = [row for table in found.tables for row in table.rows]
    head = [
        f"before   {_side(before)}",
        f"after    {_side(after)}",
        f"kind     {before.cohort}",
        f"image    of the baseline {found.baseline_image}"
        f"{', and it is in every ratio' if found.baseline_image != UNCHANGED else ''}",
        f"changed  {len(found.differing)} of {len(rows)} ratios; {RATIOS_ONLY}",
        *_noise(found),
        *(["times    of another day and another state of the machine: shown as asked, not to be compared"] * times),
    ]
    sections = [_changed(found)] if found.differing else []
    sections += [_changes(table, found, times=times) for table in found.tables]
    title = f"{before.name} to {after.name}"
    return Document(title, tuple(head), tuple(sections), LEGENDS["changes"], found.left_out)


def _side(side: Side) -> str:
    first, last = side.extracts[0], side.extracts[-1]
    versions = ", ".join(sorted({one.tool_version for one in side.extracts}))
    if side.by_round:
        return f"{first.name}, {first.started}, Interlock {versions}, host {first.host}"
    number = len(side.extracts)
    span = f"{first.started} to {last.started}" if number > 1 else first.started
    return f"{side.name}, {number} host{'s' * (number > 1)}, {span}, Interlock {versions}"


def _noise(found: Changes) -> list[str]:
    same = found.same_images
    if not same:
        return []
    apart = sum(row.change.verdict != SAME for row in same)
    return [f"noise    {apart} of {len(same)} ratios of images that did not change differ: noise, or the host's doing"]


def _changed(found: Changes) -> Section:
    rows = [(f"{table.workload} {table.benchmark.name}", *_change(row)) for table, row in found.differing]
    return Section("what changed", ("benchmark", *CHANGE), tuple(rows))


def _changes(table: ChangeTable, found: Changes, *, times: bool) -> Section:
    title = f"{table.workload}: {table.benchmark.name}, ratio to {found.before.cohort.baseline}, band {table.band:.3f}"
    columns = [*CHANGE]
    if times and found.before.by_round:
        unit = table.benchmark.metric.label
        columns += [f"{unit} before (not comparable)", f"{unit} after (not comparable)"]
        rows = [(*_change(row), *_times(table.benchmark, row)) for row in table.rows]
    else:
        rows = [_change(row) for row in table.rows]
    return Section(title, tuple(columns), tuple(rows))


def _change(row: Change) -> tuple[str, ...]:
    comparison = row.change
    return (
        row.label,
        interval(row.before),
        interval(row.after),
        interval(comparison.ratio),
        comparison.verdict,
        row.image,
    )


def _times(benchmark: Benchmark, row: Change) -> tuple[str, ...]:
    return tuple(figure(benchmark.metric.shown(seconds)) for seconds in row.seconds or ())


def of_history(found: History) -> Document:
    """One kind's experiments, and each ratio over them."""
    experiments = found.experiments
    hosts = sorted({one.host for one in experiments})
    changes = sum(len(series.changes) for table in found.tables for series in table.series)
    head = [
        f"kind     {found.cohort}",
        f"from     {experiments[0].name}, {experiments[0].started}",
        f"to       {experiments[-1].name}, {experiments[-1].started}",
        f"hosts    {', '.join(hosts[:8])}{', ...' * (len(hosts) > 8)}; {RATIOS_ONLY}",
        f"changes  {changes} in {sum(len(table.series) for table in found.tables)} series",
    ]
    sections = [_all_changes(found)] if changes else []
    sections += [_history(table, found) for table in found.tables]
    title = f"History of {len(experiments)} experiment{'s' * (len(experiments) > 1)}"
    return Document(title, tuple(head), tuple(sections), LEGENDS["history"])


def _all_changes(found: History) -> Section:
    rows = [
        (series.label, f"{table.workload} {table.benchmark.name}", *change)
        for table in found.tables
        for series in table.series
        for change in _change_points(series)
    ]
    columns = ("variant", "benchmark", "since", "before", "after", "change", "p", "what else changed there")
    return Section("changes", columns, tuple(rows))


def _change_points(series: Series) -> list[tuple[str, ...]]:
    return [
        (
            series.experiments[change.at].name,
            f"{change.before:.3f}x",
            f"{change.after:.3f}x",
            f"{change.ratio:.3f}x",
            f"{change.p:.2g}",
            "; ".join(change.what) or "nothing that is recorded",
        )
        for change in series.changes
    ]


def _history(table: HistoryTable, found: History) -> Section:
    title = f"{table.workload}: {table.benchmark.name}, ratio to {found.cohort.baseline}"
    rows = [
        (
            series.label,
            blocks([math.log(point.ratio.estimate) for point in series.points]),
            str(len(series.points)),
            _range([point.ratio.estimate for point in series.points]),
            interval(series.points[0].ratio),
            interval(series.points[-1].ratio),
            ", ".join(f"{change.ratio:.3f}x since {series.experiments[change.at].name}" for change in series.changes)
            or ("no change" if len(series.points) >= SHORTEST_INTERVAL else "too few to tell"),
        )
        for series in table.series
    ]
    columns = ("variant", "over time", "experiments", "lowest to highest", "first", "last", "changes")
    return Section(title, columns, tuple(rows))


def _range(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.3f}x to {max(ratios):.3f}x"


def blocks(series: Sequence[float]) -> str:
    """A line of blocks, at most `WIDEST`: each is a number of the series, or the mean of a few."""
    size = min(len(series), WIDEST)
    parts = [series[len(series) * at // size : len(series) * (at + 1) // size] for at in range(size)]
    means = [math.fsum(part) / len(part) for part in parts]
    span = max(max(means) - min(means), LEAST_SPAN)
    middle = (max(means) + min(means)) / 2
    return "".join(BLOCKS[min(7, int(8 * ((mean - middle) / span + 0.5)))] for mean in means)


def of_hosts(found: KindSummary) -> Document:
    """One kind's hosts."""
    number = len(found.hosts)
    shown = ", ".join(found.hosts[:8]) + (", ..." if number > 8 else "")
    head = [
        f"kind     {found.cohort}",
        f"hosts    {number}: {shown}",
        *([f"older    {found.older} experiments of these hosts, not counted"] * bool(found.older)),
        f"ratios   {sum(len(table.rows) for table in found.tables)}; {RATIOS_ONLY}",
    ]
    means = Section(
        "summary over the workloads",
        ("variant", f"ratio to {found.cohort.baseline}"),
        tuple((label, interval(mean)) for label, mean in found.means.items()),
    )
    sections = (means, *(_hosts(table, found) for table in found.tables))
    return Document(f"{number} host{'s' * (number > 1)} of one kind", tuple(head), sections, LEGENDS["hosts"])


def _hosts(table: HostTable, found: KindSummary) -> Section:
    twin = f"twins {interval(table.twin)}" if table.twin else "no twin"
    columns = ("variant", f"ratio to {found.cohort.baseline}", "lowest", "highest", "slower", "faster", SAME)
    return Section(f"{table.workload}: {table.benchmark.name} ({twin})", columns, tuple(map(_host_row, table.rows)))


def _host_row(row: HostRow) -> tuple[str, ...]:
    ends = [f"{ratio:.3f}x {host}" for ratio, host in (row.lowest, row.highest)]
    counts = (row.slower, row.faster, row.same)
    return row.label, f"{interval(row.over.ratio)} {row.over.verdict}", *ends, *map(str, counts)
