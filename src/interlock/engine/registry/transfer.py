"""Push built images to a registry, and pull what a team built.

An image is pushed by the hash of its content first, then by its tag, joined with images for other platforms. A tag
moves last, when everything it names is there, so a push that fails leaves every tag as it was. A pulled image is
proved as if it had been built here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from docker import DockerClient
from docker.errors import APIError, ImageNotFound, NotFound
from docker.models.images import Image
from pydantic import BaseModel, ValidationError

from interlock.catalog.types import Count
from interlock.catalog.variants import Base
from interlock.engine.build.base import LABEL, find_base, local_tag
from interlock.engine.build.image import ImagePlan, ask_facts, describe_image, id_of_tag, require_proof, take_tag
from interlock.engine.client import HASH_LABEL, engine_words, put_tag
from interlock.engine.protocol import OnStep
from interlock.engine.registry import signatures
from interlock.engine.registry.api import (
    Api,
    Entry,
    RemoteImage,
    Tagged,
    entry_of,
    index_of,
    platform_of,
    platform_text,
    read_image,
    read_tag,
    registry_digest,
)
from interlock.engine.registry.keys import PublicKey, SigningKey
from interlock.engine.registry.names import Registry, known_digest, known_digests
from interlock.engine.registry.refusals import explain, registry_errors
from interlock.engine.registry.signatures import ImageByDigest, is_signed, require_signed
from interlock.errors import BuildError, TagError
from interlock.results.experiments import BaseImage, Built

# Steps of the engine that transfer bytes, and how they are shown.
MOVES = {"Pushing": "pushing", "Downloading": "pulling"}
DIGEST = re.compile(r"[Dd]igest: (sha256:[0-9a-f]{64})")


def follow_transfer(events: Iterable[Mapping[str, Any]], host: str, on_step: Callable[[str], None]) -> str:
    """Follow the engine's events to their end and return the digest that it names; empty if it names none.

    `on_step` is called with the megabytes so far. Raises RegistryError for an error among the events.
    """
    digest = ""
    moved: dict[str, tuple[int, int]] = {}
    for event in events:
        if "error" in event:
            raise explain(host, str(event["error"]))
        status = str(event.get("status", ""))
        try:
            detail = TransferProgress.model_validate(event.get("progressDetail") or {})
        except ValidationError:
            detail = TransferProgress()
        if status in MOVES and detail.total:
            moved[str(event.get("id"))] = (min(detail.current, detail.total), detail.total)
            on_step(f"{MOVES[status]} {_amount(moved)}")
        digest = next(iter(DIGEST.findall(f"{status} digest: {_digest(event)}")), digest)
    return digest


class TransferProgress(BaseModel):
    """How many bytes of a layer are there, of how many; engines leave both out where nothing is transferred."""

    current: Count = 0
    total: Count = 0


def _digest(event: Mapping[str, Any]) -> str:
    found = event.get("aux")
    return str(found.get("Digest", "")) if isinstance(found, Mapping) else ""


def _amount(moved: Mapping[str, tuple[int, int]]) -> str:
    done, total = (sum(one[part] for one in moved.values()) / 1e6 for part in (0, 1))
    return f"{done:.0f} of {total:.0f} MB"


@dataclass(frozen=True)
class Signing:
    """The key that signs what is pushed, and what is stated of an image by its name and digest in the registry."""

    key: SigningKey
    statement: Callable[[str, str], Mapping[str, Any]]


@dataclass(frozen=True)
class PushOptions:
    """How to push: `force` overwrites a tag that somebody else moved, and an image of the same content."""

    force: bool = False
    signing: Signing | None = None


AS_USUAL = PushOptions()
UNSIGNED = "{} in it is not signed with this key, so the index is not"
ELSEWHERE = "built from the same files elsewhere: `interlock pull {}` takes that image"


@dataclass(frozen=True)
class Pushed:
    """The result of pushing one image: the image with its digest in the registry, a state, and a note."""

    built: Built
    state: str
    note: str = ""


@dataclass(frozen=True)
class _Push:
    """An image to push, and where to."""

    client: DockerClient
    api: Api
    registry: Registry
    image: Image
    local_tag: str
    options: PushOptions

    @property
    def name(self) -> str:
        return self.registry.name_of(self.local_tag)

    @property
    def repository(self) -> str:
        return self.registry.repository_of(self.local_tag)

    @property
    def platform(self) -> dict[str, str]:
        return platform_of(self.image.attrs)

    def place(self, digest: str) -> ImageByDigest:
        return ImageByDigest(self.api, self.registry.host, self.repository, digest)


def push(
    client: DockerClient, built: Built, registry: Registry, on_step: OnStep, options: PushOptions = AS_USUAL
) -> Pushed:
    """Push a built variant's image, and sign it before its tag moves.

    Raises RegistryError if the
    registry refuses or fails, TagError if somebody else moved the tag.
    """
    with registry_errors(registry.host):
        image = client.images.get(built.tag)
        wanted = _Push(client, Api(client, registry), registry, image, built.tag, options)
        there = _read(wanted)
        same = _same_content(wanted, there)
        if there is not None and same is not None and not options.force:
            if not same.ids & _ids(image):
                return Pushed(built, "there already", ELSEWHERE.format(built.variant))
            note = _sign_again(wanted, there)
            _remember(wanted)
            return Pushed(_as_known(client, built), "unchanged", note)
        _require_unmoved(wanted, there)
        hashed = registry.hashed(built.tag, built.content_hash)
        digest = _push_as(wanted, hashed, built.variant, on_step)
        _sign(wanted, digest)
        others = there.others(wanted.platform) if there else []
        unsigned = ""
        if others:
            unsigned = _join(wanted, digest, others)
        else:
            _push_as(wanted, wanted.name, built.variant, on_step)
        _remember(wanted)
        _require_there(wanted, digest)
        platforms = ", ".join(platform_text(one) for one in [wanted.platform, *(other["platform"] for other in others)])
        notes = [f"index of {platforms}" if others else "", unsigned]
        return Pushed(_as_known(client, built), "pushed", "; ".join(filter(None, notes)))


def _sign(wanted: _Push, digest: str) -> None:
    signing = wanted.options.signing
    if signing is not None:
        place = wanted.place(digest)
        signatures.attest(place, signing.statement(place.name, digest), signing.key)
        signatures.sign(place, signing.key)


def _sign_again(wanted: _Push, there: Tagged) -> str:
    """Sign what was pushed before; the note of an index that is not signed."""
    entry = there.entry_for(wanted.platform)
    if wanted.options.signing is None or entry is None:
        return ""
    _sign(wanted, entry["digest"])
    return "" if entry["digest"] == there.digest else _sign_index(wanted, there.digest, there.others(wanted.platform))


def _sign_index(wanted: _Push, digest: str, others: list[Entry]) -> str:
    """Sign an index if the same key has signed all in it; the note of one that is not signed.

    Who signs an index vouches for every image in it.
    """
    signing = wanted.options.signing
    if signing is None:
        return ""
    for other in others:
        if not is_signed(wanted.place(other["digest"]), signing.key.public):
            return UNSIGNED.format(platform_text(other.get("platform") or {}) or other["digest"])
    signatures.sign(wanted.place(digest), signing.key)
    return ""


def push_base(
    client: DockerClient, built: Built, registry: Registry, on_step: OnStep, key: SigningKey | None = None
) -> str:
    """Push a base that mmdebstrap made: without it no other machine can tell that it needs to build nothing.

    Why the registry's is another one, if it is; else empty. What its own registry has is not copied.
    """
    if built.base is None or built.base.origin != "mmdebstrap":
        return ""
    with registry_errors(registry.host):
        image = client.images.get(built.base.reference)
        tag = base_tag(built.base.reference, image.attrs["Architecture"])
        wanted = _Push(client, Api(client, registry), registry, image, tag, AS_USUAL)
        there = _read(wanted)
        if there is None:
            digest = _push_as(wanted, wanted.name, "base", on_step)
        elif read_image(wanted.api, wanted.repository, there.entries[0]).ids & _ids(image):
            digest = there.digest
        else:
            digest = ""
        if digest and key is not None:
            signatures.sign(wanted.place(digest), key)
        if digest:
            return ""
    return (
        f"{wanted.name} is another machine's base: with `--cache-from` its images are found elsewhere and these are not"
    )


def base_tag(reference: str, architecture: str) -> str:
    """Return the tag for one architecture: mmdebstrap makes another base for each."""
    return f"{reference}-{architecture}"


def _read(wanted: _Push) -> Tagged | None:
    return read_tag(wanted.api, wanted.repository, wanted.name.rpartition(":")[2])


def _ids(image: Image) -> set[str]:
    """Return every id and digest by which an engine knows an image."""
    return {image.id, *(digest.partition("@")[2] for digest in known_digests(image))}


def _same_content(wanted: _Push, there: Tagged | None) -> RemoteImage | None:
    """Return the registry's image for this platform if it has the same content hash."""
    entry = there.entry_for(wanted.platform) if there else None
    if entry is None:
        return None
    found = read_image(wanted.api, wanted.repository, entry)
    return found if found.labels.get(HASH_LABEL) == wanted.image.labels.get(HASH_LABEL) else None


