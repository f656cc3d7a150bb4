"""What an experiment is made of, before and after the engine has its say."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from docker.errors import DockerException

from interlock.catalog.project import Catalog
from interlock.catalog.workloads import Benchmark
from interlock.engine.ended import Ended
from interlock.engine.ownership import Life
from interlock.engine.protocol import Engine
from interlock.errors import EngineError, Interrupted, OutputError, StoreError, UsageError
from interlock.measure import disturbances, experiment, lock
from interlock.measure.assignment import Assignment
from interlock.measure.ending import Ending
from interlock.measure.watching import Observers, ProgressUpdate
from interlock.measure.workload import WorkloadResult
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, EngineName, Experiment, Outcome, PackageSet, State
from interlock.results.journal import JOURNAL_FILE, KILLED
from tests.builders import (
    METRIC,
    ScriptedNetwork,
    ScriptedSandbox,
    make_built,
    make_cost,
    make_ended,
    make_facts,
    make_network,
    make_workload,
)
from tests.measure.assigned import assigned
from tests.results.writer import files_of


def test_warnings_come_in_the_order_of_the_workloads() -> None:
    measured = {
        key: WorkloadResult(make_workload(), [], warnings=[f"{key}: hot", f"{key}: busy"])
        for key in ("locks", "startup")
    }
    expected = ["locks: hot", "locks: busy", "startup: hot", "startup: busy"]
    assert experiment.warnings_of(measured, is_elsewhere=False) == expected
    # A machine elsewhere cannot be watched, but its processes show whether they were steady.
    assert experiment.warnings_of(measured, is_elsewhere=True) == [disturbances.REMOTE, *expected]


class DyingEngine:
    """An engine that answers until its processes have been started so often; then nothing of it does."""

    name, is_elsewhere = EngineName.HOST, False

    def __init__(self, starts: int, error: Exception | None = None) -> None:
        self.starts, self.asked = starts, 0
        self.error = error or EngineError(found="nobody answers", todo="Start it.")

    def facts(self) -> dict[str, str]:
        self._require_alive()
        self.asked += 1
        return {"name": "host", "version": "1", "storage_driver": "none"}

    def _require_alive(self) -> None:
        if self.starts < 0:
            raise self.error

    def run(self, _sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        if "--loops" not in argv:
            return make_ended()
        self.starts -= 1
        self._require_alive()
        report: dict[str, object] = {"interlock": 1, "loops": 1, "values": [0.5]}
        if argv[argv.index("--loops") + 1] == "auto":
            report |= {"values": [], "calibration": [[1, 0.5]]}
        cost = {"interlock_process": make_cost().model_dump()}
        return make_ended(f"{json.dumps(report)}\n{json.dumps(cost)}\n")

    def set_up(self, _owner: str, _needs: object) -> ScriptedNetwork:
        self._require_alive()
        return make_network(self.run)

    def installer(self, known: Catalog, *_: object) -> SimpleNamespace:
        return SimpleNamespace(catalog=known)

    def owners(self) -> dict[str, Life]:
        return {}

    def clean_up(self, _owner: str) -> None:
        if self.starts < 0:
            raise EngineError(found="nobody answers", todo="Start it.")


def small_assignment(results: Path, resumes: Experiment | None = None, **changes: Any) -> Assignment:
    """Two workloads of one program each, on one variant and its twin, for three rounds; with changes of it."""
    plain = assigned([make_built("cpython-3.13")], "cpython-3.13")
    names = ["first", "second"]
    program = next(each for each in plain.catalog.workloads.values() if each.program)
    workloads = {name: make_workload(name).model_copy(update={"program": program.program}) for name in names}
    settings = plain.settings.model_copy(update={"workloads": names, "rounds": 3, "profiled": False})
    known = plain.catalog.model_copy(
        update={
            "workloads": workloads,
            "variants": {
                name: one.model_copy(update={"control": None}) for name, one in plain.catalog.variants.items()
            },
        }
    )
    small = dataclasses.replace(plain, catalog=known, results=results, settings=settings, resumes=resumes)
    return dataclasses.replace(small, **changes)


def run_small(engine: DyingEngine, given: Assignment, watching: Observers | None = None) -> Path:
    return experiment.execute(cast(Engine, engine), given, watching or Observers(lambda _: None))


def run_until_signal(engine: DyingEngine, given: Assignment) -> tuple[Experiment, Ending]:
    """Run it while signals are listened to; return its record and what ended it."""
    ending = Ending()
    with ending.listening():
        folder = run_small(engine, given, observers(ending))
    return store.read_experiment(folder), ending


def died(results: Path, starts: int, error: Exception | None = None) -> tuple[Path, Experiment, EngineError]:
    """The folder, the record and the error of an experiment whose engine died after so many starts."""
    with pytest.raises(EngineError) as caught:
        run_small(DyingEngine(starts, error), small_assignment(results))
    (folder,) = results.iterdir()
    return folder, store.read_experiment(folder), caught.value


# Each workload is started twice to calibrate, and twice in each of three rounds.
@pytest.mark.parametrize(("starts", "first", "second"), [(2, 0, 0), (5, 1, 0), (8, 3, 0), (14, 3, 2)])
def test_what_was_measured_before_an_engine_died_is_kept_and_goes_on(
    starts: int, first: int, second: int, tmp_path: Path
) -> None:
    engine = DyingEngine(starts)
    with pytest.raises(EngineError, match="nobody answers"):
        run_small(engine, small_assignment(tmp_path))
    (folder,) = tmp_path.iterdir()
    found = store.read_experiment(folder)
    assert "nobody answers" in found.ended_by
    assert {name: "protocol.py" in sums for name, sums in found.programs.items()} == {"first": True, "second": True}
    assert engine.asked == 1

    def rounds_of(name: str) -> int:
        values = store.read_values(store.cell_path(folder, found.host["folder"], "cpython-3.13", None, name))
        return len(values["uncontended"].processes) if values else 0

    assert (rounds_of("first"), rounds_of("second")) == (first, second)
    run_small(DyingEngine(99), small_assignment(tmp_path, found))
    found = store.read_experiment(folder)
    assert (found.ended_by, found.unfinished) == ("", [])
    assert (rounds_of("first"), rounds_of("second")) == (3, 3)
    names = [found.host["folder"], "experiment.json", "SHA256SUMS"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    said = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=folder, capture_output=True, text=True, check=True)
    assert len(said.stdout.splitlines()) == len([*folder.glob("*/*/*.json")])


def test_of_two_that_go_on_with_one_experiment_the_second_does_not_write_over_what_the_first_added(
    tmp_path: Path,
) -> None:
    folder, before, _ = died(tmp_path, 5)
    store.write_json(folder / EXPERIMENT_FILE, before.model_copy(update={"duration_s": before.duration_s + 60}))
    there = (folder / EXPERIMENT_FILE).read_bytes()
    with pytest.raises(UsageError) as caught:
        run_small(DyingEngine(99), small_assignment(tmp_path, before))
    assert (caught.value.key, (folder / EXPERIMENT_FILE).read_bytes()) == ("--resume", there)


def test_an_experiment_that_goes_on_knows_the_facts_of_its_interpreters(tmp_path: Path) -> None:
    folder, before, _ = died(tmp_path, 2)
    before = before.model_copy(update={"facts": {"cpython-3.13": make_facts()}})
    engine, watching = cast(Engine, DyingEngine(99)), Observers(lambda _: None)
    resources = experiment.set_up(engine, "owner", small_assignment(tmp_path, before), watching, folder)
    assert (resources.known.facts, resources.known.silent) == (before.facts, set())


@pytest.mark.parametrize("error", [BrokenPipeError(), OutputError(BrokenPipeError(32, "Broken pipe"))])
def test_what_was_started_is_removed_when_nobody_reads_the_output_any_more(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, removed = DyingEngine(99), list[str]()
    monkeypatch.setattr(engine, "clean_up", removed.append)

    def closed(update: ProgressUpdate) -> None:
        raise error

    with pytest.raises(type(error)):
        run_small(engine, small_assignment(tmp_path), Observers(closed))
    assert len(removed) == 1


@pytest.mark.parametrize("stays", [False, True])
def test_what_killed_runs_left_at_work_is_removed_before_anything_is_measured(
    stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, done = DyingEngine(99), list[str]()
    lives = {"killed": Life.DEAD, "waits": Life.LIVING, "elsewhere": Life.UNKNOWN}

    def set_up(_owner: str, _needs: object) -> ScriptedNetwork:
        done.append("measured")
        return make_network(engine.run)

    def clean_up(owner: str) -> None:
        done.append(owner)
        if stays and owner == "killed":
            raise EngineError(found="it stays", todo="Remove it.")

    for name, act in {"owners": lambda: lives, "set_up": set_up, "clean_up": clean_up}.items():
        monkeypatch.setattr(engine, name, act)
    described = store.read_experiment(run_small(engine, small_assignment(tmp_path)))
    assert done[:-1] == ["killed", "measured"]
    assert not described.ended_by


def test_nothing_is_added_to_an_experiment_with_a_raw_file_that_changed(tmp_path: Path) -> None:
    folder, found, _ = died(tmp_path, 8)
    path = store.cell_path(folder, found.host["folder"], "cpython-3.13", None, "first")
    path.write_text(path.read_text() + " ")
    before = files_of(folder)
    with pytest.raises(StoreError) as caught:
        run_small(DyingEngine(99), small_assignment(tmp_path, found))
    assert (caught.value.file, files_of(folder)) == (str(path), before)


@pytest.mark.parametrize("error", [None, ConnectionRefusedError(111, "refused"), DockerException("gone")])
def test_the_error_that_ends_an_experiment_says_how_it_goes_on_whatever_else_fails_then(
    error: Exception | None, tmp_path: Path
) -> None:
    folder, _, said = died(tmp_path, 8, error)
    assert f"--resume {folder.name}" in said.todo


def test_a_second_signal_within_a_call_of_the_engine_is_no_answer_of_the_engine(tmp_path: Path) -> None:
    """It was 'the container engine's answer cannot be read (Interrupted ...)', with the engine's exit code."""
    client: dict[str, Any] = {"__name__": "docker.api.client", "error": Interrupted()}
    exec("def call():\n    raise error", client)  # noqa: S102  a frame of the SDK's

    class Interrupting(DyingEngine):
        def _require_alive(self) -> None:
            if self.starts < 0:
                client["call"]()

    with pytest.raises(Interrupted):
        run_small(Interrupting(5), small_assignment(tmp_path))
    (folder,) = tmp_path.iterdir()
    assert store.read_experiment(folder).unfinished == ["first"]


def test_a_disk_that_is_full_also_for_what_was_measured_is_told_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of its errors was said, without --resume and without where the values are."""
    engine = DyingEngine(99)

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:

        def fill(update: ProgressUpdate) -> None:
            if update.activity == "round 3 of 3":
                disk.setattr(os, "fsync", full)

        with pytest.raises(StoreError) as caught:
            run_small(engine, small_assignment(tmp_path), Observers(fill))
    (folder,) = tmp_path.iterdir()
    assert (caught.value.file, f"--resume {folder.name}" in caught.value.todo) == (str(folder / JOURNAL_FILE), True)
    assert store.read_experiment(folder).unfinished == ["first"]
    assert not (folder / JOURNAL_FILE).exists()


