"""Helper images that no user runs services on: the instruments and the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interlock.engine.base import find_base
from interlock.engine.context import content_hash, read_context
from interlock.engine.image import HASH_LABEL, build_aside, find_image
from interlock.model import Base, BaseImage


def ensure_helper(client: Any, root: Path, name: str, base: BaseImage) -> str:
    """The id of the image of dockerfiles/<name>, built if its content changed."""
    there = _find(client, root, name, base.image_id)
    if there is not None:
        return there
    files = read_context(root / "dockerfiles" / name)
    return build_aside(
        client,
        files,
        name,
        f"dockerfiles/{name}/Dockerfile",
        buildargs={"BASE": base.reference},
        labels={HASH_LABEL: content_hash(files, base.image_id, name)},
        tag=tag_of(name),
    )


def find_helper(client: Any, root: Path, name: str, base: Base) -> str | None:
    """The id of the image of dockerfiles/<name> as it is now; None if it has to be built."""
    there = find_base(client, base)
    return None if there is None else _find(client, root, name, there.image_id)


def _find(client: Any, root: Path, name: str, base_id: str) -> str | None:
    files = read_context(root / "dockerfiles" / name)
    image = find_image(client, tag_of(name), content_hash(files, base_id, name))
    return None if image is None else str(image.id)


def tag_of(name: str) -> str:
    """What the image of dockerfiles/<name> is called."""
    return f"interlock/{name}:latest"
