"""Which variants come first: what people ask about, where the others would make them wait."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import cast

import pytest

from interlock.catalog import project
from interlock.catalog.project import Catalog
from interlock.cli.report import write_report
from interlock.engine.protocol import BuildOptions, Engine
from interlock.errors import EngineError, UsageError
from interlock.measure import resumable, stages
from interlock.measure.ending import Ending
from interlock.measure.watching import Observers
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, Built, EngineName, Experiment, Outcome, State
from tests.builders import ROOT, make_built, make_experiment
from tests.measure.assigned import assigned

FIRST = {"cpython-3.13", "cpython-3.14", "cpython-3.14t", "debian-3.13", "official-3.13"}


@cache
def known() -> Catalog:
    return project.load(ROOT)


def core() -> list[str]:
    return [name for name, one in known().variants.items() if one.core]


def test_of_the_core_set_the_baseline_what_is_mended_and_what_is_not_compiled_comes_first() -> None:
    found = stages.first_variants(known().variants, core(), core(), "")
    assert set(found) == FIRST
    assert found == [name for name in core() if name in FIRST]
    everything = list(known().variants)
    assert set(stages.first_variants(known().variants, everything, everything, "")) == FIRST


def test_what_is_built_already_is_first_too_and_where_little_is_missing_all_is_at_once() -> None:
    variants, later = known().variants, [name for name in core() if name not in FIRST]
    found = stages.first_variants(variants, core(), [one for one in core() if one != "cpython-3.9"], "")
    assert set(found) == {*FIRST, "cpython-3.9"}
    assert stages.first_variants(variants, core(), [], "") == []
    assert stages.first_variants(variants, core(), [*FIRST, later[0]], "") == []


@pytest.mark.parametrize(("baseline", "expected"), [("cpython-2.7", "cpython-2.7"), ("cpython-3.12", None)])
def test_the_wanted_baseline_is_first_and_without_one_that_is_asked_for_nothing_is(
    baseline: str, expected: str | None
) -> None:
    found = stages.first_variants(known().variants, core(), core(), baseline)
    assert (expected in found) if expected else not found
    names = [name for name in core() if name != "cpython-3.13"]
    assert stages.first_variants(known().variants, names, names, "") == []


def test_there_is_something_to_look_at_if_the_baseline_and_another_are_there() -> None:
    failed = Outcome(state=State.FAILED, reason="it does not compile")
    base, other = make_built("cpython-3.13"), make_built("cpython-3.14")
    assert stages.are_enough([base, other, make_built("cpython-3.14t", failed)], "")
    assert not stages.are_enough([base, make_built("cpython-3.14", failed)], "")
    assert not stages.are_enough([base, other], "cpython-2.7")


class Unbuilt:
    """An engine that has nothing yet."""

    name, is_elsewhere = EngineName.HOST, False

    def facts(self) -> dict[str, str]:
        return {"name": "host", "version": "1", "storage_driver": "none"}

    def look_up(self, _known: Catalog, names: Sequence[str], _how: BuildOptions) -> list[Built]:
        return [make_built(name, Outcome(state=State.UNAVAILABLE, reason="it is not built")) for name in names]

    def clean_up(self, _owner: str) -> None: ...


NAMES = ["cpython-3.13", "cpython-3.14", "cpython-3.9"]


def interrupted_build(results: Path, ending: Ending, resumes: Experiment | None = None) -> stages.StagedRun:
    """A run whose first build a signal ends before anything is built."""

    def build(_names: list[str]) -> list[Built]:
        os.kill(os.getpid(), signal.SIGTERM)
        return []

    return stages.StagedRun(
        cast(Engine, Unbuilt()),
        dataclasses.replace(assigned([], "", NAMES), results=results, resumes=resumes),
        BuildOptions(ROOT, results),
        ending,
        build,
        lambda _: nullcontext(Observers(lambda _: None, ending=ending)),
    )


def test_an_engine_that_dies_while_the_others_are_built_is_told_with_how_what_was_seen_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first look was behind it, and it said nothing of that."""
    looked = make_experiment(NAMES, ended_by="the end of its process")

    def build(names: list[str]) -> list[Built]:
        if "cpython-3.9" in names:
            raise EngineError(found="nobody answers", todo="Start it.")
        return list(map(make_built, names))

    def look(*_: object) -> Path:
        store.write_json(tmp_path / looked.name / EXPERIMENT_FILE, looked)
        return tmp_path / looked.name

    monkeypatch.setattr("interlock.measure.experiment.run", look)
    run = dataclasses.replace(interrupted_build(tmp_path, Ending()), build=build)
    with pytest.raises(EngineError) as caught:
        run.run(NAMES[:2], [])
    assert str(tmp_path / looked.name) in caught.value.todo
    assert looked.resume_command in caught.value.todo


def test_what_goes_on_with_other_files_is_refused_before_their_build_removes_the_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The images that the plan has looked up are not looked up again."""
    monkeypatch.setattr(Unbuilt, "look_up", lambda *_: pytest.fail("a second look-up"))
    images = [make_built(name).model_copy(update={"content_hash": "was"}) for name in NAMES]
    began = make_experiment(NAMES, images=images, ended_by="SIGTERM")
    others = [image.model_copy(update={"content_hash": "is"}) for image in images]
    ending = Ending()  # which the build would set
    with pytest.raises(UsageError) as caught:
        interrupted_build(tmp_path, ending, began).run([], others)
    assert (caught.value.key, caught.value.todo, ending.signals) == ("--resume", resumable.BEGIN_ANEW, [])


@pytest.mark.parametrize("first", [[], ["cpython-3.13", "cpython-3.14"]])
def test_what_ends_the_first_build_is_reported_and_can_go_on(tmp_path: Path, first: list[str]) -> None:
    """It was a line, and nothing that says what was to be measured."""
    folder, built = interrupted_build(tmp_path, Ending()).run(first, [])
    described = write_report(folder)
    assert {image.variant for image in built} == set(NAMES)
    assert (described.ended_by, described.settings.baseline) == ("SIGTERM", "cpython-3.13")
    assert {cell.outcome.state for cell in described.cells} == {State.NOT_MEASURED}
    assert [cell.label for cell in described.cells] == NAMES
    assert resumable.remaining(described) == ["locks"]
    assert "cpython-3.9" in (folder / "report.md").read_text()


def test_what_ends_a_build_of_an_experiment_that_goes_on_leaves_it_to_be_resumed(tmp_path: Path) -> None:
    """A variant whose image was pruned had 'another image' then, and the advice was to begin anew."""
    before = make_experiment(NAMES, ended_by="Ctrl-C")
    store.write_json(tmp_path / before.name / EXPERIMENT_FILE, before)
    ending = Ending()
    folder, _ = interrupted_build(tmp_path, ending, before).run([], [])
    after = store.read_experiment(folder)
    assert (ending.exit_code, after.ended_by, after.images) == (143, "SIGTERM", before.images)
    assert resumable.remaining(after) == ["locks"]
