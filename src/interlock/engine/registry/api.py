"""A registry's own API, for what no engine does: it reads manifests and puts an index (OCI distribution specification).

Credentials come from the engine's store. Trusted are the system's authorities and those in /etc/docker/certs.d.
What a registry or an engine says when it refuses is translated here into a cause and what to do about it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from socket import gaierror, getaddrinfo
from typing import Any
from urllib.request import parse_http_list, parse_keqv_list

import requests
from docker import DockerClient, auth
from docker.errors import DockerException, NotFound
from requests.adapters import HTTPAdapter
from requests.exceptions import ConnectionError as NotConnected
from requests.exceptions import RequestException
from urllib3.exceptions import InsecureRequestWarning

from interlock.engine.client import engine_words
from interlock.engine.registry.names import HUB, Registry
from interlock.errors import RegistryError

CERTIFICATES = Path("/etc/docker/certs.d")
HUB_API = "registry-1.docker.io"
TIMEOUT_S = 30
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
INDEXES = (DOCKER_LIST, OCI_INDEX)
MANIFESTS = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    *INDEXES,
)


@dataclass(frozen=True)
class Manifest:
    """A manifest in a registry: that of one image, or an index of several."""

    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    @property
    def fields(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.content)
        return found

    @property
    def is_index(self) -> bool:
        return self.media_type in INDEXES


class Api:
    """The API of one registry. Every failure is raised as RegistryError."""

    def __init__(self, client: DockerClient, registry: Registry) -> None:
        self._registry = registry
        self._host = HUB_API if registry.host in HUB else registry.host
        self._may_be_plain = allows_plain(client.info(), registry.host)
        self._scheme = "https"
        self._session = requests.Session()
        self._session.mount("https://", _Trusting(registry.host, verify=not self._may_be_plain))
        self._session.auth = _no_netrc
        self._granted: dict[str, str] = {}  # the header that answered a challenge, by scope

    def manifest(self, repository: str, reference: str) -> Manifest | None:
        """Return the manifest of a tag or digest; None if the registry has none."""
        answer = self._ask("GET", repository, f"manifests/{reference}", headers={"Accept": ", ".join(MANIFESTS)})
        if answer is None:
            return None
        return Manifest(answer.headers.get("Content-Type", "").partition(";")[0], answer.content)

    def config(self, repository: str, digest: str) -> dict[str, Any]:
        """Return the configuration of an image: its platform and labels."""
        answer = self._ask("GET", repository, f"blobs/{digest}")
        if answer is None:
            raise explain(self._registry.host, f"unknown error: {repository} has no {digest}")
        found: dict[str, Any] = answer.json()
        return found

    def put(self, repository: str, tag: str, manifest: Manifest) -> None:
        headers = {"Content-Type": manifest.media_type}
        if self._ask("PUT", repository, f"manifests/{tag}", headers=headers, data=manifest.content) is None:
            raise explain(self._registry.host, f"unknown error: it has no {repository}")

    def _ask(self, method: str, repository: str, path: str, **options: Any) -> requests.Response | None:
        """Send a request, answering a challenge for credentials once; return None for 404."""
        action = "pull" if method == "GET" else "pull,push"
        scope = f"repository:{repository}:{action}"
        answer = self._send(method, f"{repository}/{path}", scope, **options)
        if answer.status_code == requests.codes.unauthorized:
            self._granted[scope] = self._answer_to(answer.headers.get("WWW-Authenticate", ""), scope)
            answer = self._send(method, f"{repository}/{path}", scope, **options)
        if answer.status_code == requests.codes.not_found:
            return None
        if not answer.ok:
            raise explain(self._registry.host, _answer_text(answer))
        return answer

    def _send(self, method: str, path: str, scope: str, **options: Any) -> requests.Response:
        granted = {"Authorization": self._granted[scope]} if scope in self._granted else {}
        headers = {**options.pop("headers", {}), **granted}
        try:
            return self._send_as(method, path, headers, options)
        except NotConnected as error:
            if not self._may_be_plain or self._scheme == "http":
                raise explain(self._registry.host, str(error)) from None
        self._scheme = "http"
        return self._send(method, path, scope, headers=headers, **options)

    def _send_as(self, method: str, path: str, headers: dict[str, str], options: dict[str, Any]) -> requests.Response:
        url = f"{self._scheme}://{self._host}/v2/{path}"
        with warnings.catch_warnings():
            # Which registry needs no certificate is the engine's owner's decision.
            warnings.simplefilter("ignore", InsecureRequestWarning)
            return self._session.request(method, url, headers=headers, timeout=TIMEOUT_S, **options)

    def _answer_to(self, challenge: str, scope: str) -> str:
        """Return the Authorization header for a challenge: a password, or a token from the service that it names."""
        found = auth.resolve_authconfig(auth.load_config(), self._registry.host) or {}
        kept = {key.lower(): value for key, value in found.items()}
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "bearer":
            return f"Bearer {self._token(parse_keqv_list(parse_http_list(rest)), scope, kept)}"
        if not kept.get("username"):
            raise explain(self._registry.host, "it asks for a login")
        login = f"{kept['username']}:{kept['password']}".encode()
        return f"Basic {base64.b64encode(login).decode()}"

    def _token(self, asked: dict[str, str], scope: str, kept: dict[str, str]) -> str:
        """Return a token from the service that the registry names, for a password or an identity token."""
        about = {"service": asked.get("service", ""), "scope": asked.get("scope", scope)}
        if kept.get("identitytoken"):
            form = {"grant_type": "refresh_token", "client_id": "interlock", "refresh_token": kept["identitytoken"]}
            answer = self._session.post(asked["realm"], data={**about, **form}, timeout=TIMEOUT_S)
        else:
            login = (kept["username"], kept["password"]) if kept.get("username") else None
            answer = self._session.get(asked["realm"], params=about, auth=login, timeout=TIMEOUT_S)
        if not answer.ok:
            raise explain(self._registry.host, _answer_text(answer))
        granted = answer.json()
        return str(granted.get("token") or granted["access_token"])


class _Trusting(HTTPAdapter):
    """An HTTPS adapter that trusts the certificates that the engine trusts for this host."""

    def __init__(self, host: str, *, verify: bool) -> None:
        self._verify = verify
        self._context = ssl.create_default_context()
        folder = CERTIFICATES / host
        for authority in sorted(folder.glob("*.crt")):
            self._context.load_verify_locations(authority)
        for certificate in sorted(folder.glob("*.cert")):
            self._context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        if not verify:
            self._context.check_hostname = False
            self._context.verify_mode = ssl.CERT_NONE
        super().__init__()

    def init_poolmanager(self, *words: Any, **options: Any) -> None:
        super().init_poolmanager(*words, **{**options, "ssl_context": self._context})

    def send(self, request: requests.PreparedRequest, *words: Any, **options: Any) -> requests.Response:
        """Send with this adapter's trust: a session lets REQUESTS_CA_BUNDLE overrule its own `verify`."""
        return super().send(request, *words, **{**options, "verify": self._verify})

    def cert_verify(self, *_: Any) -> None:
        """Do nothing: the context has the authorities, and requests would replace them with its own list."""


