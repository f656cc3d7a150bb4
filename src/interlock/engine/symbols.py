"""Names of functions that an image does not export: each build keeps them in an image of their own, found by a label.

Its files are named by build id, below /usr/lib/debug/.build-id, where debuggers look for them. This is a module of its
own because builds make such an image and profiled cells read it, and neither knows of the other.
"""

from __future__ import annotations

from docker import DockerClient
from docker.models.images import Image

from interlock.engine.client import HASH_LABEL
from interlock.engine.run.leftovers import temporary_container
from interlock.untrusted import MOST_RECORD, joined

# The stage of a variant's Dockerfile, and the label that has the content hash of the image whose symbols these are.
STAGE, LABEL = "symbols", "interlock.symbols"
FOLDER = "/usr/lib/debug"


def symbols_tag(image_tag: str) -> str:
    """Return the tag of the image with the symbols of what is built under `image_tag`."""
    return f"localhost/interlock/symbols:{image_tag.rpartition(':')[2]}"


def symbols_of(client: DockerClient, image: Image, owner: str) -> bytes | None:
    """Return the symbols of an image, or of what was built upon it, as a tar whose paths begin with debug/.

    None if they are not here: an image that was pulled, or is none of ours, has none.
    """
    content_hash = image.labels.get(HASH_LABEL)
    carriers = client.images.list(filters={"label": f"{LABEL}={content_hash}"}) if content_hash else []
    if not carriers:
        return None
    # It is never started: there is nothing in it to start.
    with temporary_container(client, carriers[0].id, ["-"], owner, network_mode="none") as carrier:
        stream, _ = carrier.get_archive(FOLDER)
        return joined(stream, MOST_RECORD)
