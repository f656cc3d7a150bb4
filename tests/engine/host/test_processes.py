"""What a process of the host engine gives back, and that nothing of it stays."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from interlock.engine.cells import Ended
from interlock.engine.host import processes
from interlock.errors import EngineError

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
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


def run(folder: Path, *argv: str, deadline_s: float = 10) -> Ended:
    return processes.run(list(argv), deadline_s, ENVIRONMENT, folder)


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
        processes.end_all_in(ours)
        assert [by_environment.wait(5), by_place.wait(5), of_another.poll()] == [-9, -9, None]
    finally:
        of_another.kill()
        of_another.wait()
