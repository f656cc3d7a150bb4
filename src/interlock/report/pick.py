"""A pick as a table and sentences for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from interlock.analysis.not_measured import in_one_line
from interlock.analysis.pick.sentences import as_measured, provenance, ratio_text, recommendation
from interlock.results.answers import Contender, Costs, Pick, Recommendation, Standing

STYLES = {
    Standing.FASTER: "green",
    Standing.SLOWER: "dim",
    Standing.BASELINE: "bold",
    Standing.SAME: "",
    Standing.UNDECIDED: "yellow",
}
TRIAL, WHERE_CONTAINERS = "interlock trial", ", where Docker or Podman runs"
LEGEND = (
    "throughput: relative to {baseline}, over the weighted benchmarks [95 % interval]; a report's ratio is its "
    "inverse. The last column: compared with the best of the others (Hsu), and with {baseline}."
)


def first_lines(pick: Pick) -> list[str]:
    """Return the answer: what to run, where the figures are from with the next command, and what has no figures.

    The shipped figures lack what their machine lacked, which is nothing of this one.
    """
    second = f"{provenance(pick)}   {first_step(pick)}" if pick.next else provenance(pick)
    return [recommendation(pick), second, *filter(None, [in_one_line({} if pick.shipped else pick.unmeasured)])]


def first_step(pick: Pick) -> str:
    """Return how to go on: by trying the image, which builds it too, or by measuring; a trial needs containers."""
    trial = next((one for one in pick.next if one.startswith(TRIAL)), "")
    where = "" if pick.has_containers or not trial else WHERE_CONTAINERS
    return f"next{where}: {trial or pick.next[0]}"


def terminal(pick: Pick) -> RenderableType:
    """Return where the figures are from, the ranking, what is excluded, and the answer at the end."""
    parts: list[RenderableType] = [_lines(_head(pick), "dim"), Text()]
    if pick.contenders:
        parts += [_ranking(pick), Text(LEGEND.format(baseline=pick.baseline), style="dim"), Text()]
    if pick.excluded:
        parts += [Text("excluded", style="bold"), *map(_excluded, _by_reason(pick)), Text()]
    if pick.not_measured:
        missing = Padding(Text(", ".join(pick.not_measured)), (0, 0, 0, 2), expand=False)
        parts += [Text("not measured", style="bold"), missing, Text()]
    return Group(*parts, _lines(_answer(pick)))


def closing(pick: Pick) -> list[str]:
    """Return lines to copy, which a terminal must not fold: the Dockerfile's, and the next commands."""
    lines = []
    if one := pick.recommended:
        lines += ["", f"FROM {one.reference}", *(f"ENV {name}={value}" for name, value in one.environment.items())]
    before = [("first", f"{pick.measure}  # figures of this machine")] if _elsewhere(pick) else []
    after = [("then" if number else "next", command) for number, command in enumerate(pick.next)]
    commands = [f"{word:5}  {command}" for word, command in (*before, *after) if command != pick.measure or not before]
    if not pick.has_containers:
        commands = [f"{one}{_remark(one)}" for one in commands]
    return [*lines, *(["", *commands] if commands else [])]


def _remark(command: str) -> str:
    """Return what a reader without a container engine must know of a command."""
    if TRIAL in command:
        return f"  # {WHERE_CONTAINERS[2:]}"
    return "  # an interpreter to run your own tests with" if "interlock build" in command else ""


def _elsewhere(pick: Pick) -> bool:
    """Return whether the figures are, or may be, of another machine."""
    return bool(pick.contenders and (pick.apart or pick.shipped))


