"""Where tests measure in the real engine: what an experiment would set up for one variant, and what is left of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from docker import DockerClient
from docker.models.containers import Container

from interlock.engine.docker import DockerEngine
from interlock.engine.ownership import OWNER_LABEL
from interlock.engine.protocol import USUAL, Needs, Surroundings
from interlock.engine.run import containers, execution, leftovers
from interlock.measure.cells import Cell
from interlock.measure.sessions import Resources, Session
from interlock.results.experiments import Built, Subject
from tests import builders
from tests.builders import ROOT


def make_resources(
    client: DockerClient, folder: Path, image: Built, owner: str, programs: Mapping[str, bytes]
) -> Resources:
    """Everything under this owner, who cleans up after it; what is written goes into the folder."""
    protocol = (ROOT / "workloads/protocol.py").read_bytes()
    needs = Needs(ROOT, [image], {"protocol.py": protocol, **programs}, ["server", "load"])
    workspace = DockerEngine(client).set_up(owner, needs)
    return builders.make_resources(workspace=workspace, folder=folder, programs=programs)


def subject_of(image: Built, environment: Mapping[str, str] | None = None) -> Subject:
    return Subject(variant=image.variant, image_id=image.image_id, environment=dict(environment or {}))


@contextmanager
def cell_of(session: Session, subject: Subject) -> Iterator[Cell]:
    """A cell of an experiment, which ends with the block."""
    cell = Cell(session, subject)
    try:
        yield cell
    finally:
        cell.close()


def owned(client: DockerClient, label: str = OWNER_LABEL, value: object = None) -> dict[str, Mapping[str, str]]:
    """The labels of all containers, networks and volumes, by id, that have this label, with this value if there is one.

    Others start and remove theirs meanwhile.
    """
    filters = {"label": label if value is None else f"{label}={value}"}
    found = {one.id: one.labels for one in client.containers.list(all=True, filters=filters, ignore_removed=True)}
    others = [*client.networks.list(filters=filters), *client.volumes.list(filters=filters)]
    return {**found, **{one.id: one.attrs["Labels"] for one in others}}


def clean(client: DockerClient, prefix: str) -> list[str]:
    """Remove what the owners with this prefix left, and return their names."""
    engine = DockerEngine(client)
    owners = sorted(owner for owner in engine.owners() if owner.startswith(prefix))
    for owner in owners:
        engine.clean_up(owner)
    return owners


def remove_cells(client: DockerClient, owner: str) -> None:
    """Remove an owner's containers, networks and volumes; that of the instruments stays for the next test."""
    owned = {"label": f"{OWNER_LABEL}={owner}"}
    for container in client.containers.list(all=True, filters=owned, ignore_removed=True):
        leftovers.remove(container)
    for network in client.networks.list(filters=owned):
        network.remove()
    for volume in client.volumes.list(filters=owned):
        if not volume.name.endswith("-instruments"):
            volume.remove(force=True)


def start(
    client: DockerClient,
    owner: str,
    image: Built,
    volume: str,
    surroundings: Surroundings = USUAL,
    network: str | None = None,
) -> Container:
    """A cell, without a network unless one is named."""
    options = containers.CellOptions(owner, volume, network, surroundings)
    return containers.start_cell(client, image.image_id, options)


def run(client: DockerClient, image_id: str | None, *command: str) -> str:
    """What a container of an image prints that has no network and is gone afterwards."""
    output: bytes = client.containers.run(image_id, list(command) or None, remove=True, network_mode="none")
    return output.decode().strip()


def said(cell: Container, *argv: str, environment: Mapping[str, str] | None = None) -> str:
    """What a process in the cell printed; it must have ended well."""
    ended = execution.run_process(cell, list(argv), 60, environment)
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout.strip()
