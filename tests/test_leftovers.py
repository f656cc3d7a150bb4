"""What a killed experiment leaves: processes by their command lines or a build's mark, folders by their names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from interlock import cli, leftovers
from interlock.engine.host.cells import make_memory
from interlock.engine.host.prefixes import EXPERIMENT

SLEEP = "import signal, sys, time; {more}; print(flush=True); time.sleep(60)"
# Ends three seconds later, having counted.
COUNT = """\
import signal, time
seen = []
signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
print(flush=True)
end = time.monotonic() + 3
while time.monotonic() < end:
    time.sleep(0.05)
print(len(seen))
"""
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@contextmanager
def process(*words: str, more: str = "0", **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python with these arguments and settings of the environment, once it is up."""
    command = [sys.executable, "-c", SLEEP.format(more=more), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **settings}) as started:
        assert started.stdout is not None
        started.stdout.readline()
        yield started
        started.kill()


def test_an_experiment_of_that_name_is_ended_and_named() -> None:
    with process("matrix", "--name", "fleet-abc.ash.locks") as one:
        assert leftovers.end_processes("fleet-abc.ash.") == ["fleet-abc.ash.locks"]
        assert one.wait(5) == -15


def test_others_go_on() -> None:
    with (
        process("matrix", "--name", "fleet-abc.birch.locks") as other_host,
        process("matrix", "--workloads", "fleet-abc.ash.locks") as no_name,
        process("report", "--name", "fleet-abc.ash.locks") as no_matrix,
    ):
        assert leftovers.end_processes("fleet-abc.ash.") == []
        assert [one.poll() for one in (other_host, no_name, no_matrix)] == [None, None, None]


def test_what_does_not_end_in_time_is_ended_by_force() -> None:
    with process("matrix", "--name", "fleet-abc.ash.locks", more=STUBBORN) as one:
        assert leftovers.end_processes("fleet-abc.ash.", within_s=0.5) == ["fleet-abc.ash.locks"]
        assert one.wait(5) == -9


def test_a_timeout_around_it_is_not_signalled_itself_for_it_hands_signals_on() -> None:
    command = ["timeout", "60", sys.executable, "-c", COUNT, "matrix", "--name", "fleet-abc.ash.locks"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as around:
        assert around.stdout is not None
        around.stdout.readline()
        assert leftovers.end_processes("fleet-abc.ash.") == ["fleet-abc.ash.locks"]
        assert around.stdout.read() == "1\n", "signals"


def test_a_build_for_a_fleet_is_ended_by_its_mark_with_all_that_it_started() -> None:
    with (
        process("build", **{EXPERIMENT: "fleet-abc.ash.build"}) as build,
        process("compile", **{EXPERIMENT: "fleet-abc.ash.build"}) as compiler,
        process("build", **{EXPERIMENT: "fleet-abc.birch.build"}) as other_host,
    ):
        assert leftovers.end_processes("fleet-abc.ash.") == ["fleet-abc.ash.build"]
        assert [build.wait(5), compiler.wait(5), other_host.poll()] == [-15, -15, None]


def test_without_a_container_engine_what_a_killed_experiment_left_on_the_machine_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("INTERLOCK_ENGINE", "host")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    runs = tmp_path / "interlock" / "runs"
    mine, others = f"fleet-{os.getpid()}.ash.locks-1", f"fleet-{os.getpid()}.birch.locks-1"
    memories = [make_memory(owner) for owner in (mine, others)]
    for owner in (mine, others):
        (runs / owner / "tools").mkdir(parents=True)
    try:
        with process("cell", HOME=f"{memories[0]}/cell-1") as cell:
            result = CliRunner().invoke(cli.app, ["clean", f"fleet-{os.getpid()}.ash."])
            assert (result.exit_code, result.output) == (0, f"removed {mine}\n")
            assert cell.wait(5) == -9
        assert [memory.is_dir() for memory in memories] == [False, True]
        assert [folder.name for folder in runs.iterdir()] == [others]
    finally:
        leftovers.remove_here(tmp_path / "interlock", f"fleet-{os.getpid()}.")
    assert not memories[1].exists()
