"""A network, a machine and other users that mean no good: what is asked for is done, or one sentence says why not."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from interlock.catalog.upstream import UnansweredError, Upstream
from interlock.engine.build.places import why_not
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE
from interlock.results.journal import Journal
from tests.apart import command
from tests.builders import make_experiment, make_workload
from tests.engine.build.test_fetch import FILE, GOOD, fetch
from tests.results.writer import begun, entry_of

FOUND = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(GOOD)
TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"


@contextmanager
def listening(family: socket.AddressFamily, address: str, *answers: bytes, pause_s: float = 0) -> Iterator[int]:
    """A server that says these bytes, one after each thing that it is told or each pause, and hangs up; its port."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, suppress(OSError):
                    for answer in answers:
                        time.sleep(pause_s) if pause_s else connection.recv(65536)
                        connection.sendall(answer)

    with socket.socket(family) as server:
        if family is socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        server.bind((address, 0))
        server.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@pytest.mark.promise
def test_a_source_comes_from_a_server_that_has_no_address_but_one_of_ipv6(tmp_path: Path) -> None:
    with listening(socket.AF_INET6, "::1", FOUND + GOOD) as port:
        place = f"http://[::1]:{port}/{FILE}"
        assert why_not(place) == ""
        done = fetch(tmp_path, place)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / FILE).read_bytes() == GOOD


@pytest.mark.promise(escapes=True)
def test_a_proxy_that_breaks_tls_gives_no_byte_of_a_source_and_is_named(
    deadline: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"https://example.invalid/{FILE}"
    with listening(socket.AF_INET, "127.0.0.1", TUNNEL, FOUND + GOOD) as port:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        said = why_not(place)
        done = fetch(tmp_path, place, https_proxy=f"http://127.0.0.1:{port}")
    assert said
    assert "\n" not in said
    assert done.returncode == 69
    assert done.stdout.splitlines()[1].startswith(f"interlock: tried {place}: ")
    assert not (tmp_path / FILE).exists()


@pytest.mark.promise
@pytest.mark.parametrize("length", [b"", b"Content-Length: 1000000\r\n"])
def test_an_answer_that_comes_in_drops_or_without_end_is_not_waited_for(
    length: bytes, deadline: None, tmp_path: Path
) -> None:
    drops = [b"HTTP/1.0 200 OK\r\n" + length + b"\r\n", *[b"x"] * 1000]
    with listening(socket.AF_INET, "127.0.0.1", *drops, pause_s=0.02) as port:
        upstream = Upstream("", tmp_path, tmp_path, lambda _: None, patience_s=0.1)
        with pytest.raises(UnansweredError, match="bytes came in 3 s"):
            upstream.get(f"http://127.0.0.1:{port}/", 2**20)


def may_not_write(*words: str) -> list[str]:
    """The command line of somebody who may read everything here and write only what is his."""
    limited = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    return [*limited, *command(*words)]


def closed(folder: Path) -> Path:
    """Make all that is in a folder, and itself, another user's as far as this one can tell."""
    for path in (*folder.rglob("*"), folder):
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
        path.chmod(0o555 if path.is_dir() else 0o444)
    return folder


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """Results of two users: another one's experiment, which was killed, beside one of this user."""
    folder = tmp_path / "results"
    store.write_json(folder / "theirs" / EXPERIMENT_FILE, begun())
    journal = Journal(folder / "theirs")
    journal.begin(make_workload(), {})
    journal.add(entry_of(1, 1))
    journal.close()
    store.write_json(folder / "mine" / EXPERIMENT_FILE, make_experiment(name="mine"))
    closed(folder / "theirs")
    yield folder
    (folder / "theirs").chmod(0o755)


@pytest.mark.promise
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["report", "{}/theirs"], 0),
        (["report", "{}/theirs", "--html", "--output", "page.html"], 0),
        (["export", "{}/theirs", "{}/mine"], 0),
        (["report", "--results", "{}"], 0),
        (["report", "{}/theirs", "--html"], 7),
    ],
)
def test_results_of_two_users_are_read_by_both_and_written_by_whose_they_are(
    words: list[str], code: int, shared: Path
) -> None:
    before = {path: path.read_bytes() for path in shared.rglob("*") if path.is_file()}
    argv = may_not_write(*(word.format(shared) for word in words))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("error:") == (code != 0)
    assert {path: path.read_bytes() for path in shared.rglob("*") if path.is_file()} == before


@pytest.mark.promise
@pytest.mark.parametrize("words", [["pick"], ["report"], ["swap", "Dockerfile", "--to", "cpython-3.14t"]])
def test_a_home_that_nobody_may_write_ends_no_command(words: list[str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    closed(home)
    Path("Dockerfile").write_text("FROM python:3.13-slim\n")
    where = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")} | {"HOME": str(home)}
    done = subprocess.run(may_not_write(*words), env=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [*home.iterdir()] == []
