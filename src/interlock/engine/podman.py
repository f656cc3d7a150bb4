"""Podman answers Docker's API on a socket: the one that is there, or one that its service opens for this run alone."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from interlock.errors import EngineError

# The service ends by itself when nobody has talked to it for so long: a run that was killed leaves nothing behind.
IDLE_S = 600
READY_S = 20


def installed() -> bool:
    return shutil.which("podman") is not None


def address() -> str:
    """Where Podman answers: a socket that a service already has, or a new one; EngineError if neither can be had."""
    for path in known_sockets():
        if answers(path):
            return f"unix://{path}"
    return f"unix://{_serve()}"


def known_sockets() -> list[Path]:
    """Where systemd's podman.socket is, of this user and of root."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    own, system = Path(runtime) / "podman/podman.sock", Path("/run/podman/podman.sock")
    return [system] if os.geteuid() == 0 else [own, system]


def answers(path: Path) -> bool:
    """Whether somebody listens there and this user may talk to him."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def _serve() -> Path:
    if not installed():
        raise EngineError(key="--engine", found="podman is not installed", todo="apt-get install podman.")
    folder = Path(tempfile.mkdtemp(prefix="interlock-podman-"))
    path, log = folder / "podman.sock", folder / "log"
    with log.open("wb") as said:
        service = subprocess.Popen(
            ["podman", "system", "service", f"--time={IDLE_S}", f"unix://{path}"], stdout=said, stderr=said
        )
    atexit.register(_stop, service, folder)
    limit = time.monotonic() + READY_S
    while not answers(path):
        if service.poll() is not None or time.monotonic() > limit:
            lines = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
            raise EngineError(
                key="--engine", found=f"podman's service does not start: {lines[-1]}", todo="See `podman info`."
            )
        time.sleep(0.05)
    return path


def _stop(service: subprocess.Popen[bytes], folder: Path) -> None:
    service.terminate()
    with suppress(subprocess.TimeoutExpired):
        service.wait(timeout=5)
    shutil.rmtree(folder, ignore_errors=True)
