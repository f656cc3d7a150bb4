"""What is kept of an experiment, and which experiments may be compared."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.across.extract import Cohort, by_cohort, check_alike
from interlock.errors import KindError
from tests.across.extracts import BASE, OTHER, make_extract, make_record, rounds_of
from tests.builders import make_benchmark, make_experiment, make_workload


def cohort_of(**changes: Any) -> Cohort:
    return make_extract({OTHER: 2.0}, **changes).cohort


def test_ratios_verdicts_and_times_are_kept_by_label() -> None:
    found = make_extract({OTHER: 2.0}, twin=1.01).measured["locks", "uncontended"]
    assert found.points.keys() == {OTHER}
    assert found.points[OTHER].ratio.estimate == pytest.approx(2)
    assert found.points[OTHER].verdict == "slower"
    assert len(found.points[OTHER].by_round) == len(rounds_of(1))
    assert found.twin is not None
    assert found.twin.estimate == pytest.approx(1.01)
    assert found.seconds == {BASE: pytest.approx(1e-7), OTHER: pytest.approx(2e-7, rel=0.01)}


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
        ({"engine": {"version": "28.0", "storage_driver": "btrfs"}}, "storage driver overlay2 and btrfs"),
        (
            {"engine": {"name": "podman", "version": "5.4", "storage_driver": "overlay2"}},
            "engine docker 28.0 and podman 5.4",
        ),
    ],
)
def test_another_kind_of_host_is_refused_with_the_facts_that_differ(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(KindError) as caught:
        check_alike("A and B", cohort_of(), cohort_of(facts_of_host=changed))
    assert caught.value.found == f"cannot be compared: {named}"
    assert caught.value.exit_code == 2


def test_another_baseline_and_another_profile_are_refused_too() -> None:
    settings = make_record({OTHER: 2.0}).settings.model_copy(update={"profile": "release"})
    with pytest.raises(KindError, match="profile standard and release"):
        check_alike("A and B", cohort_of(), cohort_of(settings=settings))


def test_hosts_may_differ_in_their_name_and_memory() -> None:
    check_alike("A and B", cohort_of(), cohort_of(host="other", facts_of_host={"memory_bytes": 1}))


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
    assert same.measured[place].does == make_extract({OTHER: 3.0}).measured[place].does
    assert same.measured[place].does != other.measured[place].does


def test_more_values_or_another_unit_on_paper_is_no_other_benchmark() -> None:
    shown = make_benchmark(
        metric=make_experiment().workloads["locks"].benchmarks[0].metric.model_copy(update={"scale": 1e6})
    )
    one = make_extract({OTHER: 2.0}, workloads={"locks": make_workload(benchmarks=[shown], deadline_s=99)})
    place = ("locks", "uncontended")
    assert one.measured[place].does == make_extract({OTHER: 2.0}).measured[place].does
