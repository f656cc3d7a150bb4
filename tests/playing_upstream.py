"""A server that plays upstream and Debian's mirror, with what keys of the tests' own have really signed."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes import Answer, Asked, serving
from tests.keyring import Keyring

# As a listing of python.org's folder has its releases, and what else there is.
LISTED = '<a href="{0}/">{0}/</a>  01-Nov-2026 10:00  -\n'
SUITES = ("sid", "testing", "stable")


@dataclass
class Playing:
    """What is served by path, what was asked for, and who signs: `archive` for Debian, `manager` for upstream."""

    url: str
    keyring: Keyring
    served: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)  # that are told in place of the real ones; 0: none is told

    @property
    def mirror(self) -> str:
        return f"{self.url}/debian"

    def list(self, *versions: str) -> None:
        """More releases in upstream's list."""
        self.served["/ftp/"] = self.served.get("/ftp/", b"") + "".join(map(LISTED.format, versions)).encode()

    def release(self, version: str, *, signer: str = "manager", signed: bytes | None = None) -> bytes:
        """A release with its signature, in upstream's folder and list; the bytes that are signed may be others."""
        self.list(version)
        data = f"the source of {version}\n".encode() * 100
        file = f"/ftp/{version}/Python-{version}.tar.xz"
        self.served[file] = data
        self.served[f"{file}.asc"] = self.keyring.sign(signer, data if signed is None else signed)
        return data

    def debian(self, suite: str, sums: dict[str, str], *, signer: str = "archive") -> None:
        """A suite whose index of sources has these sums by version."""
        lines = [
            f" {sha256} 23243936 python{version.rpartition('.')[0]}_{version}.orig.tar.xz\n"
            for version, sha256 in sums.items()
        ]
        sources = "Package: python\nChecksums-Sha256:\n" + "".join(lines)
        self.index(suite, "main/source/Sources.xz", sources, signer=signer)

    def index(self, suite: str, name: str, text: str, *, signer: str = "archive") -> None:
        """A suite with one signed index."""
        packed = lzma.compress(text.encode())
        sha256 = hashlib.sha256(packed).hexdigest()
        text = f"Origin: Debian\nCodename: {suite}\nVersion: 1.2\nDate: Mon\nSHA256:\n {sha256} {len(packed)} {name}\n"
        local = f"{signer}@example.org"
        signed = self.keyring.gpg("--clearsign", "--local-user", local, data=text.encode())
        self.served[f"/debian/dists/{suite}/InRelease"] = signed
        self.served[f"/debian/dists/{suite}/{name}"] = packed


@contextmanager
def playing(keyring: Keyring) -> Iterator[Playing]:
    """Serve until the end of the block."""

    def answer(asked: Asked) -> Answer:
        world.asked.append(asked.path)
        data = world.served.get(asked.path)
        if data is None:
            return Answer(404)
        if asked.path in world.lengths:
            told = world.lengths[asked.path]
            head = f"Content-Length: {told}\r\n" if told else ""
            return Answer(raw=f"HTTP/1.0 200 OK\r\n{head}\r\n".encode() + data)
        return Answer(body=data)

    with serving(answer) as port:
        world = Playing(f"http://127.0.0.1:{port}", keyring)
        yield world


def make_keys(keyring: Keyring, folder: Path) -> Path:
    """Make a key for each who signs, and a stranger's; return the file with the archive's, as gpgv wants it."""
    for name in ("archive", "manager", "stranger"):
        (folder / f"{name}.asc").write_text(keyring.make_key(name), encoding="utf-8")
    ring = folder / "archive.gpg"
    ring.write_bytes(keyring.gpg("--export", "archive@example.org"))
    return ring
