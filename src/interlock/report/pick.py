"""A pick as a table and sentences for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from interlock.analysis.not_measured import in_one_line
from interlock.analysis.pick.sentences import as_measured, candidate_lines, origin, ratio_text
from interlock.results.answers import Contender, Costs, Pick, Recommendation, Standing
from interlock.results.commands import runnable

STYLES = {
    Standing.FASTER: "green",
    Standing.SLOWER: "dim",
    Standing.BASELINE: "bold",
    Standing.SAME: "",
    Standing.UNDECIDED: "yellow",
}
LEGEND = (
    "throughput: relative to {baseline}, over the weighted benchmarks [95 % interval]; a report's ratio is its "
    "inverse. The last column: compared with the best of the others (Hsu), and with {baseline}."
)


# In fewer columns the figures of the ranking's table would be cut.
LEAST_OF_TABLE = 80


def first_lines(pick: Pick) -> list[str]:
    """Return the answer: a line for each candidate, whose figures these are, and the next command."""
    width = max([len("from"), *map(len, pick.named)])
    lines = [*candidate_lines(pick), f"{'from':{width}}  {origin(pick)}"]
    lines += [f"{'like':{width}}  {pick.like}"] if pick.like else []
    lines += [f"{'next':{width}}  {pick.next[0]}"] if pick.next else []
    # What shipped figures lack depends on their own machine, and says nothing about this one.
    return [*lines, *filter(None, [in_one_line({} if pick.shipped else pick.unmeasured)])]


def terminal(pick: Pick, width: int) -> RenderableType:
    """Return where the figures are from, the ranking, what is excluded, and the answer at the end.

    Where the ranking's table has no room, each row is a sentence.
    """
    parts: list[RenderableType] = [_lines(_head(pick), "dim"), Text()]
    if pick.contenders:
        ranking = _lines(_sentences(pick)) if width < LEAST_OF_TABLE else _ranking(pick)
        parts += [ranking, Text(LEGEND.format(baseline=pick.baseline), style="dim"), Text()]
    if pick.excluded:
        lines = (f"{', '.join(labels)}: {reason}" for reason, labels in _by_reason(pick).items())
        parts += [Text("excluded", style="bold"), *map(_indented, lines), Text()]
    if pick.not_measured:
        parts += [Text("not measured", style="bold"), _indented(", ".join(pick.not_measured)), Text()]
    return Group(*parts, _lines(_answer(pick)))


def closing(pick: Pick) -> list[str]:
    """Return lines to copy, which a terminal must not fold: the Dockerfile's, and the next commands."""
    lines = []
    if chosen := pick.recommended:
        lines += [
            "",
            f"FROM {chosen.reference}",
            *(f"ENV {name}={value}" for name, value in chosen.environment.items()),
        ]
    commands = [f"{'then' if number else 'next'}  {command}" for number, command in enumerate(pick.next)]
    return [*lines, *(["", *commands] if commands else [])]


def _lines(pairs: Iterator[tuple[str, str]], style: str = "") -> RenderableType:
    """Return a table of two columns: subject and text."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style=style)
    table.add_column(overflow="fold", style=style)
    for subject, said in pairs:
        table.add_row(Text(subject), Text(runnable(said)))
    return table


def _head(pick: Pick) -> Iterator[tuple[str, str]]:
    yield "figures", f"experiment {pick.experiment}, on {pick.machine}"
    differs = "; ".join(
        f"{difference.what} {difference.here} instead of {difference.there}" for difference in pick.apart
    )
    better = f"; to be sure, measure here: `{pick.measure}`" if pick.contenders and (pick.apart or pick.shipped) else ""
    yield "here", (differs or "no known difference from that machine") + better
    shares = [f"{100 * share.share:.3g} % {share.workload}/{share.benchmark}" for share in pick.shares]
    yield "weights", ", ".join(shares)


def _ranking(pick: Pick) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("", justify="right")
    table.add_column("variant", no_wrap=True)
    for column in ("throughput", "", "RSS\nMB", "start\nms", "image\nMB"):
        table.add_column(column, justify="right", no_wrap=not column)  # an interval stays whole
    table.add_column("")
    for place, contender in enumerate(pick.contenders, 1):
        table.add_row(*map(Text, _row(place, contender)), style=STYLES[contender.standing])
    return table


def _sentences(pick: Pick) -> Iterator[tuple[str, str]]:
    for place, contender in enumerate(pick.contenders, 1):
        number, label, estimate, interval, rss, start, image, standing = _row(place, contender)
        speed = f"{estimate} {interval}".rstrip()
        yield number, f"{label}: {speed}, {standing}; RSS {rss} MB, start {start} ms, image {image} MB"


def _row(place: int, contender: Contender) -> tuple[str, ...]:
    estimate, _, interval = ratio_text(contender.speed).partition(" ")
    baseline = contender.standing is Standing.BASELINE
    return (
        f"{place}.",
        contender.label,
        f"{estimate}x",
        "" if baseline else interval,
        _megabytes(contender.max_rss_bytes),
        "-" if contender.start_s is None else f"{contender.start_s * 1e3:.1f}",
        _megabytes(contender.image_bytes),
        f"{contender.rank.value}, {contender.standing.value}{', built otherwise' if contender.built_otherwise else ''}",
    )


def _megabytes(count: int | None) -> str:
    return "-" if count is None else f"{count / 1e6:.0f}"


def _by_reason(pick: Pick) -> dict[str, list[str]]:
    """Return the labels that are excluded for the same reasons, by these reasons."""
    labels: dict[str, list[str]] = {}
    for exclusion in pick.excluded:
        labels.setdefault("; ".join(exclusion.reasons), []).append(exclusion.label)
    return labels


def _indented(line: str) -> RenderableType:
    return Padding(Text(line), (0, 0, 0, 2), expand=False)


def _answer(pick: Pick) -> Iterator[tuple[str, str]]:
    if pick.recommended:
        yield from _recommended(pick.recommended, pick.baseline)
    for note in pick.notes:
        yield "note", note


def _recommended(chosen: Recommendation, baseline: str) -> Iterator[tuple[str, str]]:
    if measured := as_measured(chosen):
        yield "gain", measured
    yield "cost", f"{_costs(chosen.costs)}, compared with {baseline}"
    for risk in chosen.risks:
        yield "risk", risk
    if chosen.options:
        yield (
            "start",
            f"`python {' '.join(chosen.options)} ...`: the mode is an option of the interpreter, not an ENV line",
        )
    if not chosen.pinned:
        yield (
            "digest",
            "no registry has the image yet: push it (`interlock push`) to get a FROM line with its digest",
        )


def _costs(costs: Costs) -> str:
    parts = ["memory not measured"]
    if costs.max_rss_bytes is not None:
        parts = [f"{round(costs.max_rss_bytes / 1e6):+d} MB of memory per process"]
    if costs.start_s is not None and costs.start_ratio is not None:
        parts.append(f"{costs.start_s * 1e3:+z.1f} ms start-up (ratio {ratio_text(costs.start_ratio)})")
    else:
        parts.append("start-up not measured")
    if costs.image_bytes is not None:
        parts.append(f"{round(costs.image_bytes / 1e6):+d} MB of image")
    return ", ".join(parts)
