"""A user's own service, tried on variants by the real engine: the whole command, and nothing of it left behind."""

from __future__ import annotations

import hashlib
import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from docker.errors import DockerException

from interlock.engine.docker import DockerEngine
from interlock.engine.ownership import Life
from interlock.results import store
from interlock.results.experiments import Experiment, State
from tests.builders import Entry
from tests.integration.images import FREE_THREADED, NO_THREADS, QUICK, Images
from tests.integration.toys import copy_project, interlock

# The name of an official image as a registry of one's own has it; swap knows it by that.
OWN_IMAGE = "localhost:5000/trial-test/python:3.13-slim"
# Where the interpreter has no threads `import threading` fails, and with it the service.
SERVER = """\
import os, sys, threading

try:
    from http.server import BaseHTTPRequestHandler, HTTPServer
except ImportError:
    from BaseHTTPServer import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response({"/health": 200, "/sick": 503}.get(self.path, 200))
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *words):
        pass


sys.stderr.write("serving %s\\n" % os.environ.get("NAME"))
HTTPServer(("", 8000), Handler).serve_forever()
"""
DOCKERFILE = f"""\
FROM {OWN_IMAGE} AS service
ARG GREETING
COPY . /app/
RUN test -e /app/server.py && test ! -e /app/junk && test "$GREETING" = hi
EXPOSE 8000
CMD ["python", "/app/server.py"]

FROM service AS broken
CMD ["false"]
"""
BUILD = ("--target", "service", "--build-arg", "GREETING=hi")


@pytest.fixture
def project(root: Path, tmp_path: Path) -> Path:
    return copy_project(root, tmp_path / "project", [QUICK, FREE_THREADED, NO_THREADS], [])


@pytest.fixture(scope="module")
def own_image(client: Any, built: Images) -> Iterator[None]:
    """An official image that only these tests have by this name."""
    client.images.get(built[QUICK].image_id).tag(OWN_IMAGE)
    yield
    client.images.remove(OWN_IMAGE)


def write_service(folder: Path, first: str = "") -> Path:
    """The folder of a user's service; with a first line of its own it is one that the engine has never built."""
    folder.mkdir()
    (folder / "Dockerfile").write_text(DOCKERFILE)
    (folder / "server.py").write_text(first + SERVER)
    (folder / "junk").write_text("not for the image\n")
    (folder / ".dockerignore").write_text("junk\n")
    return folder


