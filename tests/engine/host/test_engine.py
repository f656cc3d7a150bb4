"""An experiment without containers: where its cells are, what it refuses, and that all of it goes with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.catalog import loading
from interlock.catalog.variants import PRODUCTION
from interlock.engine.host import toolchain
from interlock.engine.host.cells import memory_of
from interlock.engine.host.engine import HostEngine, HostWorkspace, runs
from interlock.engine.protocol import BuildOptions, Needs
from interlock.errors import UnsupportedHereError, UsageError
from interlock.results.profiles import Method
from tests.builders import ROOT

OWNER = f"2026-11-21-a-abc123.a-host-with-a-long-name.a-workload-{os.getpid()}"


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HostWorkspace:
    made = tmp_path / "made"
    made.mkdir()
    monkeypatch.setattr(toolchain, "ensure_instruments", lambda _root, _cache: made)
    return HostEngine(ROOT, tmp_path / "cache").set_up(OWNER, Needs(ROOT, [], {"one.py": b"pass"}))


def test_the_cells_of_an_experiment_are_in_a_folder_of_its_own_in_memory_and_are_gone_with_it(
    workspace: HostWorkspace, tmp_path: Path
) -> None:
    engine = HostEngine(ROOT, tmp_path / "cache")
    with workspace.network(None, load=False) as network:
        sandbox = network.open_sandbox(str(tmp_path))
    assert sandbox.folder.parent == workspace.memory == memory_of(OWNER)
    # Half of what a socket's path has room for is the program's.
    assert len(sandbox.places["/scratch"]) < 107 / 2
    assert engine.owners() == {OWNER}
    engine.clean_up(OWNER)
    assert not workspace.memory.exists()
    assert not list(runs(tmp_path / "cache").iterdir())


def test_what_only_containers_have_is_unsupported_and_says_why(workspace: HostWorkspace, tmp_path: Path) -> None:
    cold = PRODUCTION.model_copy(update={"interpreter": "volume"})
    try:
        with pytest.raises(UnsupportedHereError, match="load on a service"), workspace.network(None, load=True):
            pass
        with workspace.network(None, load=False) as network, pytest.raises(UnsupportedHereError, match="cold cache"):
            network.open_sandbox(str(tmp_path), cold)
        with pytest.raises(UnsupportedHereError, match="in a container"):
            workspace.open_tools_sandbox().count(Method.BPF)
    finally:
        HostEngine(ROOT, tmp_path / "cache").clean_up(OWNER)


def test_an_option_that_is_of_images_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    options = BuildOptions(ROOT, tmp_path, verifies=True)
    with pytest.raises(UsageError) as caught:
        HostEngine(ROOT, tmp_path).build(loading.load(ROOT), [], options, lambda *_: None)
    assert caught.value.key == "--verify"
