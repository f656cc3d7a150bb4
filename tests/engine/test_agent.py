"""The agent, compiled for this machine: what it starts, feeds and reaps, and how its answers are read."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.agent import Agent, Process, ProcessTimeoutError
from interlock.engine.host import toolchain
from interlock.engine.host.sandbox import ProcessChannel
from interlock.errors import EngineError, FloodError

FOLDER = Path(__file__).parents[2] / "dockerfiles" / "instruments"
SOURCES = [FOLDER / name for name in toolchain.LAUNCHER]
LIMIT_S = 20


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("agent") / "launch"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", target, *SOURCES], check=True)
    return target


@pytest.fixture
def channel(binary: Path, tmp_path: Path) -> Iterator[ProcessChannel]:
    found = ProcessChannel([str(binary), "--agent"], os.environ, tmp_path)
    yield found
    found._process.kill()
    found._process.communicate()


@pytest.fixture
def agent(channel: ProcessChannel) -> Agent:
    return Agent(channel)


def cost_of(process: Process) -> dict[str, float]:
    found: dict[str, float] = json.loads(process.cost)["interlock_process"]
    return found


def test_a_process_is_fed_line_by_line_until_its_stdin_is_closed(agent: Agent) -> None:
    process = agent.start(["--feed"], ["sh", "-c", 'while read -r line; do echo "got $line"; done; echo end >&2'], {})
    for number in range(3):
        process.tell(f"{number}")
        assert process.line(LIMIT_S) == f"got {number}"
    process.end(LIMIT_S)
    assert process.line(LIMIT_S) is None
    assert process.stderr == b"end\n"
    assert cost_of(process)["exit_code"] == 0


def test_processes_live_side_by_side_and_a_closed_stdin_is_the_ones_own(agent: Agent) -> None:
    some = [agent.start(["--feed"], ["cat"], {}) for _ in range(20)]
    for number, process in enumerate(some):
        process.tell(str(number))
    assert [process.line(LIMIT_S) for process in reversed(some)] == [str(number) for number in reversed(range(20))]
    some[7].end(LIMIT_S)
    some[8].tell("more")
    assert some[8].line(LIMIT_S) == "more"


def test_what_it_cost_is_said_with_its_exit_code_and_signal(agent: Agent) -> None:
    start_s = time.monotonic()
    process = agent.start([], ["sh", "-c", "sleep 0.2; kill -9 $$"], {})
    process.wait(LIMIT_S)
    cost = cost_of(process)
    assert (cost["exit_code"], cost["signal"]) == (137, 9)
    assert 0.19 < cost["wall_s"] <= time.monotonic() - start_s


def test_what_cannot_be_started_ends_as_in_a_shell(agent: Agent) -> None:
    process = agent.start([], ["no-such-program"], {})
    process.wait(LIMIT_S)
    assert cost_of(process)["exit_code"] == 127
    assert cost_of(process)["wall_s"] >= 0
    assert b"no-such-program" in process.stderr


def test_its_environment_is_the_agents_with_its_own_in_place(agent: Agent) -> None:
    process = agent.start([], ["sh", "-c", 'echo "$HOME $PATH" | wc -w; echo "$HOME"'], {"HOME": "/a b=c"})
    assert [process.line(LIMIT_S), process.line(LIMIT_S)] == ["3", "/a b=c"]


# Each waits for all others: one after the other they would never end.
MEET = "touch $0/$$; while [ $(ls $0 | wc -l) -lt 4 ]; do sleep 0.01; done; sleep 0.1; echo lost"


def test_a_batch_is_started_at_once_and_has_one_cost(agent: Agent, tmp_path: Path) -> None:
    process = agent.start(["--parallel", "4", "--discard-stdout"], ["sh", "-c", MEET, str(tmp_path)], {})
    process.wait(LIMIT_S)
    assert process.stdout == b""
    assert cost_of(process)["exit_code"] == 0
    assert cost_of(process)["wall_s"] > 0.09


def test_a_pinned_process_has_one_cpu_and_the_next_one_all(agent: Agent) -> None:
    argv = ["python3", "-c", "import os; print(len(os.sched_getaffinity(0)))"]
    pinned, free = (agent.start(options, argv, {}) for options in (["--cpu", "last"], []))
    assert [pinned.line(LIMIT_S), free.line(LIMIT_S)] == ["1", str(len(os.sched_getaffinity(0)))]


def test_nobody_waits_for_a_descendant_that_lives_on(agent: Agent) -> None:
    process = agent.start([], ["sh", "-c", "sleep 30 & echo here"], {})
    start_s = time.monotonic()
    process.wait(LIMIT_S)
    assert process.stdout == b"here\n"
    assert time.monotonic() - start_s < LIMIT_S / 2


def test_more_output_than_a_pipe_holds_arrives_whole(agent: Agent) -> None:
    process = agent.start([], ["python3", "-c", "import sys; sys.stdout.write('x' * 3000000)"], {})
    process.wait(LIMIT_S)
    assert len(process.stdout) == 3_000_000


def test_many_starts_one_after_the_other_leave_nothing_open(agent: Agent, channel: ProcessChannel) -> None:
    def count() -> int:
        return len(list(Path(f"/proc/{channel._process.pid}/fd").iterdir()))

    agent.start([], ["true"], {}).wait(LIMIT_S)
    before = count()
    for _ in range(300):
        agent.start(["--feed"], ["true"], {}).end(LIMIT_S)
    assert count() == before


def is_in_memory(path: Path) -> bool:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    finally:
        os.close(file)


def test_pages_of_files_are_dropped_but_for_those_that_a_process_has_mapped(agent: Agent, on_disk: Path) -> None:
    mapped, free, kept = (on_disk / name for name in ("mapped", "free of any", "kept"))
    for path in (mapped, free, kept):
        path.write_bytes(b"x" * mmap.PAGESIZE)
    os.sync()  # a page that is not on the disk yet cannot be dropped
    with mapped.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        assert memory[0] == ord("x")
        agent.drop([str(mapped), str(on_disk / "missing"), str(on_disk), str(free)])
        agent.start([], ["true"], {}).wait(LIMIT_S)
        assert [is_in_memory(path) for path in (mapped, free, kept)] == [True, False, True]


def test_a_process_that_does_not_answer_is_late(agent: Agent) -> None:
    process = agent.start(["--feed"], ["sleep", "30"], {})
    with pytest.raises(ProcessTimeoutError):
        process.line(0.05)


def test_an_agent_that_is_gone_is_an_error(agent: Agent, channel: ProcessChannel) -> None:
    process = agent.start(["--feed"], ["cat"], {})
    channel._process.kill()
    channel._process.wait()
    with pytest.raises(EngineError):
        process.line(LIMIT_S)


def test_a_process_that_prints_without_an_end_is_an_error_of_its_own(agent: Agent) -> None:
    process = agent.start([], ["yes"], {})
    with pytest.raises(FloodError):
        process.wait(LIMIT_S)


class Pieces:
    """A channel whose answers come in pieces of any size."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def send(self, data: bytes) -> None:
        pass

    def receive(self, limit_s: float) -> bytes:
        return self.pieces.pop(0)


