"""A registry's own API, for what no engine does: it reads manifests and puts an index (OCI distribution specification).

Credentials come from the engine's store. Trusted are the system's authorities and those in /etc/docker/certs.d.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import urljoin, urlsplit
from urllib.request import parse_http_list, parse_keqv_list

import requests
from docker import DockerClient, auth
from docker.errors import NotFound
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from requests.exceptions import ConnectionError as NotConnected

from interlock.engine.registry.names import HUB, Registry
from interlock.engine.registry.refusals import UNREADABLE, explain, failure_of, registry_errors, strange
from interlock.engine.registry.session import (
    LOGIN_SERVICES,
    Reply,
    Session,
    may_have_password,
    origin,
)
from interlock.errors import RegistryError

HUB_API = "registry-1.docker.io"
# What a digest looks like, of an algorithm that the specification registers; and a token that fits into a header.
DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")
MOST_ENTRIES = 1000
LONGEST_WORDS = 300
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
INDEXES = (DOCKER_LIST, OCI_INDEX)
MANIFESTS = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    *INDEXES,
)


class RegistryAnswer(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Platform(RegistryAnswer):
    """platform"""

    os: str = ""
    architecture: str = ""
    variant: str = ""


class Descriptor(RegistryAnswer):
    """descriptor"""

    digest: Annotated[str, StringConstraints(pattern=rf"^(?:{DIGEST.pattern})$")]


class IndexEntry(Descriptor):
    """entry of an index"""

    mediaType: str  # noqa: N815  the specification's name
    platform: Platform | None = None


class ImageIndex(RegistryAnswer):
    """index"""

    manifests: Annotated[list[IndexEntry], Field(max_length=MOST_ENTRIES)]


class ImageManifest(RegistryAnswer):
    """image's manifest"""

    config: Descriptor


class Settings(RegistryAnswer):
    """settings"""

    Labels: dict[str, str] | None = None


class ImageConfig(Platform):
    """image's configuration"""

    config: Settings | None = None


class LoginToken(RegistryAnswer):
    """answer of a login service"""

    token: str = ""
    access_token: str = ""


class Error(RegistryAnswer):
    """error"""

    code: str
    message: str = ""


class Errors(RegistryAnswer):
    """list of errors"""

    errors: list[Error]


Read = TypeVar("Read", bound=RegistryAnswer)


@dataclass(frozen=True)
class Manifest:
    """A manifest in a registry: that of one image, or an index of several."""

    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    @property
    def is_index(self) -> bool:
        return self.media_type in INDEXES


