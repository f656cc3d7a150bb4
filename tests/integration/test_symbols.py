"""The names that a build strips off its image are kept in an image of their own."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest

from interlock.engine.client import HASH_LABEL
from interlock.engine.symbols import LABEL, symbols_of, symbols_tag
from tests.integration.images import NO_THREADS, QUICK, Images

OWNER = "test-symbols"
PYTHON = "/usr/local/bin/python2.7"
# An ELF note of 20 bytes: NT_GNU_BUILD_ID.
NOTE, LENGTH = b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0", 20
STATIC = b"\0builtin_len\0"


@pytest.mark.slow
def test_they_are_found_by_the_images_label_and_the_files_build_id_and_are_not_in_the_image(
    client: Any, built: Images
) -> None:
    image = client.images.get(built[NO_THREADS].image_id)
    symbols = symbols_of(client, image, OWNER)
    assert symbols is not None
    interpreter = file_of(client, image.id, PYTHON)
    build_id = interpreter.partition(NOTE)[2][:LENGTH].hex()
    with tarfile.open(fileobj=io.BytesIO(symbols)) as tar:
        kept = tar.extractfile(f"debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
        assert kept is not None
        assert STATIC in kept.read()
        # One date, so that the layer is the same each time.
        assert len({entry.mtime for entry in tar}) == 1
    assert STATIC not in interpreter
    # A build of the same variant under another tag replaces neither.
    carrier = client.images.get(symbols_tag(built[NO_THREADS].tag))
    assert carrier.labels[LABEL] == image.labels[HASH_LABEL]


def test_an_image_that_was_not_built_from_source_has_none(client: Any, built: Images) -> None:
    assert symbols_of(client, client.images.get(built[QUICK].image_id), OWNER) is None


def file_of(client: Any, image_id: str, path: str) -> bytes:
    container = client.containers.create(image_id, ["-"])
    try:
        stream, _ = container.get_archive(path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as tar:
            file = tar.extractfile(tar.getmembers()[0])
            assert file is not None
            return file.read()
    finally:
        container.remove(force=True)
