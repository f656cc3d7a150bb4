"""Images that an experiment needs besides its variants: instruments, server, load, limits."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from docker import DockerClient
from docker.errors import DockerException
from requests.exceptions import RequestException

from interlock.catalog import project, rendering
from interlock.catalog.project import cache_folder
from interlock.catalog.variants import Base
from interlock.engine.build.base import find_base
from interlock.engine.build.image import build_aside, content_hash, find_image, read_context
from interlock.engine.build.one_build import written_for
from interlock.engine.build.sources import MIRROR, mirror_folder, mirror_url
from interlock.engine.client import HASH_LABEL
from interlock.errors import InterlockError, StoreError
from interlock.results.experiments import BaseImage
from interlock.results.files import write_atomically
from interlock.untrusted import parse_json

# A file in the user's cache folder that lists the helpers that were built here, the newest first.
BUILT_HERE, MOST_HELPERS = "helpers.json", 200
# Where dockerfiles/instruments has its build context, what pth.sh fetches there, and a folder of it for that.
BUILD, FETCHED, OF_MIRROR = "/build", re.compile(rb"^fetch (\S+)", re.MULTILINE), "mirror"
# Held while a helper is looked for and built, so that no two threads build the same one.
BUILDING = threading.Lock()


def ensure_helper(client: DockerClient, root: Path, name: str, base: BaseImage) -> str:
    """Return the id of the image of dockerfiles/<name>, built if its content changed."""
    with BUILDING:
        there = _find_helper(client, root, name, base.chain_id)
        if there is not None:
            return there
        files = helper_context(root, name)
        own = _of_mirror(files)
        arguments = {"BASE": base.reference, MIRROR: f"file://{BUILD}/{OF_MIRROR}" if own else mirror_url()}
        labels = {HASH_LABEL: content_hash(files, base.chain_id)}
        dockerfile, given = written_for(client, files["Dockerfile"].decode(), arguments, labels)
        image_id = build_aside(
            client,
            {**files, **own, "Dockerfile": dockerfile},
            name,
            f"dockerfiles/{name}/Dockerfile",
            tag=helper_tag(name),
            **given,
        )
        known = [image_id, *_built_here()][:MOST_HELPERS]
        with suppress(StoreError):  # if nothing can be kept, it is built each time out of the engine's cache
            write_atomically(cache_folder() / BUILT_HERE, json.dumps(list(dict.fromkeys(known))))
        return image_id


def _of_mirror(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return what a helper fetches and the user's mirror has, if that is a folder, which no container sees."""
    names = [name.decode() for name in FETCHED.findall(files.get("pth.sh", b""))]
    folder = mirror_folder() if names else None
    there = [folder / name for name in names] if folder else []
    return {f"{OF_MIRROR}/{path.name}": path.read_bytes() for path in there if path.is_file()}


def begin_helpers(client: DockerClient, root: Path, names: Sequence[str], base: BaseImage) -> threading.Thread:
    """Begin to build helpers in the thread that is returned; `ensure_helper` waits for it, and raises what failed.

    The thread is a daemon, so that Ctrl-C ends the process; the engine cancels a build whose client is gone.
    """

    def work() -> None:
        for name in names:
            with suppress(InterlockError, DockerException, RequestException):
                ensure_helper(client, root, name, base)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def find_helper(client: DockerClient, root: Path, name: str, base: Base) -> str | None:
    """Return the id of the image of dockerfiles/<name> as it is now; None if it has to be built."""
    there = find_base(client, base)
    return None if there is None else _find_helper(client, root, name, there.chain_id)


def _find_helper(client: DockerClient, root: Path, name: str, base_chain_id: str) -> str | None:
    files = helper_context(root, name)
    image = find_image(client, helper_tag(name), content_hash(files, base_chain_id))
    return str(image.id) if image is not None and image.id in _built_here() else None


def _built_here() -> list[str]:
    """Return the ids of the helpers that this user has built.

    Tags and labels cannot be trusted: whoever makes an image chooses them. Its id is a sum of what is in it.
    """
    try:
        return [str(name) for name in parse_json((cache_folder() / BUILT_HERE).read_bytes())]
    except (OSError, ValueError, TypeError):
        return []


def helper_tag(name: str) -> str:
    """Return the tag of the image of dockerfiles/<name>."""
    return f"interlock/{name}:latest"


def helper_context(root: Path, name: str) -> dict[str, bytes]:
    """Return the build context of a helper, with what is generated in it as it would be rendered now."""
    folder = f"dockerfiles/{name}/"
    generated = rendering.helper_files(project.read_texts(root))
    rendered = {path.removeprefix(folder): text.encode() for path, text in generated.items() if path.startswith(folder)}
    return read_context(root / folder) | rendered
