"""How often the rule of verdicts is wrong, in simulated tables: printed, never asserted. No engine; two minutes."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from interlock.analysis.verdicts import Comparison, Verdict, compare_rows

TABLES, ROWS, NOISE = 200, 12, 0.03
BASE, TEN = "v0", "v1"
KINDS = {
    "normal": "3 % of noise in every row",
    "rows differ": "rows with noise of 1 to 9 %",
    "spikes": "7 % of the processes take 1.2 to 1.8 times as long",
    "two states": "30 % of the processes take 1.65 times as long",
}
DIFFERENT = {Verdict.SLOWER, Verdict.FASTER}


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


def judged(figures: dict[str, list[float]], *, adaptive: bool) -> dict[str, Comparison]:
    pairs = [(label, BASE) for label in figures if label != BASE]
    found = compare_rows(figures, pairs, BASE, adaptive=adaptive)
    return {label: one for (label, _), one in found.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_coverage_and_power_in_simulated_tables(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{kind}: {KINDS[kind]}; {TABLES} tables of {ROWS} rows")
        print("| rounds | looked | equals called different | tables with any | covered | same | 10 % found |")
        for rounds, adaptive in ((5, False), (7, True), (20, True)):
            rng = np.random.default_rng(5)
            counts: Counter[str] = Counter()
            for _ in range(TABLES):
                found = judged(table(rng, kind, rounds), adaptive=adaptive)
                counts["found"] += found.pop(TEN).verdict is Verdict.SLOWER
                wrong = sum(one.verdict in DIFFERENT for one in found.values())
                counts["wrong"] += wrong
                counts["any"] += wrong > 0
                counts["covered"] += sum(one.ratio.low <= 1 <= one.ratio.high for one in found.values())
                counts["same"] += sum(one.verdict is Verdict.SAME for one in found.values())
            ratios = TABLES * (ROWS - 2)
            shares = [counts["wrong"] / ratios, counts["any"] / TABLES, counts["covered"] / ratios]
            shares += [counts["same"] / ratios, counts["found"] / TABLES]
            looked = "after 3, 4, 5, ..." if adaptive else "once"
            print(f"| {rounds} | {looked} |", " | ".join(f"{share:.1%}" for share in shares), "|")
