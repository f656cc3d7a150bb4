"""Whether an engine that answers can start a container at all: a Podman without rights answers and cannot."""

from __future__ import annotations

import shutil
import uuid
from contextlib import suppress
from pathlib import Path

from docker import DockerClient
from docker.errors import DockerException

from interlock.engine.build.sources import tar_of_paths
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
        with tar_of_paths({path: Path(path) for path in (program, *map(str, linked_by(program)))}) as packed:
            client.api.import_image_from_data(packed.read(), changes=changes)
        (image,) = client.images.list(filters={"label": f"{OWNER_LABEL}={owner}", "dangling": True})
        client.containers.run(image.id, [program], network_mode="none", labels=labels, **without_rights())
    except (DockerException, *NETWORK) as error:
        return engine_words(error)
    finally:
        with suppress(DockerException, *NETWORK):
            leftovers.clean_up(client, owner)
    return ""
