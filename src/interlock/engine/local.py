"""What this engine has of an image that was measured, perhaps elsewhere."""

from __future__ import annotations

from typing import Any

from docker.errors import ImageNotFound

from interlock.engine.image import HASH_LABEL
from interlock.engine.registry import known_digest
from interlock.model import Built


def find_tagged(client: Any, measured: Built) -> Built | None:
    """The image with the measured one's tag, as it is here; None without one. Nothing is pulled or made."""
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