def _require_unmoved(wanted: _Push, there: Tagged | None) -> None:
    """Raise TagError if the tag is no longer what this engine pushed or pulled, or is not an image of Interlock's."""
    entry = there.entry_for(wanted.platform) if there else None
    if there is None or entry is None or wanted.options.force:
        return
    found = read_image(wanted.api, wanted.repository, entry)
    if HASH_LABEL not in found.labels:
        raise TagError(
            key=wanted.name,
            found="the registry has an image with this name that Interlock did not build",
            todo="Use another namespace, or overwrite it with --force.",
        )
    try:
        last = wanted.client.images.get(wanted.name)
    except ImageNotFound:
        return
    if not ({there.digest} | found.ids) & _ids(last):
        before = ", ".join(one.partition("@")[2] for one in known_digests(last, wanted.name.rpartition(":")[0]))
        raise TagError(
            key=wanted.name,
            found=f"the tag has moved: it is {there.digest} now, and this engine last saw {before or last.id}",
            todo="Pull it with `interlock pull`, or overwrite it with --force.",
        )


def _push_as(wanted: _Push, name: str, variant: str, on_step: OnStep) -> str:
    """Push the image under a name and return its digest in the registry."""
    repository, _, tag = name.rpartition(":")
    with _named(wanted.client, wanted.image, name):
        events = wanted.client.api.push(repository, tag, stream=True, decode=True)
        found = follow_transfer(events, wanted.registry.host, lambda step: on_step(variant, step))
    manifest = wanted.api.manifest(wanted.repository, found or tag)
    if manifest is None:
        raise TagError(
            key=name,
            found="the engine reports success but the registry does not have it",
            todo="Read the registry's log.",
        )
    return manifest.digest


