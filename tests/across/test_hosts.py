"""Hosts of one kind: what they say together, and that kinds are kept apart."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.across.extract import Extract
from interlock.across.hosts import summaries
from interlock.statistics import ratio_over
from tests.across.extracts import OTHER, THIRD, make_extract
from tests.builders import make_workload

RATIOS = [1.9, 2.0, 2.0, 2.05, 2.1]


def fleet(**changes: Any) -> list[Extract]:
    return [make_extract({OTHER: ratio}, number, host=f"h{number}", **changes) for number, ratio in enumerate(RATIOS)]


def test_a_ratio_over_hosts_has_the_hosts_as_rounds() -> None:
    (found,) = summaries(fleet())
    (row,) = found.tables[0].rows
    expected = ratio_over(RATIOS)
    assert row.over.ratio.rounds == 5
    assert row.over.ratio.estimate == pytest.approx(expected.estimate)
    assert (row.over.ratio.low, row.over.ratio.high) == pytest.approx((expected.low, expected.high), rel=1e-4)
    assert row.over.verdict == "slower"
    assert found.hosts == ("h0", "h1", "h2", "h3", "h4")


def test_the_lowest_and_the_highest_host_are_named_and_verdicts_counted() -> None:
    hosts = [make_extract({OTHER: ratio}, 0, host=f"h{ratio}") for ratio in (0.5, 1.0, 2.0, 2.5)]
    (row,) = summaries(hosts)[0].tables[0].rows
    assert (row.lowest[1], row.highest[1]) == ("h0.5", "h2.5")
    assert (row.lowest[0], row.highest[0]) == pytest.approx((0.5, 2.5))
    assert (row.slower, row.faster, row.same, row.hosts) == (2, 1, 1, 4)


def test_kinds_are_kept_apart_the_one_with_the_most_hosts_first() -> None:
    other = make_extract({OTHER: 9.0}, facts_of_host={"cpu": "Other CPU"})
    found = summaries([other, *fleet()])
    assert [(one.cohort.kind.cpu, len(one.hosts)) for one in found] == [("Example CPU 9000", 5), ("Other CPU", 1)]


def test_a_single_host_speaks_by_its_rounds() -> None:
    (found,) = summaries([make_extract({OTHER: 2.0})])
    (row,) = found.tables[0].rows
    assert row.over.ratio.rounds == 8
    assert row.over.ratio.low > 1.9
    assert found.means[OTHER].low > 1.9


def test_a_host_counts_once_with_its_last_experiment() -> None:
    (found,) = summaries([make_extract({OTHER: 5.0}, 0), make_extract({OTHER: 2.0}, 1)])
    assert found.older == 1
    assert found.tables[0].rows[0].over.ratio.estimate == pytest.approx(2.0)


def test_the_twins_of_all_hosts_make_the_band() -> None:
    hosts = [make_extract({OTHER: 1.04}, number, host=f"h{number}", twin=1.05 + 0.001 * number) for number in range(5)]
    (found,) = summaries(hosts)
    (row,) = found.tables[0].rows
    assert row.over.band == pytest.approx(1.052, abs=1e-3)
    assert row.over.verdict == "no difference"


def test_p_values_are_adjusted_for_the_variants_of_a_table() -> None:
    hosts = [
        make_extract({OTHER: ratio, THIRD: 1.01 if number % 2 else 0.99}, number, host=f"h{number}")
        for number, ratio in enumerate([1.0, 1.1, 1.2, 1.1])
    ]
    row = next(row for row in summaries(hosts)[0].tables[0].rows if row.label == OTHER)
    assert row.over.p == pytest.approx(2 * row.over.ratio.p)


def test_a_benchmark_that_did_something_else_on_an_older_host_is_not_mixed_in() -> None:
    old = make_extract({OTHER: 9.0}, 0, host="old", workloads={"locks": make_workload(program="old.py")})
    (found,) = summaries([old, *(make_extract({OTHER: 2.0}, 1 + one, host=f"h{one}") for one in range(3))])
    (row,) = found.tables[0].rows
    assert row.hosts == 3
    assert row.highest[0] == pytest.approx(2.0)


def test_the_mean_gives_each_workload_the_same_weight() -> None:
    (found,) = summaries(fleet())
    assert found.means[OTHER].estimate == pytest.approx(ratio_over(RATIOS).estimate)
