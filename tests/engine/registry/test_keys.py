"""Which keys are read, and that OpenSSL and we take each other's signatures."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from interlock.engine.registry.keys import PASSWORD, read_public_key, read_signing_key
from interlock.errors import KeyFileError
from tests.signing import make_key, openssl


def test_openssl_verifies_what_a_key_signs(tmp_path: Path) -> None:
    private, public = make_key(tmp_path, "ours")
    (tmp_path / "data").write_bytes(b"what is signed")
    (tmp_path / "signature").write_bytes(read_signing_key(private).sign(b"what is signed"))
    verify = ["dgst", "-sha256", "-verify", str(public), "-signature", str(tmp_path / "signature")]
    openssl(*verify, str(tmp_path / "data"))
    (tmp_path / "data").write_bytes(b"something else")
    with pytest.raises(subprocess.CalledProcessError):
        openssl(*verify, str(tmp_path / "data"))


def test_a_key_takes_what_openssl_signs_with_it_and_nothing_else(tmp_path: Path) -> None:
    private, public = make_key(tmp_path, "ours")
    _, others = make_key(tmp_path, "others")
    signature = openssl("dgst", "-sha256", "-sign", str(private), data=b"data")
    assert read_public_key(public).has_signed(b"data", signature)
    assert not read_public_key(public).has_signed(b"other data", signature)
    assert not read_public_key(others).has_signed(b"data", signature)
    assert not read_public_key(public).has_signed(b"data", b"")
    assert not read_public_key(public).has_signed(b"data", signature[:-1])


def test_a_private_key_gives_its_public_one(tmp_path: Path) -> None:
    private, _ = make_key(tmp_path, "ours")
    key = read_signing_key(private)
    assert key.public.has_signed(b"data", key.sign(b"data"))


def test_a_key_with_a_password_takes_it_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private, public = make_key(tmp_path, "ours")
    locked = tmp_path / "locked.key"
    openssl("pkcs8", "-topk8", "-in", str(private), "-out", str(locked), "-passout", "pass:word")
    monkeypatch.setenv(PASSWORD, "word")
    assert read_public_key(public).has_signed(b"data", read_signing_key(locked).sign(b"data"))
    # One without a password is read whatever the environment has.
    read_signing_key(private)
    for wrong in ("another", ""):
        monkeypatch.setenv(PASSWORD, wrong)
        with pytest.raises(KeyFileError, match=PASSWORD):
            read_signing_key(locked)


def test_what_is_no_such_key_is_refused(tmp_path: Path) -> None:
    private, public = make_key(tmp_path, "ours")
    rsa, larger = make_key(tmp_path, "rsa", "RSA", "rsa_keygen_bits:2048"), make_key(tmp_path, "384", curve="P-384")
    noise, bits = tmp_path / "noise", tmp_path / "bits"
    noise.write_text("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    bits.write_bytes(b"\xff\xfe\x00")
    for path in (public, noise, bits, rsa[0], larger[0], tmp_path, tmp_path / "none"):
        with pytest.raises(KeyFileError):
            read_signing_key(path)
    for path in (private, noise, bits, rsa[1], larger[1], tmp_path, tmp_path / "none"):
        with pytest.raises(KeyFileError):
            read_public_key(path)
