"""Finds and removes what experiments, audits, trials and proofs have in an engine until they end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from docker import DockerClient
from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container
from docker.models.networks import Network
from docker.models.volumes import Volume
from requests.exceptions import RequestException

from interlock.engine.client import uninterrupted
from interlock.engine.ownership import OWNER_LABEL, Life, labels_of, life
from interlock.errors import EngineError

CONFLICT = 409
REMOVAL_S = 30


def labels_by_owner(client: DockerClient) -> dict[str, list[Mapping[str, str]]]:
    """Return the labels of all containers, networks, volumes and untagged images, by their owners."""
    owned: dict[str, Any] = {"label": OWNER_LABEL}
    made: dict[str, list[Mapping[str, str]]] = {}
    for labels in (
        *(container.labels for container in client.containers.list(all=True, ignore_removed=True, filters=owned)),
        *(network.attrs["Labels"] for network in client.networks.list(filters=owned)),
        *(volume.attrs["Labels"] for volume in client.volumes.list(filters=owned)),
        *(image.labels for image in client.images.list(filters={**owned, "dangling": True})),
    ):
        made.setdefault(labels[OWNER_LABEL], []).append(labels)
    return made


def others_at_work(client: DockerClient) -> bool:
    """Return whether another process than this one may measure an image now, whatever its tag."""
    return any(
        not labels_of(owner).items() <= labels.items() and life(labels) is not Life.DEAD
        for owner, made in labels_by_owner(client).items()
        for labels in made
    )


def clean_up(client: DockerClient, experiment: str) -> None:
    """Remove every container, network, volume and untagged image of the experiment; EngineError names what stays."""
    owned: dict[str, Any] = {"label": f"{OWNER_LABEL}={experiment}"}
    left = [
        *((container, remove) for container in client.containers.list(all=True, filters=owned, ignore_removed=True)),
        *((network, Network.remove) for network in client.networks.list(filters=owned)),
        *((volume, partial(Volume.remove, force=True)) for volume in client.volumes.list(filters=owned)),
    ]
    stays = []
    for thing, gone in left:
        try:
            with suppress(NotFound):
                gone(thing)
        except DockerException as error:
            stays.append(f"{thing.id} ({error})")
    remove_images(client, [image.id for image in client.images.list(filters={**owned, "dangling": True})])
    if stays:
        raise EngineError(
            found=f"cannot be removed: {'; '.join(stays)}",
            todo="Remove it with `docker rm -f`, `docker network rm` or `docker volume rm`.",
        )


def remove(container: Container) -> None:
    """Remove a container and its own volumes; one that is already removed, or being removed, is fine."""
    try:
        container.remove(force=True, v=True)
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != CONFLICT:
            raise
        # A removal that was interrupted goes on in the engine.
        with suppress(APIError, RequestException):
            container.wait(condition="removed", timeout=REMOVAL_S)


@contextmanager
def temporary_container(
    client: DockerClient, image_id: str, argv: Sequence[str] | None, owner: str, **options: Any
) -> Iterator[Container]:
    """Make a container, which is not started, and remove it after the block, also if an interrupt comes meanwhile.

    If this process is killed before that, `clean` finds the container by its owner.
    """
    container = None
    try:
        with uninterrupted():
            container = client.containers.create(image_id, argv, labels=labels_of(owner), **options)
        yield container
    finally:
        if container is not None:
            remove(container)


def remove_images(client: DockerClient, image_ids: Sequence[str]) -> None:
    """Remove the images that have no tag and that nothing needs; one that is already gone is fine."""
    for image_id in image_ids:
        with suppress(DockerException):
            if not client.images.get(image_id).tags:
                client.images.remove(image_id)
