"""OpenPGP keys of the tests' own, made by gpg in a home that is gone afterwards."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Keyring:
    """A gpg home; a key is known by the name that it was made under."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def make_key(self, name: str) -> str:
        """The public key, armoured."""
        self.gpg("--passphrase", "", "--quick-generate-key", f"{name}@example.org", "ed25519", "sign", "never")
        return self.gpg("--armor", "--export", f"{name}@example.org").decode()

    def fingerprint(self, name: str) -> str:
        listing = self.gpg("--with-colons", "--fingerprint", f"{name}@example.org").decode()
        return next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))

    def sign(self, name: str, data: bytes) -> bytes:
        """An armoured signature, apart from the data."""
        return self.gpg("--armor", "--detach-sign", "--local-user", f"{name}@example.org", data=data)

    def gpg(self, *words: str, data: bytes = b"") -> bytes:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", *words]
        return subprocess.run(command, input=data, capture_output=True, check=True).stdout


@contextmanager
def open_keyring() -> Iterator[Keyring]:
    """Not below pytest's folder: the path of the agent's socket may have 107 characters."""
    if shutil.which("gpg") is None:
        pytest.skip("gpg is not installed")
    with tempfile.TemporaryDirectory(prefix="keys-") as home:
        try:
            yield Keyring(Path(home))
        finally:
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)
