"""Which experiment has what is asked for, and how much each benchmark counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import UsageError
from interlock.model import Benchmark
from interlock.pick.demands import Demands, parse_weights
from interlock.pick.weighing import Recorded, choose, measuring, shares_of, threads_of, unranked
from tests.builders import make_benchmark, make_settings, make_workload
from tests.picks import SIX, experiment_of, workloads_of

NAMES = ["download/one", "download/two", "locks/queue", "startup/pass"]
FULL = {"cpython-3.13": dict.fromkeys(NAMES, SIX), "cpython-3.14": dict.fromkeys(NAMES, SIX)}
KNOWN = workloads_of(FULL)


def wanting(*weights: str, **more: Any) -> Demands:
    return Demands(weights=parse_weights(weights), **more)


def recorded(figures: Any = FULL, *, name: str = "2026-11-21-a", shipped: bool = False, **changes: Any) -> Recorded:
    return Recorded(Path(name), experiment_of(figures, name=name, **changes), shipped)


def threaded(name: str, threads: int, option: str = "--threads") -> Benchmark:
    return make_benchmark(name, arguments=["--what", name, option, str(threads)])


def test_the_weight_of_a_workload_is_shared_by_its_benchmarks() -> None:
    shares = shares_of(recorded().experiment, wanting("download=3", "locks=1"), KNOWN)
    assert shares == {("download", "one"): 0.375, ("download", "two"): 0.375, ("locks", "queue"): 0.25}


def test_a_benchmark_that_is_named_counts_by_its_own_weight_besides() -> None:
    shares = shares_of(recorded().experiment, wanting("download=2", "download/two=2"), KNOWN)
    assert shares == {("download", "one"): 0.25, ("download", "two"): 0.75}


@given(st.lists(st.floats(0.001, 1000), min_size=2, max_size=2), st.floats(0.001, 1000))
def test_only_the_proportion_of_weights_counts(weights: list[float], factor: float) -> None:
    experiment = recorded().experiment
    one, other = (
        shares_of(experiment, wanting(f"download={weights[0] * by}", f"locks={weights[1] * by}"), KNOWN)
        for by in (1, factor)
    )
    assert one == pytest.approx(other)
    assert sum(one.values()) == pytest.approx(1)


def test_what_does_not_rank_today_counts_only_where_it_is_named() -> None:
    """An experiment of an earlier day does not say what ranks: the project does."""
    benchmarks = [make_benchmark("one"), make_benchmark("two", ranks=False)]
    known = {**KNOWN, "download": make_workload("download", benchmarks=benchmarks)}
    experiment = recorded().experiment
    assert list(shares_of(experiment, wanting("download"), known)) == [("download", "one")]
    assert list(shares_of(experiment, wanting("download/two"), known)) == [("download", "two")]
    assert unranked(experiment, wanting("download", "locks"), known) == ["download/two"]
    assert unranked(experiment, wanting("download/one"), known) == []


@pytest.mark.parametrize("option", ["--threads", "--readers", "--workers"])
def test_the_number_of_threads_is_in_a_benchmarks_arguments(option: str) -> None:
    assert threads_of(threaded("queue", 8, option)) == 8
    assert threads_of(make_benchmark(arguments=[option, "many"])) is None
    assert threads_of(make_benchmark(arguments=[option])) is None
    assert threads_of(make_benchmark()) is None


def with_threads() -> dict[str, Any]:
    locks = make_workload("locks", benchmarks=[make_benchmark("alone"), threaded("queue-4", 4), threaded("queue-8", 8)])
    return {"locks": locks, "startup": KNOWN["startup"]}


def test_only_benchmarks_with_the_wanted_threads_count_and_those_without_any() -> None:
    figures = {"cpython-3.13": dict.fromkeys(["locks/alone", "locks/queue-4", "locks/queue-8", "startup/pass"], SIX)}
    workloads = with_threads()
    experiment = recorded(figures, workloads=workloads).experiment
    shares = shares_of(experiment, wanting("locks", "startup", threads=8), workloads)
    assert shares == {("locks", "alone"): 0.25, ("locks", "queue-8"): 0.25, ("startup", "pass"): 0.5}


@pytest.mark.parametrize(
    ("weights", "threads", "said"),
    [
        (
            ["startup"],
            8,
            "key '--threads': no benchmark of startup says how many threads it runs. Leave the option out.",
        ),
        (
            ["locks", "startup"],
            2,
            "key '--threads': locks is measured with 4 or 8 threads, not with 2. "
            "Choose 4 or 8, or leave the option out.",
        ),
        (["locks/queue-4"], 8, "key '--threads': locks/queue-4 is measured with 4 threads, not with 8."),
    ],
)
def test_a_number_of_threads_that_nothing_is_measured_with_is_answered_with_those_that_are(
    weights: list[str], threads: int, said: str
) -> None:
    known = {
        **KNOWN,
        "locks": with_threads()["locks"].model_copy(update={"benchmarks": with_threads()["locks"].benchmarks[1:]}),
    }
    with pytest.raises(UsageError) as refused:
        choose([], wanting(*weights, threads=threads), known)
    assert str(refused.value).startswith(said)


def test_the_first_experiment_that_has_everything_is_chosen() -> None:
    poor = recorded({"cpython-3.13": {"locks/queue": SIX}}, name="2026-11-22-a")
    rich, shipped = recorded(), recorded(name="2026-11-01-a", shipped=True)
    assert choose([poor, rich, shipped], wanting("download", "locks"), KNOWN) is rich
    assert choose([poor, rich, shipped], wanting("locks"), KNOWN) is poor
    assert choose([poor, shipped], wanting("download"), KNOWN) is shipped


def test_an_experiment_must_be_of_the_profile_and_have_the_baseline() -> None:
    release = recorded(settings=make_settings(["cpython-3.13"]).model_copy(update={"profile": "release"}))
    standard = recorded(name="2026-11-20-a")
    assert choose([release, standard], wanting("locks"), KNOWN) is standard
    assert choose([standard, release], wanting("locks", profile="release"), KNOWN) is release
    other = recorded({"cpython-3.12": dict.fromkeys(NAMES, SIX)}, name="2026-11-19-a")
    assert choose([standard, other], wanting("locks", baseline="cpython-3.12"), KNOWN) is other


def test_if_no_experiment_has_everything_the_error_says_what_each_lacks_and_how_to_measure_it() -> None:
    without = {"cpython-3.13": {"download/one": SIX}, "cpython-3.14": {"download/one": SIX, "locks/queue": SIX}}
    found = [
        recorded({"cpython-3.13": {"locks/queue": SIX}}, name="2026-11-22-a"),
        recorded(without, name="2026-11-21-a"),
        recorded({"cpython-3.13": {"startup/pass": SIX}}, name="2026-11-20-a"),
        recorded({"cpython-3.13": {"startup/pass": SIX}}, name="2026-11-01-a", shipped=True),
    ]
    with pytest.raises(UsageError) as refused:
        choose(found, wanting("download=2", "locks=1"), KNOWN)
    assert str(refused.value) == (
        "no experiment can rank by download, locks: 2026-11-22-a has not measured download; "
        "2026-11-21-a has not measured cpython-3.13, the baseline; 2026-11-20-a has not measured download, locks; "
        "and 1 more. Measure it: `interlock matrix --workloads download,locks`."
    )
    with pytest.raises(UsageError, match="2026-11-01-a \\(shipped\\) has not measured locks"):
        choose(found[3:], wanting("locks"), KNOWN)


def test_a_baseline_that_failed_is_said() -> None:
    """The workload is there, and one of its benchmarks failed on the baseline."""
    figures = {"cpython-3.13": {"download/one": SIX}, "cpython-3.14": {"download/one": SIX, "download/two": SIX}}
    with pytest.raises(UsageError, match=r"has no figure of cpython-3.13, the baseline: download two is failed"):
        choose([recorded(figures)], wanting("download"), KNOWN)


def test_without_any_experiment_the_error_says_so() -> None:
    with pytest.raises(UsageError, match=r"no experiment can rank by locks: none is recorded. Measure it: `interlock"):
        choose([], wanting("locks"), KNOWN)


def test_names_that_nobody_knows_are_answered_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match=r"there is no workload 'servce'. There are: download, locks, startup."):
        choose([recorded()], wanting("servce"), KNOWN)
    with pytest.raises(UsageError, match=r"download has no benchmark 'oen'. Did you mean 'one'"):
        choose([recorded()], wanting("download/oen"), KNOWN)


def test_a_workload_that_the_project_has_no_more_is_found_in_experiments() -> None:
    assert choose([recorded()], wanting("locks"), {}).name == "2026-11-21-a"
    lacking = recorded({"cpython-3.13": {"startup/pass": SIX}}, name="2026-11-20-a")
    with pytest.raises(UsageError, match="Name one with --experiment"):
        choose([recorded(), lacking], wanting("locks", baseline="cpython-3.9"), {})


def test_the_measuring_command_names_what_is_wanted_once() -> None:
    demands = wanting("locks", baseline="cpython-3.13+mimalloc", profile="release")
    assert measuring(["locks", "locks", "startup"], ["cpython-3.14", "cpython-3.14"], demands) == (
        "interlock matrix --workloads locks,startup --variants cpython-3.14 --baseline cpython-3.13 --release"
    )
