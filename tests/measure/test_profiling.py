"""What the calls of a unit of work are, by phases or by a difference."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.errors import StoreError, WorkloadError
from interlock.measure import profiling
from interlock.measure.cells import Cell
from interlock.measure.ending import Ending
from interlock.measure.kinds import service as services
from interlock.measure.kinds.kind import COMMAND_PHASE, PROGRAM_PHASE
from interlock.measure.profiling import profile_by_difference, profile_by_phases
from interlock.measure.services import NoAnswerError
from interlock.measure.sessions import Session
from interlock.measure.watching import Observers
from interlock.results.experiments import Outcome, State, Subject
from interlock.results.profiles import BenchmarkProfile, Method, PhaseCounts, Probe
from tests.builders import make_benchmark, make_network, make_phase, make_profile, make_resources, make_workload


def test_calls_of_the_set_up_are_taken_off_before_dividing() -> None:
    profile = profile_by_difference(make_phase(futex=25), make_phase(futex=5), units=10)
    assert profile.futex_per_unit == 2.0


def test_a_probe_of_futex_alone_knows_neither_all_calls_nor_others() -> None:
    profile = profile_by_difference(make_phase(futex=3), make_phase(), units=1)
    assert [profile.knows(names) for names in ("all", ["read"], ["futex", "read"], ["futex"])] == [False] * 3 + [True]


def test_fewer_calls_than_the_set_up_made_are_0() -> None:
    assert profile_by_difference(make_phase(futex=3), make_phase(futex=5), units=10).futex_per_unit == 0


def timed(**calls: int) -> PhaseCounts:
    return make_phase(**calls).model_copy(update={"ns": 1})


def test_where_phases_are_told_apart_a_program_is_its_work_and_a_command_all_it_does() -> None:
    phases = {"startup": timed(futex=7, execve=1), "work": timed(futex=30)}
    assert profile_by_phases(phases, 10, PROGRAM_PHASE).futex_per_unit == 3.0
    assert profile_by_phases(phases, 1, COMMAND_PHASE).futex_per_unit == 7


@pytest.mark.parametrize(
    "phases",
    [{"startup": make_phase(), "work": make_phase()}, {"startup": timed(read=1), "work": make_phase(futex=0)}],
    ids=["nothing at all", "a program that marks no phase"],
)
def test_a_process_that_the_profiler_did_not_see_has_no_profile(phases: dict[str, PhaseCounts]) -> None:
    with pytest.raises(WorkloadError, match="'work'"):
        profile_by_phases(phases, 10, PROGRAM_PHASE)


def test_a_service_that_does_not_answer_is_watched_while_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def stays_silent(*_: Any) -> None:
        raise NoAnswerError(found="no answer on port 8000 in 20 s", todo="-")

    monkeypatch.setattr(services.Running, "make_ready", stays_silent)
    monkeypatch.setattr(services, "STANDS_STILL_S", 0.01)
    anything: Any = None
    track: Any = SimpleNamespace(session=SimpleNamespace(network=SimpleNamespace(ask=asked.append)))
    sandbox: Any = SimpleNamespace(mark_work=nullcontext)
    running = services.Running(track, anything, sandbox, "http://x/", anything)
    monkeypatch.setattr(services.Service, "running", lambda *_: nullcontext(running))
    service = services.Service(make_workload(), make_benchmark())
    with service.working(track, even_silent=True) as working:
        assert working.work() == 1
    assert set(asked) == {"http://x/"}
    assert working.stands_still == "no answer on port 8000 in 20 s"
    with pytest.raises(NoAnswerError), service.working(track):
        pass


def test_a_budget_that_ends_after_the_last_profile_has_cut_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that had failed came last: all was decided and profiled, and the workload was 'unfinished' for --resume."""
    clock = [0.0]
    monkeypatch.setattr("interlock.measure.ending.time", SimpleNamespace(monotonic=lambda: clock[0]))
    ending = Ending(budget_s=10)
    ending.start()
    ending.share(1, profiled=True)
    watching, probe = Observers(lambda _: None, ending=ending), Probe(method=Method.BPF)
    session = Session(make_resources(watching=watching, probe=probe), make_workload(), make_network())
    works, failed = (Cell(session, Subject(variant=name, image_id="i")) for name in ("a", "b"))
    failed.tracks["uncontended"].outcome = Outcome(state=State.FAILED, reason="it crashed")

    def profile_of(*_: object) -> BenchmarkProfile:
        clock[0] += 20
        return make_profile()

    monkeypatch.setattr(profiling, "profile_of", profile_of)
    profiling.profile_cells(session, [works, failed])
    assert works.tracks["uncontended"].profile == make_profile()
    assert (ending.has_cut, ending.reason) == (False, "")


def test_a_profile_without_the_phase_that_is_counted_is_refused() -> None:
    for name in ("startup", "work"):
        with pytest.raises(WorkloadError, match="saw no call"):
            profile_by_phases({name: timed(futex=1)}, 1, PROGRAM_PHASE)


def test_a_profile_that_cannot_be_kept_is_no_failed_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk was the cell's 'no profile', and the experiment went on without its journal."""
    session = Session(make_resources(probe=Probe(method=Method.BPF)), make_workload(), make_network())
    cell = Cell(session, Subject(variant="a", image_id="i"))
    monkeypatch.setattr(profiling, "profile_of", lambda *_: make_profile())

    def full() -> None:
        raise StoreError(file="journal", found="cannot be written", todo="-")

    with pytest.raises(StoreError):
        profiling.profile_cells(session, [cell], full)
    assert cell.profile_problem == ""
