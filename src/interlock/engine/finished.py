"""What a build or a pull ends with: an image takes over its variant's tag, and is described."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from docker.errors import APIError, ImageNotFound

from interlock.engine.client import put_tag
from interlock.engine.image import Plan
from interlock.engine.registry import known_digest
from interlock.model import Built, Outcome, State


def take_tag(client: Any, image_id: str, tag: str) -> Any:
    """The image takes over the tag; the one that had it goes, unless something still uses it."""
    replaced = id_of(client, tag)
    image = client.images.get(image_id)
    put_tag(image, tag)
    if replaced not in {None, image.id}:
        with suppress(APIError):
            client.images.remove(replaced)
    return client.images.get(image_id)


def id_of(client: Any, tag: str) -> str | None:
    """Of the image that has the tag now."""
    try:
        return str(client.images.get(tag).id)
    except ImageNotFound:
        return None


def describe(plan: Plan, image: Any, duration_s: float, *, reused: bool, pulled_from: str | None = None) -> Built:
    """What is recorded of the image that has a plan's tag."""
    return Built(
        variant=plan.variant.name,
        profile=plan.profile,
        outcome=Outcome(state=State.OK),
        tag=plan.tag,
        image_id=image.id,
        digest=known_digest(image),
        content_hash=plan.content_hash,
        size_bytes=image.attrs["Size"],
        base=plan.base,
        duration_s=duration_s,
        reused=reused,
        pulled_from=pulled_from,
    )
