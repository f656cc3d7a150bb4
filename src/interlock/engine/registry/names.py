"""Names of registries, HOST[:PORT]/NAMESPACE, of images in them, and the digests that this engine knows an image by."""

from __future__ import annotations

import re
from dataclasses import dataclass

from docker import DockerClient
from docker.errors import ImageNotFound
from docker.models.images import Image

from interlock.engine.client import HASH_LABEL, put_tag
from interlock.engine.registry.keys import PublicKey
from interlock.errors import UsageError
from interlock.results.experiments import Built

SHAPE = "Write HOST[:PORT]/NAMESPACE, such as registry.example:5000/team."
# The grammar of github.com/distribution/reference, with which engines read names.
LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
HOST = re.compile(rf"{LABEL}(\.{LABEL})*")
PART = r"[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"
NAMESPACE = re.compile(rf"{PART}(/{PART})*")
LONGEST_NAME = 255
LAST_PORT = 65535
PORT = re.compile(r"[0-9]{1,5}")
# What names without a host mean: Docker Hub, whose names engines shorten.
HUB = ("docker.io", "index.docker.io")
# Names of images that are on this machine alone: variants' (LOCAL_NAME), and all others.
OURS = re.compile(r"^(?:localhost/)?interlock/")
# Digits of a content hash in a tag: as many as Docker shows of an id.
HASH_DIGITS = 12


@dataclass(frozen=True)
class Registry:
    """A registry and the namespace in it where a team keeps its images."""

    host: str  # with the port, if there is one
    namespace: str
    key: PublicKey | None = None  # that must have signed what is pulled

    @property
    def name(self) -> str:
        """Return the name that people use: HOST[:PORT]/NAMESPACE."""
        return f"{self.host}/{self.namespace}"

    @property
    def prefix(self) -> str:
        """Return the start of the names that the engine gives to images of this registry."""
        return self.namespace if self.host in HUB else self.name

    def repository_of(self, local_tag: str) -> str:
        """Return the repository as the registry's API names it, without a host or a tag."""
        return f"{self.namespace}/{OURS.sub('', local_tag).partition(':')[0]}"

    def name_of(self, local_tag: str) -> str:
        """Return the name in this registry of a local tag such as `localhost/interlock/python:3.14t-trixie`."""
        return f"{self.prefix}/{OURS.sub('', local_tag)}"

    def hashed(self, local_tag: str, content_hash: str) -> str:
        """Return the name of the image with exactly this content, which stays when the tag moves."""
        return f"{self.name_of(local_tag).rpartition(':')[0]}:hash-{content_hash[:HASH_DIGITS]}"


def parse_registry(text: str, option: str, key: PublicKey | None = None) -> Registry:
    """Parse `HOST[:PORT]/NAMESPACE`; raise UsageError for anything that engines would read differently."""
    if "@" in text:
        # The text is not shown: it may hold a password.
        raise UsageError(
            key=option,
            found="contains '@'",
            todo=f"{SHAPE} Store passwords with `docker login HOST`; leave digests out.",
        )
    scheme = text.partition("://")[0] if "://" in text else ""
    if scheme:
        raise _wrong(option, text, f"starts with {scheme}://; engines choose the scheme")
    address, _, namespace = text.partition("/")
    host, colon, port = address.partition(":")
    if not HOST.fullmatch(host):
        raise _wrong(option, text, f"has no valid host before the first slash ('{host}')")
    if colon and not (PORT.fullmatch(port) and 0 < int(port) <= LAST_PORT):
        raise _wrong(option, text, f"has port '{port}', which is not between 1 and {LAST_PORT}")
    if not colon and "." not in host and host != "localhost":
        raise _wrong(option, text, f"has no host: engines read '{host}' as a part of a Docker Hub name")
    if not NAMESPACE.fullmatch(namespace):
        raise _wrong(option, text, _wrong_namespace(namespace))
    if len(text) > LONGEST_NAME - len("/python"):
        raise _wrong(option, text, f"is too long: an image's name has at most {LONGEST_NAME} characters")
    return Registry(address, namespace, key)


def _wrong_namespace(namespace: str) -> str:
    if not namespace:
        return "has no namespace"
    if ":" in namespace:
        return "has a tag; each variant sets its own"
    if namespace != namespace.lower():
        return "has capital letters in its namespace, which registries refuse"
    return f"has an invalid namespace ('{namespace}')"


def _wrong(option: str, text: str, found: str) -> UsageError:
    return UsageError(key=option, found=f"'{text}' {found}", todo=SHAPE)


# Podman gives a digest also to what it built, under a local name that no registry has.
LOCAL = ("docker.io/interlock/", "localhost/")


def known_digest(image: Image) -> str | None:
    """Return the name by digest that a push or a pull has recorded for an image; None without one."""
    return next(iter(known_digests(image)), None)


def known_digests(image: Image, repository: str = "") -> list[str]:
    """Return every recorded name by digest, or those of one repository."""
    found = [one for one in image.attrs.get("RepoDigests") or [] if not one.startswith(LOCAL)]
    return [one for one in found if not repository or one.startswith(f"{repository}@")]


def image_by_tag(client: DockerClient, tag: str) -> Image | None:
    """Return this engine's image of a local tag; None without one. What has it without `localhost/` gets it."""
    for name in (tag, tag.removeprefix("localhost/")):
        try:
            image = client.images.get(name)
        except ImageNotFound:
            continue
        if name != tag:
            put_tag(image, tag)
        return image
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
    }
    return measured.model_copy(update=update)
