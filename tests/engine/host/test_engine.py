"""An experiment without containers: where its cells are, what it refuses, and that all of it goes with it."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.engine import finding
from interlock.engine.host import memory, toolchain
from interlock.engine.host.account import MYSELF
from interlock.engine.host.engine import HostEngine, HostWorkspace, open_folders, runs
from interlock.engine.host.features import ONLY_IN_CONTAINERS
from interlock.engine.ownership import Life
from interlock.engine.protocol import Feature, Needs, Surroundings
from interlock.errors import EngineError, UnsupportedHereError
from interlock.results.engines import EngineName
from tests.builders import ROOT

OWNER = f"2026-11-21-a-abc123.a-host-with-a-long-name.a-workload-{os.getpid()}"


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HostWorkspace]:
    made = tmp_path / "made"
    made.mkdir()
    monkeypatch.setattr(toolchain, "ensure_instruments", lambda *_: made)
    engine = HostEngine(ROOT, tmp_path / "cache")
    yield engine.set_up(OWNER, Needs(ROOT, [], {"one.py": b"pass"}))
    engine.clean_up(OWNER)


def test_the_cells_of_an_experiment_are_in_a_folder_of_its_own_in_memory_and_are_gone_with_it(
    workspace: HostWorkspace, tmp_path: Path
) -> None:
    engine = HostEngine(ROOT, tmp_path / "cache")
    with workspace.network(None, load=False) as network:
        sandbox = network.open_sandbox(str(tmp_path))
    assert sandbox.folder.parent == workspace.memory == memory.choose(MYSELF) / memory.name_of(OWNER)
    # Half of what a socket's path has room for is the program's.
    assert len(sandbox.places["/scratch"]) < 107 / 2
    assert engine.owners() == {OWNER: Life.LIVING}
    engine.clean_up(OWNER)
    assert not workspace.memory.exists()
    assert not list(runs(tmp_path / "cache").iterdir())


def test_folders_that_a_workload_has_closed_are_opened_and_what_links_lead_to_stays(
    tmp_path: Path,
) -> None:
    outside, closed = tmp_path / "outside", tmp_path / "run/scratch/closed"
    outside.mkdir(mode=0o555)
    (closed / "below").mkdir(parents=True, mode=0o555)
    (closed / "link").symlink_to(outside)
    closed.chmod(0o555)
    open_folders(tmp_path / "run")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (closed, closed / "below", outside)]
    assert modes == [0o700, 0o700, 0o555]


def test_a_folder_that_cannot_be_removed_is_named_and_its_owner_stays_known(
    workspace: HostWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = HostEngine(ROOT, tmp_path / "cache")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(EngineError) as caught:
            engine.clean_up(OWNER)
    assert caught.value.file == str(workspace.memory)
    assert list(engine.owners()) == [OWNER]
    engine.clean_up(OWNER)
    assert not engine.owners()


def test_what_only_containers_have_is_unsupported_and_says_why(workspace: HostWorkspace) -> None:
    with pytest.raises(UnsupportedHereError, match="load on a service"), workspace.network(None, load=True):
        pass


@pytest.mark.parametrize("feature", ONLY_IN_CONTAINERS)
def test_what_it_cannot_do_is_known_before_it_is_tried_by_its_name_alone(feature: Feature, tmp_path: Path) -> None:
    refused = HostEngine(ROOT, tmp_path).cannot(feature)
    assert refused is not None
    by_name = finding.cannot(EngineName.HOST, feature)
    assert by_name is not None
    assert refused.found == by_name.found == ONLY_IN_CONTAINERS[feature]
    assert [finding.cannot(named, feature) for named in (None, EngineName.DOCKER)] == [None, None]


def test_without_a_probe_neither_calls_nor_stacks_are_had(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(toolchain, "missing", list)
    for feature in (Feature.SYSTEM_CALLS, Feature.STACKS):
        refused = HostEngine(ROOT, tmp_path).cannot(feature)
        assert refused is not None
        assert refused.todo.startswith(toolchain.install_command([])[:7])


def test_a_prefix_is_on_this_machines_file_system_as_if_on_a_volume_and_its_pages_stay_in_memory(
    workspace: HostWorkspace, tmp_path: Path
) -> None:
    with workspace.network(None, load=False) as network:
        assert network.open_sandbox(str(tmp_path), Surroundings(prefix_on_volume=True))
        assert not network.can_evict


def test_a_user_without_a_name_is_told_by_the_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert HostEngine(ROOT, tmp_path).facts()["user"] == str(os.getuid())
