"""What is said when no engine answers, in the words of the system that refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
import requests
from requests.exceptions import RequestException

from interlock.engine import client
from interlock.engine.client import (
    Address,
    SilentError,
    docker_address,
    engine_failure,
    environment_for,
    no_space,
    put_tag,
    silence_limit_s,
)
from interlock.engine.docker import connect
from interlock.engine.registry import registry_digest
from interlock.errors import ENDING_SIGNALS, EngineError, Interrupted, NoEngineError, RegistryError
from interlock.results.experiments import EngineName
from tests.builders import make_program
from tests.fakes import Answer, Asked, as_json, serving

# Imports first: another user may not be able to read this one's packages.
CONNECT_AS_NOBODY = """
import os
from interlock.engine.docker import connect
from interlock.errors import EngineError
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    connect()
except EngineError as error:
    print(error, error.exit_code)
"""


@pytest.fixture
def forbidden_socket() -> Iterator[Path]:
    """A socket that somebody listens on and that this user may not open."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "docker.sock"))
        server.listen()
        (folder / "docker.sock").chmod(0)
        yield folder / "docker.sock"
    shutil.rmtree(folder)


def test_a_user_who_may_not_use_the_engine_is_told_which_group_is_missing(forbidden_socket: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONNECT_AS_NOBODY],
        env={**os.environ, "DOCKER_HOST": f"unix://{forbidden_socket}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(f"unix://{forbidden_socket}: ")
    assert "permission denied" in done.stdout
    assert "'docker'" in done.stdout
    assert done.stdout.endswith(f" {EngineError.exit_code}\n")


def test_an_engine_that_is_not_there_is_named_with_the_systems_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(EngineError, match=r"tcp://127.0.0.1:9: .*Connection refused"):
        connect()


@pytest.mark.parametrize(
    "message", ["write /x: no space left on device", "cp: No space left on device", "curl: (23) Failure writing"]
)
def test_a_full_disk_is_known_by_its_messages(message: str) -> None:
    assert no_space(message)
    assert not no_space("permission denied")


@pytest.mark.parametrize(
    ("named", "others"), [("rkt", list(EngineName)), ("host", [EngineName.DOCKER, EngineName.PODMAN])]
)
def test_an_engine_that_is_none_or_has_no_containers_is_refused_with_those_that_are(
    named: str, others: list[EngineName], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_ENGINE", named)
    with pytest.raises(EngineError) as caught:
        connect()
    assert caught.value.key == "INTERLOCK_ENGINE"
    assert f"'{named}'" in caught.value.found
    assert all(engine in caught.value.todo for engine in others)


def test_an_image_is_named_in_two_words() -> None:
    image = Mock()
    put_tag(image, "localhost:5000/team/python:3.13-trixie")
    image.tag.assert_called_once_with("localhost:5000/team/python", "3.13-trixie")


@pytest.fixture
def rootless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A docker context named rootless, which is the current one; its engine's address."""
    host = f"unix://{tmp_path}/rootless.sock"
    meta = tmp_path / "contexts" / "meta" / hashlib.sha256(b"rootless").hexdigest()
    meta.mkdir(parents=True)
    described = {"Name": "rootless", "Metadata": {}, "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False}}}
    (meta / "meta.json").write_text(json.dumps(described))
    (tmp_path / "config.json").write_text(json.dumps({"currentContext": "rootless"}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "INTERLOCK_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    return host


def test_the_current_context_says_where_docker_is_to_the_sdk_and_to_its_command(rootless: str) -> None:
    address = docker_address()
    assert (address.host, address.is_elsewhere) == (rootless, False)
    with pytest.raises(EngineError) as caught:
        connect(EngineName.DOCKER)  # without a name Podman would answer where it runs
    assert caught.value.file == rootless
    seen = environment_for(address)
    assert seen["DOCKER_CONTEXT"] == "rootless"
    assert "DOCKER_HOST" not in seen


def test_an_address_in_the_environment_goes_before_the_current_context(
    rootless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    assert docker_address() == Address("tcp://10.0.0.1:2375")
    assert docker_address().is_elsewhere


def test_podman_is_the_only_engine_that_what_is_started_sees(rootless: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "rootless")
    seen = environment_for(Address("unix:///run/podman/podman.sock"))
    assert seen["DOCKER_HOST"] == "unix:///run/podman/podman.sock"
    assert "DOCKER_CONTEXT" not in seen


def test_certificates_that_are_not_there_lead_to_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (("HOST", "tcp://127.0.0.1:9"), ("TLS_VERIFY", "1"), ("CERT_PATH", str(tmp_path))):
        monkeypatch.setenv(f"DOCKER_{name}", value)
    with pytest.raises(NoEngineError, match="certificate"):
        connect()


def test_a_context_that_is_not_there_leads_to_no_engine(rootless: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "rootles")
    with pytest.raises(EngineError, match="'rootles'") as caught:
        connect(EngineName.DOCKER)
    assert caught.value.key == "DOCKER_CONTEXT"
    monkeypatch.setenv("DOCKER_CONTEXT", "default")
    assert docker_address().host == "unix:///var/run/docker.sock"


@pytest.mark.parametrize(
    ("host", "elsewhere"),
    [("unix:///run/docker.sock", False), ("tcp://10.0.0.1:2375", True), ("ssh://box", True)],
)
def test_an_engine_that_a_socket_reaches_is_here(host: str, elsewhere: bool) -> None:
    assert Address(host).is_elsewhere is elsewhere


def test_a_socket_that_nobody_listens_on_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "podman.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    assert not client.answers(path)
    assert not client.answers(tmp_path / "none")


def test_a_socket_that_is_there_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "podman.sock"
    monkeypatch.setattr(client, "known_sockets", lambda: [tmp_path / "none", path])
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert client.podman_address().host == f"unix://{path}"


def test_an_ordinary_users_own_socket_comes_before_that_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    assert client.known_sockets() == [Path("/run/user/1000/podman/podman.sock"), Path("/run/podman/podman.sock")]


def test_without_podman_it_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(client, "known_sockets", list)
    with pytest.raises(EngineError) as caught:
        client.podman_address()
    assert "podman" in caught.value.found
    assert "apt-get install podman" in caught.value.todo


def test_a_service_that_does_not_start_is_reported_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_program(tmp_path / "podman", "echo 'Error: cannot set up namespace' >&2\nexit 125")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(client, "known_sockets", list)
    with pytest.raises(EngineError, match=r"podman.*: Error: cannot set up namespace"):
        client.podman_address()


SERVE = """
import os, socket, sys
path = sys.argv[-1].removeprefix("unix://")
print("of the session", os.getsid(0), "in", os.getpid(), flush=True)
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
server.accept()
server.accept()
"""


def test_a_service_that_was_opened_for_a_run_ends_with_it(tmp_path: Path) -> None:
    make_program(tmp_path / "podman", SERVE, sys.executable)
    program = """if True:
        from pathlib import Path
        from interlock.engine import client
        client.known_sockets = list
        print(host := client.podman_address().host)
        print((Path(host.removeprefix("unix://")).parent / "log").read_text())
    """
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    address, said = done.stdout.split("\n", 1)
    path = Path(address.removeprefix("unix://"))
    assert path.name == "podman.sock"
    assert not path.parent.exists()
    # Ctrl-C ends what is in the terminal's session: it is needed to clean up.
    session, process = re.findall(r"\d+", said)
    assert session == process


@pytest.mark.parametrize(
    ("method", "path", "limit_s"),
    [
        ("GET", "/_ping", client.PING_S),
        ("GET", "/v1.41/version", client.PING_S),
        ("GET", "/v1.41/containers/json?all=1", client.SHORT_S),
        ("POST", "/v1.41/containers/a/start", client.SHORT_S),
        ("POST", "/v1.41/exec/a/json", client.SHORT_S),
        ("GET", "/v1.41/distribution/host:5000/team/python:3.14/json", client.REGISTRY_S),
        ("GET", "/v1.41/containers/a/logs?stdout=1", client.SHORT_S),
        ("DELETE", "/v1.41/images/team/python:3.14", client.REMOVAL_S),
        ("POST", "/v1.41/build?t=x", client.LONG_S),
        ("POST", "/v1.41/images/load", client.LONG_S),
        ("GET", "/v1.41/images/get?names=a", client.LONG_S),
        ("POST", "/v1.41/images/host:5000/team/python/push", client.MOVE_S),
        ("POST", "/v1.41/containers/a/wait", client.LONG_S),
        ("POST", "/v1.41/exec/a/start", client.LONG_S),
    ],
)
def test_a_short_question_has_a_short_limit_and_long_work_a_long_one(method: str, path: str, limit_s: int) -> None:
    assert silence_limit_s(method, f"http+docker://localhost{path}") == limit_s


@pytest.mark.promise
def test_an_engine_that_takes_a_connection_and_says_nothing_counts_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PING_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(EngineError, match="timed out"):
            connect()


@pytest.mark.promise
def test_an_engine_that_falls_silent_later_counts_as_gone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/_ping"):
            return Answer(200, b"OK")
        if not asked.path.endswith("/version"):
            over.wait(10)
        return as_json({"ApiVersion": "1.41"})

    monkeypatch.setattr(client, "SHORT_S", 0.1)
    with serving(answer) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        engine = connect()
        with pytest.raises(SilentError) as caught:
            engine.owners()
        with pytest.raises(EngineError, match=r"timed out.*interlock clean"):
            engine.clean_up("mine")
        monkeypatch.setattr(client, "MOVE_S", 0.1)
        with pytest.raises(SilentError):
            engine.client.api.pull("registry.example/team/python", "3.14")
        monkeypatch.setattr(client, "REGISTRY_S", 0.1)
        with pytest.raises(RegistryError, match="timed out"):
            registry_digest(engine.client, "registry.example:5000/team/python:3.14")
        over.set()
    failure = engine_failure(caught.value)
    assert failure is not None
    assert "timed out" in failure.found
    assert "interlock clean" in failure.todo


def test_a_process_is_waited_for_as_long_as_was_asked_also_beyond_the_usual_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/_ping"):
            return Answer(200, b"OK")
        if asked.path.endswith("/wait"):
            time.sleep(0.3)
            return as_json({"StatusCode": 7})
        return as_json({"ApiVersion": "1.41"})

    with serving(answer) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        engine = connect()
        monkeypatch.setattr(client, "LONG_S", 0.1)
        assert engine.client.api.wait("a", timeout=20)["StatusCode"] == 7
        with pytest.raises(RequestException) as caught:
            engine.client.api.wait("a", timeout=0.15)
    assert not isinstance(caught.value, SilentError)


def test_what_is_neither_the_engines_nor_the_networks_is_not_taken_for_theirs() -> None:
    for error in (KeyError("a"), MemoryError(), OSError(28, "No space left on device"), RecursionError()):
        assert engine_failure(error) is None
    for other in (ConnectionResetError(), TimeoutError(), socket.gaierror(-2, "Name or service not known")):
        assert engine_failure(other) is not None


@pytest.mark.parametrize("number", ENDING_SIGNALS)
@pytest.mark.parametrize("kind", ["containers", "networks", "volumes"])
def test_an_interrupt_waits_until_the_engine_has_made_what_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, interrupt: object, kind: str, number: int
) -> None:
    made: list[str] = []

    def request(_: requests.Session, method: str, url: str, **__: object) -> None:
        with ThreadPoolExecutor(1) as another:  # any thread of the process may be handed it
            another.submit(os.kill, os.getpid(), number).result()
        made.append(f"{method} {url}")

    monkeypatch.setattr(requests.Session, "request", request)
    api = client._Api(version="1.41")
    with pytest.raises(Interrupted):
        api.request("POST", f"http+docker://localhost/v1.41/{kind}/create")
    assert made == [f"POST http+docker://localhost/v1.41/{kind}/create"]
    assert signal.getsignal(number) is interrupt
    with pytest.raises(Interrupted):
        api.request("GET", f"http+docker://localhost/v1.41/{kind}/json")
    assert len(made) == 1, "other calls end at once"
