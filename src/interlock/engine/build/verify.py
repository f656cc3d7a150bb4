"""Is a build reproducible? A variant is built once more from nothing, and the layers are compared bit by bit."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
import time
from contextlib import suppress
from dataclasses import replace

from docker import DockerClient
from docker.errors import APIError

from interlock.catalog.catalog import Catalog
from interlock.catalog.variants import SourceKind
from interlock.engine.build.builds import ImageBuilder, build, make_jobs
from interlock.engine.build.image import build_image
from interlock.engine.protocol import BuildOptions, Say
from interlock.errors import BuildError
from interlock.results.experiments import Built, State

# Where every variant that is built from a source has its interpreter, in a layer of its own: the image's last.
INTERPRETER = "/usr/local"
NAMED_FILES = 5


def verify(client: DockerClient, catalog: Catalog, name: str, options: BuildOptions, say: Say) -> Built:
    """Build the variant twice and return its image if both builds gave the same interpreter layer.

    BuildError names the files that differ. What is not built from source, or failed, is returned unverified.
    """
    variant = catalog.variants[name]
    (built,) = build(ImageBuilder(client, catalog, options, say), [name])
    if built.outcome.state is not State.OK:
        return built
    if variant.kind is not SourceKind.SOURCE:
        say(name, "not verified: not built from source")
        return built
    again = replace(options, rebuild=str(time.time_ns()))
    say(name, "building it again from nothing")
    plan = ImageBuilder(client, catalog, again, say).plan(variant)
    image_id = build_image(client, plan, again, make_jobs(), say)
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


def interpreter_layer(client: DockerClient, image_id: str) -> str:
    """Return the digest of the uncompressed layer with the interpreter (the OCI image specification's diff id)."""
    return str(client.images.get(image_id).attrs["RootFS"]["Layers"][-1])


def _not_reproducible(client: DockerClient, name: str, one: str, other: str) -> BuildError:
    differing = sorted(_entries(client, one) ^ _entries(client, other))
    paths = list(dict.fromkeys(path for path, _ in differing))
    more = f" and {len(paths) - NAMED_FILES} more" if len(paths) > NAMED_FILES else ""
    return BuildError(
        file=f"variants/{name}.toml",
        found=f"two builds differ in {', '.join(paths[:NAMED_FILES]) or 'directories alone'}{more}",
        todo="Find what in these files depends on the time, the path or the order of the build (diffoscope helps).",
    )


def _entries(client: DockerClient, image_id: str) -> set[tuple[str, str]]:
    """Return each path of the interpreter with everything that a layer records about it."""
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
