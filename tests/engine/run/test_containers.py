"""The engine's frames, and an engine that sends its answer in one piece."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import closing
from io import BufferedIOBase
from threading import Event

import pytest
from docker.errors import APIError
from docker.models.containers import Container
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.agent import MOST_OUTPUT_BYTES
from interlock.engine.client import Address, SilentError, _Client
from interlock.engine.protocol import CpuUsed
from interlock.engine.run import execution
from interlock.engine.run.containers import parse_cpu_used, parse_memory_bytes
from interlock.errors import EngineError, FloodError, WorkloadError
from tests.fakes import Answer, Asked, as_json, serving


def frame(stream: int, text: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(text)) + text


def demultiplexed(frames: bytes, size: int = 5) -> tuple[bytes, bytes]:
    """What comes of frames that arrive in pieces."""
    output = execution.Output()
    for start in range(0, len(frames), size):
        output.feed(frames[start : start + size])
    return bytes(output.stdout), bytes(output.stderr)


def test_each_stream_is_put_together_in_its_order() -> None:
    frames = frame(1, b"a\n") + frame(2, b"oops\n") + frame(1, b"") + frame(1, b"b\n")
    for size in range(1, len(frames) + 1):
        assert demultiplexed(frames, size) == (b"a\nb\n", b"oops\n")


def test_a_process_that_printed_nothing_has_empty_streams() -> None:
    assert demultiplexed(b"") == (b"", b"")


@pytest.mark.parametrize("lost", [1, 5, 12])
def test_of_a_frame_that_was_cut_short_what_came_is_kept(lost: int) -> None:
    whole, cut = frame(1, b"whole\n"), frame(1, b"cut\n")
    assert demultiplexed(whole + cut[:-lost]) == (b"whole\n" + b"cut\n"[: max(0, 4 - lost)], b"")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
HANGS = Event()  # until it is set


def echo(received: BufferedIOBase, sent: BufferedIOBase) -> None:
    """Say again, as the output of a process, what it is told."""
    sent.write(frame(1, received.read(4)))
    received.read()  # until it is hung up


def answer(asked: Asked) -> Answer:
    """As a busy engine: headers and output in one packet."""
    *_, name, what = asked.path.split("/")
    if asked.method == "GET":
        return as_json({"ApiVersion": "1.41"})
    if what == "exec":
        return as_json({"Id": name}, 201)
    if name == "hung":
        HANGS.wait(20)
    if name == "flood":
        return Answer(raw=HEAD + frame(2, b"x" * (MOST_OUTPUT_BYTES + 1)))
    answers = {
        "known": Answer(raw=HEAD + frame(1, b"out\n") + frame(2, b"err\n")),
        "talks": Answer(raw=HEAD, then=echo),
        "unknown": as_json({"message": "none"}, 404),
    }
    return answers.get(name, Answer(closes=True))


@pytest.fixture
def client() -> Iterator[_Client]:
    with serving(answer) as port:
        address = f"tcp://127.0.0.1:{port}"
        with closing(_Client(Address(address), base_url=address, version="1.41")) as ours:
            yield ours


def test_output_that_comes_with_the_headers_is_not_lost(client: _Client) -> None:
    output = execution.run_to_end(client, "known", execution.Output())
    assert (bytes(output.stdout), bytes(output.stderr)) == (b"out\n", b"err\n")


def test_what_the_engine_does_not_know_is_its_error(client: _Client) -> None:
    with pytest.raises(APIError, match="404"):
        execution.run_to_end(client, "unknown", execution.Output())


def test_more_output_than_is_read_is_an_error_and_the_connection_is_closed(client: _Client) -> None:
    with pytest.raises(FloodError):
        execution.run_to_end(client, "flood", execution.Output())


def test_of_much_output_the_end_is_kept_where_that_is_what_is_read(client: _Client) -> None:
    output = execution.run_to_end(client, "flood", execution.Output(keeps_end=True))
    assert output.is_cut
    assert 0 < len(output.stderr) <= MOST_OUTPUT_BYTES
    for number in range(5):
        output.feed(frame(2, b"y" * 7_000_000 + b"%d" % number))
    assert output.stderr.endswith(b"y4")
    assert len(output.stderr) <= MOST_OUTPUT_BYTES


@pytest.mark.promise
def test_an_engine_that_hangs_at_a_deadline_is_not_waited_for_and_no_thread_ends_in_a_traceback(
    client: _Client, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr("interlock.engine.client.SHORT_S", 0.2)
    monkeypatch.setattr(execution, "SHORT_S", 0.5)
    container = Container({"Id": "hung"}, client)
    started = time.monotonic()
    ended = execution.run_until(container, ["sleep", "9"], 0.2)
    assert (ended.exit_code, ended.timed_out) == (None, True)
    with pytest.raises(SilentError):
        container.kill()
    assert time.monotonic() - started < 5
    HANGS.set()
    assert not recwarn.list  # pytest's, of a thread that ended so


@pytest.mark.promise
def test_an_engine_that_hangs_up_on_a_process_is_one_sentence(client: _Client) -> None:
    with pytest.raises(EngineError):
        execution.run_until(Container({"Id": "gone"}, client), ["sleep", "9"], 5)


def test_a_connection_that_nobody_has_any_more_is_hung_up_by_its_answer(client: _Client) -> None:
    stream = client.api.exec_start("talks", socket=True)
    response = stream._response.raw._fp
    channel = execution.ExecutionChannel(stream)
    channel.send(b"ping")
    assert channel.receive(5) == b"ping"
    assert not response.isclosed()
    del channel
    assert response.isclosed()


SECOND = st.integers(0, 10**6)


@pytest.mark.parametrize(
    "text",
    [
        "3500000000\n2500000000\n1000000000\n",
        "usage_usec 3500000\nuser_usec 2500000\nsystem_usec 1000000\nnr_periods 0\n",
    ],
    ids=["v1", "v2"],
)
def test_cpu_time_is_read_by_either_version_of_cgroups(text: str) -> None:
    assert parse_cpu_used(text) == CpuUsed(2.5, 1.0)


@pytest.mark.parametrize(
    ("now", "used"),
    [(CpuUsed(3.0, 2.0), (2.0, 1.0)), (CpuUsed(4.0, 0.5), (2.5, 0.0)), (CpuUsed(0.5, 4.0), (0.0, 2.5))],
    ids=["both", "less of the kernel's", "less of the user's"],
)
def test_no_part_of_what_was_used_meanwhile_is_negative_and_their_sum_is_what_was_counted(
    now: CpuUsed, used: tuple[float, float]
) -> None:
    since = now.since(CpuUsed(1.0, 1.0))
    assert (since.user_s, since.sys_s) == used


def test_the_cpu_time_of_version_1_is_finer_than_its_ticks() -> None:
    """A slice of load that costs less than a tick of 4 ms has a time above 0."""
    before, after = (parse_cpu_used(f"{total}\n8000000\n4000000\n") for total in (12_100_000, 13_500_000))
    assert after.since(before).total_s == pytest.approx(0.0014)
    assert parse_cpu_used("0\n0\n0\n").total_s == 0


@given(SECOND, SECOND, SECOND, SECOND)
def test_what_was_used_in_between_is_the_difference(user: int, system: int, more_user: int, more_system: int) -> None:
    before = parse_cpu_used(f"user_usec {user}\nsystem_usec {system}\n")
    after = parse_cpu_used(f"user_usec {user + more_user}\nsystem_usec {system + more_system}\n")
    found = after.since(before)
    assert found.user_s == pytest.approx(more_user / 1e6)
    assert found.sys_s == pytest.approx(more_system / 1e6)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cat: no such file\n",
        "1\n",
        "user_usec 1\n",
        "user_usec x\nsystem_usec 2\n",
        "²\n-1\n",
        f"{'9' * 5000}\n1\n",
    ],
)
def test_a_kernel_that_shows_none_is_an_error(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"^CPU time: "):
        parse_cpu_used(text)


@pytest.mark.parametrize("text", ["cache 9\nrss 1\ntotal_rss 4096\ntotal_cache 9\n", "anon 4096\nfile 9\n"])
def test_memory_is_that_of_processes_by_either_version(text: str) -> None:
    assert parse_memory_bytes(text) == 4096


@pytest.mark.parametrize("text", ["", "cat: no such file\n", "file 9\n", "anon x\n", "anon ²\n"])
def test_a_kernel_that_shows_no_memory_is_an_error(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"^memory: "):
        parse_memory_bytes(text)