def _lines(pairs: Iterator[tuple[str, str]], style: str = "") -> RenderableType:
    """Return a table of two columns: subject and text."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style=style)
    table.add_column(overflow="fold", style=style)
    for subject, said in pairs:
        table.add_row(Text(subject), Text(said))
    return table


def _head(pick: Pick) -> Iterator[tuple[str, str]]:
    origin = " (shipped with Interlock)" if pick.shipped else ""
    yield "figures", f"experiment {pick.experiment}{origin}, on {pick.machine}"
    differs = "; ".join(f"{one.what} {one.here} instead of {one.there}" for one in pick.apart)
    better = "; to be sure, measure here: the first command below" if _elsewhere(pick) else ""
    yield "here", (differs or "no known difference from that machine") + better
    shares = [f"{100 * one.share:.3g} % {one.workload}/{one.benchmark}" for one in pick.shares]
    yield "weights", ", ".join(shares)


def _ranking(pick: Pick) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for column in ("", "variant", "throughput", "", "RSS MB", "start ms", "image MB", ""):
        right = column in {"", "throughput", "RSS MB", "start ms", "image MB"} and len(table.columns) != 7
        table.add_column(column, justify="right" if right else "left", no_wrap=column == "variant")
    ranks = {one.label: rank for rank, one in enumerate(pick.contenders, 1)}
    for one in pick.contenders:
        table.add_row(*map(Text, _row(one, ranks)), style=STYLES[one.standing])
    return table


def _row(one: Contender, ranks: dict[str, int]) -> tuple[str, ...]:
    estimate, _, interval = ratio_text(one.speed).partition(" ")
    baseline = one.standing is Standing.BASELINE
    return (
        f"{ranks[one.label]}.",
        one.label,
        f"{estimate}x",
        "" if baseline else interval,
        _megabytes(one.max_rss_bytes),
        "-" if one.start_s is None else f"{one.start_s * 1e3:.1f}",
        _megabytes(one.image_bytes),
        f"{one.rank.value}, {one.standing.value}{', built otherwise' if one.built_otherwise else ''}",
    )


def _megabytes(count: int | None) -> str:
    return "-" if count is None else f"{count / 1e6:.0f}"


def _by_reason(pick: Pick) -> list[tuple[str, list[str]]]:
    """Return the labels that are excluded for the same reasons, by these reasons."""
    found: dict[str, list[str]] = {}
    for one in pick.excluded:
        found.setdefault("; ".join(one.reasons), []).append(one.label)
    return list(found.items())


def _excluded(group: tuple[str, list[str]]) -> RenderableType:
    reason, labels = group
    return Padding(Text(f"{', '.join(labels)}: {reason}"), (0, 0, 0, 2), expand=False)


def _answer(pick: Pick) -> Iterator[tuple[str, str]]:
    yield "answer", pick.answer
    if pick.recommended:
        yield from _recommended(pick.recommended, pick.baseline)
    for note in pick.notes:
        yield "note", note


def _recommended(one: Recommendation, baseline: str) -> Iterator[tuple[str, str]]:
    if measured := as_measured(one):
        yield "gain", measured
    yield "cost", f"{_costs(one.costs)}, compared with {baseline}"
    for risk in one.risks:
        yield "risk", risk
    if one.options:
        yield (
            "start",
            f"`python {' '.join(one.options)} ...`: the mode is an option of the interpreter, not an ENV line",
        )
    if not one.pinned:
        yield (
            "digest",
            "no registry has the image yet: push it (`interlock push`) to get a FROM line with its digest",
        )


def _costs(costs: Costs) -> str:
    parts = ["memory not measured"]
    if costs.max_rss_bytes is not None:
        parts = [f"{round(costs.max_rss_bytes / 1e6):+d} MB of memory per process"]
    if costs.start_s is not None and costs.start_ratio is not None:
        parts.append(f"{costs.start_s * 1e3:+.1f} ms start-up (ratio {ratio_text(costs.start_ratio)})")
    else:
        parts.append("start-up not measured")
    if costs.image_bytes is not None:
        parts.append(f"{round(costs.image_bytes / 1e6):+d} MB of image")
    return ", ".join(parts)
