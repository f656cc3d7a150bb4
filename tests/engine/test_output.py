"""The engine's frames, and an engine that sends its answer in one piece."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import docker
import pytest
from docker.errors import APIError

from interlock.engine import output


def frame(stream: int, text: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(text)) + text


def test_each_stream_is_put_together_in_its_order() -> None:
    frames = frame(1, b"a\n") + frame(2, b"oops\n") + frame(1, b"") + frame(1, b"b\n")
    assert output.demultiplexed(frames) == (b"a\nb\n", b"oops\n")


def test_a_process_that_printed_nothing_has_empty_streams() -> None:
    assert output.demultiplexed(b"") == (b"", b"")


@pytest.mark.parametrize("lost", [1, 5, 12])
def test_of_a_frame_that_was_cut_short_what_came_is_kept(lost: int) -> None:
    whole, cut = frame(1, b"whole\n"), frame(1, b"cut\n")
    assert output.demultiplexed(whole + cut[:-lost]) == (b"whole\n" + b"cut\n"[: max(0, 4 - lost)], b"")


class Engine(BaseHTTPRequestHandler):
    """Answers with headers and output in one packet, as a busy engine does."""

    def do_GET(self) -> None:
        self._answer(b"HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n" + b'{"ApiVersion": "1.41"} ')

    def do_POST(self) -> None:
        if "/exec/unknown/" in self.path:
            self._answer(b'HTTP/1.1 404 Not Found\r\nContent-Length: 19\r\n\r\n{"message": "none"}')
            return
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
        self._answer(head + frame(1, b"out\n") + frame(2, b"err\n"))

    def _answer(self, packet: bytes) -> None:
        self.wfile.write(packet)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Silent."""


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield docker.DockerClient(base_url=f"tcp://127.0.0.1:{server.server_port}", version="1.41")
        server.shutdown()
        thread.join()


def test_output_that_comes_with_the_headers_is_not_lost(client: docker.DockerClient) -> None:
    assert output.run_to_end(client, "known") == (b"out\n", b"err\n")


def test_what_the_engine_does_not_know_is_its_error(client: docker.DockerClient) -> None:
    with pytest.raises(APIError, match="404"):
        output.run_to_end(client, "unknown")
