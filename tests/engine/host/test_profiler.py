"""The profiler of this machine: what joins its cgroup, what it prints, why it does not work; by a stand-in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.catalog.types import MOUNT
from interlock.engine.host import profiler, toolchain
from interlock.engine.host.sandbox import HostSandbox
from interlock.errors import EngineError, TracerError, UnsupportedHereError
from tests.builders import make_program

COUNTS = "trap 'echo counted; exit 0' TERM; echo ready; while :; do sleep 0.01; done"


def stand_in(folder: Path, text: str) -> Path:
    program = folder / "profiler" / "profiler"
    program.parent.mkdir()
    make_program(program, text)
    return program


def test_what_it_printed_after_its_end_is_the_profile(tmp_path: Path) -> None:
    with profiler.counting(stand_in(tmp_path, COUNTS), tmp_path, [], tmp_path) as at_work:
        at_work.stop()
    assert at_work.text.split() == ["counted"]


@pytest.mark.parametrize(("code", "kind"), [(1, EngineError), (3, TracerError)])
def test_what_it_says_on_stderr_is_the_reason(tmp_path: Path, code: int, kind: type[EngineError]) -> None:
    program = stand_in(tmp_path, f"echo 'profiler: the reason' >&2; exit {code}")
    with pytest.raises(kind) as caught, profiler.counting(program, tmp_path, [], tmp_path):
        pass
    assert caught.value.found == "the reason"


def test_why_it_does_not_compile_is_said_when_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "profiler").mkdir()
    (tmp_path / "profiler" / toolchain.NOT_COMPILED).write_text("no such function", encoding="utf-8")
    with (
        pytest.raises(EngineError, match="no such function"),
        profiler.counting(tmp_path / "profiler" / "profiler", tmp_path, [], tmp_path),
    ):
        pass


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the mounted cgroups, for anybody."""
    folder = tmp_path / "cgroup"
    folder.mkdir()
    (folder / "cgroup.controllers").touch()
    monkeypatch.setattr(profiler, "HIERARCHIES", (tmp_path / "none", folder))
    monkeypatch.setattr(profiler, "GONE_S", 0.1)
    monkeypatch.setattr(toolchain, "PROFILER", ())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return folder


@pytest.mark.usefixtures("hierarchy")
def test_a_process_is_in_the_cgroup_before_it_is_the_program_and_only_while_it_is_counted(tmp_path: Path) -> None:
    stand_in(tmp_path, COUNTS)
    places = {MOUNT: str(tmp_path), "/scratch": str(tmp_path), "/disk": str(tmp_path)}
    sandbox = HostSandbox(None, tmp_path, places)
    with sandbox.count() as at_work:
        (cgroup,) = sandbox.watched
        shown = sandbox.run(["sh", "-c", "echo $$"], 10)
        at_work.stop()
    assert shown.stdout.split() == (cgroup / "cgroup.procs").read_text().split()
    assert sandbox.watched == []


def test_a_cgroup_goes_with_the_block_and_what_was_killed_leaves_goes_with_its_experiment(hierarchy: Path) -> None:
    with profiler.cgroup_of_its_own("interlock-a.cell") as made:
        assert made.is_dir()
    (hierarchy / "deep" / "interlock-b.cell").mkdir(parents=True)
    (hierarchy / "interlock-c.cell").mkdir()
    profiler.remove_cgroups("interlock-b.")
    assert not made.exists()
    assert [path.name for path in hierarchy.rglob("interlock-*")] == ["interlock-c.cell"]


def test_an_ordinary_user_and_a_machine_without_cgroups_of_version_2_are_told_so(
    hierarchy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hierarchy / "cgroup.controllers").unlink()
    with pytest.raises(UnsupportedHereError, match="cgroup v2"):
        profiler.require_bpf()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UnsupportedHereError, match="root"):
        profiler.require_bpf()


@pytest.mark.usefixtures("hierarchy")
def test_an_ordinary_user_is_not_told_to_install_what_only_root_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once that was installed, the next refusal was that only root may."""
    monkeypatch.setattr(toolchain, "PROFILER", (toolchain.Need("no-such-program", "some-package", "some-package"),))
    with pytest.raises(UnsupportedHereError, match="no-such-program"):
        profiler.require_bpf()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UnsupportedHereError, match="only root may"):
        profiler.require_bpf()
