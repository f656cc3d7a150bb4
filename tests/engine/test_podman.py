"""Podman's socket is found or opened, and a service that was opened for a run ends with it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.engine import podman
from interlock.errors import EngineError


def test_a_socket_that_nobody_listens_on_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "podman.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    assert not podman.answers(path)
    assert not podman.answers(tmp_path / "none")


def test_a_socket_that_is_there_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "podman.sock"
    monkeypatch.setattr(podman, "known_sockets", lambda: [tmp_path / "none", path])
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert podman.address() == f"unix://{path}"


def test_an_ordinary_users_own_socket_comes_before_that_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    assert podman.known_sockets() == [Path("/run/user/1000/podman/podman.sock"), Path("/run/podman/podman.sock")]


def test_without_podman_the_option_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(podman, "known_sockets", list)
    with pytest.raises(EngineError, match=r"'--engine': podman is not installed\. apt-get install podman\."):
        podman.address()


def test_a_service_that_does_not_start_is_reported_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "podman"
    fake.write_text("#!/bin/sh\necho 'Error: cannot set up namespace' >&2\nexit 125\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(podman, "known_sockets", list)
    with pytest.raises(EngineError, match="podman's service does not start: Error: cannot set up namespace"):
        podman.address()


SERVE = """
import socket, sys
path = sys.argv[-1].removeprefix("unix://")
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
server.accept()
server.accept()
"""


def test_a_service_that_was_opened_for_a_run_ends_with_it(tmp_path: Path) -> None:
    fake = tmp_path / "podman"
    fake.write_text(f"#!{sys.executable}\n{SERVE}", encoding="utf-8")
    fake.chmod(0o755)
    program = "from interlock.engine import podman\npodman.known_sockets = list\nprint(podman.address())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    path = Path(done.stdout.strip().removeprefix("unix://"))
    assert path.name == "podman.sock"
    assert not path.parent.exists()
