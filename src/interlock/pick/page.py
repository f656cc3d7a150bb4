"""A pick for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from interlock.model import Contender, Costs, Pick, Recommendation, Standing
from interlock.pick.advice import spoken

STYLES = {Standing.FASTER: "green", Standing.SLOWER: "dim", Standing.BASELINE: "bold", Standing.SAME: ""}
LEGEND = (
    "speed: the work done in the time in which {baseline} does 1, over the weighted benchmarks [95 % interval]; a "
    "report's ratio is its inverse. A tie: compared round by round, no difference between the two is shown."
)


def terminal(pick: Pick) -> RenderableType:
    """Where the figures are from, the ranking, who is excluded, and the answer at the end."""
    parts: list[RenderableType] = [_lines(_head(pick), "dim"), Text()]
    if pick.contenders:
        parts += [_ranking(pick), Text(LEGEND.format(baseline=pick.baseline), style="dim"), Text()]
    if pick.excluded:
        parts += [Text("excluded", style="bold"), *map(_excluded, _by_reason(pick)), Text()]
    return Group(*parts, _lines(_answer(pick)))


def closing(pick: Pick) -> list[str]:
    """Lines to copy, which a terminal must not fold: those of a Dockerfile, and the commands to go on with."""
    lines = []
    if one := pick.recommended:
        lines += ["", f"FROM {one.reference}", *(f"ENV {name}={value}" for name, value in one.environment.items())]
    before = [("first", f"{pick.measure}  # figures of this machine")] if _elsewhere(pick) else []
    after = [("then" if number else "next", command) for number, command in enumerate(pick.next)]
    commands = [f"{word:5}  {command}" for word, command in (*before, *after) if command != pick.measure or not before]
    return [*lines, *(["", *commands] if commands else [])]


def _elsewhere(pick: Pick) -> bool:
    """Whether the figures are another machine's, or may be."""
    return bool(pick.contenders and (pick.apart or pick.shipped))


def _lines(pairs: Iterator[tuple[str, str]], style: str = "") -> RenderableType:
    """Subjects and what is said of them, beside each other."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style=style)
    table.add_column(overflow="fold", style=style)
    for subject, said in pairs:
        table.add_row(Text(subject), Text(said))
    return table


def _head(pick: Pick) -> Iterator[tuple[str, str]]:
    origin = " (shipped with Interlock)" if pick.shipped else ""
    yield "figures", f"experiment {pick.experiment}{origin}, profile {pick.profile}, on {pick.machine}"
    differs = "; ".join(f"{one.what} {one.here} instead of {one.there}" for one in pick.apart)
    better = "; measuring here is better: the command stands below" if _elsewhere(pick) else ""
    yield "here", (differs or "nothing is known in which this machine differs from that one") + better
    shares = [f"{100 * one.share:.3g} % {one.workload}/{one.benchmark}" for one in pick.shares]
    yield "weights", ", ".join(shares)


def _ranking(pick: Pick) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for column in ("", "variant", "speed", "", "RSS MB", "start ms", "image MB", ""):
        right = column in {"", "speed", "RSS MB", "start ms", "image MB"} and len(table.columns) != 7
        table.add_column(column, justify="right" if right else "left", no_wrap=column == "variant")
    places = {one.label: place for place, one in enumerate(pick.contenders, 1)}
    for one in pick.contenders:
        table.add_row(*map(Text, _row(one, places)), style=STYLES[one.standing])
    return table


def _row(one: Contender, places: dict[str, int]) -> tuple[str, ...]:
    estimate, _, interval = spoken(one.speed).partition(" ")
    tie = f", a tie with {places[one.tied_with]}" if one.tied_with else ""
    baseline = one.standing is Standing.BASELINE
    return (
        f"{places[one.label]}.",
        one.label,
        f"{estimate}x",
        "" if baseline else interval,
        f"{one.max_rss_bytes / 1e6:.0f}",
        "-" if one.start_s is None else f"{one.start_s * 1e3:.1f}",
        f"{one.image_bytes / 1e6:.0f}",
        f"{one.standing.value}{tie}",
    )


def _by_reason(pick: Pick) -> list[tuple[str, list[str]]]:
    """Those that are excluded for the same reasons stand together."""
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
    yield "cost", f"{_costs(one.costs)}, beside {baseline}"
    for risk in one.risks:
        yield "risk", risk
    if one.options:
        yield "start", f"`python {' '.join(one.options)} ...`: the mode is an option of the interpreter, in no ENV line"
    if not one.pinned:
        yield (
            "digest",
            "no registry has the image yet: push it (`interlock push`), and the FROM line names its digest",
        )


def _costs(costs: Costs) -> str:
    parts = [f"{round(costs.max_rss_bytes / 1e6):+d} MB of memory per process"]
    if costs.start_s is not None and costs.start_ratio is not None:
        parts.append(f"{costs.start_s * 1e3:+.1f} ms per start ({spoken(costs.start_ratio)} times the time)")
    return ", ".join([*parts, f"{round(costs.image_bytes / 1e6):+d} MB of image"])
