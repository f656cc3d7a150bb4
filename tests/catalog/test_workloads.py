"""Workloads, benchmarks and metrics; a list of workers is a benchmark for each number of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from interlock.catalog import project as catalogs
from interlock.catalog.workloads import Metric, Workload, expand_workers
from tests.builders import ROOT, make_benchmark, make_workload


def test_an_inverse_metric_shows_the_scale_divided_by_the_time() -> None:
    assert Metric(label="MB/s", scale=1.0, inverse=True).shown(0.004) == 250
    assert Metric(label="ms", scale=1e3).shown(0.004) == 4


@given(st.floats(1e-9, 1e6), st.floats(1e-3, 1e9))
def test_a_metric_and_its_inverse_multiply_to_the_square_of_the_scale(seconds: float, scale: float) -> None:
    plain, inverse = Metric(label="", scale=scale), Metric(label="", scale=scale, inverse=True)
    assert plain.shown(seconds) * inverse.shown(seconds) == pytest.approx(scale**2)


def test_a_metric_without_a_scale_above_zero_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater_than"):
        Metric(label="s", scale=0)


@pytest.mark.parametrize(
    ("label", "per"), [("futex per 1M imports", "per 1M imports"), ("calls per s per start", "per start"), ("x", "x")]
)
def test_a_metric_says_what_it_is_divided_by(label: str, per: str) -> None:
    assert Metric(label=label, scale=1).per == per


def test_only_a_command_starts_in_parallel() -> None:
    make_workload(program=None, benchmarks=[make_benchmark(command=["-c", "pass"], parallel=2)])
    with pytest.raises(ValidationError, match="parallel"):
        make_workload(benchmarks=[make_benchmark(parallel=2)])


METRIC = {"label": "tasks/s", "scale": 1, "inverse": True}


def entry(name: str = "pure-{workers}", workers: Any = (1, 2), **changes: Any) -> dict[str, Any]:
    return {"name": name, "workers": list(workers), "metric": METRIC, **changes}


SCALING = {"name": "pure", "workers": 1}
LIMIT = {"name": "curl", "command": ["x"], "benchmarks": ["uncontended"], "unit_count": 1}
DETAIL = {"label": "user s", "of": "work_user_s"}
# What a workload has, and what the error says of it.
REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"benchmarks": [make_benchmark("turn", command=["-c", "pass"])]}, ["'turn'", "not both"]),
    ({"program": None, "benchmarks": [make_benchmark("turn")]}, ["'turn'", "program"]),
    *(
        ({"benchmarks": [{**entry(), "workers": workers}]}, ["'pure-{workers}'", repr(workers)])
        for workers in ([], [0], ["two"], [True], [2, 2], "4", 4, [1.5])
    ),
    ({"benchmarks": [entry("pure")]}, ["'pure'", "{workers}"]),
    (
        {"benchmarks": [{"name": "pure", "workers_wait": True, "metric": METRIC}]},
        ["'pure'", "workers_wait", "workers = "],
    ),
    ({"benchmarks": [entry(workers_wait=3)]}, ["'pure-{workers}'", "workers_wait = 3"]),
    ({"benchmarks": [entry(scaling=SCALING)]}, ["'pure-{workers}'", "workers and scaling"]),
    ({"benchmarks": [entry(), entry("{workers}-pure", [2])]}, ["'pure'", "2 workers"]),
    ({"benchmarks": [entry(), entry(workers=[4], metric={**METRIC, "label": "MB/s"})]}, ["'pure'", "metric"]),
    ({"benchmarks": [make_benchmark(full_only=True)]}, ["full_only", "--quick"]),
    ({"limits": [LIMIT, LIMIT]}, ["'curl'"]),
    ({"limits": [{**LIMIT, "benchmarks": ["single"]}]}, ["'curl'", "'single'", "uncontended"]),
    ({"details": [DETAIL], "benchmarks": [make_benchmark(details=[DETAIL])]}, ["'uncontended'", "'user s'"]),
    *(
        ({"details": [{"label": "s", "of": "process_user_s", "per": per}]}, ["'process_user_s'", f"per {per}"])
        for per in ("unit", "value")
    ),
    ({"rights": ["SYS_ADMIN"]}, ["'root'"]),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED)
def test_what_cannot_be_measured_or_shown_is_refused_and_named(changes: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        make_workload(**changes)
    message = caught.value.errors()[0]["msg"]
    assert [one for one in said if one not in message] == []


def test_each_number_of_workers_is_a_benchmark_with_its_place_in_the_curve() -> None:
    found = make_workload(benchmarks=[entry(arguments=["--threads", "{workers}"]), make_benchmark("other")])
    assert [one.name for one in found.benchmarks] == ["pure-1", "pure-2", "other"]
    assert [one.arguments for one in found.benchmarks[:2]] == [["--threads", "1"], ["--threads", "2"]]
    assert [one.scaling.model_dump() if one.scaling else None for one in found.benchmarks] == [
        {"name": "pure", "workers": 1, "wait": False},
        {"name": "pure", "workers": 2, "wait": False},
        None,
    ]


def test_the_number_is_filled_in_wherever_the_benchmark_names_it() -> None:
    label = "ms in {workers}"
    data = {"benchmarks": [entry(workers=[8], details=[{"label": label, "of": "x_{workers}", "per": "unit"}])]}
    (found,) = expand_workers(data)["benchmarks"]
    assert found["details"] == [{"label": "ms in 8", "of": "x_8", "per": "unit"}]


def test_benchmarks_of_one_name_are_one_curve_fewest_workers_first() -> None:
    found = make_workload(benchmarks=[entry(workers=[8, 16], full_only=True), entry(workers=[1, 2])])
    assert [workers for workers, _ in found.curves["pure"]] == [1, 2, 8, 16]


def test_workers_that_wait_are_told_from_those_that_compute() -> None:
    (found,) = make_workload(benchmarks=[entry(workers=[4], workers_wait=True)]).benchmarks
    assert found.scaling
    assert found.scaling.wait


def test_a_limit_of_the_name_in_the_file_is_the_limit_of_all_its_benchmarks() -> None:
    limit = {"name": "curl", "command": ["curl"], "benchmarks": ["pure-{workers}", "other"], "unit_count": 3}
    found = make_workload(benchmarks=[entry(), make_benchmark("other")], limits=[limit])
    assert found.limits[0].benchmarks == ["pure-1", "pure-2", "other"]
    assert [one.name for one in found.limits_of("pure-2")] == ["curl"]


def test_what_was_expanded_reads_back_as_it_is() -> None:
    found = make_workload(benchmarks=[entry()])
    assert Workload.model_validate_json(found.model_dump_json()) == found


def test_a_quick_experiment_leaves_out_what_is_full_only_and_limits_of_that_alone() -> None:
    limits = [
        {"name": name, "command": ["x"], "benchmarks": benchmarks, "unit_count": 1}
        for name, benchmarks in {"both": ["quick", "slow"], "slow": ["slow"]}.items()
    ]
    found = make_workload(benchmarks=[make_benchmark("quick"), make_benchmark("slow", full_only=True)], limits=limits)
    assert found.for_experiment(quick=False) == found
    quick = found.for_experiment(quick=True)
    assert [one.name for one in quick.benchmarks] == ["quick"]
    assert [(one.name, one.benchmarks) for one in quick.limits] == [("both", ["quick"])]


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("chosen", ["quick", "slow"])
def test_of_a_chosen_benchmark_nothing_else_is_measured_though_it_is_full_only(chosen: str, quick: bool) -> None:
    found = make_workload(benchmarks=[make_benchmark("quick"), make_benchmark("slow", full_only=True)])
    taken = found.for_experiment(quick, {found.name: [chosen]})
    assert [one.name for one in taken.benchmarks] == [chosen]
    # As the experiment's record is read.
    assert Workload.model_validate_json(taken.model_dump_json()) == taken


def test_the_shipped_curves_are_of_one_program_with_as_many_threads_as_workers() -> None:
    workload = catalogs.load(ROOT).workloads["threads-scaling"]
    assert {name: [workers for workers, _ in group] for name, group in workload.curves.items()} == {
        name: [1, 2, 4, 8, 16] for name in ("pure", "io", "mixed")
    }
    for group in workload.curves.values():
        assert [one.arguments[-1] for _, one in group] == [str(workers) for workers, _ in group]


DOWNLOADS = [one for one in catalogs.load(ROOT).workloads.values() if one.server and one.limits]


@pytest.mark.parametrize("workload", DOWNLOADS, ids=lambda one: one.name)
def test_a_limit_asks_for_the_files_that_the_server_has_and_counts_what_they_hold(workload: Workload) -> None:
    sizes = {name: int(size) for name, size in workload.server.environment.items()} if workload.server else {}
    for limit in workload.limits:
        text = " ".join(limit.command)
        splices = re.match(r"splice (\d+) ", text)
        turns = int(splices[1]) if splices else 4 if re.search(r"\?(\[1-4\]|\{1,2,3,4\})", text) else 1
        many = re.search(r"many/\[000-(\d+)\]", text)
        assert many is None or int(many[1]) + 1 == sizes["MANY_FILES"], limit.name
        held = sizes["MANY_FILES"] * sizes["MANY_MIB"] if many else sizes["SINGLE_MIB"]
        assert limit.unit_count == turns * held, limit.name
