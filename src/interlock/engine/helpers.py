"""Helper images that no user runs services on: the instruments and the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interlock.engine.context import content_hash, read_context
from interlock.engine.image import HASH_LABEL, build_aside, find_image
from interlock.model import BaseImage


def ensure_helper(client: Any, root: Path, name: str, base: BaseImage) -> str:
    """The id of the image of dockerfiles/<name>, built if its content changed."""
    files = read_context(root / "dockerfiles" / name)
    wanted = content_hash(files, base.image_id, name)
    tag = f"interlock/{name}:latest"
    image = find_image(client, tag, wanted)
    if image is not None:
        return str(image.id)
    return build_aside(
        client,
        files,
        name,
        f"dockerfiles/{name}/Dockerfile",
        buildargs={"BASE": base.reference},
        labels={HASH_LABEL: wanted},
        tag=tag,
    )
