"""How long it will take, from what was recorded."""

from __future__ import annotations

from typing import Any

from interlock.analysis import durations
from interlock.results.experiments import BuildRecord, Experiment, Outcome, State, Times
from interlock.results.settings import Settings
from tests.builders import make_build_record, make_built, make_cell, make_experiment, make_settings, make_workload


def record(**seconds: float) -> BuildRecord:
    builds = [make_built(name).model_copy(update={"duration_s": one}) for name, one in seconds.items()]
    return make_build_record(*builds, name="2026-11-21-b", duration_s=50)


def test_builds_take_what_they_took_here_or_in_the_record_side_by_side_as_there() -> None:
    found = durations.of_builds(["a", "b", "new"], {"a": 30.0}, record(a=60, b=40), {})
    assert found.seconds == 40  # side by side less than their sum, but no less than the longest
    assert found.sources == ("earlier builds here", "2026-11-21-b")
    assert found.unknown == ("new",)
    assert found.words.split()[-1] == "new"


def test_a_build_by_a_profile_takes_what_those_of_its_kind_did_here_and_a_recorded_plain_one_tells_nothing() -> None:
    trained = ["PGO", "LTO"]
    plain = record(a=60, b=40)
    plain = plain.model_copy(update={"builds": [one.model_copy(update={"optimisations": []}) for one in plain.builds]})
    found = durations.of_builds(["a"], {}, plain, {"a": trained})
    assert (found.seconds, found.unknown) == (0, ("a",))
    found = durations.of_builds(["a"], {"other": 300.0}, plain, {"a": trained, "other": trained})
    assert (found.seconds, found.sources) == (300, ("builds of its kind here",))
    assert durations.of_builds(["a"], {"plain": 30.0}, None, {"a": trained, "plain": []}).unknown == ("a",)


def test_what_could_not_be_had_tells_no_time_of_a_build() -> None:
    there = record(a=60, b=3)
    absent = there.builds[1].model_copy(update={"outcome": Outcome(state=State.UNAVAILABLE, reason="nobody has it")})
    found = durations.of_builds(["b"], {}, there.model_copy(update={"builds": [there.builds[0], absent]}), {})
    assert (found.seconds, found.unknown) == (0, ("b",))


def test_what_need_not_be_built_takes_nothing_and_without_a_record_all_is_unknown() -> None:
    assert durations.of_builds([], {}, record(a=60), {}).words == "building nothing"
    found = durations.of_builds(["a"], {}, None, {})
    assert (found.seconds, found.sources, found.unknown) == (0, (), ("a",))
    assert found.words.split()[-1] == "a"


def asked(*workloads: str, **changes: Any) -> Settings:
    return make_settings(["base", "a"], workloads=list(workloads), **changes)


def experiment(name: str, started: str, **changes: Any) -> Experiment:
    settings = make_settings(["base", "a"]).model_copy(update={"workloads": ["locks", "write"]})
    cells = [make_cell(label, workload) for workload in ("locks", "write") for label in ("base", "a")]
    parts = {"settings": settings, "cells": cells, "duration_s": 400.0, "name": name, "started": started}
    workloads = {one: make_workload(name=one) for one in ("locks", "write")}
    return make_experiment(["base", "a"], **{**parts, "workloads": workloads, **changes})


def test_a_workload_takes_what_its_cells_took_in_the_latest_experiment_that_recorded_it_as_quick() -> None:
    times = {"locks": Times(preparing_s=4, measuring_s=10, profiling_s=6)}
    old = experiment("old", "2026-01", times={"write": times["locks"], "locks": Times(measuring_s=900)})
    new = experiment("new", "2026-02", times=times)
    full = experiment("full", "2026-03", times=times, settings=old.settings.model_copy(update={"quick": False}))
    cut = experiment("cut", "2026-04", times=times, ended_by="Ctrl-C", unfinished=["locks"])
    found = durations.of_measuring(asked("locks", "gone"), 5, [full, cut, new, old])
    assert (found.seconds, found.sources, found.unknown) == (5 * 20 / 2, ("new",), ("gone",))
    assert durations.of_measuring(asked("write"), 5, [new, old]).sources == ("old",)


