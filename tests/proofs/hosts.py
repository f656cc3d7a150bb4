"""Hosts of a test's own: containers with a real sshd, which have the engine of this machine or none."""

from __future__ import annotations

import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound

from interlock.engine.build.sources import tar_of
from interlock.engine.packages.pip_container import gather
from interlock.fleet.ansible import FILES
from interlock.results.experiments import BaseImage
from tests.builders import ROOT

SOCKET = "/var/run/docker.sock"
LABEL = "interlock.test"
SSHD_S = 30

# A host that host.yml has been to already: what it installs takes minutes, and three times as long on three hosts.
DOCKERFILE = """\
FROM {base}
COPY files /
RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \\
    docker-cli openssh-server {packages}
RUN mkdir -p /run/sshd && cat /interlock-environment >> /etc/environment
RUN set -a && . /interlock-environment && \\
    pip install -q --no-cache-dir --break-system-packages --ignore-installed \\
    --require-hashes --only-binary :all: -r /requirements.txt
CMD ["/usr/sbin/sshd", "-D", "-e"]
"""


@dataclass(frozen=True)
class Host:
    """A container, by the name that the inventory gives it."""

    name: str
    container: Any
    address: str


@dataclass(frozen=True)
class Key:
    """A key pair of ssh, and what the client needs besides."""

    file: Path
    known_hosts: Path

    @property
    def public(self) -> bytes:
        return self.file.with_suffix(".pub").read_bytes()


def make_key(folder: Path) -> Key:
    file = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    return Key(file, folder / "known_hosts")


def ready_image(client: Any, base: BaseImage, packages: list[str]) -> str:
    """The id of an image of a host on which all of Debian's packages and of Interlock's requirements are."""
    settings = gather()
    text = DOCKERFILE.format(
        base=base.reference,
        packages=" ".join(sorted({*packages, "python3-pip"})),
    )
    files = {
        f"files{place}": file if isinstance(file, bytes) else file.read_bytes()
        for place, file in settings.files.items()
        if isinstance(file, bytes) or file.is_file()
    }
    lines = [f"{name}='{value}'\n" for name, value in settings.environment.items()]
    files["files/requirements.txt"] = (ROOT / "requirements/host.txt").read_bytes()
    context = {"Dockerfile": text.encode(), "files/interlock-environment": "".join(lines).encode(), **files}
    image, _ = client.images.build(
        fileobj=tar_of(context), custom_context=True, rm=True, tag="interlock-test/host:latest"
    )
    return str(image.id)


@contextmanager
def running(
    client: Any, image_id: str, names: list[str], key: Key, engine: str | Path = SOCKET
) -> Iterator[dict[str, Host]]:
    """Hosts that answer to the key, each with the engine that answers there; removed at the end."""
    label = uuid.uuid4().hex
    hosts: dict[str, Host] = {}
    try:
        for name in names:
            container = client.containers.run(
                image_id,
                detach=True,
                hostname=name,
                labels={LABEL: label},
                volumes={str(engine): {"bind": SOCKET, "mode": "rw"}},
            )
            container.put_archive("/root", tar_of({".ssh/authorized_keys": key.public}).getvalue())
            container.exec_run(["sh", "-c", "chown -R root:root /root/.ssh && chmod -R go= /root/.ssh"])
            hosts[name] = Host(name, container, answer(container, key))
        yield hosts
    finally:
        for container in client.containers.list(all=True, filters={"label": f"{LABEL}={label}"}):
            with suppress(NotFound, APIError):
                container.remove(force=True, v=True)


def answer(container: Any, key: Key) -> str:
    """The container's address, once its sshd lets the key in; its host key is known from then on."""
    container.reload()
    address = str(container.attrs["NetworkSettings"]["IPAddress"])
    limit = time.monotonic() + SSHD_S
    while time.monotonic() < limit:
        scan = subprocess.run(["ssh-keyscan", "-T", "2", address], capture_output=True, check=False).stdout
        if scan:
            with key.known_hosts.open("ab") as file:
                file.write(scan)
            return address
        time.sleep(0.2)
    raise TimeoutError(f"no sshd at {address}: {container.logs(tail=3)}")


def inventory(hosts: Mapping[str, Host], key: Key, **variables: Any) -> dict[str, Any]:
    """What an inventory file says of them: JSON is YAML."""
    ssh = f"-o UserKnownHostsFile={key.known_hosts} -o IdentitiesOnly=yes"
    return {
        "all": {
            "hosts": {name: {"ansible_host": host.address} for name, host in hosts.items()},
            "vars": {
                "ansible_user": "root",
                "ansible_ssh_private_key_file": str(key.file),
                "ansible_ssh_common_args": ssh,
                "project_venv": "python3 -m venv --system-site-packages",
                **variables,
            },
        }
    }


def copy_code(root: Path, project: Path) -> None:
    """What a host needs of Interlock besides the project's data."""
    for folder in ("src", "playbooks"):
        shutil.copytree(root / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        (project / file).parent.mkdir(exist_ok=True)
        shutil.copy(root / file, project / file)