class Api:
    """The API of one registry. Every failure, and every answer that cannot be used, is raised as RegistryError."""

    def __init__(self, client: DockerClient, registry: Registry) -> None:
        self._registry = registry
        self._host = HUB_API if registry.host in HUB else registry.host
        self._scheme = "https"
        self._session = Session(client.info(), self._host)
        self._granted: dict[str, str] = {}  # the header that answered a challenge, by scope

    def manifest(self, repository: str, reference: str) -> Manifest | None:
        """Return the manifest of a tag or digest; None if the registry has none."""
        reply = self._ask("GET", repository, f"manifests/{reference}", {"Accept": ", ".join(MANIFESTS)})
        if reply is None:
            return None
        if DIGEST.fullmatch(reference):
            self._require_sum(reply.content, reference)
        return Manifest(reply.headers.get("Content-Type", "").partition(";")[0], reply.content)

    def config(self, repository: str, digest: str) -> ImageConfig:
        """Return the configuration of an image: its platform and labels."""
        return self.read(ImageConfig, self.blob(repository, digest))

    def blob(self, repository: str, digest: str) -> bytes:
        """Return a small blob: a configuration, or what is signed."""
        reply = self._ask("GET", repository, f"blobs/{digest}", {})
        if reply is None:
            raise explain(self._registry.host, f"unknown error: {repository} has no {digest}")
        self._require_sum(reply.content, digest)
        return reply.content

    def put_blob(self, repository: str, content: bytes) -> str:
        """Store a small blob and return its digest."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        begun = self._ask("POST", repository, "blobs/uploads/", {})
        place = self._upload_place(begun.headers.get("Location", "") if begun else "")
        path = f"{place}{'&' if '?' in place else '?'}digest={digest}"
        if self._ask("PUT", repository, path, {"Content-Type": "application/octet-stream"}, content) is None:
            raise explain(self._registry.host, "unknown error: it no longer knows the upload")
        return digest

    def _upload_place(self, location: str) -> str:
        """Return path and query of where an upload goes on; RegistryError if that is not at the registry itself."""
        here = f"{self._scheme}://{self._host}/"
        try:
            url = urljoin(here, location)
            if location and origin(url) == origin(here):
                return urlsplit(url)._replace(scheme="", netloc="", fragment="").geturl()
        except UNREADABLE as error:
            raise failure_of(self._registry.host, error) from None
        raise strange(self._registry.host, "its answer to an upload has no Location header on this registry")

    def put(self, repository: str, tag: str, manifest: Manifest) -> None:
        headers = {"Content-Type": manifest.media_type}
        if self._ask("PUT", repository, f"manifests/{tag}", headers, data=manifest.content) is None:
            raise explain(self._registry.host, f"unknown error: it has no {repository}")

    def read(self, kind: type[Read], content: bytes) -> Read:
        """Return what JSON says, or RegistryError for other JSON than this kind and for what is none."""
        try:
            return kind.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            text = f"{first['msg']}{' at ' if where else ''}{where}"
            raise strange(self._registry.host, f"its answer is not a {kind.__doc__}: {text}") from None

    def _require_sum(self, content: bytes, digest: str) -> None:
        """Raise RegistryError unless the content is what the digest names."""
        kind, _, wanted = digest.partition(":")
        found = hashlib.new(kind, content).hexdigest()
        if found != wanted:
            raise strange(self._registry.host, f"what it sends as {digest} is {kind}:{found}")

    def _ask(
        self, method: str, repository: str, path: str, headers: dict[str, str], data: bytes | None = None
    ) -> Reply | None:
        """Send a request, answering a challenge for credentials once; return None for 404.

        The path is below the repository's, or one that the registry has named, which begins with a slash.
        """
        action = "pull" if method == "GET" else "pull,push"
        scope = f"repository:{repository}:{action}"
        whole = path if path.startswith("/") else f"/v2/{repository}/{path}"
        reply = self._send(method, whole, scope, headers, data)
        if reply.status == requests.codes.unauthorized:
            self._granted[scope] = self._answer_to(reply.headers.get("WWW-Authenticate", ""), scope)
            reply = self._send(method, whole, scope, headers, data)
        if reply.status == requests.codes.not_found:
            return None
        if not reply.ok:
            raise explain(self._registry.host, _answer_text(reply))
        return reply

    def _send(self, method: str, path: str, scope: str, headers: dict[str, str], data: bytes | None) -> Reply:
        granted = {"Authorization": self._granted[scope]} if scope in self._granted else {}
        url = f"{self._scheme}://{self._host}{path}"
        try:
            return self._session.ask(method, url, {**headers, **granted}, data=data)
        except NotConnected as error:
            if not self._session.may_be_plain or self._scheme == "http":
                raise explain(self._registry.host, str(error)) from None
        except UNREADABLE as error:
            raise failure_of(self._registry.host, error) from None
        self._scheme = "http"
        return self._send(method, path, scope, headers, data)

    def _answer_to(self, challenge: str, scope: str) -> str:
        """Return the Authorization header for a challenge: a password, or a token from the service that it names."""
        with registry_errors(self._registry.host):
            found = auth.resolve_authconfig(auth.load_config(), self._registry.host) or {}
        kept = {key.lower(): value for key, value in found.items()}
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "bearer":
            return f"Bearer {self._token(_parameters(rest), scope, kept)}"
        if not kept.get("username"):
            raise explain(self._registry.host, "it asks for a login")
        return _basic(kept)

    def _token(self, asked: dict[str, str], scope: str, kept: dict[str, str]) -> str:
        """Return a token from the service that the registry names, for a password or an identity token."""
        realm = asked.get("realm", "")
        about = {"service": asked.get("service", ""), "scope": scope}
        try:
            self._require_may_have(realm, kept)
            if kept.get("identitytoken"):
                form = {"grant_type": "refresh_token", "client_id": "interlock", "refresh_token": kept["identitytoken"]}
                reply = self._session.ask("POST", realm, {}, data={**about, **form})
            else:
                headers = {"Authorization": _basic(kept)} if kept.get("username") else {}
                reply = self._session.ask("GET", realm, headers, params=about)
        except UNREADABLE as error:
            raise failure_of(self._registry.host, error) from None
        if not reply.ok:
            raise explain(self._registry.host, _answer_text(reply))
        granted = self.read(LoginToken, reply.content)
        token = granted.token or granted.access_token
        if not TOKEN.fullmatch(token):
            raise strange(self._registry.host, "its login service gives no token")
        return token

    def _require_may_have(self, realm: str, kept: dict[str, str]) -> None:
        """Raise RegistryError for a login service that may not have the password that there is for this registry."""
        self._session.require_safe(realm)
        host = origin(realm)[1]
        has_password = kept.get("username") or kept.get("identitytoken")
        if has_password and not may_have_password(host, origin(f"https://{self._host}")[1]):
            raise RegistryError(
                key=self._registry.host,
                found=f"the registry names {host} as its login service, in another domain, so no password is sent",
                todo=f"To allow it: export {LOGIN_SERVICES}={host}",
            )


def _parameters(text: str) -> dict[str, str]:
    """Return the parameters of a challenge; none for what cannot be read."""
    try:
        return parse_keqv_list(parse_http_list(text))
    except (ValueError, IndexError):
        return {}


def _basic(kept: Mapping[str, str]) -> str:
    login = f"{kept['username']}:{kept.get('password') or ''}".encode()
    return f"Basic {base64.b64encode(login).decode()}"


def _answer_text(reply: Reply) -> str:
    """Return the status line with the registry's error code and message, if it has them."""
    words = f"{reply.status} {reply.reason[:LONGEST_WORDS]}"
    if "insufficient_scope" in reply.headers.get("WWW-Authenticate", ""):
        return f"{words}: insufficient_scope"
    try:
        first = Errors.model_validate_json(reply.content).errors[0]
    except (ValidationError, IndexError):
        return words
    return f"{words}: {first.code.lower()}: {' '.join(first.message.split())[:LONGEST_WORDS]}"


