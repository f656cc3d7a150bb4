"""The launcher, compiled for this machine and checked against costs that are known."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.host import toolchain

FOLDER = Path(__file__).parents[2] / "dockerfiles" / "instruments"
SOURCES = [FOLDER / name for name in toolchain.LAUNCHER]
MIB = 1024 * 1024
# Two clocks, or a sum of rounded times, may differ by this much from what was asked for: 0.2 s is read as 0.199999.
CLOCK_S = 0.002
Launch = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("launch") / "launch"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", target, *SOURCES], check=True)
    return target


@pytest.fixture
def launch(binary: Path) -> Launch:
    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(binary), *arguments], capture_output=True, text=True, timeout=30, check=False, **options
        )

    return run


def costs(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"interlock_process"')]
    return [json.loads(line)["interlock_process"] for line in lines]


def cost_of(launch: Launch, source: str) -> dict[str, Any]:
    (cost,) = costs(launch("--", sys.executable, "-S", "-c", source))
    return cost


def test_the_wall_time_covers_the_childs_sleep(launch: Launch) -> None:
    start_s = time.monotonic()
    (cost,) = costs(launch("--", "sleep", "0.2"))
    assert 0.2 - CLOCK_S <= cost["wall_s"] <= time.monotonic() - start_s + CLOCK_S
    assert cost["user_s"] + cost["sys_s"] < 0.2


def test_cpu_time_of_the_child_is_counted(launch: Launch) -> None:
    cost = cost_of(launch, "import time\nwhile time.process_time() < 0.2: pass")
    assert 0.2 - CLOCK_S <= cost["user_s"] + cost["sys_s"] <= cost["wall_s"] * 1.1


def test_the_peak_memory_of_the_child_is_counted(launch: Launch) -> None:
    small = cost_of(launch, "pass")["max_rss_bytes"]
    large = cost_of(launch, f"bytearray(b'x') * {256 * MIB}")["max_rss_bytes"]
    # Near enough to tell KiB (262 million bytes) from 1000 bytes (256 million).
    assert large - small == pytest.approx(256 * MIB, abs=3 * MIB)


def test_the_launcher_adds_no_memory_to_a_small_child_and_says_nothing_of_the_page_cache_unasked(
    launch: Launch,
) -> None:
    (cost,) = costs(launch("--", "true"))
    assert 0 < cost["max_rss_bytes"] < 8 * MIB
    assert "resident_share" not in cost


def test_voluntary_switches_are_counted(launch: Launch) -> None:
    idle = cost_of(launch, "import time")["voluntary_switches"]
    cost = cost_of(launch, "import time\nfor _ in range(200): time.sleep(0.001)")
    assert cost["voluntary_switches"] - idle == pytest.approx(200, abs=50)


def test_a_program_is_repeated_with_one_line_each(launch: Launch) -> None:
    done = launch("--repeat", "3", "--", "echo", "hello")
    assert done.returncode == 0
    # The launcher speaks last: who reads its lines at once would run beside the next process.
    assert done.stdout.splitlines()[:3] == ["hello"] * 3
    assert [cost["exit_code"] for cost in costs(done)] == [0, 0, 0]


def test_the_childs_stdout_can_be_discarded(launch: Launch) -> None:
    done = launch("--discard-stdout", "--", "sh", "-c", "echo out; echo err >&2")
    assert done.stderr == "err\n"
    assert len(done.stdout.splitlines()) == len(costs(done)) == 1


# Each child says that it is there and waits for all others: one after the other they would never end.
MEET = "touch $0/$$; while [ $(ls $0 | wc -l) -lt %d ]; do sleep 0.01; done"


@pytest.mark.parametrize("number", [2, 12])
def test_all_children_are_there_at_once(launch: Launch, tmp_path: Path, number: int) -> None:
    done = launch("--parallel", str(number), "--", "sh", "-c", MEET % number, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.iterdir())) == number
    assert len(costs(done)) == 1


def test_a_row_of_children_ends_with_the_last_of_them_and_the_next_begins_then(launch: Launch, tmp_path: Path) -> None:
    # The third child of each row is the last to make its folder, and sleeps.
    source = "for n in 1 2 3; do mkdir $0/$n 2>/dev/null && break; done; [ $n = 3 ] && sleep 0.3 && rmdir $0/*; exit 0"
    found = costs(launch("--parallel", "3", "--repeat", "2", "--", "sh", "-c", source, str(tmp_path)))
    assert len(found) == 2
    assert all(cost["wall_s"] >= 0.3 - CLOCK_S for cost in found)


def test_the_cpu_time_is_that_of_all_children(launch: Launch) -> None:
    source = "import time\nwhile time.process_time() < 0.1: pass"
    (cost,) = costs(launch("--parallel", "4", "--", sys.executable, "-S", "-c", source))
    # At most what the machine has, whatever the children add up to.
    assert 0.4 - CLOCK_S <= cost["user_s"] + cost["sys_s"] <= cost["wall_s"] * (os.cpu_count() or 1) * 1.1


def test_the_switches_of_children_are_added_up_and_their_peak_is_the_largest_ones(
    launch: Launch, tmp_path: Path
) -> None:
    source = (
        "import os, sys, time\n"
        "for _ in range(100): time.sleep(0.001)\n"
        f"try: os.mkdir(sys.argv[1]); bytearray(b'x') * {64 * MIB}\n"
        "except FileExistsError: pass\n"
    )
    alone = cost_of(launch, "pass")
    (cost,) = costs(launch("--parallel", "3", "--", sys.executable, "-S", "-c", source, str(tmp_path / "first")))
    # More than two of the three children make: a sleep that is over before it begins is no switch.
    assert cost["voluntary_switches"] > 2 * 100
    assert cost["max_rss_bytes"] - alone["max_rss_bytes"] == pytest.approx(64 * MIB, abs=3 * MIB)


def test_one_failing_child_gives_the_exit_code_and_the_others_end_first(launch: Launch, tmp_path: Path) -> None:
    source = f"{MEET % 3}; mkdir $0/first 2>/dev/null && exit 7; sleep 0.2; touch $0/ended-$$"
    done = launch("--parallel", "3", "--repeat", "5", "--", "sh", "-c", source, str(tmp_path))
    assert done.returncode == 7
    assert [cost["exit_code"] for cost in costs(done)] == [7]
    assert len(list(tmp_path.glob("ended-*"))) == 2


PAGE = os.sysconf("SC_PAGE_SIZE")
# What a process finds in memory of its one argument before it reads it: the number of pages.
RESIDENT = """
import ctypes, mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
size = os.fstat(file).st_size
memory = mmap.mmap(file, size)
states = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
if ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), states):
    sys.exit("mincore failed")
