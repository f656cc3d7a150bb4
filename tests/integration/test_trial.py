"""A user's own service, tried on variants by the real engine: the whole command, and nothing of it left behind."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
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
from interlock.results.answers import Trial
from tests.apart import command
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


def test_a_service_is_built_proved_loaded_and_judged_on_each_variant(project: Path, new_service: Path) -> None:
    done = interlock(
        project, "trial", str(new_service), *BUILD, "--load", "wrk -t1 -c2 -d1s {url}/",
        "--http", "service.test:8000/health",
        "--cmd", "python -c 'import sys; print(sys.version)'", "--env", "NAME=toy", "--rounds", "2", "--seed", "7",
        "--variants", f"{FREE_THREADED},{NO_THREADS}", "--profile", "standard", "--memory", "256m", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (folder,) = (project / "results").iterdir()
    record = Trial.model_validate_json((folder / "trial.json").read_text())
    tried = {one.label: one for one in record.candidates}
    assert list(tried) == ["OWN", "OWN+twin", FREE_THREADED, NO_THREADS]
    verdicts = {one["label"]: one for one in found["verdicts"]}
    assert verdicts[NO_THREADS]["verdict"] == "do not switch"
    assert "ImportError: No module named thread" in verdicts[NO_THREADS]["reason"]
    assert verdicts[FREE_THREADED]["verdict"] in {"switch", "same", "undecided", "do not switch"}
    for label in ("OWN", "OWN+twin", FREE_THREADED):
        values = tried[label].values
        assert {name: len(one) for name, one in values.items()} == dict.fromkeys(
            ("start_s", "request_s", "p50_s", "p99_s", "cpu_s", "memory_bytes"), 2
        )
        assert 1e-5 < values["request_s"][0] < 0.1  # type: ignore[index]
        assert 1e6 < values["memory_bytes"][0] < 256e6  # type: ignore[index]
        assert 0 < values["cpu_s"][0] < 0.1  # type: ignore[index]
    assert tried["OWN"].test is not None
    assert tried["OWN"].test.exit_code == 0
    profile = tried["OWN"].profile
    assert profile is not None, tried["OWN"].no_profile
    # HTTP 1.0: a connection for each request, and each of them is accepted once.
    assert profile.calls_per_unit(["accept", "accept4"]) == pytest.approx(1, abs=0.2)
    assert "+FROM localhost/interlock/python:3.13t-unoptimised-trixie AS service" in tried[FREE_THREADED].changes
    assert sorted(record.order[0]) == ["OWN", "OWN+twin", FREE_THREADED]
    assert (folder / "trial.md").read_text().startswith("# Trial ")
    assert "hi" not in record.settings.model_dump_json()


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("--http", ":8000/sick", "--healthy-within", "3"), 6, ("port 8000", "503", "serving")),
        (("--http", ":8001/", "--healthy-within", "2"), 6, ("port 8001", "2 s", "serving")),
        (("--cmd", "echo a test failed; exit 3"), 6, ("exit code 3", "a test failed")),
        (("--cmd", "sleep 60", "--deadline", "1"), 6, ("--cmd", "1 s", "--deadline")),
        (("--target", "broken", "--http", ":8000/"), 6, ("exit code 1",)),
        (("--load", "sh -c 'echo no {url}; exit 9'"), 6, ("exit code 9", "no http://")),
        (("--build-arg", "GREETING=bye", "--cmd", "true"), 5, ()),
    ],
)  # fmt: skip
def test_what_does_not_work_unchanged_is_an_error_in_one_sentence(
    project: Path, service: Path, words: tuple[str, ...], code: int, named: tuple[str, ...]
) -> None:
    done = interlock(
        project, "trial", str(service), *BUILD, *words, "--rounds", "1", "--no-syscalls", "--variants", QUICK
    )
    assert done.returncode == code, done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert all(one in line for one in named), line
    assert list((project / "results").iterdir()) == []


def test_another_programs_load_is_timed_on_a_service_that_says_its_own_port(project: Path, service: Path) -> None:
    load = "sh -c 'for n in 1 2 3; do curl -sf {url}/; sleep 0.1; done'"
    done = interlock(
        project, "trial", str(service), *BUILD, "--load", load, "--rounds", "1", "--no-syscalls", "--variants",
        QUICK, "--output", str(project / "kept"), "--keep",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = Trial.model_validate_json((project / "kept/trial.json").read_text())
    own, _, variant = record.candidates
    assert 0.3 < own.values["load_s"][0] < 5  # type: ignore[index]
    assert "undecided" in done.stdout
    assert variant.image_tag == f"interlock/trial-service:{QUICK}"
    for tag in (own.image_tag, variant.image_tag):
        subprocess.run(["docker", "rmi", tag], check=True, capture_output=True)


def test_ctrl_c_leaves_nothing(project: Path, service: Path) -> None:
    words = ("trial", str(service), *BUILD, "--cmd", "sleep 60", "--rounds", "1", "--variants", QUICK)
    process = subprocess.Popen(
        command(*words), cwd=project, env={**os.environ}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "proving" in line:
            break
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    assert "interrupted" in rest
    assert list((project / "results").iterdir()) == []


# In CPython's words, where the GIL is off: as a service's tests would have them of a package that needs it.
SWITCHING = """\
import sys
if not sys._is_gil_enabled():
    lock = "The global interpreter lock (GIL) has been enabled"
    sys.stderr.write(lock + " to load module 'toy._toy', which has not declared that")
"""


@pytest.mark.usefixtures("own_image")
def test_a_gil_that_comes_back_is_the_evidence_not_to_switch(root: Path, built: Images, tmp_path: Path) -> None:
    image = built[FREE_THREADED]
    project = copy_project(root, tmp_path / "project", [FREE_THREADED], [])
    folder = tmp_path / "tests-only"
    folder.mkdir()
    (folder / "Dockerfile").write_text(f"FROM {OWN_IMAGE}\nCOPY tests.py /\n")
    (folder / "tests.py").write_text(SWITCHING)
    done = interlock(
        project, "trial", str(folder), "--cmd", "python /tests.py", "--rounds", "2", "--profile", "standard",
        "--variants", image.variant, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (judged,) = [one for one in found["verdicts"] if one["label"] == FREE_THREADED]
    assert judged["verdict"] == "do not switch"
    assert "'toy._toy'" in judged["reason"]