class Installing(DyingEngine):
    """An engine that installs this for whatever is required."""

    def __init__(self, starts: int, packages: PackageSet) -> None:
        super().__init__(starts)
        self.packages = packages

    def installer(self, known: Catalog, *_: object) -> SimpleNamespace:
        return SimpleNamespace(
            catalog=known, tidy=lambda: None, ensure_all=lambda wanted: [self.packages for _ in wanted]
        )


def requiring(results: Path, resumes: Experiment | None = None) -> Assignment:
    """The small assignment, whose second workload requires a package."""
    given = small_assignment(results, resumes)
    workloads = given.catalog.workloads
    second = workloads["second"].model_copy(update={"requirements": ["waitress"]})
    known = given.catalog.model_copy(update={"workloads": workloads | {"second": second}})
    return dataclasses.replace(given, catalog=known)


OLD, NEW = ({"waitress": version, "same": "1"} for version in ("3.0.1", "3.0.2"))
GONE = Outcome(state=State.FAILED, reason="no index answers")


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (PackageSet(versions=OLD), ""),
        (PackageSet(versions=NEW), "waitress 3.0.1 to 3.0.2"),
        (PackageSet(versions={"waitress": "3.0.1"}), "same 1 to none"),
        (PackageSet(outcome=GONE), "no index answers"),
    ],
)
# Within the first workload the second one has no values yet, and may have any packages.
@pytest.mark.parametrize("starts", [5, 11])
def test_what_goes_on_has_the_packages_that_it_was_measured_with(
    starts: int, now: PackageSet, said: str, tmp_path: Path
) -> None:
    """Rounds with two versions of a library were one row, and what could not be installed again failed."""
    with pytest.raises(EngineError):
        run_small(Installing(starts, PackageSet(versions=OLD)), requiring(tmp_path))
    (folder,) = tmp_path.iterdir()
    before, there = store.read_experiment(folder), files_of(folder)
    engine, given = Installing(99, now), requiring(tmp_path, before)
    if not said or starts == 5:
        run_small(engine, given)
        assert store.read_experiment(folder).unfinished == []
        return
    with pytest.raises(UsageError, match=rf"^--resume: .*{said}") as caught:
        run_small(engine, given)
    assert (files_of(folder), folder.name in caught.value.todo) == (there, False)


