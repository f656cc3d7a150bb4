"""Keys of ECDSA on the curve P-256, as PEM files: what `openssl` makes and what cosign verifies with."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock import untrusted
from interlock.errors import KeyFileError, LazyModule, require

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, utils
else:
    hashes, serialization, ec, utils = (
        LazyModule(f"cryptography.hazmat.primitives.{name}", "sign")
        for name in ("hashes", "serialization", "asymmetric.ec", "asymmetric.utils")
    )

PASSWORD = "INTERLOCK_KEY_PASSWORD"  # noqa: S105  the name of a variable
MAKE = "Make one: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out FILE"
PUBLIC = "Give the public key: openssl pkey -in PRIVATE -pubout -out FILE"


@dataclass(frozen=True)
class PublicKey:
    """Says whether the private key that belongs to it has signed something."""

    key: ec.EllipticCurvePublicKey
    file: str  # for errors

    def has_signed(self, data: bytes, signature: bytes) -> bool:
        return self.has_signed_sum(hashlib.sha256(data).digest(), signature)

    def has_signed_sum(self, sha256: bytes, signature: bytes) -> bool:
        """Return whether this is a signature of what has this SHA-256."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - of an extra

        try:
            self.key.verify(signature, sha256, _prehashed())
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class SigningKey:
    """Signs; the file that it is from is for errors."""

    key: ec.EllipticCurvePrivateKey
    file: str

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.key.public_key(), self.file)

    def sign(self, data: bytes) -> bytes:
        return self.sign_sum(hashlib.sha256(data).digest())

    def sign_sum(self, sha256: bytes) -> bytes:
        """Return the signature, in DER, of what has this SHA-256."""
        return self.key.sign(sha256, _prehashed())


def _prehashed() -> ec.ECDSA:
    return ec.ECDSA(utils.Prehashed(hashes.SHA256()))


def read_signing_key(path: Path) -> SigningKey:
    """Read a private key, with the password of the environment if it has one; KeyFileError for anything else."""
    password = os.environ.get(PASSWORD)

    def load(pem: bytes) -> Any:
        encrypted = b"ENCRYPTED" in pem
        return serialization.load_pem_private_key(pem, (password or "").encode() if encrypted else None)

    found = _read(path, load, "private", f"{MAKE} (the password of one that has one is taken from {PASSWORD}).")
    return SigningKey(found, str(path))


def read_public_key(path: Path) -> PublicKey:
    """Read a public key; KeyFileError for anything else, a private key too."""
    return PublicKey(_read(path, serialization.load_pem_public_key, "public", f"{PUBLIC}."), str(path))


def _read(path: Path, load: Callable[[bytes], Any], kind: str, todo: str) -> Any:
    require("sign", "COMMAND --key")
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415

    try:
        found = load(untrusted.read_text(path).encode())
    except OSError as error:
        raise KeyFileError(file=str(path), found=f"cannot be read: {error.strerror}", todo=todo) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFileError(file=str(path), found=f"is not a readable {kind} key in PEM format", todo=todo) from None
    if not isinstance(getattr(found, "curve", None), ec.SECP256R1):
        raise KeyFileError(file=str(path), found="is not an ECDSA key on the curve P-256", todo=todo)
    return found
