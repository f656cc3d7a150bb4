"""Runs the workload programs as the harness does, and serves them files with faults on demand."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest

from tests.builders import ROOT, module_at

Run = Callable[..., subprocess.CompletedProcess[str]]
Report = Callable[..., dict[str, Any]]
Refusal = Callable[..., str]
Serve = Callable[..., Any]
ONCE = ["--loops", "1", "--warmups", "0", "--values", "1"]
NO_THREADS = "import sys; sys.modules['threading'] = None"
WORKLOADS = ROOT / "workloads"
# Longer than any run takes, so that a hang fails a test instead of stopping the suite.
HANG_S = 120  # a machine that is busy with other things is slow, not wrong


class FileServer(ThreadingHTTPServer):
    """Serves bytes from memory under a manifest that need not be true."""

    daemon_threads = True

    def __init__(self, served: dict[str, bytes], dies_after_bytes: int | None, resets: bool) -> None:
        super().__init__(("127.0.0.1", 0), FileHandler)
        self.served = served
        self.dies_after_bytes = dies_after_bytes
        self.resets = resets
        self.connection_count = 0
        self.asked_for: set[str] = set()

    def finish_request(self, request: Any, client_address: Any) -> None:
        self.connection_count += 1
        super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: many a test has a client that goes away."""


class FileHandler(BaseHTTPRequestHandler):
    """GET with keep-alive and with one range."""

    protocol_version = "HTTP/1.1"
    # A head and its body are two sends: with it the second one waits for the client's delayed acknowledgement.
    disable_nagle_algorithm = True
    server: FileServer

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        self.server.asked_for.add(name)
        body = self.server.served[name]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted:
            body = body[int(wanted[1]) : int(wanted[2]) + 1]
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if name != "manifest" and self.server.dies_after_bytes is not None:
            body = body[: self.server.dies_after_bytes]
            self.close_connection = True
            if self.server.resets:
                # Nothing lingers: the other side gets a reset, not an end.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Silent: a test shows what the client says."""


def manifest_of(files: dict[str, bytes]) -> bytes:
    lines = [f"{hashlib.sha1(data).hexdigest()}  {len(data)}  {path}\n" for path, data in files.items()]  # noqa: S324
    return "".join(lines).encode()


@pytest.fixture
def serve() -> Iterator[Callable[..., FileServer]]:
    """Starts a server of `files`; `altered` replaces what is served, not what the manifest says."""
    with ExitStack() as ends:

        def start(
            files: dict[str, bytes],
            altered: dict[str, bytes] | None = None,
            dies_after_bytes: int | None = None,
            resets: bool = False,
            context: ssl.SSLContext | None = None,
        ) -> FileServer:
            served = {"manifest": manifest_of(files), **files, **(altered or {})}
            server = FileServer(served, dies_after_bytes, resets)
            if context:
                server.socket = context.wrap_socket(server.socket, server_side=True)
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            ends.callback(server.server_close)
            ends.callback(thread.join)
            ends.callback(server.shutdown)
            return server

        yield start


@pytest.fixture
def serve_tls(serve: Callable[..., FileServer], tmp_path: Path) -> Callable[..., tuple[FileServer, int]]:
    """Starts a server of `files` over TLS, and one in the clear that has the manifest and the certificate besides.

    `published` is the name of the certificate that the latter says is the former's.
    """

    def start(files: dict[str, bytes], published: str = "own") -> tuple[FileServer, int]:
        for name in {"own", published}:
            make_certificate(tmp_path, name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "own.pem", tmp_path / "own.key")
        certificate = (tmp_path / f"{published}.pem").read_bytes()
        return serve(files, {"tls.pem": certificate}), serve(files, context=context).server_port

    return start


def make_certificate(folder: Path, name: str) -> None:
    """As dockerfiles/server/serve.sh makes it."""
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,DNS:127.0.0.1",
            "-addext", "keyUsage=critical,digitalSignature,keyCertSign",
            "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem"),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip


@pytest.fixture(scope="session")
def protocol() -> ModuleType:
    return module_at(WORKLOADS / "protocol.py")


@pytest.fixture
def module(protocol: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports a module of workloads/ as its programs do, with the one protocol that tests have."""
    monkeypatch.syspath_prepend(WORKLOADS)
    monkeypatch.setitem(sys.modules, "protocol", protocol)

    def load(name: str) -> ModuleType:
        for path in WORKLOADS.glob("*.py"):
            if path.stem != "protocol":
                monkeypatch.delitem(sys.modules, path.stem, raising=False)
        return importlib.import_module(name)

    return load


@pytest.fixture
def run_program(tmp_path: Path) -> Run:
    """Runs a program of workloads/; `sabotage` is Python source that runs in it first."""

    def run(program: str, *arguments: str, sabotage: str = "") -> subprocess.CompletedProcess[str]:
        inside = tmp_path / "sabotage"
        inside.mkdir(exist_ok=True)
        (inside / "sitecustomize.py").write_text(sabotage)
        path = WORKLOADS / program
        return subprocess.run(
            [sys.executable, "-B", str(path), *arguments],
            env={**os.environ, "PYTHONPATH": f"{inside}{os.pathsep}{WORKLOADS}"},
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    return run


@pytest.fixture
def report(run_program: Run) -> Report:
    """What a program that must succeed says in its last line."""

    def run(program: str, *arguments: str, sabotage: str = "") -> dict[str, Any]:
        done = run_program(program, *arguments, sabotage=sabotage)
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    return run


@pytest.fixture
def refusal(run_program: Run) -> Refusal:
    """What a program says that must end with 1, as its work is not done, or with 2, as it is asked for what is not."""

    def run(program: str, *arguments: str, sabotage: str = "", code: int = 1) -> str:
        done = run_program(program, *arguments, sabotage=sabotage)
        assert done.returncode == code, done.stderr
        return done.stderr

    return run
