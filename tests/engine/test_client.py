"""What is said when no engine answers, in the words of the system that refused."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.engine.client import connect, no_space, put_tag
from interlock.errors import EngineError

# Imports first: another user may not be able to read this one's packages.
CONNECT_AS_NOBODY = """
import os
from interlock.engine.client import connect
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
    assert done.stdout == (
        f"unix://{forbidden_socket}: this user may not talk to the container engine (permission denied). "
        "Add the user to the group 'docker' and log in again, or run as root. 4\n"
    )


def test_an_engine_that_is_not_there_is_named_with_the_systems_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(EngineError, match=r"tcp://127.0.0.1:9: no container engine answers \(Connection refused\)"):
        connect()


@pytest.mark.parametrize(
    "message", ["write /x: no space left on device", "cp: No space left on device", "curl: (23) Failure writing"]
)
def test_a_full_disk_is_known_by_its_messages(message: str) -> None:
    assert no_space(message)
    assert not no_space("permission denied")


def test_an_engine_that_is_none_is_refused_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_ENGINE", "rkt")
    with pytest.raises(EngineError, match=r"'rkt' is no engine\. Set it to docker, podman, host\."):
        connect()


def test_what_needs_containers_says_so_on_the_machine_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_ENGINE", "host")
    with pytest.raises(EngineError, match="'host' has no containers"):
        connect()


def test_an_image_is_named_in_two_words() -> None:
    class Image:
        def tag(self, *words: str) -> None:
            self.words = words

    image = Image()
    put_tag(image, "localhost:5000/team/python:3.13-trixie")
    assert image.words == ("localhost:5000/team/python", "3.13-trixie")
