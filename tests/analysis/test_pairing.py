"""Slices beside those of their pass: chosen where a machine disturbs them alike, and never for threads that contend."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.analysis.pairing import compared_figures, in_places
from interlock.analysis.statistics import NO_PART, fit_levels
from interlock.results.experiments import BenchmarkValues, Estimator
from tests.builders import make_values, present

ROWS = {"base": 1.0, "twin": 1.0, "slower": 1.05, "twice": 2.0, "half": 0.5, "again": 1.0}
BLOCKS, PASSES = 6, 20


def table(noise: Callable[[random.Random], tuple[float, float]], estimator: Estimator) -> dict[str, BenchmarkValues]:
    """Rows that take turns, of which the baseline has two processes in a block.

    `noise` returns what a pass takes longer, as a share, and a standard deviation of the slices in it.
    """
    rng = random.Random(7)
    rows: dict[str, tuple[list[list[float]], list[int]]] = {label: ([], []) for label in ROWS}
    for block in range(1, BLOCKS + 1):
        passes = [noise(rng) for _ in range(PASSES)]
        for label in [*ROWS, "base"]:
            values = [ROWS[label] * (1 + slower) * math.exp(rng.gauss(0, spread)) for slower, spread in passes]
            rows[label][0].append(values)
            rows[label][1].append(block)
    return {
        label: BenchmarkValues(processes=processes, blocks=blocks, estimator=estimator, max_rss_bytes=1)
        for label, (processes, blocks) in rows.items()
    }


def busy(rng: random.Random) -> tuple[float, float]:
    """A neighbour that takes 5 to 60 % of what all slices of a pass have."""
    return rng.uniform(0.05, 0.6), 0.01


def one_sided(rng: random.Random) -> tuple[float, float]:
    """Nothing that is common to a pass."""
    return 0.0, 0.02


def test_beside_a_busy_neighbour_slices_are_compared_within_their_passes() -> None:
    rows = table(busy, Estimator.LOWER_DECILE)
    figures = compared_figures(rows)
    alone = fit_levels({label: one.block_figures for label, one in rows.items()})
    paired = fit_levels(figures)
    assert paired.variance.max() < alone.variance.min() / 4
    for label, truth in ROWS.items():
        if label != "base":
            ratio = present(paired.ratio(label, "base"))
            assert ratio.low < truth < ratio.high
            assert ratio.high / ratio.low < 1.02


def test_what_contends_stays_as_it_is() -> None:
    rows = table(busy, Estimator.MEAN)
    assert compared_figures(rows) == {label: one.block_figures for label, one in rows.items()}


def test_where_nothing_is_common_to_a_pass_the_lower_decile_stays() -> None:
    rows = table(one_sided, Estimator.LOWER_DECILE)
    assert compared_figures(rows) == {label: one.block_figures for label, one in rows.items()}


def test_one_block_shows_no_variance_and_changes_nothing() -> None:
    rows = table(busy, Estimator.LOWER_DECILE)
    first = {
        label: one.model_copy(update={"processes": one.processes[:1], "blocks": [1]}) for label, one in rows.items()
    }
    assert compared_figures(first) == {label: one.block_figures for label, one in first.items()}


def test_a_process_that_lacks_passes_and_rows_in_groups_have_a_figure_in_each_turn() -> None:
    rows = table(busy, Estimator.LOWER_DECILE)
    groups = {label: [block % 2 for block in one.blocks] for label, one in rows.items()}
    rows = {label: one.model_copy(update={"groups": groups[label]}) for label, one in rows.items()}
    rows["twin"].processes[2] = rows["twin"].processes[2][:5]
    figures = compared_figures(rows)
    assert figures["twin"] != rows["twin"].block_figures
    for label, one in rows.items():
        assert [set(block) for block in figures[label]] == [set(block) for block in one.block_figures]  # type: ignore[arg-type]
    assert present(fit_levels(figures).ratio("twice", "twin")).estimate == pytest.approx(2, rel=0.02)


VALUES = st.lists(st.lists(st.floats(1e-6, 10), min_size=1, max_size=4), min_size=1, max_size=4)


@given(st.dictionaries(st.sampled_from("abcde"), VALUES, max_size=5))
def test_any_values_have_as_many_figures_above_zero(processes: dict[str, list[list[float]]]) -> None:
    rows = {
        label: BenchmarkValues(
            processes=some,
            blocks=list(range(1, len(some) + 1)),
            estimator=Estimator.LOWER_DECILE,
            max_rss_bytes=1,
        )
        for label, some in processes.items()
    }
    figures = compared_figures(rows)
    assert {label: len(row) for label, row in figures.items()} == {
        label: len(one.block_figures) for label, one in rows.items()
    }
    assert all(0 < figure < math.inf for row in figures.values() for figure in row)  # type: ignore[operator]


def test_figures_stand_in_the_places_of_their_blocks_among_those_of_the_table() -> None:
    def row(*blocks: int) -> BenchmarkValues:
        return make_values(*([float(one)] for one in blocks)).model_copy(update={"blocks": list(blocks)})

    rows = {"base": row(1, 2, 4, 5), "late": row(4, 5), "cut": row(1, 4), "ended": row(1), "none": row()}
    assert in_places(
        {key: one.blocks for key, one in rows.items()}, {key: one.block_figures for key, one in rows.items()}
    ) == {
        "base": [1.0, 2.0, 4.0, 5.0],
        "late": [NO_PART, NO_PART, 4.0, 5.0],
        "cut": [1.0, NO_PART, 4.0],
        "ended": [1.0],
        "none": [],
    }


def test_slices_of_a_row_that_joined_later_are_compared_with_those_of_the_same_blocks() -> None:
    rows = table(busy, Estimator.LOWER_DECILE)
    late = rows["slower"]
    rows["slower"] = late.model_copy(update={"processes": late.processes[2:], "blocks": late.blocks[2:]})
    figures = compared_figures(rows)
    assert figures["slower"][:2] == [NO_PART, NO_PART]
    ratio = present(fit_levels(figures).ratio("slower", "base"))
    assert ratio.rounds == BLOCKS - 2
    assert ratio.low < ROWS["slower"] < ratio.high