class FailsAt(DyingEngine):
    """An engine that does not answer when it is to do this."""

    def __init__(self, step: str) -> None:
        super().__init__(99)
        setattr(self, step, self.refuse)

    def refuse(self, *_: object) -> NoReturn:
        raise EngineError(found="nobody answers", todo="Start it.")


@pytest.mark.parametrize(("step", "ended_by", "said"), [("set_up", "error", "--resume "), ("clean_up", "", "clean ")])
def test_an_engine_that_dies_between_two_parts_or_at_the_end_is_told_with_where_the_values_are(
    step: str, ended_by: str, said: str, tmp_path: Path
) -> None:
    """After hours of measuring it was 'nobody answers', and nothing else."""
    folder = run_small(DyingEngine(99), small_assignment(tmp_path, first_look_alone=True))
    with pytest.raises(EngineError) as caught:
        run_small(FailsAt(step), small_assignment(tmp_path, store.read_experiment(folder)))
    after = store.read_experiment(folder)
    assert (ended_by in after.ended_by, bool(after.ended_by)) == (True, bool(ended_by))
    assert (str(folder) in caught.value.todo, f"{said}{folder.name}" in caught.value.todo) == (True, True)


def test_what_ends_an_experiment_once_all_is_measured_leaves_nothing_to_resume(tmp_path: Path) -> None:
    """Its report named a command that answered 'is complete': after Ctrl-C at the end, and after a kill there."""
    records: list[Experiment] = []

    class Leaving(DyingEngine):
        def clean_up(self, _owner: str) -> None:
            (folder,) = tmp_path.iterdir()
            records.append(store.read_experiment(folder))  # what a kill now would leave
            os.kill(os.getpid(), signal.SIGINT)

    record, ending = run_until_signal(Leaving(99), small_assignment(tmp_path))
    records.append(record)
    assert ending.exit_code == 130
    assert [(each.ended_by, each.unfinished) for each in records] == [("", [])] * 2


