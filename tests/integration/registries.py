"""A registry of a test's own: Debian's docker-registry on this machine, without TLS and without a login."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
STOP_S = 10


@dataclass
class Registry:
    """A registry that can be stopped and started again."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        storage = {"filesystem": {"rootdirectory": str(self.folder / "storage")}}
        # What a client keeps open must not hold up a stop.
        http = {"addr": self.address, "draintimeout": "1s"}
        config = self.folder / "registry.yml"
        config.write_text(json.dumps({"version": 0.1, "storage": storage, "http": http}))  # JSON is YAML
        with (self.folder / "registry.log").open("ab") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", str(config)], stderr=log, stdout=log)
        _await(self.port)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=STOP_S)
            self.process = None


def push(client: Any, source: str, name: str) -> str:
    """Push an image by another name, which it keeps here; return the digest that the registry has it by."""
    client.images.get(source).tag(*name.rsplit(":", 1))
    said = list(client.api.push(*name.rsplit(":", 1), stream=True, decode=True))
    digests = [str(line["aux"]["Digest"]) for line in said if "aux" in line]
    assert digests, said
    return digests[0]


@contextmanager
def registry(folder: Path) -> Iterator[Registry]:
    """A registry on a free port."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        made = Registry(folder, int(probe.getsockname()[1]))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _await(port: int) -> None:
    for _ in range(100):
        with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"no registry on {HOST}:{port}")
