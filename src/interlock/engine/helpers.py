"""Helper images that no user runs services on: the instruments and the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound

from interlock.engine.context import content_hash, read_context
from interlock.engine.image import HASH_LABEL, run_build
from interlock.engine.log import engine_failure
from interlock.model import BaseImage


def ensure_helper(client: Any, root: Path, name: str, base: BaseImage) -> str:
    """The id of the image of dockerfiles/<name>, built if its content changed."""
    files = read_context(root / "dockerfiles" / name)
    wanted = content_hash(files, base.image_id, name)
    tag = f"interlock/{name}:latest"
    try:
        image = client.images.get(tag)
        if image.labels.get(HASH_LABEL) == wanted:
            return str(image.id)
    except ImageNotFound:
        pass
    log: list[str] = []
    image_id = run_build(
        client, files, log, lambda _: None, buildargs={"BASE": base.reference}, labels={HASH_LABEL: wanted}, tag=tag
    )
    if image_id is None:
        raise engine_failure("".join(log), name, f"dockerfiles/{name}/Dockerfile")
    return image_id
