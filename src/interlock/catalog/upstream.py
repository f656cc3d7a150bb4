"""Asks those who publish sources: for upstream's list of releases and signatures, and for Debian's signed indexes.

Answers are read within bounds, and are believed only with a signature.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import lzma
import re
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.catalog.sources import Release, Sigstore
from interlock.errors import LazyModule, UpstreamError, UsageError
from interlock.untrusted import MIB, MOST_TEXT, read_text

LISTING = "https://www.python.org/ftp/python/"  # it has a folder for each release; docker-library/python reads it too
LISTED = re.compile(rb'href="([23]\.\d{1,2}\.\d{1,3})/"')
SUITES = ("sid", "testing", "stable")
SOURCES = "main/source/Sources.xz"
ARCHIVE = re.compile(rb"^ ([0-9a-f]{64}) \d+ python\d\.\d+_(\d+\.\d+\.\d+)\.orig\.tar\.xz$", re.MULTILINE)
HEADER = re.compile(rb"^(Version|Date): (.+)$", re.MULTILINE)
MOST_FILE = 128 * MIB
# How many reads may have to wait for a server within one answer.
DROPS = 30
KEY = re.compile(r"-----BEGIN PGP PUBLIC KEY BLOCK-----\n(?:.+\n)*\n([^-=]+=*)")
verify: Any = LazyModule("sigstore.verify", "update")
models: Any = LazyModule("sigstore.models", "update")
failures: Any = LazyModule("sigstore.errors", "update")


class UnansweredError(Exception):
    """Nobody has what was asked for, or it is too long; the text says who and why."""


@dataclass(frozen=True)
class DebianSum:
    """The SHA-256 of a release's archive, and who says it."""

    sha256: str
    sum_from: str


@dataclass(frozen=True)
class SignedFile:
    """A file of a suite with its sum, and the version and the date of the suite's signed list."""

    data: bytes
    sha256: str
    version: str
    date: str


