"""Registries by their names, HOST[:PORT]/NAMESPACE, and what an image of this project is called in one. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from interlock.errors import UsageError

SHAPE = "Write HOST[:PORT]/NAMESPACE, such as registry.example:5000/team."
# The grammar of github.com/distribution/reference, with which engines read names.
LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
HOST = re.compile(rf"{LABEL}(\.{LABEL})*")
PART = r"[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"
NAMESPACE = re.compile(rf"{PART}(/{PART})*")
LONGEST_NAME = 255
LAST_PORT = 65535
# What names without a host mean: Docker Hub, whose names engines shorten.
HUB = ("docker.io", "index.docker.io")
OURS = "interlock/"
# Of a content hash in a tag: as much as Docker shows of an id.
HASH_DIGITS = 12


@dataclass(frozen=True)
class Registry:
    """A registry and the namespace in it where a team keeps its images."""

    host: str  # with the port, if there is one
    namespace: str

    @property
    def name(self) -> str:
        """As people name it."""
        return f"{self.host}/{self.namespace}"

    @property
    def prefix(self) -> str:
        """What the engine's own names of its images start with."""
        return self.namespace if self.host in HUB else self.name

    def repository_of(self, local_tag: str) -> str:
        """As the registry itself knows it, without a host or a tag."""
        return f"{self.namespace}/{local_tag.removeprefix(OURS).partition(':')[0]}"

    def name_of(self, local_tag: str) -> str:
        """What `interlock/python:3.14t-trixie` is called there."""
        return f"{self.prefix}/{local_tag.removeprefix(OURS)}"

    def hashed(self, local_tag: str, content_hash: str) -> str:
        """The name by which an image of this very content is found, whatever its tag has become since."""
        return f"{self.name_of(local_tag).rpartition(':')[0]}:hash-{content_hash[:HASH_DIGITS]}"


def parse_registry(text: str, option: str) -> Registry:
    """From `HOST[:PORT]/NAMESPACE`; UsageError for everything that engines would take for something else."""
    if "@" in text:
        # Not shown: it may be a password.
        raise UsageError(
            key=option,
            found="a registry's name has no '@'",
            todo=f"{SHAPE} Passwords are kept by `docker login HOST`, digests are looked up.",
        )
    scheme = text.partition("://")[0] if "://" in text else ""
    if scheme:
        raise _wrong(option, text, f"starts with {scheme}://, which engines choose themselves")
    address, _, namespace = text.partition("/")
    host, colon, port = address.partition(":")
    if not HOST.fullmatch(host):
        raise _wrong(option, text, f"has no host's name before the first slash ('{host}')")
    if colon and not (port.isascii() and port.isdecimal() and 0 < int(port) <= LAST_PORT):
        raise _wrong(option, text, f"has no port between 1 and {LAST_PORT} ('{port}')")
    if not colon and "." not in host and host != "localhost":
        raise _wrong(option, text, f"names no host: engines take '{host}' for a part of a name at Docker Hub")
    if not NAMESPACE.fullmatch(namespace):
        raise _wrong(option, text, _wrong_namespace(namespace))
    if len(text) > LONGEST_NAME - len("/python"):
        raise _wrong(option, text, f"is too long: the name of an image has at most {LONGEST_NAME} characters")
    return Registry(address, namespace)


def _wrong_namespace(namespace: str) -> str:
    if not namespace:
        return "has no namespace"
    if ":" in namespace:
        return "has a tag, which each variant has of its own"
    if namespace != namespace.lower():
        return "has capitals in its namespace, which no registry takes"
    return f"has a namespace that no registry takes ('{namespace}')"


def _wrong(option: str, text: str, found: str) -> UsageError:
    return UsageError(key=option, found=f"'{text}' {found}", todo=SHAPE)
