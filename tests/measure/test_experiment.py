"""What an experiment is made of, before and after the engine has its say."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from docker.errors import DockerException

from interlock.catalog import project as catalogs
from interlock.catalog.project import Catalog
from interlock.catalog.variants import PRODUCTION, Gil, Mode
from interlock.engine.protocol import Ended, Engine
from interlock.errors import EngineError, StoreError, UsageError
from interlock.measure import disturbances, experiment
from interlock.measure.ending import Ending, part_of_budget
from interlock.measure.experiment import Wildcards
from interlock.measure.rounds import TimeUsed
from interlock.measure.stopwatch import Stopwatch
from interlock.measure.watching import ProgressUpdate
from interlock.measure.workload import WorkloadResult
from interlock.results import store
from interlock.results.experiments import Built, CellResult, EngineName, Experiment, Outcome, Settings, State, Times
from interlock.results.journal import KILLED
from tests.builders import (
    ScriptedNetwork,
    ScriptedSandbox,
    make_benchmark,
    make_cost,
    make_ended,
    make_facts,
    make_network,
    make_settings,
    make_workload,
)

NOT_REACHED = Outcome(state=State.NOT_MEASURED, reason="Ctrl-C came first")
GONE = Outcome(state=State.UNAVAILABLE, reason="example.org: no answer")


def image(variant: str, outcome: Outcome | None = None) -> Built:
    return Built(
        variant=variant, profile="standard", outcome=outcome or Outcome(state=State.OK), image_id=f"sha256:{variant}"
    )


def assignment(
    built: list[Built], baseline: str, variants: list[str] | None = None, conditions: list[str] | None = None
) -> experiment.Assignment:
    root = Path(__file__).parents[2]
    settings = Settings(
        quick=True,
        rounds=2,
        seed=1,
        baseline=baseline,
        profile="standard",
        variants=variants or [one.variant for one in built],
        workloads=["locks"],
        conditions=conditions or [],
        profiled=True,
    )
    return experiment.Assignment(catalogs.load(root), root, root / "results", built, settings, "nox -s matrix")


def test_the_baseline_is_3_13_where_it_was_built() -> None:
    assert experiment.choose_baseline(None, [image("cpython-2.7"), image("cpython-3.13")]) == "cpython-3.13"


def test_without_3_13_the_baseline_is_the_first_variant_that_was_built() -> None:
    built = [image("nogil-3.9", GONE), image("cpython-2.7"), image("cpython-3.13", GONE)]
    assert experiment.choose_baseline(None, built) == "cpython-2.7"


def test_a_wanted_baseline_that_was_not_built_is_an_error_with_the_choice() -> None:
    with pytest.raises(UsageError) as caught:
        experiment.choose_baseline("nogil-3.9", [image("cpython-2.7"), image("nogil-3.9", GONE)])
    assert caught.value.key == "--baseline"
    assert "nogil-3.9" in caught.value.found
    assert "cpython-2.7" in caught.value.todo


def test_with_nothing_built_there_is_nothing_to_measure_and_the_reasons_are_named() -> None:
    with pytest.raises(UsageError, match=r"nogil-3.9: example.org: no answer"):
        experiment.choose_baseline(None, [image("nogil-3.9", GONE)])


def test_a_wanted_number_of_rounds_is_exact_and_the_others_have_a_limit() -> None:
    for quick in (True, False):
        assert experiment.planned_rounds(quick, 4) == experiment.Rounds(4, None)
        usual = experiment.planned_rounds(quick, None)
        assert usual.limit is not None
        assert usual.least < usual.limit
    assert experiment.QUICK.limit is not None
    assert experiment.FULL.limit is not None
    assert experiment.QUICK.limit < experiment.FULL.limit


def test_warnings_come_in_the_order_of_the_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    measured = {
        key: WorkloadResult([], [], [], {}, TimeUsed(), [f"{key}: hot", f"{key}: busy"], make_workload(), Stopwatch())
        for key in ("locks", "startup")
    }
    expected = ["locks: hot", "locks: busy", "startup: hot", "startup: busy"]
    assert experiment.warnings_of(measured, is_elsewhere=False) == expected


def test_an_engine_on_another_machine_is_one_warning() -> None:
    measured = {
        key: WorkloadResult([], [], [], {}, TimeUsed(), [], make_workload(), Stopwatch())
        for key in ("locks", "startup")
    }
    (warning,) = experiment.warnings_of(measured, is_elsewhere=True)
    assert warning == disturbances.REMOTE


def test_every_image_and_the_baselines_twin_are_subjects() -> None:
    built = [image("cpython-2.7"), image("nogil-3.9", GONE), image("cpython-3.13")]
    subjects = experiment.subjects(assignment(built, "cpython-3.13"))
    assert [(one.label, one.image_id) for one in subjects] == [
        ("cpython-2.7", "sha256:cpython-2.7"),
        ("cpython-3.13", "sha256:cpython-3.13"),
        ("cpython-3.13+twin", "sha256:cpython-3.13"),
    ]


def test_workloads_are_measured_in_the_order_given_and_those_with_a_server_or_a_load_last() -> None:
    one = assignment([image("cpython-3.13")], "cpython-3.13")
    chosen = ["download", "locks", "service", "startup", "write"]
    one = dataclasses.replace(one, settings=one.settings.model_copy(update={"workloads": chosen}))
    assert one.to_measure == ["locks", "startup", "write", "download", "service"]
    order = ["startup", "blocking", "service", "locks"]
    assert dataclasses.replace(one, order=order).to_measure == ["startup", "locks", "write", "service", "download"]


def test_a_budget_is_shared_as_the_workloads_took_their_time_before() -> None:
    """Of equal shares a start had fourteen rounds, and the server's rows that joined had one."""
    took = {name: Times(measuring_s=seconds) for name, seconds in (("startup", 30), ("locks", 60), ("download", 90))}
    assert part_of_budget(["startup", "locks", "download"], took) == pytest.approx(1 / 6)
    assert part_of_budget(["locks", "download"], took) == pytest.approx(0.4)
    assert part_of_budget(["download"], took) == 1
    assert part_of_budget(["startup", "new"], took) == 0.5
    assert part_of_budget(["startup", "locks", "download"], {}) == pytest.approx(1 / 3)


