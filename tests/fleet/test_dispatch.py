"""What hosts do next, whatever becomes of them: nothing is measured twice, nothing is forgotten, all is taken back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.fleet.dispatch import (
    MOST_ATTEMPTS,
    Dispatch,
    Job,
    Step,
    assign,
    expectations,
    kind_mismatch,
    load_s,
    plan_lines,
    shards,
)
from interlock.fleet.record import Ending, Kind, Shard

KINDS = {"a": "epyc", "b": "epyc", "c": "epyc", "d": "arm"}
WORKLOADS = ["download", "import-loop", "locks", "startup"]


def begun(kinds: dict[str, str], *, each: bool = False, workloads: list[str] | None = None) -> Dispatch:
    names = WORKLOADS if workloads is None else workloads
    to_do = shards(kinds, names, dict.fromkeys(names, 60.0), each)
    return Dispatch.of(kinds, assign(to_do, kinds))


def finish(dispatch: Dispatch, endings: dict[tuple[str, Step, str], Ending] | None = None) -> list[Job]:
    """All jobs one after the other; each ends as it is said of its host, step and workload, else well."""
    jobs = []
    while (job := dispatch.next()) is not None:
        jobs.append(job)
        key = (job.host, job.step, job.shard.workload if job.shard else "")
        dispatch.ended(job, (endings or {}).get(key, Ending.DONE))
    return jobs


def measured_by(jobs: list[Job], workload: str, kind: str = "epyc") -> list[str]:
    return [job.host for job in jobs if job.shard and (job.shard.workload, job.shard.kind) == (workload, kind)]


@given(st.data())
def test_whatever_fails_every_shard_ends_done_or_given_up_and_no_lost_host_works_on(data: st.DataObject) -> None:
    each = data.draw(st.booleans())
    dispatch = begun(KINDS, each=each)
    running: list[Job] = []
    done: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    out: set[str] = set()
    restored: Counter[str] = Counter()
    touched: set[str] = set()
    while True:
        job = dispatch.next()
        if job is not None:
            assert job.host not in {other.host for other in running}, "one job at a time"
            assert job.step is Step.RESTORE or job.host not in out, "a host that is lost is left alone"
            running.append(job)
            touched.add(job.host)
            if job.shard:
                assert job.shard.kind == KINDS[job.host]
                tried[job.shard.title] += 1
            restored[job.host] += job.step is Step.RESTORE
            if data.draw(st.booleans()):
                continue
        if not running:
            break
        ended = running.pop(data.draw(st.integers(0, len(running) - 1)))
        ending = data.draw(st.sampled_from(Ending))
        dispatch.ended(ended, ending)
        if ended.shard and ending is Ending.DONE:
            done[ended.shard.title] += 1
        if ending is Ending.LOST or (ended.step is Step.READY and ending is not Ending.DONE):
            out.add(ended.host)
    assert not dispatch.lost
    every = {shard.title for shard in shards(KINDS, WORKLOADS, dict.fromkeys(WORKLOADS, 1.0), each)}
    given_up = Counter(shard.title for shard in dispatch.given_up)
    assert done + given_up == Counter(every), "done once or given up once"
    assert all(count <= MOST_ATTEMPTS for count in tried.values())
    assert restored == Counter(touched), "each host that was touched is restored once"


def test_a_host_is_made_ready_before_it_measures_and_restored_after_everything() -> None:
    steps = [job.step for job in finish(begun({"a": "epyc"}, workloads=["locks", "startup"]))]
    assert steps == [Step.READY, Step.MEASURE, Step.MEASURE, Step.RESTORE]


def test_what_a_dead_host_had_to_do_is_done_by_the_others_of_its_kind() -> None:
    jobs = finish(
        begun({"a": "epyc", "b": "epyc"}, workloads=["locks", "startup"]), {("a", Step.MEASURE, "locks"): Ending.LOST}
    )
    assert measured_by(jobs, "locks") == ["a", "b"]
    assert measured_by(jobs, "startup") == ["b"]
    assert [job.host for job in jobs if job.step is Step.RESTORE] == ["a", "b"], "a may be back by then"


def test_a_host_of_another_kind_takes_nothing_over() -> None:
    dispatch = begun({"a": "epyc", "d": "arm"}, workloads=["locks"])
    jobs = finish(dispatch, {("a", Step.MEASURE, "locks"): Ending.LOST})
    assert measured_by(jobs, "locks") == ["a"]
    assert [shard.title for shard in dispatch.given_up] == ["locks (epyc)"]


def test_a_workload_that_fails_is_tried_on_one_other_host_and_both_go_on() -> None:
    dispatch = begun({"a": "epyc", "b": "epyc", "c": "epyc"}, workloads=["locks", "startup", "download"])
    bad = {(host, Step.MEASURE, "locks"): Ending.FAILED for host in "abc"}
    jobs = finish(dispatch, bad)
    assert len(measured_by(jobs, "locks")) == len(set(measured_by(jobs, "locks"))) == MOST_ATTEMPTS
    assert [shard.workload for shard in dispatch.given_up] == ["locks"]
    assert len(measured_by(jobs, "startup")) == len(measured_by(jobs, "download")) == 1


def test_a_host_that_cannot_be_made_ready_measures_nothing() -> None:
    jobs = finish(
        begun({"a": "epyc", "b": "epyc"}, workloads=["locks", "startup"]), {("a", Step.READY, ""): Ending.FAILED}
    )
    assert measured_by(jobs, "locks") == measured_by(jobs, "startup") == ["b"]


def test_what_a_host_must_measure_itself_goes_to_no_other() -> None:
    dispatch = begun({"a": "epyc", "b": "epyc"}, each=True, workloads=["locks"])
    jobs = finish(dispatch, {("a", Step.MEASURE, "locks"): Ending.LOST})
    assert measured_by(jobs, "locks") == ["a", "b"], "each once, its own"
    assert [shard.title for shard in dispatch.given_up] == ["locks (a)"]


def test_hosts_are_restored_side_by_side_and_not_before_all_is_measured() -> None:
    dispatch = begun({"a": "epyc", "b": "epyc"}, workloads=["locks", "startup"])
    first, second = dispatch.next(), dispatch.next()
    assert first
    assert second
    for job in (first, second):
        dispatch.ended(job, Ending.DONE)
    first, second = dispatch.next(), dispatch.next()
    assert first
    assert second
    dispatch.ended(first, Ending.DONE)
    assert dispatch.next() is None, "b still measures, and may lose its workload to a"
    dispatch.ended(second, Ending.DONE)
    last = [dispatch.next(), dispatch.next()]
    assert [(job.host, job.step) for job in last if job] == [("a", Step.RESTORE), ("b", Step.RESTORE)]


def test_a_host_without_work_is_not_touched() -> None:
    jobs = finish(
        Dispatch.of({"a": "epyc", "b": "epyc"}, {"a": [Shard(kind="epyc", workload="locks", expected_s=1)], "b": []})
    )
    assert {job.host for job in jobs} == {"a"}


def test_a_host_that_an_earlier_run_could_not_restore_is_taken_back_though_it_has_no_work() -> None:
    jobs = finish(Dispatch.of({"a": "epyc"}, {"a": []}, dirty=["a"]))
    assert [job.step for job in jobs] == [Step.READY, Step.RESTORE]


NAMES = st.text("abcdefgh", min_size=1, max_size=3)
HOSTS = st.dictionaries(NAMES, st.sampled_from(["arm", "epyc", "xeon"]), min_size=1, max_size=8)
TIMES = st.dictionaries(NAMES, st.floats(1, 10_000), min_size=1, max_size=12)


@given(HOSTS, TIMES)
def test_every_workload_is_measured_once_in_each_kind(hosts: dict[str, str], times: dict[str, float]) -> None:
    plan = assign(shards(hosts, list(times), times, each=False), hosts)
    counted = Counter((shard.kind, shard.workload) for of_host in plan.values() for shard in of_host)
    assert counted == {(kind, workload): 1 for kind in set(hosts.values()) for workload in times}


@given(HOSTS, TIMES)
def test_a_host_measures_for_its_own_kind_alone(hosts: dict[str, str], times: dict[str, float]) -> None:
    plan = assign(shards(hosts, list(times), times, each=False), hosts)
    assert all(shard.kind == hosts[name] for name, of_host in plan.items() for shard in of_host)


@given(HOSTS, TIMES)
def test_without_its_shortest_workload_no_host_has_more_to_do_than_another_of_its_kind(
    hosts: dict[str, str], times: dict[str, float]
) -> None:
    plan = assign(shards(hosts, list(times), times, each=False), hosts)
    for name, of_host in plan.items():
        least = min(load_s(plan[other]) for other in hosts if hosts[other] == hosts[name])
        shortest = min((shard.expected_s for shard in of_host), default=0)
        assert load_s(of_host) - shortest <= least + 1e-6


@given(HOSTS, TIMES)
def test_asked_of_each_every_host_measures_every_workload(hosts: dict[str, str], times: dict[str, float]) -> None:
    plan = assign(shards(hosts, list(times), times, each=True), hosts)
    assert all(sorted(shard.workload for shard in plan[name]) == sorted(times) for name in hosts)


def test_what_no_host_can_measure_is_in_no_plan() -> None:
    orphan = Shard(kind="arm", workload="locks", expected_s=1)
    elsewhere = Shard(kind="epyc", workload="locks", host="gone", expected_s=1)
    assert assign([orphan, elsewhere], {"a": "epyc"}) == {"a": []}


def test_a_workload_takes_as_long_as_it_last_did() -> None:
    assert expectations({"locks": 10}, [("locks", 50), ("locks", 70), ("gone", 9)]) == {"locks": 70}


def test_a_workload_never_measured_is_guessed_as_far_off_as_the_others_are() -> None:
    found = expectations({"locks": 10, "startup": 30}, [("locks", 20)])
    assert found == {"locks": 20, "startup": 60}


def test_without_any_measurement_the_guess_stands() -> None:
    assert expectations({"locks": 10}, []) == {"locks": pytest.approx(10)}


def test_the_plan_names_hosts_by_kind_with_their_work_and_about_how_long_it_takes() -> None:
    hosts = {"a": "epyc", "b": "epyc", "c": "arm"}
    plan = assign(shards(hosts, ["locks"], {"locks": 600}, each=False), hosts)
    assert plan_lines(plan, hosts) == [
        "kind epyc",
        "  a: locks (about 10:00)",
        "  b: nothing, unless another host fails",
        "kind arm",
        "  c: locks (about 10:00)",
    ]


KIND = Kind(name="epyc-2", cpu="AMD EPYC", cores=2, kernel="6.18.0")
FACTS: dict[str, Any] = {"cpu": "AMD EPYC", "cores": 2, "kernel": "6.18.0", "memory_bytes": 8}


def test_a_host_with_the_facts_of_its_kind_is_not_refused() -> None:
    assert kind_mismatch(KIND, FACTS) == ""


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"cores": 4}, ["cores '4' instead of '2'"]),
        ({"cpu": "Xeon"}, ["cpu 'Xeon' instead of 'AMD EPYC'"]),
        ({"kernel": "6.1", "cores": 4}, ["cores '4' instead of '2'", "kernel '6.1' instead of '6.18.0'"]),
    ],
)
def test_a_host_with_other_facts_is_refused_in_one_sentence(change: dict[str, Any], named: list[str]) -> None:
    found = kind_mismatch(KIND, FACTS | change)
    assert "'epyc-2'" in found
    assert [one for one in named if one not in found] == []
    assert found.count("instead of") == len(named)
