"""Which experiment answers, how much each benchmark counts, and what its figures are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.analysis.pick.criteria import Criteria, parse_weights
from interlock.analysis.pick.evidence import (
    RecordedExperiment,
    choose_experiment,
    measured_otherwise,
    measuring_command,
    named_to_measure,
    shares_of,
)
from interlock.analysis.pick.own import own_pick
from interlock.catalog.project import Catalog
from interlock.catalog.variants import Gil
from interlock.catalog.workloads import Benchmark, Workload
from interlock.errors import UsageError
from interlock.results.answers import Whose
from interlock.results.experiments import Outcome, State
from tests.builders import METRIC, make_benchmark, make_built, make_settings, make_workload
from tests.picks import (
    SIX,
    TODAY,
    Figures,
    catalog_of,
    experiment_of,
    make_evidence,
    queue,
    values_of,
    with_memory,
    workloads_of,
)

NAMES = ["download/one", "download/two", "locks/queue", "startup/pass"]
FULL = {"cpython-3.13": dict.fromkeys(NAMES, SIX), "cpython-3.14": dict.fromkeys(NAMES, SIX)}
KNOWN = workloads_of(FULL)


def catalog(workloads: Mapping[str, Workload], figures: Any = FULL) -> Catalog:
    return catalog_of(figures, workloads, {})


CATALOG = catalog(KNOWN)


def wanting(*weights: str, **more: Any) -> Criteria:
    return Criteria(weights=parse_weights(weights), **{"cpus": 1, **more})


def recorded(
    figures: Any = FULL, *, name: str = "2026-11-21-a", shipped: bool = False, **changes: Any
) -> RecordedExperiment:
    return RecordedExperiment(
        Path(name), experiment_of(figures, name=name, **changes), Whose.PROJECT if shipped else Whose.HERE
    )


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
    benchmarks = [make_benchmark("one"), make_benchmark("two", counts_for="named")]
    known = {**KNOWN, "download": make_workload("download", benchmarks=benchmarks)}
    experiment = recorded().experiment
    assert list(shares_of(experiment, wanting("download"), known)) == [("download", "one")]
    assert list(shares_of(experiment, wanting("download/two"), known)) == [("download", "two")]


def on_cpus(cpus: int, known: list[Benchmark], *weights: str, cores: int = 2, **more: Any) -> list[str]:
    """The benchmarks of `download` that count on this many CPUs."""
    workloads = {"download": make_workload("download", benchmarks=known)}
    figures = {"cpython-3.13": {f"download/{one.name}": SIX for one in known}}
    experiment = recorded(figures, workloads=workloads).experiment
    shares = shares_of(experiment, wanting(*(weights or ["download"]), cpus=cpus, **more), workloads)
    return [name for _, name in shares]


PINNED = make_benchmark("pinned", cpus="one", counts_for="one")
UNPINNED = make_benchmark("unpinned", counts_for="more")


def test_on_one_cpu_the_pinned_benchmarks_count_and_on_more_the_unpinned() -> None:
    alone = make_benchmark("alone")
    assert on_cpus(1, [PINNED, UNPINNED, alone]) == ["pinned", "alone"]
    assert on_cpus(2, [PINNED, UNPINNED, alone]) == ["unpinned", "alone"]
    assert on_cpus(2, [PINNED, UNPINNED, alone], "download/pinned") == ["pinned"]


def test_what_was_measured_on_one_cpu_alone_stands_in_for_more() -> None:
    assert on_cpus(4, [PINNED]) == ["pinned"]
    for cpus, expected in ((1, []), (4, ["download"])):
        evidence = make_evidence({"base": {"download/pinned": SIX}}, ["download"], cpus=cpus)
        workloads = {"download": make_workload("download", benchmarks=[PINNED])}
        experiment = evidence.experiment.model_copy(update={"workloads": workloads})
        changed = replace(evidence, recorded=replace(evidence.recorded, experiment=experiment))
        assert (changed.pinned, changed.measured_cpus) == (expected, 1)


@pytest.mark.parametrize(("benchmarks", "expected"), [([PINNED, UNPINNED], True), ([make_benchmark("alone")], False)])
@pytest.mark.parametrize("cpus", [1, 4])
def test_where_other_benchmarks_count_on_the_other_side_of_one_cpu_is_known(
    benchmarks: list[Benchmark], expected: bool, cpus: int
) -> None:
    workloads = {"download": make_workload("download", benchmarks=benchmarks)}
    figures: Figures = {"base": {f"download/{one.name}": SIX for one in benchmarks}}
    evidence = make_evidence(figures, ["download"], cpus=cpus, experiment={"workloads": workloads})
    assert evidence.counts_otherwise is expected
    assert evidence.measured_cpus == (1 if cpus == 1 else evidence.experiment.host["cores"])


def curve(*counts: int, wait: bool = False) -> list[Benchmark]:
    return [
        make_benchmark(f"pure-{count}", scaling={"name": "pure", "workers": count, "wait": wait}) for count in counts
    ]


@pytest.mark.parametrize(
    ("cpus", "counts", "expected"),
    [
        (1, (1, 2, 4), ["pure-1"]),
        (2, (1, 2, 4), ["pure-2"]),
        (3, (1, 2, 4), ["pure-4"]),
        (8, (1, 2, 4), ["pure-4"]),
        (1, (2, 4), []),
    ],
)
def test_of_a_curve_one_number_of_workers_counts(cpus: int, counts: tuple[int, ...], expected: list[str]) -> None:
    """One thread and two were averaged: 1.03x, which is true of neither."""
    assert on_cpus(cpus, curve(*counts)) == expected


def test_of_workers_that_wait_the_most_count() -> None:
    assert on_cpus(1, curve(1, 4, wait=True)) == ["pure-4"]


def test_an_experiment_that_cannot_say_anything_of_that_many_cpus_is_not_chosen() -> None:
    known = {"download": make_workload("download", benchmarks=curve(2, 4))}
    figures = {"cpython-3.13": {f"download/{one.name}": SIX for one in known["download"].benchmarks}}
    with pytest.raises(UsageError, match=r"\bdownload\b"):
        choose_experiment([recorded(figures, workloads=known)], wanting("download", cpus=1), catalog(known))
    one = recorded(host={**recorded().experiment.host, "cores": 1})
    with pytest.raises(UsageError, match=r"\b1 CPU\b"):
        choose_experiment([one], wanting("locks", cpus=2), CATALOG)


def test_the_first_experiment_that_has_everything_is_chosen() -> None:
    poor = recorded({"cpython-3.13": {"locks/queue": SIX}}, name="2026-11-22-a")
    rich, shipped = recorded(), recorded(name="2026-11-01-a", shipped=True)
    assert choose_experiment([poor, rich, shipped], wanting("download", "locks"), CATALOG) is rich
    assert choose_experiment([poor, rich, shipped], wanting("locks"), CATALOG) is poor
    assert choose_experiment([poor, shipped], wanting("download"), CATALOG) is shipped


def chosen_alone(workload: str, benchmark: str, **changes: Any) -> RecordedExperiment:
    """Return an experiment of one chosen benchmark of this workload."""
    settings = make_settings(list(FULL), workloads=[workload], benchmarks={workload: [benchmark]})
    figures = {label: {f"{workload}/{benchmark}": SIX} for label in FULL}
    return recorded(figures, settings=settings, **changes)


def test_an_experiment_of_chosen_benchmarks_answers_for_these_and_not_for_their_workload() -> None:
    """The latest one would have answered for a whole workload by one benchmark of it."""
    part, whole = chosen_alone("download", "one", name="2026-11-22-a"), recorded()
    assert choose_experiment([part, whole], wanting("download"), CATALOG) is whole
    assert choose_experiment([part, whole], wanting("download/one"), CATALOG) is part
    with pytest.raises(UsageError, match=r"2026-11-22-a .* download\b"):
        choose_experiment([part], wanting("download"), CATALOG)


def test_an_experiment_of_chosen_benchmarks_has_a_pick_of_its_own_by_them() -> None:
    experiment = chosen_alone("locks", "queue").experiment
    values = values_of({label: {"locks/queue": SIX} for label in FULL})
    picked = own_pick(experiment, values, CATALOG, TODAY)
    assert picked is not None
    assert [(share.workload, share.benchmark) for share in picked.shares] == [("locks", "queue")]


def test_a_benchmark_that_fails_on_the_baseline_keeps_no_other_out_of_an_experiments_own_pick() -> None:
    """It was 'STAY: nothing is shown to be faster' under a table in which another benchmark took half the time."""
    fast = [second / 2 for second in SIX]
    figures: Figures = {
        "cpython-3.13": {"locks/queue": SIX, "locks/broken": SIX, "blocking/sleep": SIX},
        "cpython-3.14": {"locks/queue": fast, "locks/broken": fast, "blocking/sleep": SIX},
    }
    failed = Outcome(state=State.FAILED, reason="it fails")
    experiment = recorded(figures).experiment
    cells = [
        cell.model_copy(update={"benchmarks": {**cell.benchmarks, "broken": failed}})
        if cell.workload == "locks"
        else cell
        for cell in experiment.cells
    ]
    picked = own_pick(experiment.model_copy(update={"cells": cells}), values_of(figures), CATALOG, TODAY)
    assert picked is not None
    shares = {(share.workload, share.benchmark): share.share for share in picked.shares}
    assert shares == {("locks", "queue"): 0.5, ("blocking", "sleep"): 0.5}
    assert picked.answer.startswith("SWITCH")


def test_a_workload_whose_benchmarks_its_program_lists_is_measured_whole_in_the_next_command() -> None:
    """The command that a report printed was refused: 'there is no benchmark of ours'."""
    known = {"ours": make_workload("ours", kind="pyperf", program="bench.py", benchmarks=[], metric=METRIC)}
    weights = parse_weights(["ours/round trip=1", "locks/queue"])
    assert [named_to_measure(weight, {**KNOWN, **known}) for weight in weights] == ["ours", "locks/queue"]


def test_of_the_shipped_experiments_those_that_decide_come_before_those_that_compare_more() -> None:
    wide = recorded(FULL | {"cpython-3.12": dict.fromkeys(NAMES, SIX)}, name="2026-11-24-a", shipped=True)
    until_decided = make_settings(list(FULL)).model_copy(update={"rounds_limit": 10})
    decides = recorded(name="2026-11-23-a", shipped=True, settings=until_decided)
    assert not wide.experiment.settings.looks
    assert choose_experiment([wide, decides], wanting("locks"), CATALOG) is decides
    assert choose_experiment([wide, decides], wanting("locks", baseline="cpython-3.12"), CATALOG) is wide


def test_of_the_shipped_experiments_of_builds_as_they_are_now_the_latest_comes_before_one_that_compares_more() -> None:
    wider = FULL | {"cpython-3.12": dict.fromkeys(NAMES, SIX)}
    wide, late = (
        recorded(figures, name=name, started=started, shipped=True, images=[make_built(each) for each in figures])
        for figures, name, started in (
            (wider, "2026-11-23-a", "2026-11-23T09:00:00+00:00"),
            (FULL, "2026-11-24-a", "2026-11-24T09:00:00+00:00"),
        )
    )
    assert choose_experiment([wide, late], wanting("locks"), CATALOG) is late


def test_an_experiment_must_have_the_baseline() -> None:
    usual, other = recorded(), recorded({"cpython-3.12": dict.fromkeys(NAMES, SIX)}, name="2026-11-19-a")
    assert choose_experiment([usual, other], wanting("locks", baseline="cpython-3.12"), CATALOG) is other


def test_an_experiment_of_builds_that_are_optimised_as_now_comes_first_and_of_others_it_is_known() -> None:
    trained, plain = (
        recorded(name=name, images=[make_built(one, optimisations=names) for one in FULL])
        for name, names in (("2026-11-22-a", ["PGO", "LTO"]), ("2026-11-20-a", []))
    )
    criteria = wanting("locks")
    assert choose_experiment([trained, plain], criteria, CATALOG) is plain
    assert measured_otherwise(plain.experiment, criteria, CATALOG) == ""
    said = measured_otherwise(trained.experiment, criteria, CATALOG)
    assert re.fullmatch(r"PGO and LTO .* neither PGO nor LTO", said)
    assert measured_otherwise(recorded().experiment, criteria, CATALOG) == "", "it is not known"


def test_if_no_experiment_has_everything_the_error_says_what_each_lacks_and_how_to_measure_it() -> None:
    without = {"cpython-3.13": {"download/one": SIX}, "cpython-3.14": {"download/one": SIX, "locks/queue": SIX}}
    found = [
        recorded({"cpython-3.13": {"locks/queue": SIX}}, name="2026-11-22-a"),
        recorded(without, name="2026-11-21-a"),
        recorded({"cpython-3.13": {"startup/pass": SIX}}, name="2026-11-20-a"),
        recorded({"cpython-3.13": {"startup/pass": SIX}}, name="2026-11-01-a", shipped=True),
    ]
    with pytest.raises(UsageError) as refused:
        choose_experiment(found, wanting("download=2", "locks/queue=1"), CATALOG)
    first, second, third, more = refused.value.found.split(": ")[1].split("; ")
    assert re.fullmatch(r"2026-11-22-a .* download", first)
    assert re.fullmatch(r"2026-11-21-a .* cpython-3\.13, the baseline", second)
    assert re.fullmatch(r"2026-11-20-a .* download, locks/queue", third)
    assert "1 more" in more
    assert "`interlock matrix --workloads download,locks/queue`" in refused.value.todo
    with pytest.raises(UsageError, match=r"2026-11-01-a \(shipped\) .* locks"):
        choose_experiment(found[3:], wanting("locks"), CATALOG)


def test_a_baseline_that_failed_is_said() -> None:
    """The workload is there, and one of its benchmarks failed on the baseline."""
    figures = {"cpython-3.13": {"download/one": SIX}, "cpython-3.14": {"download/one": SIX, "download/two": SIX}}
    with pytest.raises(UsageError, match=r"cpython-3\.13\b.*\bdownload two\b"):
        choose_experiment([recorded(figures)], wanting("download"), CATALOG)


def test_names_that_nobody_knows_are_answered_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match=r"'servce'.*download, locks, startup") as unknown_workload:
        choose_experiment([recorded()], wanting("servce"), CATALOG)
    with pytest.raises(UsageError, match=r"download .*'oen'.*'one'") as unknown_benchmark:
        choose_experiment([recorded()], wanting("download/oen"), CATALOG)
    assert unknown_workload.value.key == unknown_benchmark.value.key == "--workload"


def test_a_workload_that_the_project_has_no_more_is_found_in_experiments() -> None:
    assert choose_experiment([recorded()], wanting("locks"), catalog({})).name == "2026-11-21-a"
    lacking = recorded({"cpython-3.13": {"startup/pass": SIX}}, name="2026-11-20-a")
    with pytest.raises(UsageError, match="--from"):
        choose_experiment([recorded(), lacking], wanting("locks", baseline="cpython-3.9"), catalog({}))


def test_the_measuring_command_names_what_is_wanted_once() -> None:
    criteria = wanting("locks", baseline="cpython-3.13+mimalloc")
    assert measuring_command(["locks", "locks", "startup"], ["cpython-3.14", "cpython-3.14"], criteria) == (
        "interlock matrix --workloads locks,startup --variants cpython-3.14 --baseline cpython-3.13"
    )


def test_the_measuring_command_measures_what_runs_now_by_the_engine_and_in_the_folder_of_before() -> None:
    own, where = wanting("locks"), ["--results", "/x y"]
    assert measuring_command(["locks"], ["pyenv-3.12", "a"], own, where) == (
        "interlock matrix --workloads locks --variants pyenv-3.12,a --baseline pyenv-3.12 --results '/x y'"
    )
    assert "--baseline" not in measuring_command(["locks"], ["cpython-3.13"], own)


FREE = {"thread_flavour": "free-threaded", "gil": "off", "thread_library": "libc.so.6"}
MODES = [
    {"name": "gil-on", "summary": "a mode", "environment": {"PYTHON_GIL": "1"}, "gil": "on"},
    {"name": "own-context", "summary": "a mode", "options": ["-X", "thread_inherit_context=0"]},
]


def test_the_twin_is_no_contender() -> None:
    evidence = make_evidence(queue(**{"base+twin": SIX, "base+fast": SIX, "x": SIX}))
    assert evidence.labels == ["base", "base+fast", "x"]


def test_the_memory_of_a_contender_is_the_most_of_the_benchmarks_that_count() -> None:
    evidence = make_evidence({"base": {"locks/queue": SIX, "locks/alone": SIX, "startup/pass": SIX}}, ["locks"])
    sizes = {("locks", "queue"): 20, ("locks", "alone"): 30, ("startup", "pass"): 40}
    assert with_memory(evidence, sizes).max_rss_bytes("base") == 30
    assert evidence.max_rss_bytes("x") is None


@pytest.mark.parametrize(("label", "gil"), [("x", Gil.OFF), ("x+gil-on", Gil.ON), ("x+own-context", Gil.OFF)])
def test_a_mode_has_its_variants_gil_unless_it_declares_another(label: str, gil: Gil) -> None:
    evidence = make_evidence(queue(**{label: SIX}), variants={"x": {"proof": FREE, "modes": MODES}})
    assert evidence.gil(label) is gil


def test_what_was_not_measured_has_no_median() -> None:
    evidence = make_evidence(queue())
    assert evidence.seconds("base", ("locks", "queue")) == 1.0
    assert evidence.seconds("base", ("startup", "pass")) is None
    assert evidence.seconds("x", ("locks", "queue")) is None
