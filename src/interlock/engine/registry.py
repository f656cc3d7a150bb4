"""Push built images to a registry, and pull what a team built: with the engine's own push and pull, and its logins.

An image is pushed by the hash of its content first and by its tag last. A pulled image is proved as if it had been
built here. What checks signatures is cosign.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from docker import DockerClient
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.images import Image
from requests.exceptions import RequestException
from urllib3.exceptions import ReadTimeoutError

from interlock.catalog.variants import Base
from interlock.engine.build.base import LABEL, find_base, local_tag
from interlock.engine.build.image import (
    ImagePlan,
    ask_facts,
    describe_image,
    id_of_tag,
    remove_replaced,
    require_proof,
    take_tag,
)
from interlock.engine.client import HASH_LABEL, engine_words, name_of, put_tag
from interlock.engine.ended import run_here
from interlock.engine.names import Registry, image_by_tag, known_digests
from interlock.engine.protocol import OnStep
from interlock.errors import BuildError, RegistryError, SignatureError, TagError, UsageError, last_line
from interlock.results.experiments import BaseImage, Built, EngineName

# Steps of the engine that transfer bytes, and how they are shown.
MOVES = {"Pushing": "pushing", "Downloading": "pulling"}
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# The engine's line after a pull, and after a push, there behind the tag. Podman gives the digest in no other way.
SAYS_DIGEST = re.compile(r"(\S+: )?digest: ", re.IGNORECASE)
SKOPEO_S = 60
NO_LOGIN = re.compile(r"no basic auth|unauthorized|denied|authentication required|credential", re.IGNORECASE)
# Names of processors in an engine's facts, and in images.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Moved(NamedTuple):
    """An image that was pushed or pulled, with its digest in the registry; how that ended, and a note."""

    built: Built
    state: str
    note: str = ""


def push(client: DockerClient, built: Built, registry: Registry, on_step: OnStep, *, force: bool = False) -> Moved:
    """Push a built variant's image; `force` pushes what the registry has already, and over a tag of another engine.

    RegistryError if the engine or the registry refuses; TagError if the tag is another image than this engine knows.
    """
    name, hashed = registry.name_of(built.tag), registry.hashed(built.tag, built.content_hash)
    image = client.images.get(built.tag)
    there = None if force else registry_digest(client, name)
    if there in _digests(client, built.tag, name):
        return Moved(_with_digest(built, name, str(there)), "unchanged")
    if there is not None and there == registry_digest(client, hashed):
        note = f"built from the same files elsewhere: `interlock pull {built.variant}` takes that image"
        return Moved(built, "there already", note)
    if there is not None and there not in _digests(client, name, name):
        raise TagError(
            key=name,
            found=f"the registry has {there} by this name, which this engine neither pushed nor pulled",
            todo="Find out who pushed it; --force pushes over it.",
        )
    digest = _push(client, image, [hashed, name], registry, lambda step: on_step(built.variant, step))
    _untag(client, hashed)
    return Moved(_with_digest(built, name, digest), "pushed")


def push_untagged(client: DockerClient, built: Built, registry: Registry, on_step: OnStep) -> Moved:
    """Push a built variant's image by its content hash alone; its tags come later.

    TagError if the registry has another image of this content, which nobody has checked here.
    """
    name, hashed = registry.name_of(built.tag), registry.hashed(built.tag, built.content_hash)
    there = registry_digest(client, hashed)
    if there is not None and there not in _digests(client, built.tag, name):
        todo = f"Take that image: `interlock pull {built.variant} --registry {registry.name}`."
        raise TagError(key=hashed, found="it was built from the same files elsewhere", todo=todo)
    image = client.images.get(built.tag)
    digest = there or _push(client, image, [hashed], registry, lambda step: on_step(built.variant, step))
    put_tag(image, name)  # the engine keeps a digest as long as it has a tag of the same repository
    _untag(client, hashed)
    return Moved(_with_digest(built, name, digest), "unchanged" if there else "pushed")


def push_base(client: DockerClient, built: Built, registry: Registry, on_step: OnStep) -> str:
    """Push a base that mmdebstrap made, because other machines would make another one; return a line to show.

    Empty for a base that its own registry has.
    """
    if built.base is None or built.base.origin != "mmdebstrap":
        return ""
    image = client.images.get(built.base.reference)
    name = registry.name_of(_base_tag(built.base.reference, image.attrs["Architecture"]))
    digest = registry_digest(client, name)
    if digest is None:
        digest = _push(client, image, [name], registry, lambda step: on_step("base", step))
    elif digest not in _digests(client, built.base.reference, name):
        return f"note    {name} is another machine's base: with `--cache-from` these images are not found elsewhere"
    return f"base    {name.rpartition(':')[0]}@{digest}"


def _base_tag(reference: str, architecture: str) -> str:
    """Return the tag for one architecture: mmdebstrap makes another base for each."""
    return f"{reference}-{architecture}"


def _with_digest(built: Built, name: str, digest: str) -> Built:
    return built.model_copy(update={"digest": f"{name.rpartition(':')[0]}@{digest}"})


def _untag(client: DockerClient, name: str) -> None:
    with suppress(ImageNotFound):  # another push or pull of it was quicker
        client.images.remove(name)


def _digests(client: DockerClient, tag: str, name: str) -> list[str]:
    """Return the digests in the repository of `name` by which this engine knows the image with a tag."""
    image = image_by_tag(client, tag)
    digests = known_digests(image, name.rpartition(":")[0]) if image else []
    return [digest.partition("@")[2] for digest in digests]


def _push(
    client: DockerClient, image: Image, names: Sequence[str], registry: Registry, on_step: Callable[[str], None]
) -> str:
    """Push an image by one name after the other and return its digest. It keeps the names, unless a push fails."""
    before = {name: id_of_tag(client, name) for name in names}
    digest = ""
    try:
        for name in names:
            put_tag(image, name)
            repository, _, tag = name.rpartition(":")
            with registry_errors(registry.host):
                events = client.api.push(repository, tag, stream=True, decode=True)
                digest = _follow(events, registry.host, on_step)
        # With containerd's store Docker names no digest.
        digest = digest or registry_digest(client, names[-1]) or ""
        if not digest:
            raise RegistryError(
                key=names[-1], found="the registry has no digest of what was pushed", todo="Push again."
            )
    except BaseException:
        for name, had in before.items():
            if had is not None:
                put_tag(client.images.get(had), name)
            else:
                _untag(client, name)
        raise
    for replaced in {*before.values()} - {None, image.id}:
        with suppress(APIError):
            if not client.images.get(replaced).tags:
                remove_replaced(client, str(replaced))
    return digest


def _follow(events: Iterable[Mapping[str, Any]], host: str, on_step: Callable[[str], None]) -> str:
    """Follow the engine's events to their end and return the digest that it names; empty if it names none.

    `on_step` is called with the megabytes so far. Raises RegistryError for an error among the events.
    """
    digest = ""
    moved: dict[str, tuple[float, float]] = {}
    for event in events:
        if "error" in event:
            raise _refused(host, last_line(str(event["error"])))
        status, detail = str(event.get("status", "")), event.get("progressDetail") or {}
        if status in MOVES and detail.get("total"):
            moved[str(event.get("id"))] = (detail.get("current", 0) / 1e6, detail["total"] / 1e6)
            done, total = map(sum, zip(*moved.values(), strict=True))
            on_step(f"{MOVES[status]} {done:.0f} of {total:.0f} MB")
        said = str((event.get("aux") or {}).get("Digest", "")) or (status if SAYS_DIGEST.match(status) else "")
        digest = next(iter(DIGEST.findall(said)), digest)
    return digest


@contextmanager
def registry_errors(host: str) -> Iterator[None]:
    """Raise RegistryError for every failure of the engine or the registry within the block."""
    try:
        yield
    except (DockerException, RequestException, ReadTimeoutError) as error:  # the last one for silence among events
        raise _refused(host, engine_words(error)) from None


def _refused(host: str, words: str) -> RegistryError:
    """Return the error for what the engine says of a registry."""
    todo = "Check its name, that it runs, and its log."
    if NO_LOGIN.search(words):
        todo = f"Log in (`docker login {host}`), or ask its owner for the right to do this."
    return RegistryError(key=host, found=f"the engine says of the registry: {words}", todo=todo)


def registry_digest(client: DockerClient, name: str) -> str | None:
    """Return the digest that its registry has for a name with a tag or a digest; None if it has none.

    The engine asks, with its logins. Raises RegistryError if the registry does not answer or refuses.
    """
    with registry_errors(name.partition("/")[0]):
        try:
            return str(client.images.get_registry_data(name).id)
        except NotFound:
            return _digest_by_skopeo(name) if name_of(client) is EngineName.PODMAN else None


def _digest_by_skopeo(name: str) -> str | None:
    """Return the digest that skopeo finds: Podman has no call for it. None where skopeo is missing or finds none."""
    said = run_here(["skopeo", "inspect", "--format", "{{.Digest}}", f"docker://{name}"], limit_s=SKOPEO_S)
    return said.stdout.strip() if said.ok and DIGEST.fullmatch(said.stdout.strip()) else None


def registry_platforms(client: DockerClient, name: str) -> list[str]:
    """Return the platforms of an image in a registry, as linux/arm64; none if the registry does not say."""
    with registry_errors(name.partition("/")[0]):
        listed = client.images.get_registry_data(name).attrs.get("Platforms") or []
    return [platform_name(platform) for platform in listed]


def platform_name(attributes: Mapping[str, Any]) -> str:
    """Return the platform that an engine's attributes of an image name, as linux/arm64."""
    lower = {key.lower(): value for key, value in attributes.items()}
    return "/".join(filter(None, map(lower.get, ("os", "architecture", "variant")))).removesuffix("/v8")


