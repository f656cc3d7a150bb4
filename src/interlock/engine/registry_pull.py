"""Pulls what a team built: images by the hash of their content, proved as if they had been built here."""

from __future__ import annotations

import time
from typing import Any

from docker.errors import ImageNotFound, NotFound

from interlock.engine.base import LABEL, find_base, local_tag, short
from interlock.engine.client import put_tag
from interlock.engine.finished import describe, take_tag
from interlock.engine.image import HASH_LABEL, Plan, Say, ask_facts
from interlock.engine.proof import require_proof
from interlock.engine.registry import known_digests, registry_digest
from interlock.engine.registry_errors import explained
from interlock.engine.registry_push import base_tag
from interlock.engine.registry_stream import follow
from interlock.errors import BuildError, TagError
from interlock.model import Base, BaseImage, Built
from interlock.registries import Registry

# What engines call the processors of their machine, and what images call them.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def pull(client: Any, plan: Plan, registry: Registry, say: Say) -> Built | None:
    """The image of this very plan, tagged as if it had been built here; None if the registry has none.

    RegistryError if the registry does not answer or refuses; BuildError if what it has is not what its name promises,
    and then nothing is tagged.
    """
    started = time.monotonic()
    hashed = registry.hashed(plan.tag, plan.content_hash)
    image = _fetch(client, hashed, registry, plan.variant.name, say)
    if image is None:
        return None
    try:
        _require_content(plan, image, hashed)
        say(plan.variant.name, "proving")
        require_proof(plan.variant, ask_facts(client, image.id))
        # The engine keeps a digest as long as it has a tag of the same repository.
        take_tag(client, image.id, registry.name_of(plan.tag))
        image = take_tag(client, image.id, plan.tag)
    finally:
        client.images.remove(hashed)
    return describe(plan, image, time.monotonic() - started, reused=True, pulled_from=registry.name)


def why_missing(client: Any, plan: Plan, registry: Registry) -> TagError | None:
    """What a registry has by the variant's tag instead of this content; None if it has nothing."""
    name = registry.name_of(plan.tag)
    now = registry_digest(client, name)
    if now is None:
        return None
    before = [one.partition("@")[2] for one in _known_here(client, name)]
    moved = f", and was {before[0]} here: somebody moved it" if before and now not in before else ""
    return TagError(
        key=plan.variant.name,
        found=f"{name} is {now} now, made from other files or on another base than this project and engine have{moved}",
        todo=f"Take the project's version that it was built from (its labels say the commit), or `interlock build "
        f"{plan.variant.name}`.",
    )


def pull_base(client: Any, base: Base, registry: Registry, say: Say) -> BaseImage | None:
    """The team's equal of a base, unless this engine has one of its own; None if neither has."""
    found = find_base(client, base)
    if found is not None:
        return found
    machine = client.info()["Architecture"]
    name = registry.name_of(base_tag(local_tag(base), ARCHITECTURES.get(machine, machine)))
    image = _fetch(client, name, registry, "base", say)
    if image is None:
        return None
    try:
        if image.labels.get(LABEL) == base.reference:
            put_tag(image, local_tag(base))
    finally:
        client.images.remove(name)
    return find_base(client, base)


def _fetch(client: Any, name: str, registry: Registry, subject: str, say: Say) -> Any:
    repository, _, tag = name.rpartition(":")
    with explained(registry.host):
        try:
            events = client.api.pull(repository, tag, stream=True, decode=True)
            follow(events, registry.host, lambda step: say(subject, step))
        except NotFound as error:
            if "denied" in short(error):
                raise
            return None
        return client.images.get(name)


def _require_content(plan: Plan, image: Any, hashed: str) -> None:
    """The name is a promise that the labels must keep."""
    expected = {
        HASH_LABEL: plan.content_hash,
        "interlock.variant": plan.variant.name,
        "interlock.profile": plan.profile,
    }
    for label, value in expected.items():
        found = image.labels.get(label, "")
        if found != value:
            raise BuildError(
                key=hashed,
                found=f"the registry's image has {label} '{found}', not '{value}': somebody moved the tag",
                todo="Push the image again with --force from where it was built.",
            )


def _known_here(client: Any, name: str) -> list[str]:
    try:
        return known_digests(client.images.get(name), name.rpartition(":")[0])
    except ImageNotFound:
        return []
