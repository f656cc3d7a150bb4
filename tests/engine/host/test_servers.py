"""The server of the download workloads without containers: whose it is, where it answers, and what is left of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from interlock.engine.host import memory as memories
from interlock.engine.host import servers, toolchain
from interlock.engine.host.account import MYSELF
from interlock.engine.host.servers import ServerPlace
from interlock.engine.run.containers import SERVER_PORT
from interlock.errors import UnsupportedHereError, WorkloadError
from tests.builders import ROOT, make_program

CONFIGURATION = (ROOT / "dockerfiles/server/nginx.conf").read_text(encoding="utf-8")


SIZES = {"SINGLE_MIB": "1", "MANY_FILES": "1", "MANY_MIB": "1"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[ServerPlace]:
    folder = memories.make(f"test-server-{os.getpid()}", MYSELF)
    yield ServerPlace(ROOT, tmp_path / "cache", folder)
    shutil.rmtree(folder)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without nginx and openssl, whose apt-get knows neither."""
    monkeypatch.setattr(toolchain, "find", lambda _: None)
    monkeypatch.setattr(servers, "_bytes_of_packages", lambda _: 0)


def test_nothing_of_the_configuration_points_into_a_container(tmp_path: Path) -> None:
    text = servers.configuration(CONFIGURATION, tmp_path, "127.1.2.3")
    assert "/srv/files" not in text
    assert "listen 127.1.2.3:8080;" in text
    assert "listen 127.1.2.3:8443 ssl;" in text
    assert f"root {tmp_path}/files;" in text
    assert f"client_body_temp_path {tmp_path}/client_body;" in text


@pytest.mark.parametrize(
    ("allowed", "words"),
    [({0, 1}, ["taskset", "-c", "0"]), ({3, 2}, ["taskset", "-c", "2"]), ({0}, []), ({5}, [])],
)
def test_it_stays_on_the_first_cpu_that_is_allowed_if_there_is_another(
    allowed: set[int], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed)
    assert servers.pinned() == words


def test_an_address_is_this_machines_own_and_not_the_usual_one() -> None:
    first, second = servers.free_address(), servers.free_address()
    assert first.startswith("127.")
    assert first != second


@pytest.mark.usefixtures("bare")
def test_without_anything_that_makes_certificates_the_packages_are_named(place: ServerPlace) -> None:
    with pytest.raises(UnsupportedHereError, match="no nginx and no openssl"), servers.serving(place, {}):
        pass


def having(cache: Path, *programs: str) -> Path:
    for name in programs:
        (cache / "server" / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / "server" / name).touch()
    return cache


@pytest.mark.usefixtures("bare")
def test_what_the_cache_has_is_taken_and_nothing_is_fetched_then(tmp_path: Path) -> None:
    nginx = servers.choose(having(tmp_path / "a", "usr/sbin/nginx", "usr/bin/openssl"))
    assert (nginx.name, nginx.fetches) == ("nginx", ())
    caddy = servers.choose(having(tmp_path / "b", "bin/caddy", "usr/bin/openssl"))
    assert (caddy.name, caddy.fetches) == ("caddy", ())


def test_packages_of_the_distribution_come_before_what_pip_brings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(toolchain, "find", lambda name: "/usr/bin/openssl" if name == "openssl" else None)
    monkeypatch.setattr(servers, "_bytes_of_packages", lambda _: 614_000)
    chosen = servers.choose(tmp_path)
    assert (chosen.name, chosen.fetches) == ("nginx", ("nginx",))
    assert "0.6 MB" in chosen.words
    monkeypatch.setattr(servers, "_bytes_of_packages", lambda _: 0)
    chosen = servers.choose(tmp_path)
    assert (chosen.name, chosen.fetches) == ("caddy", ("caddy",))
    assert "18 MB" in chosen.words


@pytest.mark.usefixtures("bare")
def test_only_nginx_answers_as_b2_does(place: ServerPlace) -> None:
    having(place.cache, "bin/caddy", "usr/bin/openssl")
    with pytest.raises(UnsupportedHereError, match="only nginx answers as B2"), servers.serving(place, {"B2": "1"}):
        pass


@pytest.mark.needs("nginx")
def test_it_answers_once_it_is_said_to_though_another_server_has_the_same_port(
    tmp_path: Path, place: ServerPlace
) -> None:
    make_program(tmp_path / "nginx", f'sleep 1\nexec {toolchain.find("nginx")} "$@"')
    sizes = {**SIZES, "PATH": f"{tmp_path}:/usr/bin:/bin:/usr/sbin:/sbin"}
    with socket.socket() as another:
        another.bind((servers.free_address(), SERVER_PORT))
        another.listen()
        with servers.serving(place, sizes) as url:
            assert summed(url)


@pytest.mark.needs("nginx")
def test_two_servers_side_by_side_have_files_of_their_own_and_are_gone_afterwards(place: ServerPlace) -> None:
    if toolchain.missing(toolchain.SERVER):
        pytest.fail("nginx is needed: bootstrap.sh brings it for the tests")
    with servers.serving(place, SIZES) as one, servers.serving(place, SIZES) as other:
        assert one != other
        assert summed(one) != summed(other)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{one}/manifest", timeout=30)  # noqa: S310  our own


def test_nothing_of_a_server_that_does_not_start_stays(
    tmp_path: Path, place: ServerPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(tmp_path / "nginx", "echo no such file >&2\nexit 1")
    monkeypatch.setattr(servers, "choose", lambda _: servers.HostServer("nginx", "nginx"))
    there = {**SIZES, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    with pytest.raises(WorkloadError, match="no such file"), servers.serving(place, there):
        pass
    limit = time.monotonic() + 10
    while processes_of(place.memory) and time.monotonic() < limit:
        time.sleep(0.05)
    assert processes_of(place.memory) == []


def processes_of(folder: Path) -> list[str]:
    """The command lines of processes that a folder is named in."""
    lines = (" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"]))
    return [line for line in lines if str(folder) in line]


def summed(url: str) -> str:
    """Of the single file, which is as the manifest says."""
    lines = urllib.request.urlopen(f"{url}/manifest", timeout=30).read().decode().splitlines()  # noqa: S310  our own
    promised = {path: sha1 for sha1, _, path in (line.split(None, 2) for line in lines)}
    data = urllib.request.urlopen(f"{url}/single.bin", timeout=30).read()  # noqa: S310  our own
    assert hashlib.sha1(data).hexdigest() == promised["single.bin"]  # noqa: S324  the manifest's sum
    return str(promised["single.bin"])
