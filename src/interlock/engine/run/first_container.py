"""Whether an engine that answers can start a container at all: a Podman without rights answers and cannot."""

from __future__ import annotations

import io
import shutil
import tarfile
import uuid
from contextlib import suppress
from pathlib import Path

from docker import DockerClient
from docker.errors import DockerException

from interlock.engine.client import NETWORK, engine_words
from interlock.engine.ended import linked_by
from interlock.engine.ownership import OWNER_LABEL, labels_of
from interlock.engine.run import leftovers
from interlock.engine.run.rights import without_rights


def why_no_container(client: DockerClient) -> str:
    """Return why the engine cannot start a container, in its own words; empty if it can. This takes about a second.

    The container has this machine's `true` and nothing else, because an engine may have no image yet.
    """
    # With its own owner, the leftovers of an interrupted try are found and removed.
    owner = f"first-container-{uuid.uuid4().hex[:12]}"
    labels, program = labels_of(owner), shutil.which("true") or "/usr/bin/true"
    try:
        changes = [f'LABEL "{name}"="{value}"' for name, value in labels.items()]
        client.api.import_image_from_data(_packed(program), changes=changes)
        (image,) = client.images.list(filters={"label": f"{OWNER_LABEL}={owner}", "dangling": True})
        client.containers.run(image.id, [program], network_mode="none", labels=labels, **without_rights())
    except (DockerException, *NETWORK) as error:
        return engine_words(error)
    finally:
        with suppress(DockerException, *NETWORK):
            leftovers.clean_up(client, owner)
    return ""


def _packed(program: str) -> bytes:
    """Return a tar of a program of this machine with its loader and libraries."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", dereference=True) as tar:
        for path in (Path(program), *linked_by(program)):
            tar.add(path.resolve(), path)
    return stream.getvalue()