def test_a_mode_is_the_variants_image_with_what_its_interpreter_is_started_with() -> None:
    built = [image("cpython-2.7"), image("cpython-3.13")]
    given = assignment(built, "cpython-3.13", ["cpython-2.7+waking-sem-post", "cpython-3.13"])
    mode, plain, twin = experiment.subjects(given)
    assert (mode.label, mode.image_id) == ("cpython-2.7+waking-sem-post", "sha256:cpython-2.7")
    assert mode.environment == {"LD_PRELOAD": "/interlock/waking_sem_post.so"}
    assert (plain.label, plain.environment) == ("cpython-3.13", {})
    assert twin.label == "cpython-3.13+twin"


def test_options_and_gil_of_a_mode_reach_its_subject() -> None:
    given = assignment([image("cpython-3.13")], "cpython-3.13", ["cpython-3.13", "cpython-3.13+locked"])
    mode = Mode(name="locked", summary="with the GIL", options=["-X", "gil=1"], gil=Gil.ON)
    variant = given.catalog.variants["cpython-3.13"].model_copy(update={"modes": [mode]})
    known = given.catalog.model_copy(update={"variants": {variant.name: variant}})
    plain, locked, twin = experiment.subjects(dataclasses.replace(given, catalog=known))
    assert (locked.options, locked.gil) == (["-X", "gil=1"], Gil.ON)
    assert {(one.label, *one.options, one.gil) for one in (plain, twin)} == {
        ("cpython-3.13", None),
        ("cpython-3.13+twin", None),
    }


def test_a_condition_is_the_baseline_in_other_surroundings_and_nobody_else() -> None:
    built = [image("cpython-2.7"), image("cpython-3.13")]
    given = assignment(built, "cpython-2.7", conditions=["scratch-on-image", "seccomp-unconfined"])
    found = {one.label: one.surroundings for one in experiment.subjects(given)}
    assert list(found) == [
        "cpython-2.7",
        "cpython-3.13",
        "cpython-2.7+scratch-on-image",
        "cpython-2.7+seccomp-unconfined",
        "cpython-2.7+twin",
    ]
    assert found["cpython-2.7+scratch-on-image"].scratch == "image"
    assert found["cpython-2.7+seccomp-unconfined"].seccomp == "unconfined"
    assert {found[label] for label in ("cpython-2.7", "cpython-3.13", "cpython-2.7+twin")} == {PRODUCTION}


