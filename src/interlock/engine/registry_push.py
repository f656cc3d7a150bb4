"""Pushes built images: by the hash of their content first, then by their tag, joined with those of other platforms.

A tag is moved last, when all that it names is there: a push that fails leaves every tag as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from docker.errors import APIError, ImageNotFound

from interlock.engine.client import put_tag
from interlock.engine.finished import id_of
from interlock.engine.image import HASH_LABEL, Say
from interlock.engine.registry import known_digest, known_digests
from interlock.engine.registry_errors import explained
from interlock.engine.registry_http import Api
from interlock.engine.registry_stream import follow
from interlock.engine.registry_tags import (
    Entry,
    Remote,
    Tagged,
    entry_of,
    joined,
    platform_of,
    read_image,
    read_tag,
    spoken,
)
from interlock.errors import TagError
from interlock.model import Built
from interlock.registries import Registry

ELSEWHERE = "built from the same files elsewhere: `interlock pull {}` takes that image"


@dataclass(frozen=True)
class Pushed:
    """What came of one image: its name by digest in the registry (none if it is not there), and how it got there."""

    built: Built
    state: str
    note: str = ""


@dataclass(frozen=True)
class _Push:
    """One image on its way."""

    client: Any
    api: Api
    registry: Registry
    image: Any
    local_tag: str
    force: bool

    @property
    def name(self) -> str:
        return self.registry.name_of(self.local_tag)

    @property
    def repository(self) -> str:
        return self.registry.repository_of(self.local_tag)

    @property
    def platform(self) -> dict[str, str]:
        return platform_of(self.image.attrs)


def push(client: Any, built: Built, registry: Registry, say: Say, *, force: bool = False) -> Pushed:
    """A built variant's image, in the registry; RegistryError if it cannot get there or somebody moved its tag.

    `force` pushes over a tag that somebody moved, and over an image of the same content.
    """
    with explained(registry.host):
        image = client.images.get(built.tag)
        wanted = _Push(client, Api(client, registry), registry, image, built.tag, force)
        there = _read(wanted)
        same = _same_content(wanted, there)
        if same is not None and not force:
            if not same.ids & _ids(image):
                return Pushed(built, "there already", ELSEWHERE.format(built.variant))
            _remember(wanted)
            return Pushed(_as_known(client, built), "unchanged")
        _require_unmoved(wanted, there)
        hashed = registry.hashed(built.tag, built.content_hash)
        digest = _push_as(wanted, hashed, built.variant, say)
        others = there.others(wanted.platform) if there else []
        if others:
            _join(wanted, digest, others)
        else:
            _push_as(wanted, wanted.name, built.variant, say)
        _remember(wanted)
        _require_there(wanted, digest)
        platforms = ", ".join(spoken(one) for one in [wanted.platform, *(other["platform"] for other in others)])
        return Pushed(_as_known(client, built), "pushed", f"index of {platforms}" if others else "")


def push_base(client: Any, built: Built, registry: Registry, say: Say) -> str:
    """A base that debootstrap made, without which no other machine can tell that it needs to build nothing.

    Why the registry's is another one, if it is; else empty. What its own registry has is not copied.
    """
    if built.base is None or built.base.origin != "debootstrap":
        return ""
    with explained(registry.host):
        image = client.images.get(built.base.reference)
        tag = base_tag(built.base.reference, image.attrs["Architecture"])
        wanted = _Push(client, Api(client, registry), registry, image, tag, force=False)
        there = _read(wanted)
        if there is None:
            _push_as(wanted, wanted.name, "base", say)
            return ""
        (entry,) = there.entries
        if read_image(wanted.api, wanted.repository, entry).ids & _ids(image):
            return ""
    return (
        f"{wanted.name} is another machine's base: with `--cache-from` its images are found elsewhere and these are not"
    )


def base_tag(reference: str, architecture: str) -> str:
    """One for each architecture: debootstrap makes another for each."""
    return f"{reference}-{architecture}"


def _read(wanted: _Push) -> Tagged | None:
    return read_tag(wanted.api, wanted.repository, wanted.name.rpartition(":")[2])


def _ids(image: Any) -> set[str]:
    """Everything by which an engine knows an image."""
    return {image.id, *(digest.partition("@")[2] for digest in known_digests(image))}


def _same_content(wanted: _Push, there: Tagged | None) -> Remote | None:
    """What the tag is on this platform, if it was built from the very same content."""
    entry = there.entry_for(wanted.platform) if there else None
    if entry is None:
        return None
    found = read_image(wanted.api, wanted.repository, entry)
    return found if found.labels.get(HASH_LABEL) == wanted.image.labels.get(HASH_LABEL) else None


def _require_unmoved(wanted: _Push, there: Tagged | None) -> None:
    """TagError if the tag is no more what this engine pushed or pulled by that name, or never was an image of ours."""
    entry = there.entry_for(wanted.platform) if there else None
    if there is None or entry is None or wanted.force:
        return
    found = read_image(wanted.api, wanted.repository, entry)
    if HASH_LABEL not in found.labels:
        raise TagError(
            key=wanted.name,
            found="the registry has an image by this name that Interlock did not make",
            todo="Choose another namespace; `--force` pushes over it.",
        )
    try:
        last = wanted.client.images.get(wanted.name)
    except ImageNotFound:
        return
    if not ({there.digest} | found.ids) & _ids(last):
        before = ", ".join(one.partition("@")[2] for one in known_digests(last, wanted.name.rpartition(":")[0]))
        raise TagError(
            key=wanted.name,
            found=f"somebody moved the tag: it is {there.digest} now, and was {before or last.id} here",
            todo="See who did (its labels say the commit); `--force` pushes over it.",
        )


def _push_as(wanted: _Push, name: str, variant: str, say: Say) -> str:
    """The digest that the image has in the registry by this name."""
    repository, _, tag = name.rpartition(":")
    with _named(wanted.client, wanted.image, name):
        events = wanted.client.api.push(repository, tag, stream=True, decode=True)
        found = follow(events, wanted.registry.host, lambda step: say(variant, step))
    manifest = wanted.api.manifest(wanted.repository, found or tag)
    if manifest is None:
        raise TagError(
            key=name, found="the engine says it is pushed, and the registry has it not", todo="See the registry's log."
        )
    return manifest.digest


@contextmanager
def _named(client: Any, image: Any, name: str) -> Iterator[None]:
    """The image has this name for a while, as engines push by names; afterwards it is what it was before."""
    before = id_of(client, name)
    put_tag(image, name)
    try:
        yield
    finally:
        if before is None:
            client.images.remove(name)
        else:
            put_tag(client.images.get(before), name)


def _join(wanted: _Push, digest: str, others: list[Entry]) -> None:
    """The tag becomes an index of this image and those of other platforms."""
    manifest = wanted.api.manifest(wanted.repository, digest)
    if manifest is not None:
        index = joined([*others, entry_of(manifest, wanted.platform)])
        wanted.api.put(wanted.repository, wanted.name.rpartition(":")[2], index)


def _remember(wanted: _Push) -> None:
    """The engine knows the tag's digest once it has pulled it; no layer is fetched, they are all here.

    What it knew by that name before goes: a FROM line names what the tag is now.
    """
    replaced = id_of(wanted.client, wanted.name)
    repository, _, tag = wanted.name.rpartition(":")
    events = wanted.client.api.pull(repository, tag, stream=True, decode=True, platform=spoken(wanted.platform))
    follow(events, wanted.registry.host, lambda _: None)
    if replaced not in {None, wanted.image.id}:
        with suppress(APIError):  # something still uses it
            wanted.client.images.remove(replaced)
    now = wanted.client.images.get_registry_data(wanted.name).id
    for known in known_digests(wanted.client.images.get(wanted.name), repository):
        if known != f"{repository}@{now}":
            wanted.client.images.remove(known)


def _require_there(wanted: _Push, digest: str) -> None:
    """TagError if another push that ran at the same time left this image out of the tag."""
    there = _read(wanted)
    entry = there.entry_for(wanted.platform) if there else None
    if entry is None or entry["digest"] != digest:
        raise TagError(
            key=wanted.name, found="somebody pushed it at the same time", todo="Push again, one after the other."
        )


def _as_known(client: Any, built: Built) -> Built:
    return built.model_copy(update={"digest": known_digest(client.images.get(built.tag))})
