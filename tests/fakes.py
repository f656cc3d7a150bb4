"""Servers that answer as no engine or registry should, on a port of this machine."""

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    port: int = 0  # the client's, of this connection


@dataclass(frozen=True)
class Answer:
    """What is sent back; `raw` replaces all of it, again and again if `endless`; `closes` ends it without a word.

    What is said on the connection behind `raw` is what `then` reads and writes. `resets`: the client gets a reset then,
    not an end.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes = b""
    closes: bool = False
    then: Callable[[BufferedIOBase, BufferedIOBase], None] = lambda received, sent: None
    endless: bool = False
    resets: bool = False


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
    answer: Callable[[Asked], Answer],
    asked: list[Asked] | None = None,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
) -> Iterator[int]:
    """Serve within the block; gives the port. What was asked is appended to `asked`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A head and its body are two sends: with it the second one waits for the client's delayed acknowledgement.
        disable_nagle_algorithm = True

        def do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body, port = self.rfile.read(length), self.client_address[1]
            request = Asked(self.command, self.path, dict(self.headers), body, port)
            if asked is not None:
                asked.append(request)
            _reply(self, answer(request))

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do  # noqa: N815  the names are the server's

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Whoever hung up has what it wanted."""

    with Server((host, 0), Handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def _reply(to: BaseHTTPRequestHandler, sent: Answer) -> None:
    to.close_connection = bool(sent.raw or sent.closes)
    if sent.closes:
        to.connection.shutdown(socket.SHUT_RDWR)
    elif sent.raw:
        to.wfile.write(sent.raw)
        sent.then(to.rfile, to.wfile)
        while sent.endless:
            to.wfile.write(sent.raw)
        if sent.resets:
            # Nothing lingers. It is closed here: a server would say first that nothing more comes.
            to.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            to.connection.close()
    else:
        to.send_response(sent.status)
        for name, value in {"Content-Length": str(len(sent.body)), **sent.headers}.items():
            to.send_header(name, value)
        to.end_headers()
        to.wfile.write(b"" if to.command == "HEAD" else sent.body)
