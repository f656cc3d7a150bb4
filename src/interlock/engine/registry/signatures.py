"""Signatures and provenance beside an image in its registry, where cosign keeps and finds them.

For an image sha256:<digits> the tag `sha256-<digits>.sig` has texts that name its digest ("simple signing"), each with
its signature as an annotation, and `sha256-<digits>.att` has in-toto statements in signed envelopes (DSSE).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, ValidationError

from interlock.engine.registry.api import Api, Descriptor, Manifest, RegistryAnswer
from interlock.engine.registry.keys import PublicKey, SigningKey
from interlock.errors import SignatureError

SIGNATURES, STATEMENTS = "sig", "att"
TEXT_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
ENVELOPE_TYPE = "application/vnd.dsse.envelope.v1+json"
STATEMENT_TYPE = "application/vnd.in-toto+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
ANNOTATION = "dev.cosignproject.cosign/signature"
KIND = "cosign container image signature"
# A signed text has 250 bytes. Whoever may write to the registry may write many.
MOST_LAYERS, MOST_TEXT_BYTES = 100, 2**16


class Layer(Descriptor):
    """layer of signatures"""

    mediaType: str  # noqa: N815  the specification's name
    size: Annotated[int, Field(ge=0)]
    annotations: Annotated[dict[str, str], Field(default_factory=dict)]


class Layers(RegistryAnswer):
    """list of signatures"""

    layers: Annotated[list[Layer], Field(max_length=MOST_LAYERS)]


class _Image(RegistryAnswer):
    digest: Annotated[str, Field(alias="docker-manifest-digest")]


class _Critical(RegistryAnswer):
    image: _Image
    type: str


class SignedText(RegistryAnswer):
    """signed text"""

    critical: _Critical


class _Signed(RegistryAnswer):
    sig: str


class Envelope(RegistryAnswer):
    """envelope"""

    payloadType: str  # noqa: N815  the specification's name
    payload: str
    signatures: list[_Signed]


@dataclass(frozen=True)
class ImageByDigest:
    """An image in a registry, by its digest."""

    api: Api
    host: str
    repository: str
    digest: str

    @property
    def name(self) -> str:
        return f"{self.host}/{self.repository}"

    def tag(self, kind: str) -> str:
        return f"{self.digest.replace(':', '-')}.{kind}"


def sign(place: ImageByDigest, key: SigningKey) -> None:
    """Add a signature of this image, unless this key's is there; those of others stay."""
    layers = _layers(place, SIGNATURES)
    if any(_names(text, place.digest) for text in _texts_signed_by(place, layers, key.public)):
        return
    text = signed_text(place.name, place.digest)
    signature = base64.b64encode(key.sign(text)).decode()
    _put(place, SIGNATURES, [*layers, _stored(place, TEXT_TYPE, text, {ANNOTATION: signature})])


def attest(place: ImageByDigest, statement: Mapping[str, Any], key: SigningKey) -> None:
    """Add a statement about this image in an envelope, unless this very one is there, signed with this key."""
    payload = json.dumps(statement, sort_keys=True).encode()
    layers = _layers(place, STATEMENTS)
    known = (_blob(place, one) for one in layers)
    if any(opened(one, key.public) == payload for one in known if one is not None):
        return
    annotations = {ANNOTATION: "", "predicateType": str(statement["predicateType"])}
    _put(place, STATEMENTS, [*layers, _stored(place, ENVELOPE_TYPE, sealed(payload, key), annotations)])


def is_signed(place: ImageByDigest, key: PublicKey) -> bool:
    """Return whether this key has signed this image."""
    return not _why_not_signed(place, key)


def require_signed(place: ImageByDigest, key: PublicKey) -> None:
    """Raise SignatureError unless this key has signed this image."""
    found = _why_not_signed(place, key)
    if found:
        raise SignatureError(
            key=f"{place.name}@{place.digest}",
            found=found,
            todo="Sign it where it was built: `interlock push --key FILE`; or ask the owner of the key.",
        )


