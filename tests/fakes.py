"""Servers that answer as no engine or registry should, on a port of this machine."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """What is sent back; `raw` replaces all of it, and with `closes` the connection ends without a word."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes = b""
    closes: bool = False


def as_json(fields: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(status, json.dumps(fields).encode(), {"Content-Type": "application/json", **headers})


def files_of(folder: Path) -> Callable[[Asked], Answer]:
    """Answer with the files that a folder has when it is asked for them."""

    def answer(asked: Asked) -> Answer:
        path = folder / asked.path.lstrip("/")
        return Answer(body=path.read_bytes()) if path.is_file() else Answer(404)

    return answer


@contextmanager
def serving(
    answer: Callable[[Asked], Answer], asked: list[Asked] | None = None, host: str = "127.0.0.1"
) -> Iterator[int]:
    """Serve within the block; gives the port. What was asked is appended to `asked`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A head and its body are two sends: with it the second one waits for the client's delayed acknowledgement.
        disable_nagle_algorithm = True

        def do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            request = Asked(self.command, self.path, dict(self.headers), self.rfile.read(length))
            if asked is not None:
                asked.append(request)
            self.reply(answer(request))

        def reply(self, sent: Answer) -> None:
            self.close_connection = bool(sent.raw or sent.closes)
            if sent.closes:
                self.connection.shutdown(socket.SHUT_RDWR)
            elif sent.raw:
                self.wfile.write(sent.raw)
            else:
                self.send_response(sent.status)
                for name, value in {"Content-Length": str(len(sent.body)), **sent.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else sent.body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do  # noqa: N815  the names are the server's

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Whoever hung up has what it wanted."""

    with Server((host, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