def _no_netrc(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Leave a request as it is: without this, requests sends what ~/.netrc has for the host, which engines do not."""
    return request


def allows_plain(info: dict[str, Any], host: str) -> bool:
    """Return whether the engine allows this registry without TLS: a local one, or one that its settings name."""
    settings = info.get("RegistryConfig") or {}
    named = (settings.get("IndexConfigs") or {}).get(host)
    if named is not None and not named.get("Secure", True):
        return True
    networks = [ip_network(one) for one in settings.get("InsecureRegistryCIDRs") or []]
    return any(address in network for address in _addresses(host.partition(":")[0]) for network in networks)


def _addresses(name: str) -> list[Any]:
    try:
        return [ip_address(entry[4][0]) for entry in getaddrinfo(name, None)]
    except gaierror:
        return []


def _answer_text(answer: requests.Response) -> str:
    """Return the status line with the registry's error code and message, if it has them."""
    words = f"{answer.status_code} {answer.reason}"
    if "insufficient_scope" in answer.headers.get("WWW-Authenticate", ""):
        return f"{words}: insufficient_scope"
    try:
        errors = answer.json()["errors"]
        return f"{words}: {errors[0]['code'].lower()}: {errors[0].get('message', '')}"
    except (ValueError, LookupError, TypeError, AttributeError):
        return words


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
        return Tagged(manifest.digest, tuple(manifest.fields["manifests"]))
    config = api.config(repository, manifest.fields["config"]["digest"])
    return Tagged(manifest.digest, (entry_of(manifest, platform_of(config)),))


def read_image(api: Api, repository: str, entry: Entry) -> RemoteImage:
    """Return the ids and labels of an entry's image.

    Engines know an image by its configuration's digest, those with containerd's store by its manifest's.
    """
    manifest = api.manifest(repository, entry["digest"])
    if manifest is None:
        return RemoteImage(frozenset({entry["digest"]}), {})
    digest = manifest.fields["config"]["digest"]
    labels = api.config(repository, digest).get("config", {}).get("Labels") or {}
    return RemoteImage(frozenset({entry["digest"], digest}), labels)


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


# By cause: a pattern in the message (the first match counts), what it means, and what to do. {host} is the registry's,
# {words} the end of the message.
MEANINGS = {
    "no login": (
        r"no basic auth credentials|asks for a login",
        "asks for a login, and the engine's credential store has none for it",
        "Log in once: docker login {host}",
    ),
    "denied": (
        r"denied|insufficient_scope|\b403\b",
        "denies access to this user",
        "Ask its owner for permission, or use another namespace.",
    ),
    "wrong login": (
        r"unauthorized|authentication required|incorrect username or password|\b401\b",
        "refuses the user or password that the engine's credential store has for it",
        "Log in again: docker login {host}",
    ),
    "credential store": (
        r"[Cc]redentials? ?store|docker-credential-",
        "needs a login, and the engine's credential store fails ({words})",
        "Fix credsStore and credHelpers in the engine's config.json.",
    ),
    "read-only": (
        r"HTTP 405|\b405 |[Mm]ethod not allowed|operation is unsupported",
        "is read-only (405 Method Not Allowed)",
        "Push to another registry, or end its read-only mode.",
    ),
    "no TLS": (
        r"HTTP response to HTTPS client|WRONG_VERSION_NUMBER|record layer failure",
        "answers without TLS, which engines refuse unless it runs on this machine",
        "Give it a certificate, or add {host} to insecure-registries in /etc/docker/daemon.json.",
    ),
    "untrusted certificate": (
        r"x509|certificate|CERTIFICATE_VERIFY_FAILED",
        "has a certificate that this machine does not trust",
        "Copy its CA certificate to /etc/docker/certs.d/{host}/ca.crt.",
    ),
    "rate limit": (
        r"toomanyrequests|\b429\b",
        "limits requests from this machine ({words})",
        "Log in, or wait and try again.",
    ),
    "engine disk full": (
        r"no space left on device",
        "sends an image that does not fit on the engine's disk",
        "Free space: docker system df, docker image prune.",
    ),
    "server error": (
        r"\b50[0-9] (Internal|Bad|Service|Gateway|Insufficient)|unknown error",
        "fails ({words})",
        "Read its log; its disk may be full.",
    ),
    "unreachable": (
        r"refused|no such host|not known|resolution|timeout|timed out|unreachable|no route|EOF|reset by peer|aborted",
        "cannot be reached ({words})",
        "Start it, or correct its name.",
    ),
}
# The last part of a Go or Python error's chain tells its cause.
CAUSE = re.compile(r"\[Errno -?\d+\] ([^'\")]+)")


def cause_of(message: str) -> str:
    """Return the cause, a key of MEANINGS, that a message of an engine or a registry tells; empty if it tells none."""
    return next((cause for cause, (pattern, _, _) in MEANINGS.items() if re.search(pattern, message)), "")


def explain(host: str, message: str) -> RegistryError:
    """Return the error for a message of a registry, which came from it or through the engine."""
    words = _words(message)
    cause = cause_of(message)
    if not cause:
        found = f"the registry or the engine answered: {words}"
        return RegistryError(key=host, found=found, todo="Read the registry's log.")
    _, found, todo = MEANINGS[cause]
    return RegistryError(key=host, found=f"the registry {found.format(words=words)}", todo=todo.format(host=host))


def _words(message: str) -> str:
    cause = CAUSE.findall(message)
    return str(cause[-1] if cause else message.strip().rpartition(": ")[2]).strip("\"')( .")


@contextmanager
def registry_errors(host: str) -> Iterator[None]:
    """Raise RegistryError for every failure of the engine or the registry within the block."""
    try:
        yield
    except DockerException as error:
        raise explain(host, engine_words(error)) from None
    except RequestException as error:
        raise explain(host, str(error)) from None


def registry_digest(client: DockerClient, name: str) -> str | None:
    """Return the digest that its registry has for a name with a tag or a digest; None if it has none.

    The engine asks, with its credentials. Raises RegistryError if the registry does not answer or refuses.
    """
    with registry_errors(name.partition("/")[0]):
        try:
            return str(client.images.get_registry_data(name).id)
        except NotFound:
            return None
