"""An experiment without containers: where its cells are, and that all of it goes with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.engine.cells import CellOptions
from interlock.engine.host import instruments
from interlock.engine.host.cells import memory_of
from interlock.engine.running import OnHost, runs
from interlock.errors import EngineError
from tests.builders import ROOT

OWNER = f"2026-11-21-a-abc123.a-host-with-a-long-name.a-workload-{os.getpid()}"


def options() -> CellOptions:
    return CellOptions(OWNER, [], "", None)


def test_the_cells_of_an_experiment_are_in_a_folder_of_its_own_in_memory_and_are_gone_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    made.mkdir()
    monkeypatch.setattr(instruments, "ensure", lambda _root, _cache: made)
    ready = OnHost(ROOT, tmp_path / "cache").set_up(OWNER, {"one.py": b"pass"})
    cell = ready.open(str(tmp_path), options())
    assert cell.folder.parent == ready.memory == memory_of(OWNER)
    # Half of what a socket's path has room for is the program's.
    assert len(cell.places["/scratch"]) < 107 / 2
    ready.clean_up(OWNER)
    assert not ready.memory.exists()
    assert not list(runs(tmp_path / "cache").iterdir())


def test_what_is_not_set_up_opens_no_cell(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="nothing is set up"):
        OnHost(ROOT, tmp_path).open(str(tmp_path), options())
