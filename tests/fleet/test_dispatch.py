"""What hosts do next, whatever becomes of them: nothing is measured twice, nothing is forgotten, all is taken back."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from interlock.fleet import planning
from interlock.fleet.dispatch import MOST_ATTEMPTS, Dispatch, Job, Step
from interlock.fleet.record import Ending, Shard

KINDS = {"a": "epyc", "b": "epyc", "c": "epyc", "d": "arm"}
WORKLOADS = ["download", "import-loop", "locks", "startup"]


def begun(kinds: dict[str, str], *, each: bool = False, workloads: list[str] | None = None) -> Dispatch:
    names = WORKLOADS if workloads is None else workloads
    shards = planning.shards(kinds, names, dict.fromkeys(names, 60.0), each)
    return Dispatch.of(kinds, planning.assign(shards, kinds))


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
    every = {shard.title for shard in planning.shards(KINDS, WORKLOADS, dict.fromkeys(WORKLOADS, 1.0), each)}
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
    jobs = finish(Dispatch.of({"a": "epyc"}, {"a": []}, left=["a"]))
    assert [job.step for job in jobs] == [Step.READY, Step.RESTORE]
