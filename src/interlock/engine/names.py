"""Names of images here and in registries, HOST[:PORT]/NAMESPACE, and the digests that this engine knows an image by."""

from __future__ import annotations

import re
from dataclasses import dataclass

from docker import DockerClient
from docker.errors import ImageNotFound
from docker.models.images import Image

from interlock.engine.client import HASH_LABEL
from interlock.errors import UsageError
from interlock.results.experiments import Built

SHAPE = "Write HOST[:PORT]/NAMESPACE, such as registry.example:5000/team."
# The grammar of github.com/distribution/reference, with which engines read names.
LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
PART = r"[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"
NAME = re.compile(rf"(?P<host>{LABEL}(\.{LABEL})*(:[0-9]{{1,5}})?)/(?P<namespace>{PART}(/{PART})*)")
LONGEST_NAME = 255
# Docker Hub: the host of names without one. Engines shorten its names.
HUB = ("docker.io", "index.docker.io")
# Names of our images that exist on this machine alone: variants' (LOCAL_NAME), and all others.
OURS = re.compile(r"^(?:localhost/)?interlock/")
# Digits of a content hash in a tag: as many as Docker shows of an id.
HASH_DIGITS = 12


@dataclass(frozen=True)
class Registry:
    """A registry and the namespace in it where a team keeps its images."""

    host: str  # with the port, if there is one
    namespace: str
    key: str | None = None  # cosign's public key, which must have signed what is pulled

    @property
    def name(self) -> str:
        """Return the name that people use: HOST[:PORT]/NAMESPACE."""
        return f"{self.host}/{self.namespace}"

    @property
    def prefix(self) -> str:
        """Return the start of the names that the engine gives to images of this registry."""
        return self.namespace if self.host in HUB else self.name

    def name_of(self, local_tag: str) -> str:
        """Return the name in this registry of a local tag such as `localhost/interlock/python:3.14t-trixie`."""
        return f"{self.prefix}/{OURS.sub('', local_tag)}"

    def hashed(self, local_tag: str, content_hash: str) -> str:
        """Return the name of the image with exactly this content, which stays when the tag moves."""
        return f"{self.name_of(local_tag).rpartition(':')[0]}:hash-{content_hash[:HASH_DIGITS]}"


def parse_registry(text: str, option: str, key: str | None = None) -> Registry:
    """Parse `HOST[:PORT]/NAMESPACE`; raise UsageError for anything that engines would read differently."""
    if "@" in text:
        # The text is not shown: it may hold a password.
        todo = f"{SHAPE} Store passwords with `docker login HOST`; leave digests out."
        raise UsageError(key=option, found="contains '@'", todo=todo)
    parts = NAME.fullmatch(text)
    if parts is None or len(text) > LONGEST_NAME - len("/python"):
        raise UsageError(key=option, found=f"'{text}' is not a registry and a namespace in lower case", todo=SHAPE)
    host = parts["host"]
    if host != "localhost" and not {".", ":"} & {*host}:
        raise UsageError(key=option, found=f"'{text}' has no host: engines look for it on Docker Hub", todo=SHAPE)
    return Registry(host, parts["namespace"], key)


# The OCI image specification's label for a version.
VERSION_LABEL = "org.opencontainers.image.version"
# Podman also gives a digest to what it built, under a local name that no registry has.
LOCAL = ("docker.io/interlock/", "localhost/")


def known_digest(image: Image) -> str | None:
    """Return the name by digest that a push or a pull has recorded for an image; None without one."""
    return next(iter(known_digests(image)), None)


def known_digests(image: Image, repository: str = "") -> list[str]:
    """Return every recorded name by digest, or those of one repository."""
    digests = [digest for digest in image.attrs.get("RepoDigests") or [] if not digest.startswith(LOCAL)]
    return [digest for digest in digests if not repository or digest.startswith(f"{repository}@")]


def image_by_tag(client: DockerClient, tag: str) -> Image | None:
    """Return this engine's image of a tag; None without one."""
    try:
        return client.images.get(tag)
    except ImageNotFound:
        return None


def find_tagged(client: DockerClient, measured: Built) -> Built | None:
    """Return this engine's image with the tag of a measured one; None without one. Nothing is pulled or built."""
    image = image_by_tag(client, measured.tag)
    if image is None:
        return None
    update = {
        "image_id": image.id,
        "digest": known_digest(image),
        "content_hash": image.labels.get(HASH_LABEL, ""),
        "size_bytes": image.attrs["Size"],
        "version": image.labels.get(VERSION_LABEL, ""),
        "passed_over": [],
    }
    return measured.model_copy(update=update)
