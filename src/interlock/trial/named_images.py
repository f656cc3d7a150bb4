"""Asks registries and this engine for the digests of the images that a user's files name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from interlock.catalog.variants import LOCAL_NAME
from interlock.engine.docker import DockerEngine, connect
from interlock.engine.names import find_tagged
from interlock.engine.registry import registry_digest
from interlock.errors import EngineError, RegistryError
from interlock.results.experiments import Built, Outcome, State
from interlock.swap.checks import name_with_tag
from interlock.swap.image_names import parse_name


def digests_now(images: Sequence[str], warn: Callable[[str], None]) -> dict[str, str | None]:
    """Return the present digest of each name and tag: its registry's, else this engine's.

    RegistryError if a registry does not answer and this engine does not have what the lines are pinned to.
    """
    names = dict.fromkeys(map(name_with_tag, images))
    pins = {parse_name(image).digest for image in images}
    try:
        containers = connect()
    except EngineError:
        if any(pins):
            raise
        warn("no engine answers: only names and tags were compared, not digests")
        return dict.fromkeys(names)
    return {name: _digest_now(containers, name, pins, warn) for name in names}


def _digest_now(
    containers: DockerEngine, name: str, pins: Collection[str | None], warn: Callable[[str], None]
) -> str | None:
    named = Built(variant="", outcome=Outcome(state=State.OK), tag=name)
    here = find_tagged(containers.client, named)
    digest = here.digest.partition("@")[2] if here and here.digest else None
    if not parse_name(name).registry or parse_name(name).untagged == LOCAL_NAME:
        return digest
    try:
        return registry_digest(containers.client, name) or digest
    except RegistryError as error:
        if digest is None or digest not in pins:
            raise
        warn(f"{error.found}: {name} was compared with this engine's alone")
        return digest