def test_an_engine_that_died_before_anything_was_measured_leaves_no_folder(tmp_path: Path) -> None:
    for starts in (-1, 0, 1):
        with pytest.raises(EngineError):
            run_small(DyingEngine(starts), small_assignment(tmp_path))
        assert list(tmp_path.iterdir()) == []


def observers(ending: Ending, written: list[Path] | None = None) -> Observers:
    on_record = (lambda _: None) if written is None else written.append
    return Observers(lambda _: None, ending=ending, on_record=on_record)


def test_what_an_engine_makes_for_itself_takes_nothing_of_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making the instruments took nine minutes of a budget of four, and nothing was measured."""
    clock = [0.0]
    monkeypatch.setattr("interlock.measure.ending.time", SimpleNamespace(monotonic=lambda: clock[0]))

    class SlowEngine(DyingEngine):
        def set_up(self, owner: str, needs: object) -> ScriptedNetwork:
            clock[0] += 1000
            return super().set_up(owner, needs)

    ending = Ending(budget_s=60)
    folder = run_small(SlowEngine(99), small_assignment(tmp_path), observers(ending))
    found = store.read_experiment(folder)
    assert (found.ended_by, found.unfinished, sorted(found.times)) == ("", [], ["first", "second"])


def test_the_first_look_alone_leaves_a_record_that_goes_on_with_all_rows(tmp_path: Path) -> None:
    written: list[Path] = []
    given = small_assignment(tmp_path, first_look_alone=True)
    folder = run_small(DyingEngine(99), given, observers(Ending(), written))
    before = store.read_experiment(folder)
    assert (before.ended_by, before.unfinished) == (KILLED, ["first", "second"])
    assert written == [folder] * 3
    written.clear()
    run_small(DyingEngine(99), small_assignment(tmp_path, before), observers(Ending(), written))
    after = store.read_experiment(folder)
    assert (after.ended_by, after.unfinished, after.started) == ("", [], before.started)
    # Before the first block, and between the two workloads; the last report is the whole one's.
    assert written == [folder] * 2


def test_what_was_measured_before_stays_in_the_record_if_a_signal_comes_while_its_cells_are_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a first look were 'not measured' in the report of whoever ended the rest."""
    folder = run_small(DyingEngine(99), small_assignment(tmp_path, first_look_alone=True))
    before = store.read_experiment(folder)
    opened: list[str] = []

    class Leaving(DyingEngine):
        def set_up(self, owner: str, needs: object) -> ScriptedNetwork:
            network = super().set_up(owner, needs)

            def open_sandbox(image_id: str, *_: object) -> ScriptedSandbox:
                if opened:
                    os.kill(os.getpid(), signal.SIGINT)
                opened.append(image_id)
                return ScriptedSandbox(image_id, self.run)

            monkeypatch.setattr(network, "open_sandbox", open_sandbox)
            return network

    after, _ = run_until_signal(Leaving(99), small_assignment(tmp_path, before))
    assert (len(opened), after.ended_by) == (1, "Ctrl-C")
    assert {(cell.label, cell.workload) for cell in after.cells} == {
        (cell.label, cell.workload) for cell in before.cells
    }
    assert {cell.outcome.state for cell in after.cells} == {State.OK}
    assert sorted(after.unfinished) == ["first", "second"]


