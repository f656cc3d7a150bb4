"""What makes experiments comparable, and what the hosts of one kind say together."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from interlock.analysis.cohorts import Cohort, Extract, by_cohort, check_comparable, kind_summaries
from interlock.analysis.statistics import ratio_over
from interlock.errors import KindError
from interlock.results.experiments import TOO_DISTURBED
from tests.analysis.extracts import OTHER, THIRD, make_extract, rounds_of
from tests.builders import make_benchmark, make_built, make_experiment, make_workload, present


def cohort_of(**changes: Any) -> Cohort:
    return make_extract({OTHER: 2.0}, **changes).cohort


def test_ratios_verdicts_and_times_are_kept_by_label() -> None:
    found = make_extract({OTHER: 2.0}, twin=1.01).measured["locks", "uncontended"]
    assert found.points.keys() == {OTHER}
    assert found.points[OTHER].ratio.estimate == pytest.approx(2)
    assert found.points[OTHER].verdict == "slower"
    assert found.points[OTHER].ratio.rounds == len(rounds_of(1))
    assert present(found.twin).estimate == pytest.approx(1.01)


def test_the_image_of_a_mode_is_its_variants() -> None:
    one = make_extract({OTHER: 2.0}, content_hashes={OTHER: "abc"})
    assert (one.image(OTHER), one.image(f"{OTHER}+gil-on"), one.image("unheard-of")) == ("abc", "abc", "")


def test_experiments_on_like_hosts_are_of_one_line_in_the_order_of_their_start() -> None:
    late, early = make_extract({OTHER: 2.0}, 5, host="one"), make_extract({OTHER: 2.0}, 2, host="two")
    assert list(by_cohort([late, early]).values()) == [[early, late]]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"cpu": "Example CPU 1"}, "cpu Example CPU 9000 and Example CPU 1"),
        ({"cores": 96}, "cores 2 and 96"),
        ({"kernel": "6.1.0"}, "kernel 6.18.0 and 6.1.0"),
        (
            {"engine": {"name": "docker", "version": "28.0", "storage_driver": "btrfs"}},
            "storage driver overlay2 and btrfs",
        ),
        (
            {"engine": {"name": "podman", "version": "5.4", "storage_driver": "overlay2"}},
            "engine docker 28.0 and podman 5.4",
        ),
    ],
)
def test_another_kind_of_host_is_refused_with_the_facts_that_differ(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(KindError) as caught:
        check_comparable("A and B", cohort_of(), cohort_of(facts_of_host=changed))
    assert caught.value.found == f"cannot be compared: {named}"
    assert caught.value.exit_code == 2


def test_another_build_of_the_baseline_is_refused_too() -> None:
    plain, trained = ([make_built("cpython-3.13", optimisations=names)] for names in ([], ["PGO", "LTO"]))
    with pytest.raises(KindError, match=r"neither PGO nor LTO.* and .*PGO and LTO"):
        check_comparable("A and B", cohort_of(images=plain), cohort_of(images=trained))


def test_hosts_may_differ_in_their_name_and_memory() -> None:
    check_comparable("A and B", cohort_of(), cohort_of(host="other", facts_of_host={"memory_bytes": 1}))


@pytest.mark.parametrize(
    "changed",
    [
        make_workload(program="other.py"),
        make_workload(unit="item"),
        make_workload(benchmarks=[make_benchmark(arguments=["--threads", "4"])]),
        make_workload(benchmarks=[make_benchmark(cpus="one")]),
    ],
)
def test_a_benchmark_that_does_something_else_is_told_from_one_of_its_name(changed: Any) -> None:
    place = ("locks", "uncontended")
    same, other = (make_extract({OTHER: 2.0}, workloads={"locks": one}) for one in (make_workload(), changed))
    assert same.measured[place].command == make_extract({OTHER: 3.0}).measured[place].command
    assert same.measured[place].command != other.measured[place].command


def test_more_values_or_another_unit_on_paper_is_no_other_benchmark() -> None:
    shown = make_benchmark(
        metric=make_experiment().workloads["locks"].benchmarks[0].metric.model_copy(update={"scale": 1e6})
    )
    one = make_extract({OTHER: 2.0}, workloads={"locks": make_workload(benchmarks=[shown], deadline_s=99)})
    place = ("locks", "uncontended")
    assert one.measured[place].command == make_extract({OTHER: 2.0}).measured[place].command


RATIOS = [1.9, 2.0, 2.0, 2.05, 2.1]


def fleet(**changes: Any) -> list[Extract]:
    return [make_extract({OTHER: ratio}, number, host=f"h{number}", **changes) for number, ratio in enumerate(RATIOS)]


def test_a_ratio_over_hosts_has_the_hosts_as_rounds() -> None:
    (found,) = kind_summaries(fleet())
    (row,) = found.tables[0].rows
    expected = ratio_over(RATIOS)
    assert row.over.ratio.rounds == 5
    assert row.over.ratio.estimate == pytest.approx(expected.estimate)
    assert (row.over.ratio.low, row.over.ratio.high) == pytest.approx((expected.low, expected.high), rel=1e-4)
    assert row.over.verdict == "slower"
    assert found.means[OTHER].estimate == pytest.approx(expected.estimate)
    assert found.hosts == ("h0", "h1", "h2", "h3", "h4")


def test_the_lowest_and_the_highest_host_are_named_and_verdicts_counted() -> None:
    hosts = [make_extract({OTHER: ratio}, 0, host=f"h{ratio}") for ratio in (0.5, 1.0, 2.0, 2.5)]
    (row,) = kind_summaries(hosts)[0].tables[0].rows
    assert (row.lowest[1], row.highest[1]) == ("h0.5", "h2.5")
    assert (row.lowest[0], row.highest[0]) == pytest.approx((0.5, 2.5))
    assert row.verdicts == {"slower": 2, "faster": 1, "same": 1}


def test_kinds_are_kept_apart_the_one_with_the_most_hosts_first() -> None:
    other = make_extract({OTHER: 9.0}, facts_of_host={"cpu": "Other CPU"})
    found = kind_summaries([other, *fleet()])
    assert [(one.cohort.kind.cpu, len(one.hosts)) for one in found] == [("Example CPU 9000", 5), ("Other CPU", 1)]


def test_a_single_host_speaks_by_its_rounds() -> None:
    (found,) = kind_summaries([make_extract({OTHER: 2.0})])
    (row,) = found.tables[0].rows
    assert row.over.ratio.rounds == 8
    assert row.over.ratio.low > 1.9
    assert found.means[OTHER].low > 1.9


def test_a_single_host_says_no_more_together_than_alone() -> None:
    """What its own report called undecided was slower in the report of all hosts."""
    (found,) = kind_summaries([make_extract({OTHER: 2.0}, warnings=[f"locks: {TOO_DISTURBED}"])])
    (row,) = found.tables[0].rows
    assert (row.verdicts, row.over.verdict) == ({"undecided": 1}, "undecided")


def test_a_host_that_was_too_disturbed_to_decide_by_is_in_no_figure_over_the_others() -> None:
    disturbed = make_extract({OTHER: 9.0}, 9, host="noisy", warnings=[f"locks: {TOO_DISTURBED}"])
    calm, (found,) = kind_summaries(fleet())[0], kind_summaries([*fleet(), disturbed])
    (row,), (expected,) = found.tables[0].rows, calm.tables[0].rows
    assert (row.over, row.lowest, row.highest) == (expected.over, expected.lowest, expected.highest)
    assert row.verdicts == expected.verdicts + Counter({"undecided": 1})
    assert (found.means, found.tables[0].twin) == (calm.means, calm.tables[0].twin)


def test_hosts_of_which_all_were_too_disturbed_decide_nothing_together() -> None:
    (found,) = kind_summaries(fleet(warnings=[f"locks: {TOO_DISTURBED}"]))
    (row,) = found.tables[0].rows
    assert (row.over.verdict, row.over.is_disturbed, row.verdicts) == ("undecided", True, {"undecided": 5})
    assert row.over.ratio.estimate == pytest.approx(ratio_over(RATIOS).estimate)
    assert found.means == {}


def test_a_host_counts_once_with_its_last_experiment() -> None:
    (found,) = kind_summaries([make_extract({OTHER: 5.0}, 0), make_extract({OTHER: 2.0}, 1)])
    assert found.older == 1
    assert found.tables[0].rows[0].over.ratio.estimate == pytest.approx(2.0)


def test_p_values_are_adjusted_for_the_variants_of_a_table() -> None:
    hosts = [
        make_extract({OTHER: ratio, THIRD: 1.01 if number % 2 else 0.99}, number, host=f"h{number}")
        for number, ratio in enumerate([1.0, 1.1, 1.2, 1.1])
    ]
    row = next(row for row in kind_summaries(hosts)[0].tables[0].rows if row.label == OTHER)
    assert row.over.p == pytest.approx(2 * row.over.ratio.p)


def test_a_benchmark_that_did_something_else_on_an_older_host_is_not_mixed_in() -> None:
    old = make_extract({OTHER: 9.0}, 0, host="old", workloads={"locks": make_workload(program="old.py")})
    (found,) = kind_summaries([old, *(make_extract({OTHER: 2.0}, 1 + one, host=f"h{one}") for one in range(3))])
    (row,) = found.tables[0].rows
    assert row.verdicts.total() == 3
    assert row.highest[0] == pytest.approx(2.0)


def test_what_the_newest_experiment_ran_counts_though_its_host_has_the_oldest_too() -> None:
    """The command of whichever host had been measured last for the first time counted."""
    old = {"locks": make_workload(program="old.py")}
    before = [make_extract({OTHER: 9.0}, number, host=host, workloads=old) for number, host in enumerate("ab")]
    (found,) = kind_summaries([*before, make_extract({OTHER: 2.0}, 2, host="a")])
    (row,) = found.tables[0].rows
    assert (row.highest[1], row.verdicts.total()) == ("a", 1)
    assert row.highest[0] == pytest.approx(2.0)