@contextmanager
def _named(client: DockerClient, image: Image, name: str) -> Iterator[None]:
    """Give the image a name within the block, because engines push by name; restore the name's image afterwards."""
    before = id_of_tag(client, name)
    put_tag(image, name)
    try:
        yield
    finally:
        if before is None:
            client.images.remove(name)
        else:
            put_tag(client.images.get(before), name)


def _join(wanted: _Push, digest: str, others: list[Entry]) -> str:
    """Make the tag an index of this image and those of other platforms; the note of one that is not signed."""
    manifest = wanted.api.manifest(wanted.repository, digest)
    if manifest is None:
        return ""
    index = index_of([*others, entry_of(manifest, wanted.platform)])
    note = _sign_index(wanted, index.digest, others)
    wanted.api.put(wanted.repository, wanted.name.rpartition(":")[2], index)
    return note


def _remember(wanted: _Push) -> None:
    """Pull the tag so that the engine records its digest; no layer is transferred, since all are present.

    Digests recorded for that name before are removed: a FROM line must name what the tag is now.
    """
    replaced = id_of_tag(wanted.client, wanted.name)
    repository, _, tag = wanted.name.rpartition(":")
    events = wanted.client.api.pull(repository, tag, stream=True, decode=True, platform=platform_text(wanted.platform))
    follow_transfer(events, wanted.registry.host, lambda _: None)
    if replaced not in {None, wanted.image.id}:
        with suppress(APIError):  # something still uses it
            wanted.client.images.remove(replaced)
    now = wanted.client.images.get_registry_data(wanted.name).id
    for known in known_digests(wanted.client.images.get(wanted.name), repository):
        if known != f"{repository}@{now}":
            wanted.client.images.remove(known)


def _require_there(wanted: _Push, digest: str) -> None:
    """Raise TagError if a concurrent push left this image out of the tag."""
    there = _read(wanted)
    entry = there.entry_for(wanted.platform) if there else None
    if entry is None or entry["digest"] != digest:
        raise TagError(
            key=wanted.name,
            found="another machine pushed the tag at the same time",
            todo="Push again, one machine after the other.",
        )


