"""Is a build reproducible? A variant is built once more from nothing, and the layers are compared bit by bit."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from docker.errors import APIError

from interlock.engine.build import build, make_jobs, make_plan
from interlock.engine.image import Options, Say, build_image
from interlock.errors import BuildError
from interlock.model import Built, Catalog, SourceKind, State

# Where every variant that is built from a source has its interpreter, in a layer of its own: the image's last.
INTERPRETER = "/usr/local"
NAMED_FILES = 5


def verify(client: Any, catalog: Catalog, name: str, options: Options, say: Say) -> Built:
    """The variant's image, once a second build from nothing has given the very same interpreter layer.

    BuildError names the files that differ. What is not built from a source, or could not be, is returned as it is.
    """
    variant = catalog.variants[name]
    (built,) = build(client, catalog, [name], options, say)
    if variant.kind is not SourceKind.SOURCE or built.outcome.state is not State.OK:
        return built
    again = replace(options, rebuild=str(time.time_ns()))
    say(name, "building it again from nothing")
    image_id = build_image(client, make_plan(client, catalog, variant, again, say), again, make_jobs(), say)
    try:
        if interpreter_layer(client, image_id) != interpreter_layer(client, built.image_id):
            raise _not_reproducible(client, name, built.image_id, image_id)
    finally:
        # An engine that finds the very same files again may answer with the very same image.
        if image_id != built.image_id:
            with suppress(APIError):
                client.images.remove(image_id)
    say(name, f"reproducible: {interpreter_layer(client, built.image_id)}")
    return built


def interpreter_layer(client: Any, image_id: str) -> str:
    """The digest of the uncompressed layer that holds the interpreter (the OCI image specification's diff id)."""
    return str(client.images.get(image_id).attrs["RootFS"]["Layers"][-1])


def _not_reproducible(client: Any, name: str, one: str, other: str) -> BuildError:
    differing = sorted(_entries(client, one) ^ _entries(client, other))
    paths = list(dict.fromkeys(path for path, _ in differing))
    more = f" and {len(paths) - NAMED_FILES} more" if len(paths) > NAMED_FILES else ""
    return BuildError(
        file=f"variants/{name}.toml",
        found=f"two builds differ in {', '.join(paths[:NAMED_FILES]) or 'directories alone'}{more}",
        todo="Find out what in them depends on the time, the place or the order of the build.",
    )


def _entries(client: Any, image_id: str) -> set[tuple[str, str]]:
    """Each path of the interpreter with all that a layer keeps of it."""
    container = client.containers.create(image_id)
    try:
        stream, _ = container.get_archive(INTERPRETER)
        with tempfile.TemporaryFile() as file:
            for chunk in stream:
                file.write(chunk)
            file.seek(0)
            with tarfile.open(fileobj=file) as tar:
                return {(entry.name, _described(tar, entry)) for entry in tar}
    finally:
        container.remove(force=True)


def _described(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> str:
    data = tar.extractfile(entry) if entry.isreg() else None
    content = hashlib.sha256(data.read()).hexdigest() if data else entry.linkname
    return f"{entry.mode:o} {entry.uid}:{entry.gid} {entry.mtime} {content}"
