"""What an experiment that was ended goes on with: its own values, on its own host, with its own images."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.catalog.variants import Gil, Mode
from interlock.catalog.workloads import Workload
from interlock.errors import UsageError
from interlock.measure import resumable
from interlock.measure.cells import Cell
from interlock.measure.programs import sums_of
from interlock.measure.pyperf_runs import in_block, program_run
from interlock.measure.sessions import Session
from interlock.results import store
from interlock.results.experiments import Built, Estimator, Experiment, Outcome, ProgramOutput, State, Subject, Times
from interlock.results.journal import joined
from interlock.results.profiles import CellProfile
from tests.builders import (
    OK,
    make_benchmark,
    make_built,
    make_cell,
    make_cost,
    make_experiment,
    make_facts,
    make_network,
    make_profile,
    make_resources,
    make_settings,
    make_variant,
    make_workload,
)

NOT_REACHED = Outcome(state=State.NOT_MEASURED, reason="Ctrl-C came first")
FAILED = Outcome(state=State.FAILED, reason="it crashed")


def ended(**changes: Any) -> Experiment:
    """Three workloads: one complete, one cut short, one that was not reached."""
    names = ["locks", "startup", "write"]
    settings = make_settings(["base", "a"]).model_copy(update={"workloads": names})
    times = Times(preparing_s=1, measuring_s=10, profiling_s=2)
    cells = [make_cell(label, name, times=times) for name in names[:2] for label in ("base", "a")]
    cells += [make_cell(label, "write", NOT_REACHED) for label in ("base", "a")]
    parts: dict[str, Any] = {
        "settings": settings,
        "workloads": {name: make_workload(name) for name in names},
        "cells": cells,
        "times": {"locks": times, "startup": times},
        "order": {"locks": [["base"]], "startup": [["base", "a"]]},
        "warnings": ["locks: busy"],
        "unfinished": ["startup"],
        "ended_by": "Ctrl-C",
        "measuring_s": 20.0,
    }
    return make_experiment(["base", "a"], **{**parts, **changes})


def test_an_interpreter_that_hung_before_is_not_asked_its_facts_again() -> None:
    late = Outcome(state=State.TIMED_OUT, reason="'locks' did not end within 10 s")
    cells = [make_cell(label, "locks", late) for label in ("base", "a")]
    cells.append(make_cell("base", "locks", late, mode="twin"))
    before = ended(cells=cells, facts={"base": make_facts()})
    assert resumable.silent_in(before) == {"a"}


@pytest.mark.parametrize(
    "changes", [{"times": {}, "ended_by": ""}, {"unfinished": [], "settings": make_settings(["base", "a"])}]
)
def test_what_was_cut_short_or_not_reached_remains_and_without_any_or_a_word_of_it_nothing_goes_on(
    changes: dict[str, Any],
) -> None:
    assert resumable.remaining(ended()) == ["startup", "write"]
    with pytest.raises(UsageError) as caught:
        resumable.remaining(ended(**changes))
    assert caught.value.key == "--resume"


@pytest.mark.parametrize(
    ("key", "value"), [("name", "other"), ("cpu", "Another CPU"), ("cores", 64), ("memory_bytes", 4 * 2**30)]
)
def test_another_host_is_refused_with_what_is_another(key: str, value: object) -> None:
    experiment = ended(host=make_experiment().host | {"name": "box", "cpu": "Example", "kernel": "6.1"})
    # Another kernel leaves another part of the memory: an update refused every --resume.
    here = {**experiment.host, "kernel": "6.18", "memory_bytes": experiment.host["memory_bytes"] - 5_000_000}
    resumable.require_same_host(experiment, here)
    with pytest.raises(UsageError, match=f"{key} .*{value}"):
        resumable.require_same_host(experiment, {**here, key: value})


def test_another_image_is_refused_with_its_variant_and_one_that_is_gone_is_no_other() -> None:
    """The advice was to begin anew, where space on a disk was all that it took."""
    experiment = ended()
    resumable.require_same_images(experiment, experiment.images)
    rebuilt = make_built("a").model_copy(update={"image_id": "sha256:other"})
    full = make_built("a", Outcome(state=State.FAILED, reason="no space left"))
    for now, said, is_other in ((rebuilt, "", True), (full, "no space left", False)):
        with pytest.raises(UsageError, match=rf"^--resume: a\b.*{said}") as caught:
            resumable.require_same_images(experiment, [make_built("base"), now])
        assert (caught.value.todo == resumable.BEGIN_ANEW) is is_other


def test_a_variant_whose_files_have_changed_is_refused_before_it_is_built() -> None:
    experiment = ended()
    there = [image.model_copy(update={"content_hash": "was"}) for image in experiment.images]
    experiment = experiment.model_copy(update={"images": there})
    lost = [image.model_copy(update={"outcome": Outcome(state=State.UNAVAILABLE, reason="")}) for image in there]
    resumable.require_same_files(experiment, lost)
    resumable.require_same_files(experiment, [Built(variant="a", outcome=lost[0].outcome)])
    with pytest.raises(UsageError, match=r"^--resume: a\b"):
        resumable.require_same_files(experiment, [lost[0], lost[1].model_copy(update={"content_hash": "is"})])


def catalog_of(workloads: Mapping[str, Workload], *variants: str) -> Catalog:
    made = {name: make_variant(name) for name in variants or ("base", "a")}
    return Catalog(bases={}, families={}, differences={}, variants=made, workloads=dict(workloads))


def test_a_workload_that_goes_on_must_be_what_it_was_and_one_that_is_complete_need_not() -> None:
    experiment = ended()
    changed = {name: make_workload(name, summary="another") for name in experiment.workloads}
    same = experiment.workloads
    complete = {**same, "locks": changed["locks"], "write": changed["write"]}
    resumable.require_same_catalog(experiment, catalog_of(complete), {})
    with pytest.raises(UsageError, match=r"workloads/startup\.toml"):
        resumable.require_same_catalog(experiment, catalog_of({**same, "startup": changed["startup"]}), {})
    with pytest.raises(UsageError, match="'write'"):
        resumable.require_same_catalog(experiment, catalog_of({name: same[name] for name in ("locks", "startup")}), {})


PROGRAMS = {"locks.py": b"import shared\n", "shared.py": b"", "other.py": b""}


@pytest.mark.parametrize(
    ("now", "named"),
    [
        (PROGRAMS, ""),
        ({**PROGRAMS, "other.py": b"changed"}, ""),
        ({**PROGRAMS, "shared.py": b"changed"}, "shared.py"),
        ({**PROGRAMS, "locks.py": b"import other\n"}, "locks.py"),
        ({"locks.py": PROGRAMS["locks.py"]}, "shared.py"),
    ],
)
def test_a_workload_that_goes_on_must_run_the_programs_that_it_ran(now: dict[str, bytes], named: str) -> None:
    """Their files may have changed, and the resumed half measured another thing."""
    workloads = {name: make_workload(name, program="locks.py") for name in ended().workloads}
    sums = {name: sums_of(workload, PROGRAMS) for name, workload in workloads.items()}
    experiment, known = ended(workloads=workloads, programs=sums), catalog_of(workloads)
    with pytest.raises(UsageError, match=rf"workloads/{named}") if named else nullcontext():
        resumable.require_same_catalog(experiment, known, now)
    # One that is complete is not measured again.
    complete = experiment.model_copy(update={"unfinished": []})
    resumable.require_same_catalog(complete, known, now)


@pytest.mark.parametrize(
    ("before", "is_refused"),
    [
        ({}, False),
        ({"summary": "said otherwise"}, False),
        ({"environment": {"PYTHON_GIL": "0"}}, True),
        ({"options": []}, True),
        ({"gil": "off"}, True),
        (None, True),
    ],
)
def test_a_row_goes_on_in_the_mode_that_it_had(before: dict[str, Any] | None, is_refused: bool) -> None:
    """Its environment or options may have changed: neither is part of an image."""
    now = Mode(name="mode", summary="A mode.", environment={"PYTHON_GIL": "1"}, options=["-Xgil=1"], gil=Gil.ON)
    modes = {} if before is None else {"a+mode": Mode.model_validate(now.model_dump() | before)}
    experiment = ended(modes=modes)
    experiment = experiment.model_copy(
        update={"settings": experiment.settings.model_copy(update={"variants": ["base", "a+mode"]})}
    )
    known = catalog_of(experiment.workloads)
    known = known.model_copy(update={"variants": known.variants | {"a": make_variant("a", modes=[now])}})
    with pytest.raises(UsageError, match=r"variants/a\.toml.*a\+mode") if is_refused else nullcontext():
        resumable.require_same_catalog(experiment, known, {})


def test_an_adapted_workload_must_be_what_it_was_but_for_what_its_program_lists() -> None:
    """No change of its file was noticed."""
    listed = make_benchmark("listed", asked_by=["-k", "listed"], profile_metric=None)
    kind = {"kind": "pytest-benchmark", "program": "suite"}
    for declared in ([], [listed.model_copy(update={"asked_by": []})]):
        metric = {} if declared else {"metric": listed.metric}
        now = make_workload("startup", benchmarks=declared, **kind, **metric)
        measured = now.model_copy(update={"benchmarks": [listed], "metric": None})
        experiment = ended(workloads={**ended().workloads, "startup": measured})
        resumable.require_same_catalog(experiment, catalog_of({**experiment.workloads, "startup": now}), {})
        changed = now.model_copy(update={"arguments": ["--fast"]})
        with pytest.raises(UsageError, match=r"workloads/startup\.toml"):
            resumable.require_same_catalog(experiment, catalog_of({**experiment.workloads, "startup": changed}), {})


def test_a_row_that_is_in_the_catalog_no_more_is_named() -> None:
    """It was an unexpected StopIteration, after the builds."""
    experiment = ended()
    in_mode = experiment.settings.model_copy(update={"variants": ["base", "a+mode"]})
    for known, gone in ((catalog_of(experiment.workloads, "base"), "a"), (catalog_of(experiment.workloads), "a+mode")):
        rows = in_mode if gone == "a+mode" else experiment.settings
        with pytest.raises(UsageError, match=f"'{re.escape(gone)}'"):
            resumable.require_same_catalog(experiment.model_copy(update={"settings": rows}), known, {})


def restored(folder: Path, experiment: Experiment, *benchmarks: str) -> Cell:
    """A new cell of the workload locks with these benchmarks, with what the experiment has of it."""
    workload = make_workload(benchmarks=[make_benchmark(name) for name in benchmarks])
    session = Session(make_resources(), workload, make_network())
    cell = Cell(session, Subject(variant="a", image_id="i"))
    resumable.restore(folder, experiment, cell)
    return cell


def write_values(path: Path, *blocks: int) -> None:
    workload = make_workload()
    benchmark = workload.benchmarks[0]
    runs = []
    for block in blocks:
        output = ProgramOutput(interlock=1, loops=2, inner_loops=1, values=[0.5, 0.25 * block])
        runs.append(in_block(program_run(workload, benchmark, output, make_cost(1.0)), block, Estimator.MEAN))
    store.write_runs(path, {benchmark.name: runs})


def test_a_cell_has_the_values_profiles_outcomes_notes_and_times_that_were_written(tmp_path: Path) -> None:
    outcomes = {"uncontended": OK, "other": FAILED, "late": NOT_REACHED}
    times = Times(measuring_s=10)
    experiment = ended(cells=[make_cell("a", benchmarks=outcomes, notes=["a note"], times=times)])
    path = store.cell_path(tmp_path, "box", "a", None, "locks")
    write_values(path, 1, 2)
    profile = make_profile()
    store.write_json(store.profile_path(path), CellProfile(benchmarks={"uncontended": profile}))
    cell = restored(tmp_path, experiment, *outcomes)
    track = cell.tracks["uncontended"]
    assert [run.values for run in track.runs] == [(0.25, 0.125), (0.25, 0.25)]
    assert track.profile == profile
    # What failed stays so; what was not measured is measured.
    assert {name: track.outcome for name, track in cell.tracks.items()} == {**outcomes, "late": OK}
    assert cell.notes == ["a note"]
    assert cell.clock.times == times
    # Written again, it is the same file.
    store.write_runs(tmp_path / "again.json", {"uncontended": track.runs})
    assert store.read_values(tmp_path / "again.json") == store.read_values(path)


def part(**changes: Any) -> Experiment:
    """What the second command measured: the rest of `startup`, of which `a` was opened again."""
    times = Times(preparing_s=2, measuring_s=7)
    cells = [
        *(make_cell(label, "locks", NOT_REACHED) for label in ("base", "a")),
        make_cell("base", "startup", NOT_REACHED),
        make_cell("a", "startup", FAILED, times=Times(measuring_s=17)),
        *(make_cell(label, "write", NOT_REACHED) for label in ("base", "a")),
    ]
    order = {"startup": [["a"]]}
    return ended(
        cells=cells, times={"startup": times}, order=order, warnings=["startup: hot"], unfinished=[], ended_by="",
        measuring_s=7.0, started="2027-01-01", **changes,
    )  # fmt: skip


def test_the_record_of_both_parts_keeps_what_was_complete_and_has_the_rest_as_it_is_now() -> None:
    before, now = ended(), part()
    found = joined(before, now)
    states = {(cell.label, cell.workload): cell.outcome.state for cell in found.cells}
    assert states == {
        ("base", "locks"): State.OK,
        ("a", "locks"): State.OK,
        ("base", "startup"): State.OK,  # not opened again: as it was
        ("a", "startup"): State.FAILED,
        ("base", "write"): State.NOT_MEASURED,
        ("a", "write"): State.NOT_MEASURED,
    }
    assert found.started == before.started
    assert (found.measuring_s, found.duration_s) == (27.0, 25.0)
    assert found.times["locks"] == before.times["locks"]
    assert found.times["startup"] == Times(preparing_s=3, measuring_s=17, profiling_s=2)
    assert found.order == {"locks": [["base"]], "startup": [["base", "a"], ["a"]]}
    assert found.warnings == ["locks: busy", "startup: hot"]
    assert (found.unfinished, found.ended_by) == ([], "")
    assert resumable.remaining(found) == ["write"]


def test_the_record_of_parts_by_several_versions_of_interlock_names_them_all() -> None:
    parts = [part(tool_version=version) for version in ("1.dev1", "1.dev2", "1.dev2", "1.dev3")]
    found = functools.reduce(joined, parts)
    warnings = [warning for warning in found.warnings if "1.dev" in warning]
    assert [re.findall(r"1\.dev\d", warning) for warning in warnings] == [["1.dev1", "1.dev2"], ["1.dev2", "1.dev3"]]
    assert found.tool_version == "1.dev3"


def test_what_was_unfinished_and_not_reached_again_stays_so() -> None:
    now = part().model_copy(update={"times": {}, "order": {}, "ended_by": "SIGTERM"})
    found = joined(ended(), now)
    assert found.unfinished == ["startup"]
    assert resumable.remaining(found) == ["startup", "write"]


LACKING = Outcome(state=State.UNSUPPORTED, reason="nginx is not installed")


def test_what_lacked_something_is_tried_again_and_what_some_benchmarks_cannot_do_is_not() -> None:
    complete = ended(unfinished=[], cells=[], settings=ended().settings.model_copy(update={"workloads": ["locks"]}))
    lacking = make_cell("a", "locks", LACKING, benchmarks={"uncontended": LACKING})
    partly = make_cell("a", "locks", LACKING, benchmarks={"uncontended": OK, "cold": LACKING})
    assert resumable.remaining(complete.model_copy(update={"cells": [lacking]})) == ["locks"]
    with pytest.raises(UsageError):
        resumable.remaining(complete.model_copy(update={"cells": [partly]}))


def test_a_benchmark_that_lacked_something_is_measured_when_its_cell_is_opened_again(tmp_path: Path) -> None:
    gone = Outcome(state=State.UNAVAILABLE, reason="no answer")
    outcomes = {"uncontended": LACKING, "other": FAILED, "third": gone}
    cell = restored(tmp_path, ended(cells=[make_cell("a", benchmarks=outcomes)]), *outcomes)
    assert [track.outcome for track in cell.tracks.values()] == [OK, FAILED, OK]


def test_what_a_program_does_not_list_any_more_keeps_its_values(tmp_path: Path) -> None:
    path = store.cell_path(tmp_path, "box", "a", None, "locks")
    write_values(path, 1, 2)
    before = path.read_bytes()
    cell = restored(tmp_path, ended(), "another")
    assert [len(track.runs) for track in cell.tracks.values()] == [0, 2]
    cell.session.resources = dataclasses.replace(cell.session.resources, folder=tmp_path)
    resumable.write_cell(cell)
    assert path.read_bytes() == before


def test_a_workload_that_was_measured_in_part_must_be_what_it_was_when_the_rest_is_tried_again() -> None:
    cells = [make_cell("base", "locks"), make_cell("a", "locks", LACKING)]
    complete = ended(unfinished=[], cells=cells)
    changed = {name: make_workload(name, summary="another") for name in complete.workloads}
    with pytest.raises(UsageError, match=r"workloads/locks\.toml"):
        resumable.require_same_catalog(complete, catalog_of({**complete.workloads, "locks": changed["locks"]}), {})


def test_an_image_that_was_missing_is_taken_and_the_others_stay() -> None:
    missing = make_built("a").model_copy(update={"outcome": Outcome(state=State.UNAVAILABLE, reason="no answer")})
    experiment = ended(images=[make_built("base"), missing])
    again = make_built("base").model_copy(update={"reused": True})
    assert resumable.images_now(experiment, [again, make_built("a")]) == [make_built("base"), make_built("a")]
    assert resumable.images_now(experiment, [again, missing]) == [make_built("base"), missing]


def test_a_cell_without_an_image_in_the_first_part_has_the_outcome_of_the_second() -> None:
    before = ended(cells=[make_cell("a", "write", NOT_REACHED)])
    now = part().model_copy(update={"cells": [make_cell("a", "write", FAILED)]})
    (found,) = joined(before, now).cells
    assert found.outcome == FAILED