@pytest.fixture(scope="module")
def known_steps(client: Any, own_image: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The engine has built the service before, as it has a user's own: their own Dockerfile is not what takes long."""
    folder = write_service(tmp_path_factory.mktemp("known") / "service")
    tag = f"interlock-test/service:{uuid.uuid4().hex[:12]}"
    subprocess.run(["docker", "build", "--tag", tag, *BUILD, str(folder)], check=True, capture_output=True)
    yield
    client.images.remove(tag)


@pytest.fixture
def new_service(client: Any, own_image: None, tmp_path: Path) -> Iterator[Path]:
    """A service that the engine has built nothing of."""
    with unchanged(client, write_service(tmp_path / "service", f"# {uuid.uuid4()}\n")) as folder:
        yield folder


@pytest.fixture
def service(client: Any, known_steps: None, tmp_path: Path) -> Iterator[Path]:
    with unchanged(client, write_service(tmp_path / "service")) as folder:
        yield folder


@contextmanager
def unchanged(client: Any, folder: Path) -> Iterator[Path]:
    """Nothing of the user's folder changes, and nothing that is made of it stays."""
    before, made_before = contents(folder), made_of_it(client)
    left_before = left_of_trials(client)  # a trial that somebody killed, earlier
    yield folder
    assert contents(folder) == before
    assert made_of_it(client) - made_before == set()
    assert left_of_trials(client) - left_before == set()


def contents(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Of each file the sum of its bytes, its mode and its time."""
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mode, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def made_of_it(client: Any) -> set[str]:
    """All images, named or not, that a build of a service made."""
    return {image["Id"] for image in client.api.images(all=True) if "server.py" in history(client, image["Id"])}


@cache
def history(client: Any, image_id: str) -> str:
    """An image's steps, which never change."""
    try:
        return str(client.api.history(image_id))
    except DockerException:  # somebody else's, gone meanwhile
        return ""


def left_of_trials(client: Any) -> set[str]:
    """The owners of the containers, networks and volumes of any trial but those that a user is making now."""
    owners = DockerEngine(client).owners().items()
    return {owner for owner, life in owners if owner.startswith("trial-") and life is not Life.LIVING}


def recorded(folder: Path) -> tuple[Experiment, dict[str, Any], dict[str, Any]]:
    """A trial, and by label the values and the profiles of its only workload's benchmarks."""
    record = store.read_experiment(folder)
    by_cell = store.read_cells(folder, record)
    values, profiles = ({label: found for (label, _), found in cells.items()} for cells in by_cell)
    return record, values, profiles


@pytest.mark.slow
def test_a_service_is_built_proved_loaded_and_judged_on_each_variant(project: Path, new_service: Path) -> None:
    done = interlock(
        project, "trial", str(new_service), *BUILD, "--load", "wrk -t1 -c2 -d1s {url}/",
        "--http", "service.test:8000/health",
        "--cmd", "python -c 'import sys; print(sys.version)'", "--env", "NAME=toy", "--rounds", "2", "--seed", "7",
        "--variants", f"{FREE_THREADED},{NO_THREADS}", "--memory", "256m", "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)
    (folder,) = (project / "results").iterdir()
    record, values, profiles = recorded(folder)
    (name,) = record.workloads
    states = {one.label: one.outcome for one in record.cells}
    assert list(states) == ["OWN", FREE_THREADED, NO_THREADS, "OWN+twin"]
    verdicts = {one["label"]: one for one in found["trial"]["verdicts"]}
    assert verdicts[NO_THREADS]["verdict"] == "do not switch"
    assert "ImportError: No module named thread" in verdicts[NO_THREADS]["problem"]
    assert verdicts[FREE_THREADED]["verdict"] in {"switch", "same", "undecided", "do not switch"}
    for label in ("OWN", "OWN+twin", FREE_THREADED):
        # By time or by CPU time, as busy as this machine lets the service be.
        (measured,) = values[label].values()
        assert measured.blocks == [1, 2]
        assert [len(process) for process in measured.processes] == [3, 3]
        assert all(1e-5 < one < 0.1 for one in measured.figures)
        further = {"latency_p50_s", "latency_p99_s", "memory_bytes", "healthy_after_s", "service_cpus", "load_cpus"}
        assert further <= measured.reported.keys()
        assert 1e6 < measured.reported["memory_bytes"][0] < 256e6
        assert 0 < measured.reported["service_cpus"][0] < 2
    # HTTP 1.0: a connection for each request, and each of them is accepted once.
    (profile,) = profiles["OWN"].values()
    assert profile.calls_per_unit(["accept", "accept4"]) == pytest.approx(1, abs=0.2)
    assert record.trial is not None
    changes = record.trial.tried[FREE_THREADED].changes
    assert "+FROM localhost/interlock/python:3.13t-unoptimised-trixie AS service" in changes
    assert sorted(record.order[name][0]) == ["OWN", "OWN+twin", FREE_THREADED]
    assert (record.trial.build_args, record.trial.environment) == (["GREETING"], ["NAME"])
    assert len(record.order[name]) == 2
    written = {path.name for path in folder.iterdir()}
    assert {"report.md", "report.html"} <= written
    assert "toy" not in "".join(path.read_text() for path in folder.glob("*.json"))


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("--http", ":8000/sick", "--healthy-within", "3"), 6, ("port 8000", "503", "serving")),
        (("--http", ":8001/", "--healthy-within", "2"), 6, ("port 8001", "2 s", "0.0.0.0:8000", "serving")),
        (("--cmd", "echo a test failed; exit 3"), 6, ("exit code 3", "a test failed")),
        (("--cmd", "sleep 60", "--deadline", "1"), 6, ("--cmd", "1 s", "--deadline")),
        (("--target", "broken", "--http", ":8000/"), 6, ("exit code 1",)),
        (("--load", "sh -c 'echo no {url}; exit 9'"), 6, ("exit code 9", "no http://")),
        (("--build-arg", "GREETING=bye", "--cmd", "true"), 5, ()),
    ],
)  # fmt: skip
def test_what_does_not_work_unchanged_is_an_error_in_one_sentence(
    entry: Entry,
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
    service: Path,
    words: tuple[str, ...],
    code: int,
    named: tuple[str, ...],
) -> None:
    monkeypatch.chdir(project)
    asked = ("--rounds", "1", "--no-syscalls", "--variants", QUICK)
    ended, out, errors = entry("trial", service, *BUILD, *words, *asked)
    assert ended == code, out + errors
    (line,) = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert all(one in line for one in named), line
    assert list((project / "results").iterdir()) == []


