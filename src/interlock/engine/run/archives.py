"""Files of a container, read as a tar, and its log. Nothing in them is trusted, because what ran there wrote them."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from docker import DockerClient
from docker.errors import NotFound
from docker.models.containers import Container

from interlock.engine.agent import text_of
from interlock.engine.run import leftovers
from interlock.untrusted import MOST_SAID, joined


def log_of(container: Container, most_bytes: int = MOST_SAID, **streams: bool) -> str:
    """Return what the container printed, at most `most_bytes` of it; `stderr=False` leaves that stream out."""
    return text_of(joined(container.logs(**streams, stream=True, follow=False), most_bytes))


class ContentError(Exception):
    """What a container has is not what was looked for; the text says why."""


class NothingThereError(ContentError):
    """There is no such path in the container."""


@contextmanager
def archive(container: Container, path: str, most_bytes: int = MOST_SAID) -> Iterator[tarfile.TarFile]:
    """Yield a folder or file of a container; ContentError if it is not there, cannot be read or has too many bytes.

    An error in the block because of a broken tar becomes a ContentError too.
    """
    with tempfile.TemporaryFile() as file:
        try:
            chunks, _ = container.get_archive(path)
        except NotFound:
            raise NothingThereError(f"there is no {path}") from None
        for chunk in chunks:
            file.write(chunk)
            if file.tell() > most_bytes:
                raise ContentError(f"{path} has more than {most_bytes >> 20} MiB")
        file.seek(0)
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                yield tar
        except (tarfile.TarError, OSError) as error:
            raise ContentError(f"{path} cannot be read: {error}") from None


@contextmanager
def image_archive(
    client: DockerClient, image_id: str, path: str, most_bytes: int, task: str, **options: Any
) -> Iterator[tarfile.TarFile]:
    """Yield a folder or file of an image, as `archive` does of a container made with these options; nothing is started.

    The container's owner has the task's name.
    """
    with (
        leftovers.temporary_container(client, image_id, ["-"], f"{task}-{os.getpid()}", **options) as container,
        archive(container, path, most_bytes) as tar,
    ):
        yield tar
