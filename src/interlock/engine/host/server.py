"""The server of a workload without containers: this machine's nginx, with files, configuration and ports of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from interlock.engine.cells import SERVER_FILES, SERVER_PORT, SERVER_READY_S
from interlock.engine.host import toolchain
from interlock.errors import UnsupportedHereError, WorkloadError

TLS_PORT = 8443
# Where nginx would write as root.
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
STOP_S = 5
TRIES = 20


@contextmanager
def serving(root: Path, environment: Mapping[str, str], memory: Path) -> Iterator[str]:
    """The server's URL; it is in a folder of `memory`, and gone after the block.

    UnsupportedHereError if this machine has no nginx.
    """
    lacking = toolchain.missing(toolchain.SERVER)
    if lacking:
        found = f"this machine has no {' and no '.join(need.what for need in lacking)}"
        raise UnsupportedHereError(key="server", found=found, todo=f"{toolchain.install_command(lacking)}.")
    folder = Path(tempfile.mkdtemp(prefix="server-", dir=memory))
    server = None
    try:
        address = free_address()
        _configure(root / "dockerfiles" / "server", folder, address)
        server = _start(root, folder, address, environment)
        yield f"http://{address}:{SERVER_PORT}"
    finally:
        if server is not None:
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(timeout=STOP_S)
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _configure(source: Path, folder: Path, address: str) -> None:
    folder.chmod(0o755)  # started by root, nginx reads files as somebody else
    (folder / "files").mkdir()
    text = configuration((source / "nginx.conf").read_text(encoding="utf-8"), folder, address)
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    shutil.copy(source / "b2.conf", folder / "b2.conf")


def configuration(text: str, folder: Path, address: str) -> str:
    """The configuration of the server's image, for another folder and one address."""
    own = "".join(f"    {name}_temp_path {folder}/{name};\n" for name in TEMPORARY)
    text = text.replace(f"listen {SERVER_PORT};", f"listen {address}:{SERVER_PORT};")
    text = text.replace(f"listen {TLS_PORT} ssl;", f"listen {address}:{TLS_PORT} ssl;")
    return f"pid {folder}/nginx.pid;\n" + text.replace("http {\n", f"http {{\n{own}", 1).replace(
        SERVER_FILES, str(folder / "files")
    )


def free_address() -> str:
    """One of this machine's own addresses on which nobody has the server's ports: programs know these by number.

    UnsupportedHereError if somebody has one of them on all addresses.
    """
    for _ in range(TRIES):
        address = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}"
        if all(_free(address, port) for port in (SERVER_PORT, TLS_PORT)):
            return address
    raise UnsupportedHereError(
        key="server",
        found=f"port {SERVER_PORT} or {TLS_PORT} is taken on every address of this machine",
        todo="Stop what listens there, or measure in containers.",
    )


def _free(address: str, port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind((address, port))
        except OSError:
            return False
    return True


def _start(root: Path, folder: Path, address: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    settings = {
        "FILES": str(folder / "files"),
        "CONFIGURATION": str(folder),
        "ADDRESS": address,
        "SINGLE_MIB": "64",
        "MANY_FILES": "48",
        "MANY_MIB": "1",
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    }
    pin = ["taskset", "-c", "0"] if (os.cpu_count() or 1) > 1 else []
    log = folder / "log"
    with log.open("wb") as said:
        server = subprocess.Popen(
            [*pin, "sh", str(root / "dockerfiles/server/serve.sh")],
            env=settings | dict(environment),
            stdout=said,
            stderr=said,
        )
    limit = time.monotonic() + SERVER_READY_S
    while not (folder / "files" / "manifest").is_file():
        if server.poll() is not None or time.monotonic() > limit:
            server.kill()
            lines = log.read_text(errors="replace").strip().splitlines() or ["its log is empty"]
            raise WorkloadError(
                key="server", found=f"the server did not start: {lines[-1]}", todo="See dockerfiles/server/."
            )
        time.sleep(0.05)
    return server
