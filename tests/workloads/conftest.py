"""Runs the workload programs as the harness does, and serves them files with faults on demand."""

import hashlib
import importlib
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.builders import ROOT, module_at
from tests.fakes import Answer, Asked, serving

Run = Callable[..., subprocess.CompletedProcess[str]]
Report = Callable[..., dict[str, Any]]
Refusal = Callable[..., str]
Serve = Callable[..., Any]
ONCE = ["--loops", "1", "--warmups", "0", "--values", "1"]
NO_THREADS = "import sys; sys.modules['threading'] = None"
WORKLOADS = ROOT / "workloads"
# Longer than any run takes, so that a hang fails a test instead of stopping the suite.
HANG_S = 120  # a machine that is busy with other things is slow, not wrong


@dataclass
class FileServer:
    """Serves bytes from memory under a manifest that need not be true, to GET with one range."""

    served: dict[str, bytes]
    dies_after_bytes: int | None = None  # of each file
    resets: bool = False
    partial: int = 206  # the status of an answer to who asks for a range; 200 is that of the whole file
    asked: list[Asked] = field(default_factory=list)
    server_port: int = 0

    def answer(self, asked: Asked) -> Answer:
        name = asked.path.lstrip("/")
        body, status = self.served[name], 200
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", asked.headers.get("Range", ""))
        if wanted and self.partial != status:
            body, status = body[int(wanted[1]) : int(wanted[2]) + 1], self.partial
        if name == "manifest" or self.dies_after_bytes is None:
            return Answer(status, body)
        head = f"HTTP/1.1 {status} OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        return Answer(raw=head + body[: self.dies_after_bytes], resets=self.resets)

    @property
    def connection_count(self) -> int:
        return len({one.port for one in self.asked})

    @property
    def asked_for(self) -> set[str]:
        return {one.path.lstrip("/") for one in self.asked}


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
            tls: ssl.SSLContext | None = None,
            **faults: Any,
        ) -> FileServer:
            server = FileServer({"manifest": manifest_of(files), **files, **(altered or {})}, **faults)
            server.server_port = ends.enter_context(serving(server.answer, server.asked, tls=tls))
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
        return serve(files, {"tls.pem": certificate}), serve(files, tls=context).server_port

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