def pull(client: DockerClient, plan: ImagePlan, registry: Registry, on_step: OnStep, digest: str = "") -> Built | None:
    """Pull the image of a plan, by its digest if one is given, and tag it as if it had been built here.

    Returns None if the registry has none. Raises RegistryError if the registry does not answer or refuses,
    SignatureError if the registry's key has not signed the image, and BuildError if it is not what its name promises;
    then nothing of it stays.
    """
    started = time.monotonic()
    hashed = registry.hashed(plan.tag, plan.content_hash)
    name = f"{hashed.rpartition(':')[0]}@{digest}" if digest else hashed
    image = _fetch(client, name, registry, plan.variant.name, on_step)
    if image is None:
        return None
    try:
        _require_content(plan, image, name)
        on_step(plan.variant.name, "proving")
        require_proof(plan.variant, ask_facts(client, image.id))
        # The engine keeps a digest as long as it has a tag of the same repository.
        take_tag(client, image.id, registry.name_of(plan.tag))
        image = take_tag(client, image.id, plan.tag)
    except BaseException:
        _untag(client, name)
        raise
    if not digest:
        _untag(client, hashed)
    taken = {"duration_s": time.monotonic() - started, "pulled_from": registry.name}
    return describe_image(plan, image, reused=True).model_copy(update=taken)