print(sum(state & 1 for state in states))
"""


def resident(done: subprocess.CompletedProcess[str]) -> list[int]:
    return [int(line) for line in done.stdout.splitlines() if line.isdigit()]


def test_a_file_that_was_just_written_is_out_of_memory_when_each_process_starts(launch: Launch, on_disk: Path) -> None:
    (on_disk / "deep").mkdir()
    file = on_disk / "deep" / "file"
    file.write_bytes(b"x" * (5 * PAGE + 1))
    (on_disk / "empty").touch()
    (on_disk / "link").symlink_to(file)
    read = [sys.executable, "-c", f"{RESIDENT}\nopen(sys.argv[1], 'rb').read()", str(file)]
    assert resident(launch("--", *read)) == [6]
    done = launch("--evict", str(on_disk), "--repeat", "2", "--", *read)
    assert resident(done) == [0, 0]
    assert [cost["resident_share"] for cost in costs(done)] == [0, 0]


def test_what_another_process_has_mapped_stays_and_nothing_is_started(launch: Launch, on_disk: Path) -> None:
    file = on_disk / "file"
    file.write_bytes(b"x" * (3 * PAGE))
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as memory:
        assert memory[0] == memory[PAGE] == memory[2 * PAGE] == ord("x")
        done = launch("--evict", str(on_disk), "--", "echo", "started")
    assert done.returncode == 1
    assert done.stderr == f"launch: cannot evict {on_disk}: 3 of its 3 pages stay in memory\n"
    assert "started" not in done.stdout


@pytest.mark.parametrize(("name", "why"), [("none", "No such file or directory"), ("", "there is no file in it")])
def test_a_folder_of_which_nothing_can_be_evicted_is_named(launch: Launch, on_disk: Path, name: str, why: str) -> None:
    done = launch("--evict", str(on_disk / name), "--", "true")
    assert done.returncode == 1
    assert done.stderr == f"launch: cannot evict {on_disk / name}: {why}\n"


@pytest.mark.parametrize(("script", "code", "number"), [("exit 7", 7, 0), ("kill -KILL $$", 128 + signal.SIGKILL, 9)])
def test_a_child_that_fails_or_is_killed_ends_the_repetition_with_its_exit_code(
    launch: Launch, script: str, code: int, number: int
) -> None:
    done = launch("--repeat", "5", "--", "sh", "-c", script)
    assert done.returncode == code
    assert [(cost["exit_code"], cost["signal"]) for cost in costs(done)] == [(code, number)]


def test_the_child_is_pinned_to_the_last_cpu_that_is_allowed_if_that_is_asked_for(launch: Launch) -> None:
    every, lowest = os.sched_getaffinity(0), {min(os.sched_getaffinity(0))}
    show = ["--", sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"]
    pinned = launch("--cpu", "last", *show)
    alone = launch("--cpu", "last", *show, preexec_fn=lambda: os.sched_setaffinity(0, lowest))
    found = [done.stdout.splitlines()[0] for done in (pinned, alone, launch(*show))]
    assert found == [str({max(every)}), str(lowest), str(every)]


def test_a_program_that_does_not_exist_is_named_with_exit_code_127(launch: Launch) -> None:
    done = launch("--", "no-such-program")
    assert done.returncode == 127
    assert done.stderr == "launch: cannot start no-such-program: No such file or directory\n"
    assert done.stdout == ""


def test_the_program_is_found_by_the_path(launch: Launch, tmp_path: Path) -> None:
    program = tmp_path / "greet"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    done = launch("--", "greet", env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"})
    assert done.stdout.startswith("found\n")


def test_a_launcher_that_cannot_report_fails(binary: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([binary, "--", "true"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "cannot write to stdout" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["--"], ["true"], ["--unknown", "--", "true"], ["--repeat", "0", "--", "true"], ["--repeat"],
        ["--repeat", "2x", "--", "true"], ["--cpu", "first", "--", "true"], ["--cpu"], ["--idle", "--", "true"],
        ["--parallel", "0", "--", "true"], ["--parallel", "1025", "--", "true"], ["--parallel"], ["--evict"],
    ],
)  # fmt: skip
def test_bad_usage_is_explained_with_exit_code_2(launch: Launch, arguments: list[str]) -> None:
    done = launch(*arguments)
    assert done.returncode == 2
    assert "usage: launch" in done.stderr
    assert done.stdout == ""


def wait_until_idle(pid: int) -> None:
    """On a busy machine a process that has just started would still die of a signal.

    The launcher ignores SIGCHLD once it has blocked the signals that end it. While it waits for those the kernel shows
    them as not blocked.
    """
    limit_s = time.monotonic() + 30
    while time.monotonic() < limit_s:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        (ignored,) = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn:")]
        if ignored >> (signal.SIGCHLD - 1) & 1:
            return
        time.sleep(0.01)
    pytest.fail("the launcher does not idle")


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_idle_waits_for_a_signal_and_ends_with_0(binary: Path, ending: signal.Signals) -> None:
    with subprocess.Popen([binary, "--idle"]) as process:
        try:
            wait_until_idle(process.pid)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=0.2)
            process.send_signal(ending)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
