"""The digests that a registry and this engine know an image by."""

from __future__ import annotations

from docker import DockerClient
from docker.errors import ImageNotFound, NotFound
from docker.models.images import Image

from interlock.engine.client import HASH_LABEL
from interlock.engine.registry.errors import registry_errors
from interlock.results.experiments import Built


def registry_digest(client: DockerClient, name: str) -> str | None:
    """Return the digest that its registry has for a name with a tag or a digest; None if it has none.

    The engine asks, with its credentials. Raises RegistryError if the registry does not answer or refuses.
    """
    with registry_errors(name.partition("/")[0]):
        try:
            return str(client.images.get_registry_data(name).id)
        except NotFound:
            return None


# Podman gives a digest also to what it built, under a local name that no registry has.
LOCAL = ("docker.io/interlock/", "localhost/")


def known_digest(image: Image) -> str | None:
    """Return the name by digest that a push or a pull has recorded for an image; None without one."""
    return next(iter(known_digests(image)), None)


def known_digests(image: Image, repository: str = "") -> list[str]:
    """Return every recorded name by digest, or those of one repository."""
    found = [one for one in image.attrs.get("RepoDigests") or [] if not one.startswith(LOCAL)]
    return [one for one in found if not repository or one.startswith(f"{repository}@")]


def find_tagged(client: DockerClient, measured: Built) -> Built | None:
    """Return this engine's image with the tag of a measured one; None without one. Nothing is pulled or built."""
    try:
        image = client.images.get(measured.tag)
    except ImageNotFound:
        return None
    update = {
        "image_id": image.id,
        "digest": known_digest(image),
        "content_hash": image.labels.get(HASH_LABEL, ""),
        "size_bytes": image.attrs["Size"],
    }
    return measured.model_copy(update=update)