def test_an_agent_whose_connection_is_reset_is_gone() -> None:
    class Reset(Pieces):
        def receive(self, limit_s: float) -> bytes:
            raise ConnectionResetError

    with pytest.raises(EngineError, match="agent of a cell is gone"):
        Agent(Reset([])).start([], ["x"], {}).wait(LIMIT_S)


@pytest.mark.parametrize(
    "answer",
    [b"out 0 x\n", b"out 7 1\nx", b"what 0 1\nx", b"out 0 -1\n", b"out 0 99999999999\n", b"\xff\n", b"x" * 200],
)
def test_an_answer_that_is_none_of_the_launchers_is_an_agent_that_is_gone(answer: bytes) -> None:
    process = Agent(Pieces([answer])).start([], ["x"], {})
    with pytest.raises(EngineError):
        process.wait(LIMIT_S)


@given(
    st.lists(st.tuples(st.sampled_from(["out", "err"]), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(1, 30), min_size=1),
)
def test_answers_are_read_whole_however_they_are_cut(answers: list[tuple[str, bytes]], sizes: list[int]) -> None:
    stream = b"".join(f"{what} 0 {len(data)}\n".encode() + data for what, data in answers) + b"end 0 2\n{}"
    pieces: list[bytes] = []
    while stream:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(stream[:size])
        stream = stream[size:]
    process = Agent(Pieces(pieces)).start([], ["x"], {})
    process.wait(LIMIT_S)
    assert process.stdout == b"".join(data for what, data in answers if what == "out")
    assert process.stderr == b"".join(data for what, data in answers if what == "err")
