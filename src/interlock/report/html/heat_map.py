"""The page's heat map: a field for each variant and benchmark, with its ratio or its state. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from interlock.analysis.comparison import Row, Table
from interlock.analysis.verdicts import Verdict
from interlock.results.experiments import State

# Short signs for a benchmark without a figure, because there is no room for the word.
CODES = {
    State.UNAVAILABLE: "-",
    State.UNSUPPORTED: "x",
    State.TIMED_OUT: "t/o",
    State.NOT_MEASURED: "...",
    State.FAILED: "err",
    State.OK: "?",
}
SHADES = {
    "faster-3": "faster, under 0.5x",
    "faster-2": "faster, 0.5x to 0.8x",
    "faster-1": "faster, 0.8x or more",
    "same": "same within the margin",
    "undecided": "undecided",
    "slower-1": "slower, up to 1.25x",
    "slower-2": "slower, 1.25x to 2x",
    "slower-3": "slower, 2x to 5x",
    "slower-4": "slower, over 5x",
    "baseline": "baseline",
    "none": "no figure",
}
STEPS = (1.25, 2, 5)


@dataclass(frozen=True)
class Field:
    """A field of the heat map: its text, its shade, and the state that a text without a ratio stands for."""

    text: str
    shade: str
    state: str = ""


@dataclass(frozen=True)
class HeatMap:
    """Variants and benchmarks: the benchmarks by workload, a list of fields for each variant, and the legend."""

    workloads: dict[str, list[str]]
    rows: dict[str, list[Field]]

    @property
    def legend(self) -> dict[str, str]:
        """Return the shades that occur, with their words."""
        present = {field.shade for fields in self.rows.values() for field in fields}
        return {shade: words for shade, words in SHADES.items() if shade in present - {"baseline", "none"}}

    @property
    def states(self) -> dict[str, str]:
        """Return the states by the text that stands for them."""
        return {field.text: field.state for fields in self.rows.values() for field in fields if field.state}


def heat_map(tables: Sequence[Table]) -> HeatMap:
    """Return the heat map of variants and benchmarks."""
    workloads: defaultdict[str, list[str]] = defaultdict(list)
    rows: defaultdict[str, dict[int, Field]] = defaultdict(dict)
    for number, table in enumerate(tables):
        workloads[table.workload.name].append(table.benchmark.name)
        for row in table.rows:
            rows[row.label][number] = field_of(row, is_baseline=row.label == table.baseline)
    no_field = Field("", "none")
    return HeatMap(
        workloads,
        {label: [fields.get(number, no_field) for number in range(len(tables))] for label, fields in rows.items()},
    )


def field_of(row: Row, *, is_baseline: bool) -> Field:
    """Return a row's field: its shade says the verdict and how far it is from the baseline."""
    if is_baseline and row.seconds is not None:
        return Field("1", "baseline")
    if row.to_baseline is None:
        state = row.outcome.state
        return Field(CODES[state], "none", "no ratio" if state is State.OK else state.value)
    estimate, verdict = row.to_baseline.ratio.estimate, row.to_baseline.verdict
    size = max(estimate, 1 / estimate)
    step = 1 + sum(size > limit for limit in (STEPS if verdict is Verdict.SLOWER else STEPS[:2]))
    digits = ".1g" if estimate < 0.095 else ".2f" if estimate < 10 else ".1f" if estimate < 100 else ".0f"
    return Field(f"{estimate:{digits}}", f"{verdict}-{step}" if verdict.differs else verdict)
