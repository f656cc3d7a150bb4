"""Runs that are still at work are ended by their names, and what killed ones left on this machine goes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from interlock.cli import main
from interlock.engine import left_behind
from interlock.engine.host import memory
from interlock.engine.host.account import MYSELF
from interlock.engine.host.engine import HostEngine
from interlock.engine.host.prefixes import EXPERIMENT
from interlock.errors import EngineError, UsageError
from tests.builders import ROOT

# Of this process: other workers run these tests at the same time, and what is found is ended.
FLEET = f"fleet-{os.getpid()}"
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


@pytest.mark.parametrize("words", [["--name", f"{FLEET}.ash.locks"], [f"--name={FLEET}.ash.locks"]])
def test_an_experiment_of_that_name_is_ended_and_named(words: list[str]) -> None:
    with process("matrix", *words) as one:
        assert left_behind.end_processes(f"{FLEET}.ash.") == [f"{FLEET}.ash.locks"]
        assert one.wait(30) == -15


def test_others_go_on() -> None:
    with (
        process("matrix", "--name", f"{FLEET}.birch.locks") as other_host,
        process("matrix", "--workloads", f"{FLEET}.ash.locks") as no_name,
        process("report", "--name", f"{FLEET}.ash.locks") as no_matrix,
    ):
        assert left_behind.end_processes(f"{FLEET}.ash.") == []
        assert [one.poll() for one in (other_host, no_name, no_matrix)] == [None, None, None]


MAKES = "from pathlib import Path; from interlock.engine.ownership import mark; mark(Path('{folder}'), 'unread')"


def test_an_experiment_without_a_name_is_ended_by_what_it_has_in_an_engine(tmp_path: Path) -> None:
    engine, owner = HostEngine(ROOT, tmp_path), f"{FLEET}-x-120000"
    folder, other = (tmp_path / "runs" / name for name in (owner, f"other-{owner}"))
    for place in (folder, other):
        place.mkdir(parents=True)
    with (
        process("matrix", "--quick", more=MAKES.format(folder=folder)) as one,
        process("matrix", "--quick", more=MAKES.format(folder=other)) as another,
    ):
        assert left_behind.end_processes(FLEET, [engine]) == [owner]
        assert (one.wait(30), another.poll()) == (-15, None)
        assert left_behind.end_processes(FLEET, [engine]) == []


def test_what_is_known_by_its_name_is_ended_although_an_engine_does_not_answer(tmp_path: Path) -> None:
    class Silent(HostEngine):
        def makers(self) -> dict[int, str]:
            raise EngineError(found="timed out", todo="Wait.")

    with process("matrix", "--name", f"{FLEET}.ash.locks") as one, pytest.raises(EngineError):
        left_behind.end_processes(f"{FLEET}.ash.", [Silent(ROOT, tmp_path)])
    assert one.returncode == -15


def test_what_does_not_end_in_time_is_ended_by_force() -> None:
    with process("matrix", "--name", f"{FLEET}.ash.locks", more=STUBBORN) as one:
        assert left_behind.end_processes(f"{FLEET}.ash.", within_s=0.5) == [f"{FLEET}.ash.locks"]
        assert one.wait(30) == -9


# The first process of a pid namespace of its own, where nobody else takes the id that becomes free. `ended` ends at
# once, and the next process gets its id: the one that must be left alone.
REUSED_ID = """\
import subprocess, threading, time
from pathlib import Path
from interlock.engine import left_behind

ended = subprocess.Popen(["sleep", "60"], env={{"{mark}": "{fleet}.ash.build"}})
later = []

def reuse():
    ended.wait()
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(ended.pid - 1))
    later.append(subprocess.Popen(["sleep", "60"]))

time.sleep(0.1)  # the kernel's clock of starts ticks every 10 ms
thread = threading.Thread(target=reuse)
thread.start()
assert left_behind.end_processes("{fleet}.ash.", within_s=2) == ["{fleet}.ash.build"]
thread.join()
(other,) = later
assert other.pid == ended.pid, (other.pid, ended.pid)
print(other.poll())
"""


def test_a_process_that_got_the_id_of_one_that_ended_is_left_alone() -> None:
    script = REUSED_ID.format(mark=EXPERIMENT, fleet=FLEET)
    command = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_a_timeout_around_it_is_not_signalled_itself_for_it_hands_signals_on() -> None:
    command = ["timeout", "60", sys.executable, "-c", COUNT, "matrix", "--name", f"{FLEET}.ash.locks"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as around:
        assert around.stdout is not None
        around.stdout.readline()
        assert left_behind.end_processes(f"{FLEET}.ash.") == [f"{FLEET}.ash.locks"]
        assert around.stdout.read() == "1\n", "signals"


def test_a_build_for_a_fleet_is_ended_by_its_mark_with_all_that_it_started() -> None:
    with (
        process("build", **{EXPERIMENT: f"{FLEET}.ash.build"}) as build,
        process("compile", **{EXPERIMENT: f"{FLEET}.ash.build"}) as compiler,
        process("build", **{EXPERIMENT: f"{FLEET}.birch.build"}) as other_host,
    ):
        assert left_behind.end_processes(f"{FLEET}.ash.") == [f"{FLEET}.ash.build"]
        assert [build.wait(5), compiler.wait(5), other_host.poll()] == [-15, -15, None]


def test_a_name_of_which_nothing_is_left_is_said_to_be_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = CliRunner().invoke(main.app, ["clean", f"nosuch-{os.getpid()}", "--engine", "host"])
    assert isinstance(result.exception, UsageError)
    assert f"nosuch-{os.getpid()}" in result.exception.found


def test_without_a_container_engine_what_a_killed_experiment_left_on_the_machine_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("INTERLOCK_ENGINE", "host")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    runs = tmp_path / "interlock" / "runs"
    mine, others = f"fleet-{os.getpid()}.ash.locks-1", f"fleet-{os.getpid()}.birch.locks-1"
    memories = [memory.make(owner, MYSELF) for owner in (mine, others)]
    for owner in (mine, others):
        (runs / owner / "tools").mkdir(parents=True)
    try:
        with process("cell", HOME=f"{memories[0]}/cell-1") as cell:
            result = CliRunner().invoke(main.app, ["clean", f"fleet-{os.getpid()}.ash."])
            assert result.exit_code == 0
            assert result.output.splitlines()[0] == f"removed {mine}"
            assert cell.wait(5) == -9
        assert [memory.is_dir() for memory in memories] == [False, True]
        assert [folder.name for folder in runs.iterdir()] == [others]
    finally:
        HostEngine(ROOT, tmp_path / "interlock").clean_up(others)
    assert not memories[1].exists()
