"""The server without containers: this machine's nginx, also side by side, with all that its manifest promises."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.engine.cells import SERVER_PORT
from interlock.engine.host import cells, server, toolchain
from interlock.errors import UnsupportedHereError
from tests.builders import ROOT

CONFIGURATION = (ROOT / "dockerfiles/server/nginx.conf").read_text(encoding="utf-8")


@pytest.fixture
def memory() -> Iterator[Path]:
    folder = cells.make_memory(f"test-server-{os.getpid()}")
    yield folder
    shutil.rmtree(folder)


def test_nothing_of_the_configuration_points_into_a_container(tmp_path: Path) -> None:
    text = server.configuration(CONFIGURATION, tmp_path, "127.1.2.3")
    assert "/srv/files" not in text
    assert "listen 127.1.2.3:8080;" in text
    assert "listen 127.1.2.3:8443 ssl;" in text
    assert f"root {tmp_path}/files;" in text
    assert f"client_body_temp_path {tmp_path}/client_body;" in text


def test_an_address_is_this_machines_own_and_not_the_usual_one() -> None:
    first, second = server.free_address(), server.free_address()
    assert first.startswith("127.")
    assert first != second


def test_without_nginx_the_packages_are_named(monkeypatch: pytest.MonkeyPatch, memory: Path) -> None:
    monkeypatch.setattr(toolchain, "SERVER", (toolchain.Need("no-such-server", "no-package", "no-package"),))
    with (
        pytest.raises(UnsupportedHereError, match="this machine has no no-such-server"),
        server.serving(ROOT, {}, memory),
    ):
        pass


def test_it_answers_once_it_is_said_to_though_another_server_has_the_same_port(tmp_path: Path, memory: Path) -> None:
    late = tmp_path / "nginx"
    late.write_text('#!/bin/sh\nsleep 1\nexec /usr/sbin/nginx "$@"\n', encoding="utf-8")
    late.chmod(0o755)
    sizes = {"SINGLE_MIB": "1", "MANY_FILES": "1", "MANY_MIB": "1", "PATH": f"{tmp_path}:/usr/bin:/bin:/usr/sbin:/sbin"}
    with socket.socket() as another:
        another.bind((server.free_address(), SERVER_PORT))
        another.listen()
        with server.serving(ROOT, sizes, memory) as url:
            assert summed(url)


def test_two_servers_side_by_side_have_files_of_their_own_and_are_gone_afterwards(memory: Path) -> None:
    if toolchain.missing(toolchain.SERVER):
        pytest.fail("nginx is needed: bootstrap.sh installs it for the tests")
    sizes = {"SINGLE_MIB": "1", "MANY_FILES": "1", "MANY_MIB": "1"}
    with server.serving(ROOT, sizes, memory) as one, server.serving(ROOT, sizes, memory) as other:
        assert one != other
        assert summed(one) != summed(other)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{one}/manifest", timeout=5)  # noqa: S310  our own


def summed(url: str) -> str:
    """Of the single file, which is as the manifest says."""
    lines = urllib.request.urlopen(f"{url}/manifest", timeout=5).read().decode().splitlines()  # noqa: S310  our own
    promised = {path: sha1 for sha1, _, path in (line.split(None, 2) for line in lines)}
    data = urllib.request.urlopen(f"{url}/single.bin", timeout=5).read()  # noqa: S310  our own
    assert hashlib.sha1(data).hexdigest() == promised["single.bin"]  # noqa: S324  the manifest's sum
    return str(promised["single.bin"])
