"""A sigstore of the tests' own: its authority, its logs and the bundles that they give, all with keys made anew."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

ISSUER = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
TIMESTAMPS = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
SIGNED_AT = datetime.now(UTC).replace(microsecond=0)
ORIGIN = "log.example"


class OwnSigstore:
    """What Fulcio, its certificate log and Rekor do, with a log of one entry."""

    def __init__(self) -> None:
        self.authority, self.log, self.certificate_log = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of the tests")])
        builder = self._builder(name, self.authority.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs=False), critical=True)
        self.root = builder.issuer_name(name).sign(self.authority, SHA256())

    def trusted_root(self, file: Path) -> Path:
        """The file that says whose keys to believe."""
        valid = {"start": "2020-01-01T00:00:00Z"}
        authority = {
            "subject": {"organization": "tests", "commonName": "authority"},
            "uri": "https://authority.example",
            "certChain": {"certificates": [{"rawBytes": _text(self.root.public_bytes(Encoding.DER))}]},
            "validFor": valid,
        }
        logs = [
            {
                "baseUrl": f"https://{ORIGIN}",
                "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": _text(_der(key)),
                    "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "validFor": valid,
                },
                "logId": {"keyId": _text(_id(key))},
            }
            for key in (self.log, self.certificate_log)
        ]
        root = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": logs[:1],
            "ctlogs": logs[1:],
            "certificateAuthorities": [authority],
            "timestampAuthorities": [],
        }
        file.write_text(json.dumps(root), encoding="utf-8")
        return file

    def sign(self, data: bytes, identity: str, issuer: str) -> bytes:
        """A bundle of these bytes by somebody for whom an issuer vouches."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certificate(key, identity, issuer)
        signature = key.sign(data, ec.ECDSA(SHA256()))
        digest = hashlib.sha256(data)
        body = _canonical(
            {
                "apiVersion": "0.0.1",
                "kind": "hashedrekord",
                "spec": {
                    "data": {"hash": {"algorithm": "sha256", "value": digest.hexdigest()}},
                    "signature": {
                        "content": _text(signature),
                        "publicKey": {"content": _text(certificate.public_bytes(Encoding.PEM))},
                    },
                },
            }
        )
        bundle = {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": _text(certificate.public_bytes(Encoding.DER))},
                "tlogEntries": [self._entry(body)],
            },
            "messageSignature": {
                "messageDigest": {"algorithm": "SHA2_256", "digest": _text(digest.digest())},
                "signature": _text(signature),
            },
        }
        return json.dumps(bundle).encode()

    def _certificate(self, key: ec.EllipticCurvePrivateKey, identity: str, issuer: str) -> x509.Certificate:
        """A certificate with the promise of the certificate log, which is over the same one without it."""
        builder = self._builder(x509.Name([]), key.public_key()).issuer_name(self.root.subject)
        builder = builder.add_extension(_usage(signs=True), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.RFC822Name(identity)]), critical=True)
        builder = builder.add_extension(x509.UnrecognizedExtension(ISSUER, issuer.encode()), critical=False)
        entry = builder.sign(self.authority, SHA256()).tbs_certificate_bytes
        milliseconds = int(SIGNED_AT.timestamp() * 1000)
        signed = struct.pack("!BBQH", 0, 0, milliseconds, 1) + _id(self.authority)
        signed += len(entry).to_bytes(3, "big") + entry + bytes(2)
        signature = self.certificate_log.sign(signed, ec.ECDSA(SHA256()))
        promise = struct.pack("!B32sQHBBH", 0, _id(self.certificate_log), milliseconds, 0, 4, 3, len(signature))
        listed = struct.pack("!HH", len(promise + signature) + 2, len(promise + signature)) + promise + signature
        assert len(listed) < 128
        value = bytes([4, len(listed)]) + listed  # an octet string
        promised = builder.add_extension(x509.UnrecognizedExtension(TIMESTAMPS, value), critical=False)
        return promised.sign(self.authority, SHA256())

    def _entry(self, body: bytes) -> dict[str, Any]:
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"{ORIGIN}\n1\n{_text(root)}\n"
        signature = _text(_id(self.log)[:4] + self.log.sign(note.encode(), ec.ECDSA(SHA256())))
        at = int(SIGNED_AT.timestamp())
        promised = {"body": _text(body), "integratedTime": at, "logID": _id(self.log).hex(), "logIndex": 0}
        return {
            "logIndex": "0",
            "logId": {"keyId": _text(_id(self.log))},
            "kindVersion": {"kind": "hashedrekord", "version": "0.0.1"},
            "integratedTime": str(at),
            "inclusionPromise": {
                "signedEntryTimestamp": _text(self.log.sign(_canonical(promised), ec.ECDSA(SHA256())))
            },
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": _text(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\u2014 {ORIGIN} {signature}\n"},
            },
            "canonicalizedBody": _text(body),
        }

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(
            subject_name=subject, public_key=key, serial_number=x509.random_serial_number()
        )
        builder = builder.not_valid_before(SIGNED_AT - timedelta(minutes=5))
        builder = builder.not_valid_after(SIGNED_AT + timedelta(minutes=5))
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        ours = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.public_key())
        return builder.add_extension(ours, critical=False)


def _usage(*, signs: bool) -> x509.KeyUsage:
    """Signs files, or else certificates."""
    return x509.KeyUsage(signs, False, False, False, False, not signs, not signs, False, False)


def _der(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _id(key: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha256(_der(key)).digest()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _canonical(data: dict[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
