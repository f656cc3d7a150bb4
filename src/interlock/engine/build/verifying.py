"""Builds an image once more from nothing and compares the layers bit by bit."""

from __future__ import annotations

import hashlib
import tarfile
import time
from contextlib import suppress
from dataclasses import replace

from docker import DockerClient
from docker.errors import APIError

from interlock.catalog.variants import SourceKind
from interlock.engine import symbols
from interlock.engine.build.builds import ImageBuilder, build
from interlock.engine.build.image import ImagePlan, build_image, id_of_tag
from interlock.engine.run.archives import image_archive
from interlock.errors import BuildError
from interlock.results.experiments import Built, State

AGAIN = "building it again from nothing"
# Every variant built from source has its interpreter here, in a layer of its own, which is the image's last.
INTERPRETER = "/usr/local"
NAMED_FILES, MOST_BYTES = 5, 4 * 2**30


def verify(builder: ImageBuilder, name: str) -> Built:
    """Build the variant twice and return its image if both builds gave the same interpreter layer, and its symbols.

    BuildError names the files that differ. A variant that is not built from source, or failed, is returned unverified.
    """
    client, variant, options, on_step = builder.client, builder.known.variants[name], builder.options, builder.on_step
    (built,) = build(builder, [name])
    if built.outcome.state is not State.OK:
        return built
    if variant.kind is not SourceKind.SOURCE:
        on_step(name, "not verified: not built from source")
        return built
    if built.training == "here":
        on_step(name, "not verified: it was trained here, and no two trainings count the same")
        return built
    again = replace(options, rebuild=str(time.time_ns()))
    on_step(name, AGAIN)
    plan = replace(builder, options=again).plan(variant.at(built.version))
    _compare(client, plan, built.image_id, build_image(client, plan, again, on_step), INTERPRETER)
    kept = id_of_tag(client, symbols.symbols_tag(plan.tag))
    if kept is None:
        on_step(name, "the symbols of the first build are not here: not compared")
    else:
        _compare(client, plan, kept, build_image(client, plan, again, on_step, symbols.STAGE), symbols.FOLDER)
    on_step(name, f"reproducible: {last_layer(client, built.image_id)}")
    return built


def _compare(client: DockerClient, plan: ImagePlan, first: str, other: str, path: str) -> None:
    """Raise BuildError unless two images have the same last layer, which is below a path; remove the second one."""
    try:
        if last_layer(client, first) != last_layer(client, other):
            raise _not_reproducible(client, plan.variant.name, first, other, path)
    finally:
        # An engine that finds the very same files again may answer with the very same image.
        if first != other:
            with suppress(APIError):
                client.images.remove(other)


def last_layer(client: DockerClient, image_id: str) -> str:
    """Return the digest of an image's last layer, uncompressed (the OCI image specification's diff id)."""
    return str(client.images.get(image_id).attrs["RootFS"]["Layers"][-1])


def _not_reproducible(client: DockerClient, name: str, first: str, other: str, path: str) -> BuildError:
    differing = sorted(_entries(client, first, path) ^ _entries(client, other, path))
    paths = list(dict.fromkeys(path for path, _ in differing))
    more = f" and {len(paths) - NAMED_FILES} more" if len(paths) > NAMED_FILES else ""
    return BuildError(
        file=f"variants/{name}.toml",
        found=f"two builds differ in {', '.join(paths[:NAMED_FILES]) or 'directories alone'}{more}",
        todo="Find what in these files depends on the time, the path or the order of the build (diffoscope helps).",
    )


def _entries(client: DockerClient, image_id: str, path: str) -> set[tuple[str, str]]:
    """Return each path of the layer with everything that a layer records about it."""
    with image_archive(client, image_id, path, MOST_BYTES, "verify") as tar:
        return {(entry.name, _described(tar, entry)) for entry in tar}


def _described(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> str:
    data = tar.extractfile(entry) if entry.isreg() else None
    content = hashlib.sha256(data.read()).hexdigest() if data else entry.linkname
    return f"{entry.mode:o} {entry.uid}:{entry.gid} {entry.mtime} {content}"