@pytest.mark.slow
def test_another_programs_load_is_timed_on_a_service_that_says_its_own_port(project: Path, service: Path) -> None:
    load = "sh -c 'for n in 1 2 3; do curl -sf {url}/; sleep 0.1; done'"
    done = interlock(
        project, "trial", str(service), *BUILD, "--load", load, "--rounds", "1", "--no-syscalls", "--variants",
        QUICK, "--name", "kept", "--keep",
    )  # fmt: skip
    record, values, _ = recorded(project / "results/kept")
    (measured,) = values["OWN"].values()
    # It sleeps most of its time: CPU time decides.
    assert 0.3 < 1 / measured.reported["units_per_s"][0] < 5
    assert 0 < measured.figures[0] < 0.3
    assert "undecided" in done.stdout
    assert record.trial is not None
    tags = {label: one.kept_as for label, one in record.trial.tried.items()}
    assert tags == {"OWN": "interlock/trial-service:own", QUICK: f"interlock/trial-service:{QUICK}"}
    for tag in tags.values():
        subprocess.run(["docker", "rmi", tag], check=True, capture_output=True)


# What a service asks at each request, as docs/trial.md has it of a queue.
ASKING = """\
import os, socket, http.server

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        host, port = os.environ["QUEUE"].split(":")
        with socket.create_connection((host, int(port))) as queue:
            word = queue.recv(9)
        self.send_response(200 if word == b"first" else 502)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"first")

    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""
QUEUE = """\
import socketserver

class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"first")

class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 64

Server(("", 6379), Handler).serve_forever()
"""


@pytest.fixture
def queue_network(client: Any, built: Images) -> Iterator[str]:
    """A network of the user's, in which a container called `queue` answers."""
    name = f"interlock-test-{uuid.uuid4().hex[:12]}"
    network = client.networks.create(name)
    command = ["python", "-c", QUEUE]
    container = client.containers.create(built[QUICK].image_id, command, user="1000", name=f"{name}-queue")
    network.connect(container, aliases=["queue"])
    container.start()
    yield name
    container.remove(force=True)
    network.remove()


@pytest.mark.slow
@pytest.mark.usefixtures("own_image")
def test_a_service_finds_what_it_needs_in_a_network_of_the_users(
    project: Path, tmp_path: Path, queue_network: str
) -> None:
    service = write_service(tmp_path / "service")
    (service / "server.py").write_text(ASKING)
    load = ("--env", "QUEUE=queue:6379", "--http", ":8000/", "--load", "wrk -t1 -c2 -d1s {url}/")
    asked = (*BUILD, *load, "--rounds", "1", "--no-syscalls", "--variants", QUICK, "--name", "queued")
    interlock(project, "trial", str(service), *asked, "--network", queue_network)
    _, values, _ = recorded(project / "results/queued")
    for label in ("OWN", QUICK):
        (measured,) = values[label].values()
        assert all(1e-5 < one < 0.1 for one in measured.figures)
    interlock(project, "trial", str(service), *asked[:-1], "alone", "--healthy-within", "3", code=6)


@pytest.mark.slow
def test_tests_alone_are_timed_in_new_containers(project: Path, service: Path) -> None:
    tests = "python -c 'import os, threading; assert os.getpid() != 1' && test ! -e /tmp/seen && touch /tmp/seen"
    interlock(
        project, "trial", str(service), *BUILD, "--cmd", tests, "--rounds", "2", "--variants", QUICK, "--name", "tests",
    )  # fmt: skip
    record, values, profiles = recorded(project / "results/tests")
    states = {one.label: one.outcome.state for one in record.cells}
    assert states == dict.fromkeys(("OWN", QUICK, "OWN+twin"), State.OK)
    assert all(values[label]["tests"].blocks == [1, 2] for label in states)
    assert profiles["OWN"]["tests"].calls_per_unit("all") > 10


# In CPython's words, where the GIL is off: as a service's tests would have them of a package that needs it.
SWITCHING = """\
import sys
if not sys._is_gil_enabled():
    lock = "The global interpreter lock (GIL) has been enabled"
    sys.stderr.write(lock + " to load module 'toy._toy', which has not declared that")
"""


@pytest.mark.slow
@pytest.mark.usefixtures("own_image")
def test_a_gil_that_comes_back_is_the_evidence_not_to_switch(root: Path, built: Images, tmp_path: Path) -> None:
    image = built[FREE_THREADED]
    project = copy_project(root, tmp_path / "project", [FREE_THREADED], [])
    folder = tmp_path / "tests-only"
    folder.mkdir()
    (folder / "Dockerfile").write_text(f"FROM {OWN_IMAGE}\nCOPY tests.py /\n")
    (folder / "tests.py").write_text(SWITCHING)
    done = interlock(
        project, "trial", str(folder), "--cmd", "python /tests.py", "--rounds", "2",
        "--variants", image.variant, "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)
    (judged,) = [one for one in found["trial"]["verdicts"] if one["label"] == FREE_THREADED]
    assert judged["verdict"] == "do not switch"
    assert "'toy._toy'" in judged["problem"]