class ListingIsLeft(DyingEngine):
    """An engine in which Ctrl-C comes while a program is asked which benchmarks it has."""

    def run(self, sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        if "--worker-task" in argv:
            os.kill(os.getpid(), signal.SIGINT)
        return super().run(sandbox, argv)


def test_what_was_ended_before_its_program_had_said_what_it_has_is_not_measured_and_keeps_what_it_had(
    tmp_path: Path,
) -> None:
    suite = make_workload("first", kind="pyperf", program="suite.py", metric=METRIC, benchmarks=[])

    def leave(resumes: Experiment | None = None) -> Experiment:
        given = small_assignment(tmp_path, resumes)
        workloads = {**given.catalog.workloads, "first": suite}
        given = dataclasses.replace(given, catalog=given.catalog.model_copy(update={"workloads": workloads}))
        return run_until_signal(ListingIsLeft(99), given)[0]

    left = leave()
    cells = [cell for cell in left.cells if cell.workload == "first"]
    assert {cell.outcome.state for cell in cells} == {State.NOT_MEASURED}
    assert all(cell.benchmarks for cell in cells)
    assert (left.ended_by, left.unfinished) == ("Ctrl-C", ["first"])
    known = suite.model_copy(update={"benchmarks": [Benchmark(name="add", metric=METRIC)], "metric": None})
    again = leave(left.model_copy(update={"workloads": {**left.workloads, "first": known}}))
    assert [one.name for one in again.workloads["first"].benchmarks] == ["add"]


@pytest.mark.parametrize(("budget_s", "expected"), [(105, [4, 4]), (1000, [6, 6]), (20, [2, 0])])
def test_of_a_budget_every_row_has_its_first_rounds_before_any_has_more(
    budget_s: float, expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three workloads of four were decided and refined, and the fourth had one round for all of its rows."""
    clock, at_work, started = [0.0], ["", ""], Counter[tuple[str, str]]()
    monkeypatch.setattr("interlock.measure.ending.time", SimpleNamespace(monotonic=lambda: clock[0]))
    given, names = small_assignment(tmp_path), ["cpython-3.13", "cpython-3.14"]
    settings = given.settings.model_copy(update={"variants": names, "rounds": 4, "rounds_limit": 6})
    given = dataclasses.replace(given, built=list(map(make_built, names)), settings=settings)

    class Wavering(DyingEngine):
        """Processes of the second workload take three times as long, and no row is ever decided."""

        def run(self, sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
            ended = super().run(sandbox, argv)
            clock[0] += {"first": 2, "second": 6}.get(at_work[0], 0) * ("--loops" in argv)
            started[at_work[0], at_work[1]] += 1
            wavers = at_work[1] == names[1] and started[at_work[0], at_work[1]] % 2
            return make_ended(ended.stdout.replace("0.5", "0.63")) if wavers else ended

    def note(update: ProgressUpdate) -> None:
        at_work[:] = update.workload, update.subject

    folder = experiment.run(cast(Engine, Wavering(999)), given, Observers(note, ending=Ending(budget_s)))
    found = store.read_experiment(folder)
    paths = [store.cell_path(folder, found.host["folder"], names[1], None, name) for name in ("first", "second")]
    values = [store.read_values(path) for path in paths]
    assert [len(each["uncontended"].processes) if each else 0 for each in values] == expected
    assert bool(found.ended_by) is (budget_s < 1000)


def test_a_signal_while_another_experiment_is_waited_for_ends_in_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a first look had shown was in no report, and its record said that its process had been killed."""
    monkeypatch.setattr(lock, "lock_path", lambda: tmp_path / "lock")
    ending, waited = Ending(budget_s=60), list[str]()

    def leave(update: ProgressUpdate) -> None:
        if "another one" in update.workload:
            waited.append(update.workload)
            os.kill(os.getpid(), signal.SIGINT)

    engine, watching = DyingEngine(0), Observers(leave, ending=ending)
    with lock.hold("another one", lambda _: None):
        folder = experiment.run(cast(Engine, engine), small_assignment(tmp_path / "results"), watching)
    found = store.read_experiment(folder)
    assert (len(waited), engine.starts, ending.exit_code) == (1, 0, 130)
    assert (found.ended_by, found.times) == ("Ctrl-C", {})


def test_what_a_signal_ends_before_anything_is_measured_has_a_record_of_its_builds(tmp_path: Path) -> None:
    ending = Ending()
    with ending.listening():
        os.kill(os.getpid(), signal.SIGTERM)
    unbuilt = make_built("cpython-2.7", Outcome(state=State.NOT_MEASURED, reason="SIGTERM came before it was built"))
    given, in_mode = small_assignment(tmp_path), "cpython-2.7+waking-sem-post"
    settings = given.settings.model_copy(update={"variants": ["cpython-3.13", in_mode]})
    given = dataclasses.replace(given, built=[*given.built, unbuilt], settings=settings)
    engine = DyingEngine(0)
    folder = run_small(engine, given, observers(ending))
    found = store.read_experiment(folder)
    assert found.ended_by == "SIGTERM"
    assert engine.starts == 0
    assert {cell.outcome.state for cell in found.cells} == {State.NOT_MEASURED}
    assert [built.outcome.state for built in found.images] == [State.OK, State.NOT_MEASURED]
    assert {label: mode.environment for label, mode in found.modes.items()} == {
        in_mode: {"LD_PRELOAD": "/interlock/waking_sem_post.so"}
    }
    # An experiment that has values keeps them.
    whole = run_small(DyingEngine(99), small_assignment(tmp_path), observers(Ending()))
    before = store.read_experiment(whole).model_copy(update={"name": whole.name, "unfinished": ["second"]})
    run_small(engine, small_assignment(tmp_path, before), observers(ending))
    after = store.read_experiment(whole)
    assert (after.cells, after.times) == (before.cells, before.times)
    assert (after.ended_by, after.unfinished) == ("SIGTERM", ["second"])
