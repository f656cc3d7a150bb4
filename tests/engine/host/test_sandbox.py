"""A cell of the host engine: places are translated, the user's settings stay out, and nothing is left."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.engine.ended import Ended
from interlock.engine.host import sandbox
from interlock.errors import EngineError, UnsupportedHereError
from tests.builders import make_program

PLACES = {"/interlock": "/home/me/tools", "/scratch": "/dev/shm/one"}


def opened(folder: Path, prefix: Path | None = None) -> sandbox.HostSandbox:
    return sandbox.open_sandbox(prefix, folder / "tools", folder / "disk", folder)


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[sandbox.HostSandbox]:
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    make_program(prefix / "bin/python", 'echo an interpreter: "$@"')
    cell = opened(tmp_path, prefix)
    yield cell
    cell.close()


def test_the_interpreter_of_the_prefix_is_the_one_that_runs(cell: sandbox.HostSandbox) -> None:
    assert cell.run(["python", "-c", "pass"], 10, {}).stdout == "an interpreter: -c pass\n"
    assert cell.id == ""


def test_what_a_program_writes_into_its_places_is_gone_with_the_cell(cell: sandbox.HostSandbox) -> None:
    ended = cell.run(["touch", "/scratch/a", "/disk/b"], 10, {})
    assert ended.exit_code == 0
    written = [Path(cell.places["/scratch"]) / "a", Path(cell.places["/disk"]) / "b"]
    assert all(path.exists() for path in written)
    cell.close()
    assert not [path for path in (*written, cell.folder) if path.exists()]


def test_what_a_mode_preloads_is_looked_for_among_the_instruments(cell: sandbox.HostSandbox) -> None:
    said = cell.run(["env"], 10, {"SHOWN": "/interlock/one.so:/interlock/two.so:/lib/three.so"}).stdout
    tools = cell.places["/interlock"]
    assert f"SHOWN={tools}/one.so:{tools}/two.so:/lib/three.so" in said.splitlines()


@pytest.mark.parametrize("taken", ["disk", "memory"])
def test_a_cell_that_cannot_open_leaves_no_folder_and_says_which_one_could_not_be_made(
    taken: str, tmp_path: Path
) -> None:
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    {"disk": disk.touch, "memory": memory.rmdir}[taken]()
    with pytest.raises(EngineError, match=str(tmp_path / taken)):
        sandbox.open_sandbox(None, tmp_path, disk, memory)
    assert sorted(path.name for path in tmp_path.rglob("*")) == (["disk", "memory"] if taken == "disk" else [])


def test_a_limit_that_this_machine_lacks_is_unsupported(tmp_path: Path) -> None:
    limits = opened(tmp_path)
    assert limits.run(["sh", "-c", "exit 3"], 10).exit_code == 3
    with pytest.raises(UnsupportedHereError, match="nosuch"):
        limits.run(["sh", "-c", "nosuch-program"], 10)
    limits.close()


@pytest.mark.parametrize(
    ("word", "here"),
    [
        ("/interlock", "/home/me/tools"),
        ("/interlock/launch", "/home/me/tools/launch"),
        ("/scratch/f", "/dev/shm/one/f"),
        *((word, word) for word in ("/interlocked", "interlock", "x/interlock/y")),
    ],
)
def test_only_the_places_themselves_and_what_is_below_them_are_translated(word: str, here: str) -> None:
    assert sandbox.translated(word, PLACES) == here


ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def run(folder: Path, *argv: str, deadline_s: float = 10) -> Ended:
    return sandbox.run_process(list(argv), deadline_s, ENVIRONMENT, folder)


@pytest.mark.parametrize("descriptor", [1, 2])
def test_a_process_that_prints_without_an_end_is_killed_and_little_of_it_is_kept(
    descriptor: int, tmp_path: Path
) -> None:
    start_s = time.monotonic()
    ended = run(tmp_path, "sh", "-c", f"yes >&{descriptor}", deadline_s=60)
    assert (ended.exit_code, ended.flooded, ended.timed_out, ended.took_sandbox) == (None, True, False, True)
    assert len(ended.stdout) + len(ended.stderr) == 0
    assert time.monotonic() - start_s < 30


def test_a_process_that_closes_its_output_and_lives_on_times_out(tmp_path: Path) -> None:
    ended = run(tmp_path, "sh", "-c", "exec >&- 2>&-; sleep 60", deadline_s=0.3)
    assert (ended.exit_code, ended.timed_out) == (None, True)


# Leaves its group, its session and its parent, as a daemon does, and says who it is.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        sys.stdout.write(str(os.getpid()) + "\\n")
        sys.stdout.flush()
        os.close(1); os.close(2)
        time.sleep(60)
    os._exit(0)
os.wait()
"""


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_output_and_exit_code_come_back(tmp_path: Path) -> None:
    ended = run(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (ended.exit_code, ended.stdout, ended.stderr, ended.timed_out) == (3, "out\n", "err\n", False)


def test_a_process_that_dies_of_a_signal_is_reported_as_a_container_engine_reports_it(tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", "kill -SEGV $$").exit_code == 128 + 11


def test_a_process_sees_its_own_environment_and_folder_and_nothing_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    said = run(tmp_path, "sh", "-c", "env; pwd; cat").stdout.splitlines()
    assert str(tmp_path) in said
    assert not [line for line in said if line.startswith("PYTHONPATH")]


def test_at_the_deadline_the_process_and_its_children_are_gone(tmp_path: Path) -> None:
    started = time.monotonic()
    ended = run(tmp_path, "sh", "-c", "sleep 60 & echo $!; sleep 60", deadline_s=0.5)
    assert (ended.exit_code, ended.timed_out) == (None, True)
    assert time.monotonic() - started < 30
    assert not is_running(int(ended.stdout))


def test_a_daemon_that_a_process_leaves_behind_is_gone_when_it_has_ended(tmp_path: Path) -> None:
    ended = run(tmp_path, sys.executable, "-c", DAEMON)
    assert ended.exit_code == 0
    assert not is_running(int(ended.stdout))


def test_processes_of_others_are_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        run(tmp_path, "true")
        assert other.poll() is None
        other.kill()


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no-such-program"):
        run(tmp_path, "/no-such-program")


def test_what_a_killed_run_left_is_known_by_the_folder_that_its_environment_names_or_that_it_is_in(
    tmp_path: Path,
) -> None:
    ours, others = tmp_path / "ours", tmp_path / "oursnot"
    for folder in (ours, others):
        folder.mkdir()
    sleep = ["sleep", "60"]
    by_environment = subprocess.Popen(sleep, env={**ENVIRONMENT, "HOME": f"{ours}/cell"})
    by_place = subprocess.Popen(sleep, env=ENVIRONMENT, cwd=ours)
    of_another = subprocess.Popen(sleep, env={**ENVIRONMENT, "HOME": str(others)}, cwd=others)
    try:
        sandbox.end_all_in(ours)
        assert [by_environment.wait(5), by_place.wait(5), of_another.poll()] == [-9, -9, None]
    finally:
        of_another.kill()
        of_another.wait()
