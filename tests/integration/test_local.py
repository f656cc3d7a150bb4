"""What the engine has of an image that was measured."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from interlock.engine.names import find_tagged
from tests.builders import make_built

CONTENT_HASH = "5" * 64


@pytest.fixture
def tag(client: Any) -> Iterator[str]:
    """Of an image with a content hash and nothing in it."""
    name = f"interlock-test/local:{uuid.uuid4().hex[:12]}"
    dockerfile = io.BytesIO(f"FROM scratch\nLABEL interlock.hash={CONTENT_HASH}\n".encode())
    client.images.build(fileobj=dockerfile, tag=name, rm=True)
    yield name
    client.images.remove(name)


def test_an_image_is_found_by_its_tag_as_it_is_here(client: Any, tag: str) -> None:
    measured = make_built("cpython-3.13").model_copy(update={"tag": tag, "digest": "elsewhere@sha256:1"})
    found = find_tagged(client, measured)
    assert found is not None
    assert found.image_id == client.images.get(tag).id
    assert (found.content_hash, found.digest, found.size_bytes) == (CONTENT_HASH, None, 0)
    assert (found.variant, found.reference) == ("cpython-3.13", tag)


def test_without_an_image_of_that_tag_nothing_is_found_and_nothing_is_pulled(client: Any) -> None:
    tag = f"interlock-test/local:{uuid.uuid4().hex[:12]}"
    assert find_tagged(client, make_built("x").model_copy(update={"tag": tag})) is None
