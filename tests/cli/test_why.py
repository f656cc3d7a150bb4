"""What `why` refuses before it does anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import ProjectPaths
from interlock.catalog.workloads import ADAPTED
from interlock.cli import options, why
from interlock.engine.host import toolchain
from interlock.engine.host.engine import HostEngine
from interlock.errors import StoreError, UnsupportedHereError, UsageError
from interlock.results.experiments import EngineName
from interlock.results.json_documents import Explained
from tests.builders import ROOT, make_benchmark, make_workload


@contextmanager
def machine(*_: Any, **__: Any) -> Iterator[Any]:
    """No container engine answers: this machine is the engine."""
    yield HostEngine(ROOT, ROOT / "nowhere")


@pytest.mark.parametrize("engine", [EngineName.HOST, None])
def test_what_this_machine_as_the_engine_lacks_is_named_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, engine: EngineName | None
) -> None:
    built: list[Any] = []
    monkeypatch.setattr(why, "ready_machine", machine)
    monkeypatch.setattr(why, "build_variants", lambda *words: built.append(words))
    monkeypatch.setattr(toolchain, "PROFILER", (toolchain.Need("no-such-program", "some-package", "some-package"),))
    with pytest.raises(UnsupportedHereError) as caught:
        why.why_command("cpython-3.13", "locks/queue", engine=engine)
    assert "no-such-program" in caught.value.found
    assert "some-package" in caught.value.todo
    assert built == []


@pytest.mark.parametrize(
    ("given", "is_quiet"),
    [({}, False), ({"dry_run": True}, False), ({"as_json": True}, True), ({"_quiet": True}, True)],
)
def test_this_machine_is_prepared_as_the_options_say(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], is_quiet: bool
) -> None:
    """A dry run asked to change the machine, and so did one with --json, in its document."""

    @contextmanager
    def ready(*_: Any, dry_run: bool, **__: Any) -> Iterator[Any]:
        asked.append((dry_run, options.console.quiet))
        yield HostEngine(ROOT, ROOT / "nowhere")

    asked: list[tuple[bool, bool]] = []
    monkeypatch.setattr(why, "ready_machine", ready)
    monkeypatch.setattr(options.notes, "quiet", "_quiet" in given)  # as the option's callback does
    monkeypatch.setattr(toolchain, "PROFILER", (toolchain.Need("no-such-program", "some-package", "some-package"),))
    with pytest.raises(UnsupportedHereError):
        why.why_command("cpython-3.13", "locks/queue", **given)
    assert (asked, options.console.quiet) == ([("dry_run" in given, is_quiet)], False)


@pytest.mark.parametrize("kind", ADAPTED)
def test_of_a_program_that_does_not_mark_its_work_nothing_can_be_said(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    workload = make_workload(
        "theirs", kind=kind, program="theirs.py", benchmarks=[make_benchmark("sort", profile_metric=None)]
    )
    known = catalogs.load(ROOT).model_copy(update={"workloads": {"theirs": workload}})
    monkeypatch.setattr(why, "open_project", lambda: (ProjectPaths(ROOT, ROOT / "nowhere"), known))
    monkeypatch.setattr(why, "ready_machine", None)
    with pytest.raises(UsageError, match=kind):
        why.why_command("cpython-3.13", "theirs/sort")


SHIPPED = "2026-12-01-b"


def test_what_an_experiment_recorded_is_shown_and_drawn_without_a_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(why, "ready_machine", None)
    flame = tmp_path / "flame.svg"
    why.why_command(
        "cpython-3.14t", "locks/queue", against="cpython-3.13", of=SHIPPED, flame=flame, as_json=True, results=None
    )
    found = Explained.model_validate_json(capsys.readouterr().out).variants
    assert list(found) == ["cpython-3.14t", "cpython-3.13"]
    assert all(one.sites for one in found.values())
    assert "cpython-3.14t" in flame.read_text(encoding="utf-8")


def test_where_the_flame_graph_cannot_be_written_the_answer_is_printed_before_that_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        why.why_command("cpython-3.14t", "locks/queue", of=SHIPPED, flame=tmp_path / "file/flame.svg", as_json=True)
    assert Explained.model_validate_json(capsys.readouterr().out).variants


@pytest.mark.parametrize(("wanted", "acquires"), [("startup/pass", False), ("locks/queue", True)])
def test_what_an_experiment_has_not_recorded_is_an_error(wanted: str, acquires: bool) -> None:
    with pytest.raises(UsageError):
        why.why_command("cpython-3.14t", wanted, of=SHIPPED, acquires=acquires)


def test_where_json_is_asked_for_nothing_is_printed_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    with options.quiet(True):
        options.console.print("for people")
    with options.quiet(False):
        options.console.print("seen")
    assert capsys.readouterr().out.split() == ["seen"]