def test_a_workload_never_reached_and_a_variant_without_image_have_cells_too() -> None:
    built = [image("cpython-2.7"), image("nogil-3.9", GONE)]
    settings = assignment(built, "cpython-2.7", conditions=["scratch-on-image"]).settings
    cells = experiment.cells_of("locks", settings, built, None, NOT_REACHED)
    assert [(cell.label, cell.outcome.state, cell.outcome.reason) for cell in cells] == [
        ("cpython-2.7", State.NOT_MEASURED, "Ctrl-C came first"),
        ("nogil-3.9", State.UNAVAILABLE, "example.org: no answer"),
        ("cpython-2.7+scratch-on-image", State.NOT_MEASURED, "Ctrl-C came first"),
    ]


def test_the_modes_of_an_unavailable_variant_are_unavailable_for_its_reason() -> None:
    built = [image("cpython-2.7", GONE), image("cpython-3.13")]
    given = assignment(built, "cpython-3.13", ["cpython-2.7", "cpython-2.7+waking-sem-post", "cpython-3.13"])
    cells = experiment.cells_of("locks", given.settings, built, None, NOT_REACHED)
    assert [(cell.variant, cell.mode, cell.outcome) for cell in cells[:2]] == [
        ("cpython-2.7", None, GONE),
        ("cpython-2.7", "waking-sem-post", GONE),
    ]
    assert [one.label for one in experiment.subjects(given)] == ["cpython-3.13", "cpython-3.13+twin"]


def test_measured_cells_keep_the_order_of_the_choice_and_the_twin_comes_last() -> None:
    ok = Outcome(state=State.OK)
    measured = WorkloadResult(
        cells=[
            CellResult(variant="b", mode="twin", workload="locks", outcome=ok),
            CellResult(variant="b", workload="locks", outcome=ok),
            CellResult(variant="a", mode="slow", workload="locks", outcome=ok),
            CellResult(variant="a", workload="locks", outcome=ok),
        ],
        limits=[],
        order=[],
        facts={},
        spent=TimeUsed(),
        warnings=[],
        workload=make_workload(),
        clock=Stopwatch(),
    )
    built = [image("a"), image("b")]
    settings = assignment(built, "b", ["a", "a+slow", "b"]).settings
    cells = experiment.cells_of("locks", settings, built, measured, NOT_REACHED)
    assert [cell.label for cell in cells] == ["a", "a+slow", "b", "b+twin"]


def test_the_command_that_repeats_an_experiment_names_every_choice() -> None:
    assert experiment.repeat_command(make_settings(["a", "b"])) == (
        "interlock matrix --variants a,b --workloads locks --quick --rounds 3 --baseline a --seed 7"
    )
    variants = make_settings(["a", "a+slow"]).model_copy(update={"conditions": ["c", "d"]})
    assert "--variants a,a+slow --workloads locks --conditions c,d --quick" in experiment.repeat_command(variants)
    adaptive = make_settings(["a"]).model_copy(update={"rounds_limit": 10})
    assert "--rounds" not in experiment.repeat_command(adaptive)
    assert " --variants all --workloads" in experiment.repeat_command(adaptive, Wildcards("all"))
    assert " --variants core --workloads core " in experiment.repeat_command(adaptive, Wildcards("core", "core"))
    changes = {"quick": False, "profiled": False, "profile": "release"}
    cut = make_settings(["a"]).model_copy(update={"budget_s": 600.0})
    assert experiment.repeat_command(cut).endswith(" --budget 600s")
    other = experiment.repeat_command(make_settings(["a"]).model_copy(update=changes))
    assert other.endswith(" --seed 7 --no-profile --release")