def pull_base(client: DockerClient, base: Base, registry: Registry, on_step: OnStep) -> BaseImage | None:
    """Return this engine's base, or pull the team's; None if neither exists."""
    here = find_base(client, base)
    if here is not None:
        return here
    machine = client.info()["Architecture"]
    name = registry.name_of(_base_tag(local_tag(base), ARCHITECTURES.get(machine, machine)))
    image = _fetch(client, name, registry, "base", on_step)
    if image is None:
        return None
    if image.labels.get(LABEL) != base.reference:
        _untag(client, name)
        return None
    put_tag(image, local_tag(base))
    return find_base(client, base)


def why_missing(client: DockerClient, plan: ImagePlan, registry: Registry) -> TagError | None:
    """Return the error for a tag that has other content than the plan; None if the registry has no such tag."""
    name = registry.name_of(plan.tag)
    now = registry_digest(client, name)
    if now is None:
        return None
    return TagError(
        key=plan.variant.name,
        found=f"{name} is {now}, built from other files or on another base than here",
        todo=f"Check out the commit that its labels name, or build it: `interlock build {plan.variant.name}`.",
    )


def _fetch(client: DockerClient, name: str, registry: Registry, subject: str, on_step: OnStep) -> Image | None:
    """Pull an image by this name; None if the registry has none. With a key it must be signed, else it is removed."""
    repository, _, tag = name.rpartition("@" if "@" in name else ":")
    with registry_errors(registry.host):
        try:
            events = client.api.pull(repository, tag, stream=True, decode=True)
            digest = _follow(events, registry.host, lambda step: on_step(subject, step))
        except NotFound as error:
            if NO_LOGIN.search(engine_words(error)):
                raise
            return None
        image = client.images.get(name)
    if registry.key is not None:
        on_step(subject, "checking the signature")
        # Podman names no digest of what it has pulled.
        pulled = tag if "@" in name else digest or next(iter(_digests(client, name, name)), "")
        try:
            require_signed(f"{repository}@{pulled}", registry.key)
        except SignatureError:
            _untag(client, name)
            raise
    return image


def require_cosign(key: str = "--verify", otherwise: str = "leave out --verify") -> None:
    """Raise UsageError if cosign is missing. `key` is the option or command that needs it; `otherwise` avoids it."""
    if shutil.which("cosign") is None:
        problem = "cosign, which signs images and checks signatures, is not installed"
        raise UsageError(key=key, found=problem, todo=f"Install cosign, or {otherwise}.")


def require_signed(reference: str, key: str) -> None:
    """Raise SignatureError unless cosign finds that this key has signed the image with this name and digest."""
    done = run_here(["cosign", "verify", "--key", key, reference])
    if not done.ok:
        raise SignatureError(
            key=reference,
            found=f"cosign does not find it signed by {key}: {done.why}",
            todo=f"Do not use it before you know who pushed it; its owner signs it: cosign sign --key FILE {reference}",
        )


def _require_content(plan: ImagePlan, image: Image, name: str) -> None:
    """Raise BuildError unless the image's labels have the plan's content hash and variant."""
    expected = {HASH_LABEL: plan.content_hash, "interlock.variant": plan.variant.name}
    for label, value in expected.items():
        actual = image.labels.get(label, "")
        if actual != value:
            raise BuildError(
                key=name,
                found=f"the registry's image has label {label} '{actual}', expected '{value}'",
                todo=f"Build it (`interlock build {plan.variant.name}`), or push it again from where these files are.",
            )
