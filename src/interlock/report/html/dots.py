"""The chart of a benchmark: a dot with its interval for each row, over the band in which rows are the same. Pure.

Places are per cent of the chart's width, on a logarithmic axis, so that the page's styles can draw it in any width.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.analysis.comparison import Row, Table
from interlock.report.experiment import comparison_text
from interlock.report.tables import estimate_text, ratio_text, rounds_text, value_text
from interlock.results.answers import Pick

# Ticks of a logarithmic axis within a decade, from many to few, and how many fit on a phone without touching.
LADDERS = ((1, 1.1, 1.2, 1.3, 1.5, 1.7, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
MOST_TICKS = 6
# The space at both ends of the axis, as a ratio.
MARGIN = 1.05
# How many benchmarks of two variants fit on the first screen.
MOST_TABLES = 4


@dataclass(frozen=True)
class Dot:
    """A row's ratio with its interval, as places; what gives its colour and order; and its texts."""

    label: str
    name: str  # the label, with the benchmark if a chart has several
    verdict: str
    ratio: float
    figure: str  # the ratio as a text
    place: float
    low: float
    high: float
    says: str


@dataclass(frozen=True)
class Dots:
    """The chart of one benchmark; `band` has the ends of the range that counts as the same, around `centre`."""

    title: str
    says: str
    ticks: dict[str, float]
    band: tuple[float, float]
    centre: float
    rows: tuple[Dot, ...]


def dots_of(table: Table) -> Dots | None:
    """Return the chart of a benchmark's ratios to the baseline; None if there is none."""
    compared = [row for row in table.rows if row.to_baseline or (row.label == table.baseline and row.seconds)]
    if not any(row.to_baseline for row in compared):
        return None
    twin = f"; the twin, which is the same image, shows {ratio_text(table.twin)}" if table.twin else ""
    says = (
        f"Time per {table.workload.unit} as a multiple of {table.baseline}'s (x, logarithmic) with 95 % intervals "
        f"over {rounds_text(table.rounds)}; left of 1 is faster; {100 * table.workload.margin:g} % to either side "
        f"are shaded{twin}."
    )
    return _chart(f"{table.workload.name} {table.benchmark.name}", says, [(table, row, row.label) for row in compared])


def answer_dots(tables: Sequence[Table], pick: Pick) -> Dots | None:
    """Return the chart beside the answer: the named rows in what it weighs, the heaviest first; None without any."""
    by_key = {(table.workload.name, table.benchmark.name): table for table in tables}
    heaviest = sorted(pick.shares, key=lambda share: -share.share)
    weighed = [by_key[key] for share in heaviest if (key := (share.workload, share.benchmark)) in by_key]
    chosen = weighed[:MOST_TABLES]
    rows = [
        (table, row, f"{row.label} {table.benchmark.name}")
        for table in chosen
        for row in table.rows
        if row.to_baseline and row.label in pick.named
    ]
    if not rows:
        return None
    names = ", ".join(dict.fromkeys(table.workload.name for table, _, _ in rows))
    says = f"{names}: time as a multiple of {chosen[0].baseline}'s [95\u00a0% interval]; left of 1 is faster."
    return _chart("The answer's figures", says, rows)


def _chart(title: str, says: str, rows: Sequence[tuple[Table, Row, str]]) -> Dots:
    band = 1 + rows[0][0].workload.margin
    axis = Axis.over([end for _, row, _ in rows for end in _ends(row)] + [band, 1 / band])
    return Dots(
        title=title,
        says=says,
        ticks={f"{tick:g}x": axis.place(tick) for tick in log_ticks(axis.low, axis.high, MOST_TICKS)},
        band=(axis.place(1 / band), axis.place(band)),
        centre=axis.place(1),
        rows=tuple(_dot(table, row, name, axis) for table, row, name in rows),
    )


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis, by the ratios at its ends."""

    low: float
    high: float

    @classmethod
    def over(cls, figures: Iterable[float]) -> Axis:
        known = [figure for figure in figures if 0 < figure < math.inf]
        return cls(min(known) / MARGIN, max(known) * MARGIN)

    def place(self, ratio: float) -> float:
        """Return where a ratio is, in per cent of the width."""
        within = min(max(ratio, self.low), self.high)
        return round(100 * math.log(within / self.low) / math.log(self.high / self.low), 2)


def _ends(row: Row) -> tuple[float, float, float]:
    """Return a row's ratio and the ends of its interval; after one round both are the ratio."""
    if row.to_baseline is None:
        return 1.0, 1.0, 1.0
    ratio = row.to_baseline.ratio
    return (ratio.estimate, ratio.low, ratio.high) if math.isfinite(ratio.high) else (ratio.estimate,) * 3


def _dot(table: Table, row: Row, name: str, axis: Axis) -> Dot:
    ratio, low, high = _ends(row)
    said = [value_text(table, row), comparison_text(row.to_baseline) if row.to_baseline else "baseline"]
    said += [f"to its control {comparison_text(row.to_control, named=True)}"] if row.to_control else []
    verdict = row.to_baseline.verdict.value if row.to_baseline else "baseline"
    place, begin, end = map(axis.place, (ratio, low, high))
    return Dot(row.label, name, verdict, ratio, estimate_text(ratio), place, begin, end, "; ".join(said))


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers from `low` to `high`, at most `most` of them if that is possible."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for ladder in LADDERS:
        ticks = [float(f"{step * 10**decade:.6g}") for decade in decades for step in ladder]
        # Below 1 only numbers of one digit, because labels such as 0.91 and 0.95 would touch.
        ticks = [tick for tick in ticks if low <= tick <= high and (tick >= 1 or _has_one_digit(tick))]
        if len(ticks) <= most:
            return ticks
    return ticks


def _has_one_digit(tick: float) -> bool:
    return len(f"{tick:g}".lstrip("0.")) == 1