def _why_not_signed(place: ImageByDigest, key: PublicKey) -> str:
    layers = _layers(place, SIGNATURES)
    if not layers:
        return "it has no signature"
    texts = [*_texts_signed_by(place, layers, key)]
    if not texts:
        return f"none of its signatures ({len(layers)}) is of the key in {key.file}"
    if not any(_names(text, place.digest) for text in texts):
        return f"the signature there, of the key in {key.file}, is another image's"
    return ""


def signed_text(name: str, digest: str) -> bytes:
    """Return what is signed, in the form and the order of github.com/containers/image's simple signing."""
    image = {"identity": {"docker-reference": name}, "image": {"docker-manifest-digest": digest}, "type": KIND}
    return json.dumps({"critical": image, "optional": None}, separators=(",", ":")).encode()


def _names(text: bytes, digest: str) -> bool:
    try:
        found = SignedText.model_validate_json(text).critical
    except ValidationError:
        return False
    return (found.type, found.image.digest) == (KIND, digest)


def sealed(payload: bytes, key: SigningKey) -> bytes:
    """Return a statement in an envelope that this key has signed."""
    signature = {"keyid": "", "sig": base64.b64encode(key.sign(_encoded(payload))).decode()}
    envelope = {"payloadType": STATEMENT_TYPE, "payload": base64.b64encode(payload).decode(), "signatures": [signature]}
    return json.dumps(envelope).encode()


def opened(envelope: bytes, key: PublicKey) -> bytes | None:
    """Return the statement in an envelope; None if this key did not sign it."""
    try:
        found = Envelope.model_validate_json(envelope)
    except ValidationError:
        return None
    payload = decoded(found.payload)
    signatures = (decoded(one.sig) for one in found.signatures)
    signed = found.payloadType == STATEMENT_TYPE and any(key.has_signed(_encoded(payload), one) for one in signatures)
    return payload if signed else None


def _encoded(payload: bytes) -> bytes:
    """Return what an envelope's signature is of: DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(STATEMENT_TYPE), STATEMENT_TYPE.encode(), len(payload), payload)


def decoded(text: str | bytes) -> bytes:
    """Return what Base64 says; nothing for what is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _layers(place: ImageByDigest, kind: str) -> list[Layer]:
    manifest = place.api.manifest(place.repository, place.tag(kind))
    return place.api.read(Layers, manifest.content).layers if manifest else []


def _blob(place: ImageByDigest, layer: Layer) -> bytes | None:
    return place.api.blob(place.repository, layer.digest) if layer.size <= MOST_TEXT_BYTES else None


def _texts_signed_by(place: ImageByDigest, layers: Sequence[Layer], key: PublicKey) -> Iterator[bytes]:
    for one in layers:
        text = _blob(place, one) if one.mediaType == TEXT_TYPE else None
        if text is not None and key.has_signed(text, decoded(one.annotations.get(ANNOTATION, ""))):
            yield text


def _put(place: ImageByDigest, kind: str, layers: Sequence[Layer]) -> None:
    """Make these the layers of the image's tag for this kind."""
    diffs = {"type": "layers", "diff_ids": [one.digest for one in layers]}
    config = json.dumps({"architecture": "", "os": "", "config": {}, "rootfs": diffs}, sort_keys=True).encode()
    fields = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": _stored(place, CONFIG_TYPE, config, {}).model_dump(exclude={"annotations"}),
        "layers": [one.model_dump() for one in layers],
    }
    place.api.put(place.repository, place.tag(kind), Manifest(MANIFEST_TYPE, json.dumps(fields).encode()))


def _stored(place: ImageByDigest, media_type: str, content: bytes, annotations: Mapping[str, str]) -> Layer:
    digest = place.api.put_blob(place.repository, content)
    return Layer(mediaType=media_type, size=len(content), digest=digest, annotations=dict(annotations))
