"""The program without threads that sends, polls and receives."""

import random
import re
import socket
from typing import Any

import pytest

from tests.workloads.conftest import NO_THREADS, ONCE, Refusal, Report, Run, Serve

# No multiple of the number of requests.
FILES = {"single.bin": random.Random(2007).randbytes(896 * 7 + 5), "many/000.bin": b"another"}
# Counts the calls of sockets that the program makes; tells whether they have a timeout and whether threads are loaded.
COUNTED = """
import atexit, collections, select, socket, sys

calls = collections.Counter()
class Socket(socket.socket):
    def sendall(self, data):
        calls["sendall"] += 1
        return super().sendall(data)
    def recv(self, size):
        calls["recv"] += 1
        calls["with timeout"] += self.gettimeout() is not None
        return super().recv(size)
socket.socket = Socket
class Poll:
    def register(self, one, events): self.real.register(one, events)
    def poll(self, timeout_ms):
        calls["poll"] += 1
        return self.real.poll(timeout_ms)
def make(real=select.poll):
    poll = Poll.__new__(Poll)
    poll.real = real()
    return poll
select.poll = make
def tell():
    polled = calls["poll"] == calls["sendall"] + calls["recv"]
    timed = calls["with timeout"] == calls["recv"] >= calls["sendall"]
    print(calls["sendall"], polled, timed, "threading" in sys.modules, file=sys.stderr)
atexit.register(tell)
"""
# A socket that nothing comes from is waited for a hundredth of the time.
SOONER = """
import select
class Poll:
    def register(self, one, events): self.real.register(one, events)
    def poll(self, timeout_ms): return self.real.poll(timeout_ms / 100)
def make(real=select.poll):
    poll = Poll()
    poll.real = real()
    return poll
select.poll = make
"""


def asked(server: Any, *more: str) -> list[str]:
    return ["network_client.py", "--server", f"http://127.0.0.1:{server.server_port}", *more, *ONCE]


def test_a_loop_is_896_requests_over_one_connection(serve: Serve, report: Report) -> None:
    server = serve(FILES)
    found = report(*asked(server))
    assert (found["inner_loops"], found["metadata"]["thread_started"]) == (896, False)
    assert server.connection_count == 1


@pytest.mark.parametrize(
    ("options", "polled", "timed", "threads"),
    [
        ([], "True", "False", "False"),
        (["--after-a-thread"], "True", "False", "True"),
        (["--with-timeout"], "False", "True", "False"),
    ],
)
def test_each_request_is_sent_polled_and_received_and_threads_are_loaded_only_if_asked_for(
    serve: Serve, run_program: Run, options: list[str], polled: str, timed: str, threads: str
) -> None:
    done = run_program(*asked(serve(FILES), *options), sabotage=COUNTED)
    manifest_and_file = 2
    assert done.stderr.split() == [str(896 + manifest_and_file), polled, timed, threads]


def test_a_server_that_says_nothing_is_an_error_and_no_hang(refusal: Refusal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert re.search(r"\b5 s\b", refusal("network_client.py", "--server", server, *ONCE, sabotage=SOONER))


def test_an_interpreter_without_threads_does_the_same_work(serve: Serve, report: Report) -> None:
    found = report(*asked(serve(FILES), "--after-a-thread"), sabotage=NO_THREADS)
    assert found["metadata"]["thread_started"] is False
    assert len(found["values"]) == 1


def test_a_file_that_is_not_what_the_manifest_says_is_an_error(serve: Serve, refusal: Refusal) -> None:
    server = serve(FILES, {"single.bin": FILES["single.bin"][:-1] + b"?"})
    assert "single.bin: expected SHA-1 " in refusal(*asked(server))


@pytest.mark.parametrize(
    ("place", "said"),
    # Request n asks for 1,000 bytes from the beginning of the nth of 896 equal shares on.
    [
        (0, "request 1: expected bytes 0 to 999"),
        (1005, "request 2: expected bytes 7 to 1006"),
        (-1, "request 755: expected bytes 5282 to 6276"),
    ],
)
def test_a_part_with_a_wrong_byte_is_an_error(serve: Serve, refusal: Refusal, place: int, said: str) -> None:
    """Once the whole file was right, the server has another one."""
    server = serve(FILES)
    altered = bytearray(FILES["single.bin"])
    altered[place] ^= 1

    class ChangesOnceRead(dict[str, bytes]):
        reads = 0

        def __getitem__(self, name: str) -> bytes:
            self.reads += name == "single.bin"
            return super().__getitem__(name) if name != "single.bin" or self.reads == 1 else bytes(altered)

    server.served = ChangesOnceRead(server.served)
    assert f"{said} of single.bin, found others" in refusal(*asked(server))


def test_a_server_without_the_file_is_an_error(serve: Serve, refusal: Refusal) -> None:
    assert re.search(r"single\.bin\b.*\bmanifest\b", refusal(*asked(serve({"many/000.bin": b"another"}))))


def test_a_response_that_is_cut_short_is_an_error_and_no_hang(serve: Serve, refusal: Refusal) -> None:
    assert "expected a whole response, found its connection closed" in refusal(*asked(serve(FILES, dies_after_bytes=3)))


def test_another_status_is_an_error(serve: Serve, refusal: Refusal) -> None:
    assert re.search(r"single\.bin\b.*\b206\b.*\b503\b", refusal(*asked(serve(FILES, partial=503))))
