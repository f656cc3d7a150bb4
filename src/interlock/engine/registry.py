"""What a registry has of an image now; the engine asks it, with the credentials that it has."""

from __future__ import annotations

from typing import Any

from docker.errors import DockerException


def registry_digest(client: Any, name: str) -> str | None:
    """The digest that its registry has for a name with a tag or a digest; None if it has none or does not answer."""
    try:
        return str(client.images.get_registry_data(name).id)
    except DockerException:
        return None
