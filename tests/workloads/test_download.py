"""The threaded download."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.conftest import ONCE, FileServer, Refusal, Report, Run, Serve

MIB = 1024 * 1024
RANDOM = random.Random(2007)
SINGLE = {"single.bin": RANDOM.randbytes(2 * MIB)}
# Sizes that are no multiple of a chunk, and more files than readers; together 1 MiB.
MANY = {f"many/{number:03}.bin": RANDOM.randbytes(MIB // 16 + (-1) ** number) for number in range(16)}
BOTH = SINGLE | MANY
CLIENTS = ["http.client", "requests"]


def address(server: FileServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def asked(what: str, server: FileServer, destination: Path, *more: str) -> list[str]:
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


@pytest.mark.parametrize(
    "how",
    [
        ["--readers", "1"],
        ["--readers", "3"],
        ["--readers", "8"],
        ["--client", "requests"],
        ["--queue", "simple"],
        ["--queue", "process"],
        ["--chunk-bytes", "b2sdk"],
        ["--sha1"],
        ["--sha1", "--client", "requests", "--readers", "1"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(("what", "files"), [("single", SINGLE), ("many", MANY)])
def test_every_byte_of_the_set_is_stored(
    serve: Serve, report: Report, destination: Path, what: str, files: dict[str, bytes], how: list[str]
) -> None:
    report(*asked(what, serve(BOTH), destination, "--keep", *how, *ONCE))
    stored = {path.name: path.read_bytes() for path in destination.iterdir()}
    assert stored == {path.removeprefix("many/"): data for path, data in files.items()}


@pytest.mark.parametrize("what", ["single", "many"])
def test_nothing_of_a_download_stays_unless_it_is_kept(
    serve: Serve, report: Report, destination: Path, what: str
) -> None:
    report(*asked(what, serve(BOTH), destination, *ONCE))
    assert list(destination.iterdir()) == []


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
    report(*asked("single", serve(SINGLE), destination, "--keep", *ONCE))
    assert earlier.read_bytes() == b"another name of the same file"
    assert (destination / "single.bin").read_bytes() == SINGLE["single.bin"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("what", ["single", "many"])
def test_each_reader_keeps_its_connection(
    serve: Serve, report: Report, destination: Path, what: str, client: str
) -> None:
    server = serve(BOTH)
    report(*asked(what, server, destination, "--readers", "4", "--client", client, *ONCE))
    manifest_and_readers = 1 + 4
    # A session hands out what is free: a reader that ends early leaves its connection to another.
    least = manifest_and_readers if client == "http.client" else 2
    assert least <= server.connection_count <= manifest_and_readers


@pytest.mark.parametrize("what", ["single", "many"])
def test_nothing_is_stored_where_the_destination_is_null(
    serve: Serve, report: Report, destination: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(destination)
    found = report(*asked(what, serve(BOTH), Path("null"), *ONCE))
    assert len(found["values"]) == 1
    assert list(destination.iterdir()) == []


def test_what_went_to_null_is_counted_byte_by_byte(
    serve: Serve, refusal: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = (
        "import download_http\n"
        "class Lossy(download_http.PlainConnection):\n"
        "    def _pass_on(self, piece, channel):\n"
        "        download_http.PlainConnection._pass_on(self, piece, Twice(channel))\n"
        "class Twice(object):\n"
        "    def __init__(self, channel): self.channel = channel\n"
        "    def put(self, item):\n"
        "        self.channel.put(item)\n"
        "        self.channel.put(item)\n"
        "download_http.PlainClient.connect = lambda self: Lossy(\n"
        "    download_http.http_client.HTTPConnection(self._address))\n"
    )
    assert re.search(
        r"single\.bin\b.*\b8192\b.*\b0\b", refusal(*asked("single", serve(SINGLE), Path("null"), *ONCE), sabotage=lossy)
    )


@pytest.mark.parametrize(
    ("mib", "chunk_bytes"), [(0, 8192), (8, 8192), (64, 65536), (107_000_000 / MIB, 106496), (1024, 1048576)]
)
def test_chunks_are_as_b2sdk_chooses_them(module: Callable[..., Any], mib: float, chunk_bytes: int) -> None:
    assert module("download_files").b2sdk_chunk_bytes(int(mib * MIB)) == chunk_bytes


@pytest.mark.parametrize("what", ["single", "many"])
@pytest.mark.parametrize("client", CLIENTS)
def test_the_certificate_of_the_server_is_trusted_by_its_file(
    serve_tls: Serve, report: Report, destination: Path, what: str, client: str
) -> None:
    server, tls_port = serve_tls(BOTH)
    more = ["--client", client, "--tls-port", str(tls_port)]
    found = report(*asked(what, server, destination, *more, *ONCE))
    assert found["metadata"]["tls"].startswith("TLSv1.")
    # The manifest and the certificate come in the clear, the files do not.
    assert server.asked_for == {"manifest", "tls.pem"}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_with_another_certificate_is_an_error(
    serve_tls: Serve, refusal: Refusal, destination: Path, client: str
) -> None:
    server, tls_port = serve_tls(SINGLE, published="another")
    more = ["--client", client, "--tls-port", str(tls_port)]
    said = refusal(*asked("single", server, destination, *more, *ONCE))
    assert "CERTIFICATE_VERIFY_FAILED" in said.splitlines()[-1]


@pytest.mark.parametrize("what", ["single", "many"])
def test_what_is_hashed_within_the_timing_is_every_byte(
    serve: Serve, run_program: Run, refusal: Refusal, destination: Path, what: str
) -> None:
    # In the last byte, which of a single file no inline hash sees; the comparing after the timing is switched off.
    files = SINGLE if what == "single" else MANY
    name = list(files)[-1]
    altered = files[name][:-1] + bytes([files[name][-1] ^ 1])
    unchecked = "import download_files; download_files.check_stored = lambda *ignored: None"
    server = serve(files, {name: altered})
    assert run_program(*asked(what, server, destination, *ONCE), sabotage=unchecked).returncode == 0
    assert f"{name}: expected SHA-1 " in refusal(*asked(what, server, destination, "--sha1", *ONCE), sabotage=unchecked)


@pytest.mark.parametrize(("what", "files"), [("single", SINGLE), ("many", MANY)])
def test_one_corrupted_byte_is_an_error(
    serve: Serve, run_program: Run, destination: Path, what: str, files: dict[str, bytes]
) -> None:
    name = first_name(files)
    done = run_program(*asked(what, serve(files, {name: corrupted(files[name])}), destination, *ONCE))
    assert done.returncode == 1
    assert f"{name}: expected SHA-1 " in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("what", "files"), [("single", SINGLE), ("many", MANY)])
def test_a_truncated_file_is_an_error(
    serve: Serve, refusal: Refusal, destination: Path, what: str, files: dict[str, bytes], client: str
) -> None:
    name = first_name(files)
    size = len(files[name])
    more = ["--client", client, *ONCE]
    assert f"{name}: expected {size} bytes, found {size - 1}" in refusal(
        *asked(what, serve(files, {name: files[name][:-1]}), destination, *more)
    )


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("what", "files"), [("single", SINGLE), ("many", MANY)])
def test_a_port_that_closes_mid_download_is_an_error_and_no_hang(
    serve: Serve, refusal: Refusal, destination: Path, what: str, files: dict[str, bytes], client: str, reset: bool
) -> None:
    server = serve(files, dies_after_bytes=20_000, resets=reset)
    said = refusal(*asked(what, server, destination, "--client", client, *ONCE))
    assert re.search(r"^work not done: (single|many/\d+)\.bin: .*\d+ bytes.*\d+", said, re.M)
    assert "ConnectionResetError" in said or not reset


def test_a_server_that_is_not_there_is_an_error(refusal: Refusal, destination: Path) -> None:
    server = FileServer(SINGLE, server_port=1)
    said = refusal(*asked("single", server, destination, *ONCE))
    assert all(part in said for part in ("manifest", address(server), "ConnectionRefusedError"))


@pytest.mark.parametrize(("what", "files"), [("single", SINGLE), ("many", MANY)])
def test_a_writer_that_cannot_write_is_an_error_and_no_hang(
    serve: Serve, refusal: Refusal, destination: Path, what: str, files: dict[str, bytes]
) -> None:
    full = (
        "import builtins\n"
        "def full(name, mode='r', *rest, real=open):\n"
        "    return real('/dev/full' if str(name).endswith('.bin') and mode == 'wb' else name, mode, *rest)\n"
        "builtins.open = full\n"
    )
    said = refusal(*asked(what, serve(files), destination, *ONCE), sabotage=full)
    assert "No space left on device" in said or "Illegal seek" in said


def test_a_range_answered_with_the_whole_file_is_an_error(serve: Serve, refusal: Refusal, destination: Path) -> None:
    server = serve(SINGLE, partial=200)
    assert re.search(r"single\.bin\b.*\b206\b.*\b200\b", refusal(*asked("single", server, destination, *ONCE)))


@pytest.mark.parametrize("files", [{}, {"single.bin": b"not a MiB"}])
def test_a_set_without_whole_mib_is_an_error(
    serve: Serve, refusal: Refusal, destination: Path, files: dict[str, bytes]
) -> None:
    assert "expected whole MiB" in refusal(*asked("single", serve(files), destination, *ONCE))


@pytest.mark.parametrize(
    ("sabotage", "options", "reason"),
    [
        ("import queue; del queue.SimpleQueue", ["--queue", "simple"], "queue.SimpleQueue came with Python 3.7"),
        ("import sys; sys.modules['multiprocessing'] = None", ["--queue", "process"], "no multiprocessing.Queue"),
        ("import sys; sys.modules['requests'] = None", ["--client", "requests"], "requests cannot be imported"),
        ("import sys; sys.modules['ssl'] = None", ["--tls-port", "1"], "no TLS here"),
    ],
)
def test_what_an_interpreter_has_not_is_unsupported(
    serve_tls: Serve, report: Report, destination: Path, sabotage: str, options: list[str], reason: str
) -> None:
    server, _ = serve_tls(SINGLE)
    assert reason in report(*asked("single", server, destination, *options), sabotage=sabotage)["unsupported"]
