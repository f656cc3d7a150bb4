"""The service that workloads put under load: what it answers, what it waits for, and how it ends."""

import asyncio
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.builders import ROOT, module_at
from tests.workloads.conftest import ONCE, WORKLOADS, Refusal

DATABASE = ROOT / "dockerfiles/load/database.py"
LIMIT_S = 30
# As gunicorn does it if a process that it has forked cannot serve.
GIVES_UP = """
import os, sys, types
class Server:
    def run(self):
        forked = os.fork()
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) if forked else 3)
sys.modules["waitress"] = types.SimpleNamespace(create_server=lambda *_, **options: Server())
"""
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def free_port() -> int:
    """Return a port below those that the kernel hands out by itself: until it is used nobody else gets it."""
    while True:
        port = random.randrange(20_000, 32_000)
        with closing(socket.socket()) as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def eventually(found: Callable[[], Any]) -> Any:
    """What is found once it is there."""
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit:
        try:
            return found()
        except OSError:
            time.sleep(0.02)
    return found()


@contextmanager
def service(scratch: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    port = free_port()
    argv = [sys.executable, "-B", str(WORKLOADS / "service_app.py"), "--loops", "1", "--warmups", "0", "--values", "1"]
    argv += ["--port", str(port), "--scratch", str(scratch), *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, f"http://127.0.0.1:{port}/"
        finally:
            process.kill()


def connect(url: str) -> socket.socket:
    address = ("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))
    found: socket.socket = eventually(lambda: socket.create_connection(address))
    return found


def ask(url: str) -> str:
    with eventually(lambda: urllib.request.urlopen(url, timeout=LIMIT_S)) as answer:  # noqa: S310
        return str(answer.read().decode())


def stop(process: subprocess.Popen[str], scratch: Path) -> dict[str, Any]:
    """What it reports after SIGTERM to the process that it named."""
    assert int((scratch / "service.pid").read_text()) == process.pid
    process.send_signal(signal.SIGTERM)
    printed, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    report: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return report


@pytest.fixture
def database() -> Iterator[str]:
    port = free_port()
    with subprocess.Popen([sys.executable, str(DATABASE), str(port)]) as process:
        eventually(lambda: socket.create_connection(("127.0.0.1", port)).close())
        yield f"127.0.0.1:{port}"
        process.kill()


def test_it_serves_until_sigterm_and_reports_how_long(tmp_path: Path) -> None:
    with service(tmp_path) as (process, url):
        assert ask(url) == "Hello from a service\n"
        report = stop(process, tmp_path)
    assert (report["interlock"], report["loops"], len(report["values"])) == (1, 1, 1)
    assert 0 < report["values"][0] < LIMIT_S
    assert report["metadata"]["python_version"] == sys.version.split()[0]


def test_it_stops_though_a_connection_is_open(tmp_path: Path) -> None:
    with service(tmp_path) as (process, url), closing(connect(url)):
        stop(process, tmp_path)


def test_a_connection_is_kept_for_the_next_request_and_each_answer_is_one_segment(tmp_path: Path) -> None:
    with service(tmp_path) as (process, url):
        with closing(connect(url)) as client:
            for _ in range(3):
                client.sendall(REQUEST)
                head, _, body = client.recv(65536).partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                assert body == b"Hello from a service\n"
        stop(process, tmp_path)


def test_the_json_handler_reads_changes_and_writes_a_document(tmp_path: Path) -> None:
    with service(tmp_path, "--handler", "json") as (process, url):
        text = ask(url)
        stop(process, tmp_path)
    document = json.loads(text)
    assert len(document["records"]) == 100
    assert document["total"] == sum(range(100))
    assert '"total": 4950' in text
    assert 5_000 < len(text) < 10_000


def test_the_xml_handler_reads_changes_and_writes_a_tree(tmp_path: Path) -> None:
    with service(tmp_path, "--handler", "xml") as (process, url):
        text = ask(url)
        stop(process, tmp_path)
    root = ElementTree.fromstring(text)  # noqa: S314 - the service's own
    assert [int(record.get("id", "")) for record in root] == list(range(50))
    assert int(root.get("total", "")) == sum(range(50))
    assert 2_000 < len(text) < 5_000


@pytest.mark.parametrize("workers", [1, 3])
def test_an_asgi_service_answers_in_as_many_threads_as_it_is_told(workers: int) -> None:
    """Each waits until all are asked: in fewer threads none would be answered."""
    together = threading.Barrier(workers)
    respond = module_at(WORKLOADS / "service/asynchronous.py").in_threads(
        lambda: together.wait(LIMIT_S) is not None, workers
    )

    async def ask_all() -> list[bool]:
        return [bool(answer) for answer in await asyncio.gather(*(respond() for _ in range(workers)))]

    assert asyncio.run(ask_all()) == [True] * workers


def test_the_database_handler_waits_for_a_row_of_the_database(tmp_path: Path, database: str) -> None:
    with service(tmp_path, "--handler", "database", "--database", database) as (process, url):
        ask(url)
        start = time.monotonic()
        assert ask(url) == "row 42\n"
        assert time.monotonic() - start >= 0.005
        stop(process, tmp_path)


def hang_up(listening: socket.socket) -> None:
    listening.accept()[0].close()


@pytest.fixture
def lost_database() -> Iterator[str]:
    """The address of a database that hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=hang_up, args=(listening,), daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_database_that_goes_away_ends_the_service_with_a_sentence(tmp_path: Path, lost_database: str) -> None:
    with service(tmp_path, "--handler", "database", "--database", lost_database) as (process, url):
        connect(url).sendall(REQUEST)
        _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert "work not done: " in said


def test_an_asgi_service_has_no_answer_without_its_database(lost_database: str) -> None:
    database = module_at(WORKLOADS / "service/asynchronous.py").Database(lost_database)
    with pytest.raises(ConnectionError):
        asyncio.run(database())


def test_the_database_answers_each_connection_in_its_turn(database: str) -> None:
    host, port = database.split(":")
    with (
        closing(socket.create_connection((host, int(port)))) as one,
        closing(socket.create_connection((host, int(port)))) as other,
    ):
        start = time.monotonic()
        for client, line in ((one, b"a\n"), (other, b"b\n")):
            client.sendall(line)
        assert (one.recv(100), other.recv(100)) == (b"a\n", b"b\n")
        assert time.monotonic() - start >= 0.005


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["--scratch", "/nowhere"], "No such file or directory: '/nowhere/service.pid'", 1),
        (["--handler", "database"], "--database is missing", 2),
        (["--server", "apache"], "invalid choice: 'apache'", 2),
        (["--server", "uvicorn"], "No module named 'uvicorn'", 1),
    ],
)
def test_what_it_cannot_do_is_said(tmp_path: Path, arguments: list[str], said: str, code: int) -> None:
    with service(tmp_path, *arguments) as (process, _):
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code
    assert said in errors


def test_a_server_that_gives_up_is_no_service_and_sees_with_which_code_its_own_process_ended(
    refusal: Refusal, tmp_path: Path
) -> None:
    said = refusal("service_app.py", "--server", "waitress", "--scratch", str(tmp_path), *ONCE, sabotage=GIVES_UP)
    assert "work not done: waitress ended with exit code 3" in said
