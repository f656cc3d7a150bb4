"""The threaded download."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Report = Callable[..., dict[str, Any]]
Serve = Callable[..., Any]

MIB = 1024 * 1024
RANDOM = random.Random(2007)
SINGLE = {"single.bin": RANDOM.randbytes(2 * MIB)}
# Sizes that are no multiple of a chunk, and more files than readers; together 1 MiB.
MANY = {f"many/{number:03}.bin": RANDOM.randbytes(MIB // 16 + (-1) ** number) for number in range(16)}
BOTH = SINGLE | MANY
ONCE = ["--loops", "1", "--warmups", "0", "--values", "1"]


def address(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def asked(what: str, server: ThreadingHTTPServer, destination: Path, *more: str) -> list[str]:
    return ["download.py", "--what", what, "--server", address(server), "--destination", str(destination), *more]


def corrupted(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def first_name(files: dict[str, bytes]) -> str:
    return next(iter(files))


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    folder = tmp_path / "downloaded"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("readers", ["1", "3", "8"])
@pytest.mark.parametrize(("what", "files"), [("single", SINGLE), ("many", MANY)])
def test_every_byte_of_the_set_is_stored(
    serve: Serve, report: Report, destination: Path, what: str, files: dict[str, bytes], readers: str
) -> None:
    report(*asked(what, serve(BOTH), destination, "--readers", readers, *ONCE))
    stored = {path.name: path.read_bytes() for path in destination.iterdir()}
    assert stored == {path.removeprefix("many/"): data for path, data in files.items()}


@pytest.mark.parametrize(("what", "mib"), [("single", 2), ("many", 1)])
def test_the_unit_of_work_is_a_mib_of_the_set(
    serve: Serve, report: Report, destination: Path, what: str, mib: int
) -> None:
    found = report(*asked(what, serve(BOTH), destination, "--loops", "2", "--warmups", "1", "--values", "2"))
    assert (found["loops"], found["inner_loops"]) == (2, mib)
    assert (len(found["warmups"]), len(found["values"])) == (1, 2)
    settings = {key: found["metadata"][key] for key in ("bytes", "readers", "chunk_bytes")}
    assert settings == {"bytes": mib * MIB, "readers": 8, "chunk_bytes": 8192}


def test_zero_loops_read_the_manifest_and_download_nothing(serve: Serve, report: Report, destination: Path) -> None:
    found = report(*asked("single", serve(SINGLE), destination, "--loops", "0"))
    assert found["inner_loops"] == 2
    assert list(destination.iterdir()) == []


def test_an_earlier_file_is_removed_and_not_overwritten(
    serve: Serve, report: Report, destination: Path, tmp_path: Path
) -> None:
    earlier = tmp_path / "earlier"
    earlier.write_bytes(b"another name of the same file")
    (destination / "single.bin").hardlink_to(earlier)
    report(*asked("single", serve(SINGLE), destination, *ONCE))
    assert earlier.read_bytes() == b"another name of the same file"
    assert (destination / "single.bin").read_bytes() == SINGLE["single.bin"]


@pytest.mark.parametrize("what", ["single", "many"])
def test_each_reader_keeps_its_connection(serve: Serve, report: Report, destination: Path, what: str) -> None:
    server = serve(BOTH)
    report(*asked(what, server, destination, "--readers", "4", *ONCE))
    manifest_and_readers = 1 + 4
    assert server.connection_count == manifest_and_readers


@pytest.mark.parametrize(("what", "files"), [("single", SINGLE), ("many", MANY)])
def test_one_corrupted_byte_is_an_error(
    serve: Serve, run_program: Run, destination: Path, what: str, files: dict[str, bytes]
) -> None:
    name = first_name(files)
    done = run_program(*asked(what, serve(files, {name: corrupted(files[name])}), destination, *ONCE))
    assert done.returncode == 1
    assert f"{name}: expected SHA-1 " in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(("what", "files"), [("single", SINGLE), ("many", MANY)])
def test_a_truncated_file_is_an_error(
    serve: Serve, run_program: Run, destination: Path, what: str, files: dict[str, bytes]
) -> None:
    name = first_name(files)
    size = len(files[name])
    done = run_program(*asked(what, serve(files, {name: files[name][:-1]}), destination, *ONCE))
    assert done.returncode == 1
    assert f"{name}: expected {size} bytes, found {size - 1}" in done.stderr


@pytest.mark.parametrize(("what", "files"), [("single", SINGLE), ("many", MANY)])
def test_a_server_that_dies_is_an_error_and_no_hang(
    serve: Serve, run_program: Run, destination: Path, what: str, files: dict[str, bytes]
) -> None:
    done = run_program(*asked(what, serve(files, dies_after_bytes=20_000), destination, *ONCE))
    assert done.returncode == 1
    assert "expected" in done.stderr or "IncompleteRead" in done.stderr


def test_a_server_that_is_not_there_is_an_error(serve: Serve, run_program: Run, destination: Path) -> None:
    server = serve(SINGLE)
    server.shutdown()
    server.server_close()
    done = run_program(*asked("single", server, destination, *ONCE))
    assert done.returncode == 1
    assert "ConnectionRefusedError" in done.stderr


@pytest.mark.parametrize(("what", "files"), [("single", SINGLE), ("many", MANY)])
def test_a_writer_that_cannot_write_is_an_error_and_no_hang(
    serve: Serve, run_program: Run, destination: Path, what: str, files: dict[str, bytes]
) -> None:
    full = (
        "import builtins\n"
        "def full(name, mode='r', *rest, real=open):\n"
        "    return real('/dev/full' if str(name).endswith('.bin') and mode == 'wb' else name, mode, *rest)\n"
        "builtins.open = full\n"
    )
    done = run_program(*asked(what, serve(files), destination, *ONCE), sabotage=full)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr or "Illegal seek" in done.stderr


def test_a_range_answered_with_the_whole_file_is_an_error(
    serve: Serve, run_program: Run, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(SINGLE)
    monkeypatch.setattr("re.fullmatch", lambda pattern, text: None)
    done = run_program(*asked("single", server, destination, *ONCE))
    assert done.returncode == 1
    assert "single.bin: expected status 206, found 200" in done.stderr


@pytest.mark.parametrize("files", [{}, {"single.bin": b"not a MiB"}])
def test_a_set_without_whole_mib_is_an_error(
    serve: Serve, run_program: Run, destination: Path, files: dict[str, bytes]
) -> None:
    done = run_program(*asked("single", serve(files), destination, *ONCE))
    assert done.returncode == 1
    assert "expected whole MiB" in done.stderr


def test_an_interpreter_without_threads_is_unsupported(serve: Serve, report: Report, destination: Path) -> None:
    no_threads = "import sys; sys.modules['threading'] = None"
    found = report(*asked("single", serve(SINGLE), destination), sabotage=no_threads)
    assert "threading cannot be imported" in found["unsupported"]


@pytest.mark.parametrize(
    ("option", "bad"),
    [("--server", "ftp://x"), ("--destination", "/no/such"), ("--readers", "0"), ("--chunk-bytes", "0")],
)
def test_bad_usage_of_the_download_exits_2(run_program: Run, destination: Path, option: str, bad: str) -> None:
    good = ["--what", "single", "--server", "http://127.0.0.1:1", "--destination", str(destination)]
    done = run_program("download.py", *good, option, bad)
    assert done.returncode == 2
    assert option in done.stderr
