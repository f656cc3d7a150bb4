"""How a registry is asked: over TLS unless the engine's owner says otherwise, within bounds, passwords to their host.

A registry answers with what it likes: with a redirect, a login service, a body without end. A password goes to the
registry itself and to a login service of its own domain; ~/.netrc is never read.
"""

from __future__ import annotations

import os
import re
import ssl
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from socket import gaierror, getaddrinfo
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import InsecureRequestWarning

CERTIFICATES = Path("/etc/docker/certs.d")
TIMEOUT_S, WHOLE_S = 30, 120
# The distribution specification has registries take manifests of up to 4 MiB; configurations are smaller.
MOST_BYTES = 4 * 2**20
CHUNK_BYTES = 2**16
BAD_REQUEST = 400
REDIRECTS, MOST_REDIRECTS = (301, 302, 303, 307, 308), 5
# Hosts that may have a registry's password although they are of another domain than it, with commas between them.
LOGIN_SERVICES = "INTERLOCK_LOGIN_SERVICES"
NETLOC = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
LONGEST_SHOWN = 200
# Below country codes, a second part that belongs to everybody: registry.example.co.uk is no neighbour of evil.co.uk.
SHARED = {"ac", "co", "com", "edu", "gov", "go", "ne", "net", "or", "org"}


class UnsafeAnswerError(Exception):
    """A registry's answer that is not followed or read: where it leads, or what it is."""


@dataclass(frozen=True)
class Reply:
    """An answer, read to its end."""

    status: int
    reason: str
    headers: Mapping[str, str]
    content: bytes

    @property
    def ok(self) -> bool:
        return self.status < BAD_REQUEST


class Session:
    """Requests to one registry and to its login service. Raises RequestException, HTTPError or UnsafeAnswerError."""

    def __init__(self, info: Mapping[str, Any], host: str) -> None:
        self._info, self._host = info, host
        self.may_be_plain = allows_plain(info, host)
        self._session = _Following(self._adapter)

    def ask(self, method: str, url: str, headers: Mapping[str, str], **options: Any) -> Reply:
        """Return the answer; what a redirect leads to is read without the password, and never written to."""
        for _ in range(MOST_REDIRECTS + 1):
            self.require_safe(url)
            reply = self._read(method, url, headers, options)
            target = reply.headers.get("Location", "") if reply.status in REDIRECTS else ""
            if not target:
                return reply
            if method != "GET":
                raise UnsafeAnswerError("it redirects an upload")
            before, url, options = url, urljoin(url, target), {}
            if origin(url) != origin(before):
                headers = {name: value for name, value in headers.items() if name != "Authorization"}
        raise UnsafeAnswerError(f"it redirects more than {MOST_REDIRECTS} times")

    def require_safe(self, url: str) -> None:
        """Raise UnsafeAnswerError unless the address has TLS, or both the registry and this host may be without."""
        scheme, netloc = origin(url)[0], parse(url).netloc
        if scheme != "https" and not (scheme == "http" and self.may_be_plain and allows_plain(self._info, netloc)):
            raise UnsafeAnswerError(f"it leads to {scheme}://{netloc}, which has no TLS")

    def _read(self, method: str, url: str, headers: Mapping[str, str], options: Mapping[str, Any]) -> Reply:
        asked = {"Accept-Encoding": "identity", **headers}
        with warnings.catch_warnings():
            # Which registry needs no certificate is the engine's owner's decision.
            warnings.simplefilter("ignore", InsecureRequestWarning)
            with self._session.request(method, url, headers=asked, timeout=TIMEOUT_S, stream=True, **options) as answer:
                if answer.headers.get("Content-Encoding", "identity") != "identity":
                    raise UnsafeAnswerError("it sends a compressed answer, which was not requested")
                return Reply(answer.status_code, answer.reason or "", answer.headers, _content(answer))

    def _adapter(self, netloc: str) -> HTTPAdapter:
        plain = self.may_be_plain and allows_plain(self._info, netloc)
        return _Trusting({self._host, netloc}, is_registry=netloc == self._host, verify=not plain)


def _content(answer: requests.Response) -> bytes:
    """Read the body; UnsafeAnswerError for one that is too long or takes too long."""
    found, limit = bytearray(), time.monotonic() + WHOLE_S
    while chunk := answer.raw.read1(CHUNK_BYTES, decode_content=False):
        found += chunk
        if len(found) > MOST_BYTES:
            raise UnsafeAnswerError(f"it sends more than {MOST_BYTES // 2**20} MiB")
        if time.monotonic() > limit:
            raise UnsafeAnswerError(f"it takes longer than {WHOLE_S} s for one answer")
    return bytes(found)


def parse(url: str) -> SplitResult:
    """Split an address; UnsafeAnswerError for what is none, or could be read as another one (`\\`, `@`)."""
    with suppress(ValueError):
        found = urlsplit(url)
        if NETLOC.fullmatch(found.netloc) and found.port != 0:
            return found
    raise UnsafeAnswerError(f"it leads to {url[:LONGEST_SHOWN]!r}, which is not a URL")


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address."""
    found = parse(url)
    return found.scheme, (found.hostname or "").lower(), found.port or {"https": 443, "http": 80}.get(found.scheme, 0)


class _Following(requests.Session):
    """A session that follows no redirects, reads no netrc and trusts each host as the engine does."""

    def __init__(self, make_adapter: Any) -> None:
        super().__init__()
        self._make, self._made = make_adapter, dict[str, HTTPAdapter]()
        self.auth = _no_netrc

    def get_redirect_target(self, _: requests.Response) -> None:
        """Return nothing: `Session.ask` follows, and knows what to leave behind."""

    def get_adapter(self, url: str | bytes) -> HTTPAdapter:
        address = url if isinstance(url, str) else url.decode()
        if origin(address)[0] != "https":
            return HTTPAdapter()
        netloc = parse(address).netloc
        return self._made.setdefault(netloc, self._made.get(netloc) or self._make(netloc))


class _Trusting(HTTPAdapter):
    """An HTTPS adapter that trusts the certificates that the engine trusts for these hosts."""

    def __init__(self, hosts: set[str], *, is_registry: bool, verify: bool) -> None:
        self._verify = verify
        self._context = ssl.create_default_context()
        for folder in (CERTIFICATES / host for host in sorted(hosts)):
            for authority in sorted(folder.glob("*.crt")):
                self._context.load_verify_locations(authority)
            for certificate in sorted(folder.glob("*.cert")) if is_registry else ():
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


def allows_plain(info: Mapping[str, Any], host: str) -> bool:
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
    except (gaierror, UnicodeError):
        return []


def may_have_password(realm: str, registry: str) -> bool:
    """Return whether a login service may have the password: one of the registry's host or domain, or one that is named.

    Both are hosts without a port. A domain has two parts at least, three where the second is everybody's (co.uk).
    """
    realm, registry = realm.lower(), registry.lower()
    named = os.environ.get(LOGIN_SERVICES, "").lower().replace(",", " ").split()
    if realm == registry or realm in named:
        return True
    if _is_address(realm) or _is_address(registry):
        return False
    return any(realm == domain or realm.endswith(f".{domain}") for domain in _own_domains(registry))


def _own_domains(registry: str) -> list[str]:
    parent = registry.partition(".")[2]
    parts = parent.split(".")
    is_shared = len(parts) < 2 or (len(parts) == 2 and parts[0] in SHARED and len(parts[1]) == 2)
    return [registry] if is_shared else [registry, parent]


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return "." not in host  # localhost, and names that a search list completes
    return True