# An entry of an index as it stands there: mediaType, digest, size, platform and perhaps annotations.
Entry = Mapping[str, Any]
PLATFORM_KEYS = ("os", "architecture", "variant")


@dataclass(frozen=True)
class Tagged:
    """The digest of a tag, and an entry for each image that it names."""

    digest: str
    entries: tuple[Entry, ...]

    def entry_for(self, platform: Mapping[str, str]) -> Entry | None:
        return next((one for one in self.entries if _runs_on(one, platform)), None)

    def others(self, platform: Mapping[str, str]) -> list[Entry]:
        return [one for one in self.entries if not _runs_on(one, platform)]


def _runs_on(entry: Entry, platform: Mapping[str, str]) -> bool:
    return platform_of(entry.get("platform") or {}) == platform


@dataclass(frozen=True)
class RemoteImage:
    """An image in a registry: the ids by which engines know it, and its labels."""

    ids: frozenset[str]
    labels: Mapping[str, str]


def platform_of(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return the platform from an image's configuration or an engine's attributes of it."""
    lower = {key.lower(): value for key, value in attributes.items()}
    return {key: lower[key] for key in PLATFORM_KEYS if lower.get(key)}


def platform_text(platform: Mapping[str, str]) -> str:
    """Return a platform as text, such as linux/arm64."""
    return "/".join(platform[key] for key in PLATFORM_KEYS if key in platform)


def read_tag(api: Api, repository: str, tag: str) -> Tagged | None:
    """Return what a tag names; None if the registry has no such tag."""
    manifest = api.manifest(repository, tag)
    if manifest is None:
        return None
    if manifest.is_index:
        found = api.read(ImageIndex, manifest.content)
        return Tagged(manifest.digest, tuple(one.model_dump(exclude_unset=True) for one in found.manifests))
    config = api.config(repository, api.read(ImageManifest, manifest.content).config.digest)
    return Tagged(manifest.digest, (entry_of(manifest, platform_of(config.model_dump())),))


def read_image(api: Api, repository: str, entry: Entry) -> RemoteImage:
    """Return the ids and labels of an entry's image.

    Engines know an image by its configuration's digest, those with containerd's store by its manifest's.
    """
    manifest = api.manifest(repository, entry["digest"])
    if manifest is None:
        return RemoteImage(frozenset({entry["digest"]}), {})
    digest = api.read(ImageManifest, manifest.content).config.digest
    settings = api.config(repository, digest).config
    return RemoteImage(frozenset({entry["digest"], digest}), (settings and settings.Labels) or {})


def entry_of(manifest: Manifest, platform: Mapping[str, str]) -> Entry:
    return {
        "mediaType": manifest.media_type,
        "digest": manifest.digest,
        "size": len(manifest.content),
        "platform": dict(platform),
    }


def index_of(entries: Sequence[Entry]) -> Manifest:
    """Return the index of these entries, sorted, so that equal entries give an equal digest on every machine."""
    is_docker = all(one["mediaType"].startswith("application/vnd.docker.") for one in entries)
    media_type = DOCKER_LIST if is_docker else OCI_INDEX
    ordered = sorted(entries, key=lambda one: (platform_text(one.get("platform") or {}), one["digest"]))
    fields = {"schemaVersion": 2, "mediaType": media_type, "manifests": ordered}
    return Manifest(media_type, json.dumps(fields, sort_keys=True).encode())


def registry_digest(client: DockerClient, name: str) -> str | None:
    """Return the digest that its registry has for a name with a tag or a digest; None if it has none.

    The engine asks, with its credentials. Raises RegistryError if the registry does not answer or refuses.
    """
    with registry_errors(name.partition("/")[0]):
        try:
            found = str(client.images.get_registry_data(name).id)
        except NotFound:
            return None
    if not DIGEST.fullmatch(found):
        raise strange(name.partition("/")[0], f"{found!r} is not a digest")
    return found
