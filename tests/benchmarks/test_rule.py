"""How often the rule of verdicts is wrong, in simulated tables: printed, never asserted. No engine; three minutes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from interlock.analysis.pick.ranking import announced, ranks
from interlock.analysis.statistics import BlockFigure, fit_levels
from interlock.analysis.verdicts import Comparison, Verdict, compare_rows
from interlock.results.answers import Rank
from interlock.results.experiments import RoundsEnd

TABLES, ROWS, NOISE = 200, 12, 0.03
BASE, TEN = "v0", "v1"
KINDS = {
    "normal": "3 % of noise in every row",
    "rows differ": "rows with noise of 1 to 9 %",
    "spikes": "7 % of the processes take 1.2 to 1.8 times as long",
    "two states": "30 % of the processes take 1.65 times as long",
}


def table(rng: np.random.Generator, kind: str, rounds: int) -> dict[str, list[float]]:
    """Equal rows, but for the second, which is 10 % slower; what disturbs a round disturbs all."""
    deviations = NOISE * (np.exp(0.6 * rng.standard_normal(ROWS)) if kind == "rows differ" else np.ones(ROWS))
    logs = rng.standard_normal((ROWS, rounds)) * deviations[:, None] + rng.normal(0, 2 * NOISE, rounds)
    if kind == "spikes":
        logs += (rng.random(logs.shape) < 0.07) * rng.uniform(0.2, 0.6, logs.shape)
    if kind == "two states":
        logs += (rng.random(logs.shape) < 0.3) * 0.5
    logs[1] += math.log(1.1)
    return {f"v{number}": np.exp(row).tolist() for number, row in enumerate(logs)}


def judged(figures: Mapping[str, Sequence[BlockFigure]], end: RoundsEnd) -> dict[str, Comparison]:
    pairs = [(label, BASE) for label in figures if label != BASE]
    found = compare_rows(figures, pairs, BASE, end=end)
    return {label: one for (label, _), one in found.items()}


@dataclass
class Told:
    """What the verdicts on tables have come to: of each ratio of equals, of each table, and of what is 10 % slower."""

    wrong: list[bool] = field(default_factory=list)
    any_wrong: list[bool] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)
    same: list[bool] = field(default_factory=list)
    found: list[bool] = field(default_factory=list)

    def add(self, figures: Mapping[str, Sequence[BlockFigure]], end: RoundsEnd) -> None:
        said = judged(figures, end)
        self.found.append(said.pop(TEN).verdict is Verdict.SLOWER)
        wrong = [one.verdict.differs for one in said.values()]
        self.wrong += wrong
        self.any_wrong.append(any(wrong))
        self.covered += [one.ratio.low <= 1 <= one.ratio.high for one in said.values()]
        self.same += [one.verdict is Verdict.SAME for one in said.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_coverage_and_power_in_simulated_tables(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{kind}: {KINDS[kind]}; {TABLES} tables of {ROWS} rows")
        print("| rounds | looked | equals called different | tables with any | covered | same | 10 % found |")
        for rounds, end in ((5, RoundsEnd.FIXED), *((rounds, RoundsEnd.REACHED) for rounds in (4, 7, 20))):
            rng = np.random.default_rng(5)
            told = Told()
            for _ in range(TABLES):
                told.add(table(rng, kind, rounds), end)
            shares = [np.mean(some) for some in (told.wrong, told.any_wrong, told.covered, told.same, told.found)]
            looked = "after 4, 5, 7, ..." if end is RoundsEnd.REACHED else "once"
            print(f"| {rounds} | {looked} |", " | ".join(f"{share:.1%}" for share in shares), "|")


@pytest.mark.parametrize("variants", [3, 8, 30])
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.1])
def test_what_the_best_of_several_is_worth_and_whether_the_true_best_is_called_worse(
    variants: int, spread: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """True ratios spread around 1, five rounds have 3 % of noise; the gain of the fastest is announced."""
    rng, lists = np.random.default_rng(5), 300
    raw, shrunk, covered, wrong, left = [], [], 0, 0, 0
    for _ in range(lists):
        true = {"base": 0.0, **{f"v{number}": rng.normal(0, spread) for number in range(variants)}}
        rounds = rng.normal(0, 2 * NOISE, 5)
        rows = {label: np.exp(log + rounds + rng.normal(0, NOISE, 5)).tolist() for label, log in true.items()}
        levels = fit_levels(rows)
        found = {label: one for label in true if label != "base" and (one := levels.ratio(label, "base"))}
        order = sorted(found, key=lambda label: found[label].estimate)
        gain = announced(found[order[0]], list(found.values()))
        raw.append(found[order[0]].log - true[order[0]])
        shrunk.append(gain.log - true[order[0]])
        covered += math.log(gain.low) <= true[order[0]] <= math.log(gain.high)
        ranked = ranks(order, levels.ratio)
        wrong += ranked[min(order, key=true.__getitem__)] is Rank.WORSE
        left += sum(one is not Rank.WORSE for one in ranked.values())
    with capsys.disabled():
        print(f"\n{variants} variants, true spread {spread:.0%}; {lists} lists")
        for name, errors in (("measured", raw), ("announced", shrunk)):
            error = np.sqrt(np.mean(np.square(errors)))
            print(f"{name}: bias {-np.mean(errors):+.2%}, root mean square error {error:.2%}")
        shares = (
            f"announced interval covers {covered / lists:.1%}; the true best is called worse in {wrong / lists:.1%}"
        )
        print(f"{shares}; {left / lists:.1f} of {variants} may be the best")