def test_what_an_experiment_finished_before_it_was_ended_counts() -> None:
    """The reference of everything was ended by its budget: nine of its thirteen workloads were 'unknown'."""
    times = {"locks": Times(measuring_s=10), "write": Times(measuring_s=20)}
    cut = experiment("cut", "2026-04", times=times, ended_by="the budget of 1 min", unfinished=["locks"])
    found = durations.of_measuring(asked("write", "locks"), 2, [cut])
    assert (found.seconds, found.unknown) == (20, ("locks",))


def test_experiments_whose_rounds_were_fixed_or_not_as_is_asked_for_go_first() -> None:
    free, fixed = (
        experiment(name, started, times={"locks": Times(measuring_s=seconds)})
        for name, started, seconds in (("free", "2026-01", 10), ("fixed", "2026-02", 4))
    )
    free = free.model_copy(update={"settings": free.settings.model_copy(update={"rounds": 4, "rounds_limit": 10})})
    fixed = fixed.model_copy(update={"settings": fixed.settings.model_copy(update={"rounds_limit": None})})
    seconds = {
        wanted: durations.of_measuring(asked("locks", rounds_limit=None if wanted else 10), 2, [free, fixed]).seconds
        for wanted in (True, False)
    }
    assert seconds == {True: 4, False: 10}
    assert durations.of_measuring(asked("locks"), 2, [fixed]).sources == ("fixed",)


def test_an_experiment_of_chosen_benchmarks_tells_the_time_of_these_alone() -> None:
    chosen = {"locks": ["queue"]}
    whole = experiment("whole", "2026-01", times={"locks": Times(measuring_s=40), "write": Times(measuring_s=8)})
    part = experiment("part", "2026-02", times={"locks": Times(measuring_s=2), "write": Times(measuring_s=6)})
    part = part.model_copy(update={"settings": part.settings.model_copy(update={"benchmarks": chosen})})
    assert durations.of_measuring(asked("locks", "write"), 2, [whole, part]).seconds == 40 + 6
    assert durations.of_measuring(asked("locks", benchmarks=chosen), 2, [whole, part]).seconds == 2
    assert durations.of_measuring(asked("locks", benchmarks={"locks": ["other"]}), 2, [whole, part]).unknown == (
        "locks",
    )


def test_a_budget_ends_what_would_take_longer_or_is_unknown() -> None:
    known = durations.DurationEstimate("measuring", 900, ("a",))
    assert known.within(720).words == "measuring at most 12 min"
    assert known.within(None) == known.within(1000) == known
    assert durations.DurationEstimate("measuring", 0, (), ("locks",)).within(720).words == "measuring at most 12 min"


def test_an_experiment_from_before_times_were_recorded_says_nothing() -> None:
    found = durations.of_measuring(asked("write"), 5, [experiment("old", "2026-01")])
    assert (found.seconds, found.sources, found.unknown) == (0, (), ("write",))


def test_workloads_that_took_least_are_first_and_those_that_no_record_has_last_in_the_order_given() -> None:
    first = experiment("first", "2026-01", times={"locks": Times(measuring_s=9), "write": Times(measuring_s=2)})
    names = ["unknown", "locks", "write", "new"]
    assert durations.shortest_first(asked(*names), [first]) == ["write", "locks", "unknown", "new"]
    assert durations.shortest_first(asked(*names, quick=False), [first]) == names
    later = experiment("later", "2026-02", times={"locks": Times(measuring_s=1)})
    assert durations.shortest_first(asked(*names), [later, first]) == ["locks", "write", "unknown", "new"]


def test_cells_that_lacked_something_tell_no_time_and_a_workload_of_such_cells_alone_is_unknown() -> None:
    lacking = Outcome(state=State.UNSUPPORTED, reason="nginx is not installed")
    cells = [make_cell("base", "locks"), make_cell("a", "locks", lacking)]
    cells += [make_cell(label, "write", lacking) for label in ("base", "a")]
    times = {"locks": Times(measuring_s=10), "write": Times(preparing_s=0.1)}
    found = durations.of_measuring(asked("locks", "write"), 3, [experiment("one", "2026-01", cells=cells, times=times)])
    assert (found.seconds, found.unknown) == (30, ("write",))
