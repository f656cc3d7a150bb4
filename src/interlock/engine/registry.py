"""What a registry has of an image now, and what this engine knows of that."""

from __future__ import annotations

from typing import Any

from docker.errors import DockerException


def registry_digest(client: Any, name: str) -> str | None:
    """The digest that its registry has for a name with a tag or a digest; None if it has none or does not answer.

    The engine asks, with the credentials that it has.
    """
    try:
        return str(client.images.get_registry_data(name).id)
    except DockerException:
        return None


# Podman gives a digest to what it built, by the name that the image has here, which no registry has.
LOCAL = ("docker.io/interlock/", "localhost/")


def known_digest(image: Any) -> str | None:
    """The name by digest that a push or a pull left with an image."""
    return next(iter(known_digests(image)), None)


def known_digests(image: Any, repository: str = "") -> list[str]:
    """All of them, or those of one repository."""
    found = [one for one in image.attrs.get("RepoDigests") or [] if not one.startswith(LOCAL)]
    return [one for one in found if not repository or one.startswith(f"{repository}@")]
