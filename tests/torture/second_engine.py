"""A container engine of a test's own, that can be killed and started again: it has namespaces of its own.

The machine's engine, its bridge and its containers are not seen from there, and all ends with the namespaces.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

READY_S = 60
NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
# The shell is the first process: it waits for those that have lost their parent, a killed dockerd's containerd.
# The tmpfs hides the sockets of the machine's engine, which a second one would take for its own containerd.
BEGIN = """
mount -t tmpfs none /run
ip link set lo up
ip link add own0 type bridge
ip addr add 172.31.255.1/24 dev own0
ip link set own0 up
echo ready
while :; do sleep 1; done
"""
# No rules for packets: there is nobody to reach.
OPTIONS = ["--bridge=own0", "--iptables=false", "--ip6tables=false", "--ip-masq=false"]


@dataclass
class SecondEngine:
    """A dockerd below a folder, in the namespaces of a process of this machine."""

    folder: Path
    process: int
    daemon: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"unix://{self.folder}/sock"

    @property
    def client(self) -> Any:
        return docker.DockerClient(self.host, timeout=READY_S)

    def inside(self, *words: str) -> list[str]:
        return ["nsenter", f"--target={self.process}", "--net", "--mount", "--pid", *words]

    def start(self) -> None:
        """Start dockerd, and return once it answers."""
        places = {"data-root": "data", "exec-root": "exec", "pidfile": "pid", "config-file": "daemon.json"}
        options = [f"--{name}={self.folder / file}" for name, file in places.items()]
        with (self.folder / "log").open("ab") as log:
            self.daemon = subprocess.Popen(
                self.inside("dockerd", f"--host={self.host}", *options, *OPTIONS), stdout=log, stderr=log
            )
        limit = time.monotonic() + READY_S
        while not self.answers():
            assert time.monotonic() < limit, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.1)

    def end(self, signal_name: str) -> None:
        """Send dockerd a signal, and return once it has ended."""
        assert self.daemon is not None
        number = (self.folder / "pid").read_text().strip()
        subprocess.run(self.inside("kill", f"-{signal_name}", number), check=True)
        self.daemon.wait(READY_S)

    def answers(self) -> bool:
        try:
            client = self.client
            client.ping()
        except (DockerException, RequestException):
            return False
        client.close()
        return True

    def take(self, images: Sequence[str]) -> None:
        """Copy images of the machine's engine, with their ids."""
        with subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE) as saved:
            subprocess.run(["docker", f"--host={self.host}", "load", "-q"], stdin=saved.stdout, check=True)
        assert saved.returncode == 0


@contextmanager
def second_engine() -> Iterator[SecondEngine]:
    """Start one; at the end it is gone with all that it has."""
    folder = Path(tempfile.mkdtemp(prefix="own-engine-"))  # a socket's path has 107 bytes at most
    (folder / "daemon.json").write_text("{}")
    try:
        with subprocess.Popen([*NAMESPACES, "sh", "-ec", BEGIN], stdout=subprocess.PIPE, text=True) as began:
            try:
                assert began.stdout is not None
                assert began.stdout.readline() == "ready\n"
                (child,) = Path(f"/proc/{began.pid}/task/{began.pid}/children").read_text().split()
                engine = SecondEngine(folder, int(child))
                engine.start()
                yield engine
            finally:
                began.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
