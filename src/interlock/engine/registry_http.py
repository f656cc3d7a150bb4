"""A registry's own API, for what no engine does: it reads manifests and puts an index (OCI distribution specification).

Who may do what is settled as engines settle it: the credentials are those of the engine's store, and the authorities
are those that the system trusts or /etc/docker/certs.d has for the host.
"""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import warnings
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from socket import gaierror, getaddrinfo
from typing import Any
from urllib.request import parse_http_list, parse_keqv_list

import requests
from docker import auth
from requests.adapters import HTTPAdapter
from requests.exceptions import ConnectionError as NotConnected
from urllib3.exceptions import InsecureRequestWarning

from interlock.engine.registry_errors import explain
from interlock.registries import HUB, Registry

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
    """What a tag or digest stands for: an image's manifest, or an index of several."""

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
    """The API of one registry; every answer that is none becomes a RegistryError."""

    def __init__(self, client: Any, registry: Registry) -> None:
        self._registry = registry
        self._host = HUB_API if registry.host in HUB else registry.host
        self._may_be_plain = allows_plain(client.info(), registry.host)
        self._scheme = "https"
        self._session = requests.Session()
        self._session.mount("https://", _Trusting(registry.host, verify=not self._may_be_plain))
        self._session.verify = not self._may_be_plain
        self._session.auth = _no_netrc
        self._granted: dict[str, str] = {}  # the header that answered a challenge, by scope

    def manifest(self, repository: str, reference: str) -> Manifest | None:
        """By tag or digest; None if the registry has none."""
        answer = self._ask("GET", repository, f"manifests/{reference}", headers={"Accept": ", ".join(MANIFESTS)})
        if answer is None:
            return None
        return Manifest(answer.headers.get("Content-Type", "").partition(";")[0], answer.content)

    def config(self, repository: str, digest: str) -> dict[str, Any]:
        """The configuration of an image: its platform and labels."""
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
        """None is 404: the registry has no such thing."""
        action = "pull" if method == "GET" else "pull,push"
        scope = f"repository:{repository}:{action}"
        answer = self._send(method, f"{repository}/{path}", scope, **options)
        if answer.status_code == requests.codes.unauthorized:
            self._granted[scope] = self._answer_to(answer.headers.get("WWW-Authenticate", ""), scope)
            answer = self._send(method, f"{repository}/{path}", scope, **options)
        if answer.status_code == requests.codes.not_found:
            return None
        if not answer.ok:
            raise explain(self._registry.host, _said(answer))
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
        """The header that a registry asks for: name and password, or what its token service gives for them."""
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
        """From the service that the registry names. Some stores have an identity token instead of a password."""
        about = {"service": asked.get("service", ""), "scope": asked.get("scope", scope)}
        if kept.get("identitytoken"):
            form = {"grant_type": "refresh_token", "client_id": "interlock", "refresh_token": kept["identitytoken"]}
            answer = self._session.post(asked["realm"], data={**about, **form}, timeout=TIMEOUT_S)
        else:
            login = (kept["username"], kept["password"]) if kept.get("username") else None
            answer = self._session.get(asked["realm"], params=about, auth=login, timeout=TIMEOUT_S)
        if not answer.ok:
            raise explain(self._registry.host, _said(answer))
        granted = answer.json()
        return str(granted.get("token") or granted["access_token"])


class _Trusting(HTTPAdapter):
    """Trusts what the engine trusts for this host."""

    def __init__(self, host: str, *, verify: bool) -> None:
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

    def cert_verify(self, *_: Any) -> None:
        """The context has settled it; requests would lay its own list of authorities over it."""


def _no_netrc(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """requests would send what ~/.netrc has for the host, which engines do not."""
    return request


def allows_plain(info: dict[str, Any], host: str) -> bool:
    """Whether the engine takes this registry without TLS, as it does this machine's own and those of its settings."""
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


def _said(answer: requests.Response) -> str:
    """The status, and the registry's own words if it has some."""
    words = f"{answer.status_code} {answer.reason}"
    if "insufficient_scope" in answer.headers.get("WWW-Authenticate", ""):
        return f"{words}: insufficient_scope"
    try:
        errors = answer.json()["errors"]
        return f"{words}: {errors[0]['code'].lower()}: {errors[0].get('message', '')}"
    except (ValueError, LookupError, TypeError, AttributeError):
        return words