def _as_known(client: DockerClient, built: Built) -> Built:
    return built.model_copy(update={"digest": known_digest(client.images.get(built.tag))})


# Names of processors in an engine's facts, and in images.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def pull(client: DockerClient, plan: ImagePlan, registry: Registry, on_step: OnStep) -> Built | None:
    """Pull the image of a plan and tag it as if it had been built here; return None if the registry has none.

    Raises RegistryError if the registry does not answer or refuses, SignatureError, before anything is pulled, if the
    registry's key has not signed the image, and BuildError, before anything is tagged, if it is not what its name
    promises.
    """
    started = time.monotonic()
    hashed = registry.hashed(plan.tag, plan.content_hash)
    image = _fetch(client, hashed, registry, plan.variant.name, on_step)
    if image is None:
        return None
    try:
        _require_content(plan, image, hashed)
        on_step(plan.variant.name, "proving")
        require_proof(plan.variant, ask_facts(client, image.id))
        # The engine keeps a digest as long as it has a tag of the same repository.
        take_tag(client, image.id, registry.name_of(plan.tag))
        image = take_tag(client, image.id, plan.tag)
    finally:
        client.images.remove(hashed)
    return describe_image(plan, image, time.monotonic() - started, reused=True, pulled_from=registry.name)


def why_missing(client: DockerClient, plan: ImagePlan, registry: Registry) -> TagError | None:
    """Return the error for a tag that has other content than the plan; None if the registry has no such tag."""
    name = registry.name_of(plan.tag)
    now = registry_digest(client, name)
    if now is None:
        return None
    before = [one.partition("@")[2] for one in _known_here(client, name)]
    moved = f"; this engine last saw {before[0]}, so the tag has moved" if before and now not in before else ""
    return TagError(
        key=plan.variant.name,
        found=f"{name} is {now}, built from other files or on another base than here{moved}",
        todo=f"Check out the commit that its labels name, or build it: `interlock build {plan.variant.name}`.",
    )


def pull_base(client: DockerClient, base: Base, registry: Registry, on_step: OnStep) -> BaseImage | None:
    """Return this engine's base, or pull the team's; None if neither exists."""
    found = find_base(client, base)
    if found is not None:
        return found
    machine = client.info()["Architecture"]
    name = registry.name_of(base_tag(local_tag(base), ARCHITECTURES.get(machine, machine)))
    image = _fetch(client, name, registry, "base", on_step)
    if image is None:
        return None
    try:
        if image.labels.get(LABEL) == base.reference:
            put_tag(image, local_tag(base))
    finally:
        client.images.remove(name)
    return find_base(client, base)


def _fetch(client: DockerClient, name: str, registry: Registry, subject: str, on_step: OnStep) -> Any:
    """Pull an image by this name; None if the registry has none. With a key the very digest that the key has signed."""
    repository, _, tag = name.rpartition(":")
    with registry_errors(registry.host):
        reference = tag if registry.key is None else _signed_digest(client, repository, tag, registry, registry.key)
        if reference is None:
            return None
        try:
            events = client.api.pull(repository, reference, stream=True, decode=True)
            follow_transfer(events, registry.host, lambda step: on_step(subject, step))
        except NotFound as error:
            if "denied" in engine_words(error):
                raise
            return None
        if reference != tag:
            put_tag(client.images.get(f"{repository}@{reference}"), name)
        return client.images.get(name)


def _signed_digest(client: DockerClient, repository: str, tag: str, registry: Registry, key: PublicKey) -> str | None:
    """Return the digest of a tag if this key has signed it, else raise SignatureError; None if there is no such tag.

    What is pulled by the digest is what was checked, even if the tag moves.
    """
    api, path = Api(client, registry), f"{registry.namespace}/{repository.rpartition('/')[2]}"
    manifest = api.manifest(path, tag)
    if manifest is None:
        return None
    require_signed(ImageByDigest(api, registry.host, path, manifest.digest), key)
    return manifest.digest


def _require_content(plan: ImagePlan, image: Image, hashed: str) -> None:
    """Raise BuildError unless the image's labels have the plan's content hash, variant and profile."""
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
                found=f"the registry's image has label {label} '{found}', expected '{value}': the tag has moved",
                todo="Push the image again with --force from the machine that built it.",
            )


def _known_here(client: DockerClient, name: str) -> list[str]:
    try:
        return known_digests(client.images.get(name), name.rpartition(":")[0])
    except ImageNotFound:
        return []