@dataclass(frozen=True)
class Upstream:
    """Whom to ask, what to trust, and a function that is told of each download before it begins."""

    mirror: str
    keyring: Path
    keys: Path
    say: Callable[[str], None]
    patience_s: float = 20

    def listed(self) -> dict[str, None]:
        """Return the versions that upstream lists, without their sums; UnansweredError if it lists none."""
        versions = LISTED.findall(self.get(LISTING, MOST_TEXT))
        if not versions:
            raise UnansweredError(f"{LISTING} lists no release")
        return dict.fromkeys(version.decode() for version in versions)

    def indexed(self) -> dict[str, DebianSum]:
        """Return the releases that Debian's signed indexes name; UnansweredError if the mirror has no index.

        An old index does no harm: a release that it lacks is no news, and nothing moves back to one that it has.
        """
        releases: dict[str, DebianSum] = {}
        silent = []
        for suite in SUITES:
            try:
                text = lzma.decompress(self.signed_file(suite, SOURCES).data)
            except UnansweredError as error:
                silent.append(error)
                continue
            for sha256, version in ARCHIVE.findall(text):
                releases.setdefault(version.decode(), DebianSum(sha256.decode(), f"Debian's signed index of {suite}"))
        if len(silent) == len(SUITES):
            raise silent[0]
        return releases

    def signed_file(self, suite: str, name: str) -> SignedFile:
        """Return a file of a Debian suite, whose sum is in the list that Debian signs."""
        folder = f"{self.mirror.rstrip('/')}/dists/{suite}"
        signed = _signed_text(self.get(f"{folder}/InRelease", MOST_TEXT), self.keyring)
        listed = re.search(rf"^ ([0-9a-f]{{64}}) +\d+ {name}$".encode(), signed, re.MULTILINE)
        if listed is None:
            raise _refused(f"{folder}/InRelease", f"is not signed by a key of {self.keyring}, or names no {name}")
        data, sha256 = self.get(f"{folder}/{name}", MOST_FILE, tells=True), listed[1].decode()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise _refused(f"{folder}/{name}", "is not the file whose sum InRelease names")
        said = dict(HEADER.findall(signed))
        return SignedFile(data, sha256, said.get(b"Version", b"").decode(), said.get(b"Date", b"").decode())

    def fetch(self, places: Sequence[str]) -> tuple[bytes, str] | None:
        """Return a file and its URL, from the first place that answers; None if none does."""
        for url in self._urls(places):
            with suppress(UnansweredError):
                return self.get(url, MOST_FILE, tells=True), url
        return None

    def answers(self, places: Sequence[str]) -> bool:
        """Return whether one of the places has the file."""
        for url in self._urls(places):
            with suppress(OSError, ValueError, http.client.HTTPException):
                request = urllib.request.Request(url, method="HEAD")  # noqa: S310  a place of the catalog is http
                with urllib.request.urlopen(request, timeout=self.patience_s):  # noqa: S310
                    return True
        return False

    def _urls(self, places: Sequence[str]) -> list[str]:
        urls = [f"{self.mirror.rstrip('/')}/{place}" if place.startswith("pool/") else place for place in places]
        return [url for url in urls if "://" in url]

    def get(self, url: str, most: int, *, tells: bool = False) -> bytes:
        """Return the data at a URL, of at most `most` bytes; UnansweredError if it is longer, or nobody answers."""
        try:
            with urllib.request.urlopen(url, timeout=self.patience_s) as answer:  # noqa: S310
                size = int(answer.headers.get("Content-Length") or 0)
                if tells and size <= most:
                    self.say(f"fetch   {url}, {f'{size / 1e6:.1f}' if size else f'at most {most / 1e6:.0f}'} MB")
                data = b"" if size > most else self._read(answer, most)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise UnansweredError(f"{url}: {getattr(error, 'reason', error)}") from None
        if max(size, len(data)) > most or len(data) < size:
            raise UnansweredError(f"{url}: {len(data)} of {size or 'too many'} bytes came, {most} are read at most")
        return data

    def _read(self, answer: http.client.HTTPResponse, most: int) -> bytes:
        """Return the answer's data, up to one byte more than `most`; TimeoutError if it only trickles in."""
        parts, length, end_s = [], 0, time.monotonic() + DROPS * self.patience_s
        while length <= most and (part := answer.read1(most + 1 - length)):
            parts.append(part)
            length += len(part)
            if time.monotonic() > end_s:
                raise TimeoutError(f"{length} bytes came in {DROPS * self.patience_s:g} s")
        return b"".join(parts)

    def signer(self, release: Release, data: bytes, url: str) -> str:
        """Return who signed a release's file; empty if no place has a signature, or it cannot be checked here.

        UpstreamError for a signature of another file, or by somebody else.
        """
        if release.sigstore is not None:
            fetched = self.fetch([f"{url}.sigstore"])
            return self._sigstore_signer(release.sigstore, data, *fetched) if fetched else ""
        fetched = self.fetch(release.signature.places) if release.signature else None
        return self._openpgp_signer(release.signature.key, data, *fetched) if release.signature and fetched else ""

    def _sigstore_signer(self, expected: Sigstore, data: bytes, bundle: bytes, url: str) -> str:
        """Return the identity that a bundle proves to have signed this file, as recorded in sigstore's log."""
        policy = verify.policy.Identity(identity=expected.identity, issuer=expected.issuer)
        try:
            verify.Verifier.production().verify_artifact(data, models.Bundle.from_json(bundle), policy)
        except failures.TUFError as error:
            self.say(f"silent  sigstore, which says what its keys are: {error}")
            return ""
        except failures.Error as error:
            raise _refused(url, f"is no signature of this file by {expected.identity} ({error})") from None
        return expected.identity

    def _openpgp_signer(self, key: str, data: bytes, signature: bytes, url: str) -> str:
        """Return the fingerprint of the key that made a signature; empty if the key's copy here had expired by then."""
        keyring = b"".join(map(base64.b64decode, KEY.findall(read_text(self.keys / key))))
        said, _ = _gpgv({"keyring": keyring, "signature": signature, "file": data}, "keyring", "signature", "file")
        valid = re.search(r" VALIDSIG (\w+) \S+ (\d+)", said)
        if valid is None or re.search(r" (BADSIG|ERRSIG|EXPSIG|REVKEYSIG) ", said):
            raise _refused(url, f"is no signature of this file by variants/keys/{key}")
        ended = re.search(r" KEYEXPIRED (\d+)", said)
        if ended and int(valid[2]) >= int(ended[1]):
            self.say(f"ended   variants/keys/{key}: it had ended when {url} was made; a newer copy can tell")
            return ""
        return valid[1]


def _signed_text(data: bytes, keyring: Path) -> bytes:
    """Return the signed part of a clear-signed text; nothing if no signature is good, or if any is bad."""
    said, plain = _gpgv({"signed": data}, str(keyring), "--output", "plain", "signed")
    return plain if " GOODSIG " in said and " BADSIG " not in said else b""


def _gpgv(files: dict[str, bytes], keyring: str, *words: str) -> tuple[str, bytes]:
    """Return gpgv's machine-readable status for these files, and the file `plain` that it wrote."""
    with tempfile.TemporaryDirectory() as name:
        for file, data in files.items():
            Path(name, file).write_bytes(data)
        command = ["gpgv", "--homedir", name, "--keyring", str(Path(name, keyring)), "--status-fd", "1", *words]
        try:
            done = subprocess.run(command, cwd=name, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        except FileNotFoundError:
            problem = "gpgv, which checks signatures, is not installed"
            raise UsageError(found=problem, todo="Install it: apt-get install gpgv") from None
        plain = Path(name, "plain")
        return done.stdout.decode(errors="replace"), plain.read_bytes() if plain.is_file() else b""


def _refused(url: str, problem: str) -> UpstreamError:
    return UpstreamError(key=url, found=problem, todo="Find out who put it there. Nothing is changed.")
