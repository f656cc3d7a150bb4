"""Keys that OpenSSL makes, and what it says of signatures: another implementation than ours."""

from __future__ import annotations

import subprocess
from pathlib import Path


def openssl(*words: str, data: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *words], input=data, capture_output=True, check=True).stdout


def make_key(
    folder: Path, name: str, algorithm: str = "EC", option: str = "", curve: str = "P-256"
) -> tuple[Path, Path]:
    """A private and a public key, as the documentation makes them."""
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    how = option or f"ec_paramgen_curve:{curve}"
    openssl("genpkey", "-algorithm", algorithm, "-pkeyopt", how, "-out", str(private))
    openssl("pkey", "-in", str(private), "-pubout", "-out", str(public))
    return private, public