def test_a_cell_gets_the_programs_and_all_that_is_in_folders_beside_them(tmp_path: Path) -> None:
    for name in ("a.py", "a.toml", "lists/3.13.txt", "lists/deep/x.bin", "lists/__pycache__/y.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    programs = {"a.py": b"a.py", "lists/3.13.txt": b"lists/3.13.txt", "lists/deep/x.bin": b"lists/deep/x.bin"}
    assert experiment.programs_of(tmp_path) == programs


def test_a_quick_experiment_names_what_it_leaves_out() -> None:
    given = assignment([image("base")], "base")
    workload = make_workload(benchmarks=[make_benchmark("quick"), make_benchmark("slow", full_only=True)])
    known = given.catalog.model_copy(update={"workloads": {"locks": workload}})
    quick = dataclasses.replace(given, catalog=known)
    assert [one.name for one in quick.workloads["locks"].benchmarks] == ["quick"]
    assert quick.left_out == {"locks": ["slow"]}
    full = dataclasses.replace(quick, settings=given.settings.model_copy(update={"quick": False}))
    assert [one.name for one in full.workloads["locks"].benchmarks] == ["quick", "slow"]
    assert full.left_out == {}


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

    def clean_up(self, _owner: str) -> None:
        if self.starts < 0:
            raise EngineError(found="nobody answers", todo="Start it.")


def small_assignment(results: Path, resumes: Experiment | None = None) -> experiment.Assignment:
    """Two workloads of one program each, on one variant and its twin, for three rounds."""
    plain = assignment([image("cpython-3.13")], "cpython-3.13")
    names = ["first", "second"]
    program = next(one for one in plain.catalog.workloads.values() if one.program)
    workloads = {name: make_workload(name).model_copy(update={"program": program.program}) for name in names}
    changes = {"workloads": names, "rounds": 3, "profiled": False}
    settings = plain.settings.model_copy(update=changes)
    known = plain.catalog.model_copy(
        update={
            "workloads": workloads,
            "variants": {
                name: one.model_copy(update={"control": None}) for name, one in plain.catalog.variants.items()
            },
        }
    )
    return dataclasses.replace(plain, catalog=known, results=results, settings=settings, resumes=resumes)


def run_small(engine: DyingEngine, given: experiment.Assignment) -> Path:
    return experiment._run(cast(Engine, engine), given, experiment.Observers(lambda _: None), 0.0)


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
    assert engine.asked == 1

    def rounds_of(name: str) -> int:
        values = store.read_values(store.cell_path(folder, found.host["folder"], "cpython-3.13", None, name))
        return len(values["uncontended"].processes) if values else 0

    assert (rounds_of("first"), rounds_of("second")) == (first, second)
    run_small(DyingEngine(99), small_assignment(tmp_path, found.model_copy(update={"name": folder.name})))
    found = store.read_experiment(folder)
    assert (found.ended_by, found.unfinished) == ("", [])
    assert (rounds_of("first"), rounds_of("second")) == (3, 3)
    names = [found.host["folder"], "experiment.json", "SHA256SUMS"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    said = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=folder, capture_output=True, text=True, check=True)
    assert len(said.stdout.splitlines()) == len([*folder.glob("*/*/*.json")])


def test_an_experiment_that_goes_on_knows_the_facts_of_its_interpreters(tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        run_small(DyingEngine(2), small_assignment(tmp_path))
    (folder,) = tmp_path.iterdir()
    before = store.read_experiment(folder).model_copy(update={"facts": {"cpython-3.13": make_facts()}})
    record = experiment.Record(folder, datetime.datetime.now(datetime.UTC))
    given = small_assignment(tmp_path, before)
    engine = cast(Engine, DyingEngine(99))
    resources = experiment.set_up(engine, given, record, experiment.Observers(lambda _: None))
    assert (resources.known.facts, resources.known.silent) == (before.facts, set())


def test_what_was_started_is_removed_when_nobody_reads_the_output_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, removed = DyingEngine(99), list[str]()
    monkeypatch.setattr(engine, "clean_up", removed.append)

    def closed(update: ProgressUpdate) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        experiment._run(cast(Engine, engine), small_assignment(tmp_path), experiment.Observers(closed), 0.0)
    assert len(removed) == 1


def test_nothing_is_added_to_an_experiment_with_a_raw_file_that_changed(tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        run_small(DyingEngine(8), small_assignment(tmp_path))
    (folder,) = tmp_path.iterdir()
    found = store.read_experiment(folder).model_copy(update={"name": folder.name})
    path = store.cell_path(folder, found.host["folder"], "cpython-3.13", None, "first")
    path.write_text(path.read_text() + " ")
    before = {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    engine = DyingEngine(99)
    with pytest.raises(StoreError) as caught:
        run_small(engine, small_assignment(tmp_path, found))
    assert caught.value.file == str(path)
    assert {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()} == before


@pytest.mark.parametrize("error", [None, ConnectionRefusedError(111, "refused"), DockerException("gone")])
def test_the_error_that_ends_an_experiment_says_how_it_goes_on_whatever_else_fails_then(
    error: Exception | None, tmp_path: Path
) -> None:
    with pytest.raises(EngineError) as caught:
        run_small(DyingEngine(8, error), small_assignment(tmp_path))
    (folder,) = tmp_path.iterdir()
    assert f"--resume {folder.name}" in caught.value.todo


def test_an_engine_that_died_before_anything_was_measured_leaves_no_folder(tmp_path: Path) -> None:
    for starts in (-1, 0, 1):
        with pytest.raises(EngineError):
            run_small(DyingEngine(starts), small_assignment(tmp_path))
        assert list(tmp_path.iterdir()) == []


def observers(ending: Ending, written: list[Path] | None = None) -> experiment.Observers:
    on_record = (lambda _: None) if written is None else written.append
    return experiment.Observers(lambda _: None, ending=ending, on_record=on_record)


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
    engine = cast(Engine, SlowEngine(99))
    folder = experiment._run(engine, small_assignment(tmp_path), observers(ending), 0.0)
    found = store.read_experiment(folder)
    assert (found.ended_by, found.unfinished, sorted(found.times)) == ("", [], ["first", "second"])


def test_the_first_look_alone_leaves_a_record_that_goes_on_with_all_rows(tmp_path: Path) -> None:
    written: list[Path] = []
    given = dataclasses.replace(small_assignment(tmp_path), first_look_alone=True)
    folder = experiment._run(cast(Engine, DyingEngine(99)), given, observers(Ending(), written), 0.0)
    before = store.read_experiment(folder)
    assert (before.ended_by, before.unfinished) == (KILLED, ["first", "second"])
    assert written == [folder, folder]
    written.clear()
    again = small_assignment(tmp_path, before.model_copy(update={"name": folder.name}))
    experiment._run(cast(Engine, DyingEngine(99)), again, observers(Ending(), written), 0.0)
    after = store.read_experiment(folder)
    assert (after.ended_by, after.unfinished, after.started) == ("", [], before.started)
    # The last report is the whole one's.
    assert written == [folder]


def test_what_a_signal_ends_before_anything_is_measured_has_a_record_of_its_builds(tmp_path: Path) -> None:
    ending = Ending()
    with ending.listening():
        os.kill(os.getpid(), signal.SIGTERM)
    unbuilt = image("cpython-3.14", Outcome(state=State.NOT_MEASURED, reason="SIGTERM came before it was built"))
    given = small_assignment(tmp_path)
    settings = given.settings.model_copy(update={"variants": ["cpython-3.13", "cpython-3.14"]})
    given = dataclasses.replace(given, built=[*given.built, unbuilt], settings=settings)
    engine = DyingEngine(0)
    folder = experiment.record_builds(cast(Engine, engine), given, observers(ending))
    found = store.read_experiment(folder)
    assert found.ended_by == "SIGTERM"
    assert engine.starts == 0
    assert {cell.outcome.state for cell in found.cells} == {State.NOT_MEASURED}
    assert [one.outcome.state for one in found.images] == [State.OK, State.NOT_MEASURED]
    # An experiment that has values keeps them.
    whole = experiment._run(cast(Engine, DyingEngine(99)), small_assignment(tmp_path), observers(Ending()), 0.0)
    before = store.read_experiment(whole).model_copy(update={"name": whole.name, "unfinished": ["second"]})
    experiment.record_builds(cast(Engine, engine), small_assignment(tmp_path, before), observers(ending))
    after = store.read_experiment(whole)
    assert (after.cells, after.times) == (before.cells, before.times)
    assert (after.ended_by, after.unfinished) == ("SIGTERM", ["second"])
