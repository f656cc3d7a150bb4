"""Signatures in a real registry, where cosign looks for them, as OpenSSL verifies and makes them."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from interlock.engine.registry.api import Api, Manifest, index_of
from interlock.engine.registry.keys import PublicKey, SigningKey, read_public_key, read_signing_key
from interlock.engine.registry.names import Registry
from interlock.engine.registry.signatures import (
    ANNOTATION,
    MANIFEST_TYPE,
    MOST_LAYERS,
    TEXT_TYPE,
    ImageByDigest,
    attest,
    is_signed,
    opened,
    require_signed,
    sealed,
    sign,
    signed_text,
)
from interlock.errors import RegistryError, SignatureError
from tests.fakes import Answer, Asked, serving
from tests.integration import registries
from tests.signing import make_key, openssl

STATEMENT = {"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/provenance/v1", "a": "ü"}


class Engine:
    """What `Api` asks of an engine."""

    def info(self) -> dict[str, Any]:
        return {"RegistryConfig": {"InsecureRegistryCIDRs": ["127.0.0.0/8"]}}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registries.registry(tmp_path_factory.mktemp("registry")) as started:
        yield started.address


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Path]]:
    folder = tmp_path_factory.mktemp("keys")
    return [make_key(folder, name) for name in ("ours", "others")]


@pytest.fixture
def ours(keys: list[tuple[Path, Path]]) -> SigningKey:
    return read_signing_key(keys[0][0])


@pytest.fixture
def public(keys: list[tuple[Path, Path]]) -> PublicKey:
    return read_public_key(keys[0][1])


@pytest.fixture
def others(keys: list[tuple[Path, Path]]) -> SigningKey:
    return read_signing_key(keys[1][0])


@pytest.fixture
def place(address: str, request: pytest.FixtureRequest) -> ImageByDigest:
    """An image of the test's own in the registry."""
    api = Api(Engine(), Registry(address, "team"))
    return image(api, address, request.node.name)


def image(api: Api, host: str, content: str) -> ImageByDigest:
    config = json.dumps({"os": "linux", "architecture": "amd64", "config": {"Labels": {"of": content}}}).encode()
    described = {"mediaType": "application/vnd.oci.image.config.v1+json", "size": len(config)}
    fields = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {**described, "digest": api.put_blob("team/python", config)},
        "layers": [],
    }
    manifest = Manifest(MANIFEST_TYPE, json.dumps(fields).encode())
    api.put("team/python", manifest.digest, manifest)
    return ImageByDigest(api, host, "team/python", manifest.digest)


def fetch(address: str, path: str) -> bytes:
    """As any other program asks a registry."""
    with urlopen(Request(f"http://{address}/v2/team/python/{path}", headers={"Accept": MANIFEST_TYPE})) as answer:
        return bytes(answer.read())


def layers(address: str, place: ImageByDigest, kind: str = "sig") -> list[dict[str, Any]]:
    found = json.loads(fetch(address, f"manifests/sha256-{place.digest.removeprefix('sha256:')}.{kind}"))
    return list(found["layers"])


def openssl_takes(data: bytes, signature: bytes, public: Path, folder: Path) -> bool:
    (folder / "signature").write_bytes(signature)
    try:
        openssl("dgst", "-sha256", "-verify", str(public), "-signature", str(folder / "signature"), data=data)
    except subprocess.CalledProcessError:
        return False
    return True


def test_what_we_sign_openssl_verifies_where_cosign_keeps_it(
    address: str, place: ImageByDigest, ours: SigningKey, keys: list[tuple[Path, Path]], tmp_path: Path
) -> None:
    sign(place, ours)
    (layer,) = layers(address, place)
    text = fetch(address, f"blobs/{layer['digest']}")
    assert layer["mediaType"] == "application/vnd.dev.cosign.simplesigning.v1+json"
    assert layer["size"] == len(text)
    signature = base64.b64decode(layer["annotations"]["dev.cosignproject.cosign/signature"])
    assert openssl_takes(text, signature, keys[0][1], tmp_path)
    assert not openssl_takes(text, signature, keys[1][1], tmp_path)
    assert json.loads(text)["critical"] == {
        "identity": {"docker-reference": f"{address}/team/python"},
        "image": {"docker-manifest-digest": place.digest},
        "type": "cosign container image signature",
    }


def test_a_statement_is_in_an_envelope_that_openssl_verifies(
    address: str,
    place: ImageByDigest,
    ours: SigningKey,
    public: PublicKey,
    keys: list[tuple[Path, Path]],
    tmp_path: Path,
) -> None:
    attest(place, STATEMENT, ours)
    attest(place, STATEMENT, ours)
    (layer,) = layers(address, place, "att")
    assert layer["mediaType"] == "application/vnd.dsse.envelope.v1+json"
    assert layer["annotations"]["predicateType"] == "https://slsa.dev/provenance/v1"
    content = fetch(address, f"blobs/{layer['digest']}")
    envelope = json.loads(content)
    payload = base64.b64decode(envelope["payload"])
    assert json.loads(payload) == STATEMENT
    assert opened(content, public) == payload
    (signature,) = envelope["signatures"]
    kind = "application/vnd.in-toto+json"
    encoded = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    assert openssl_takes(encoded, base64.b64decode(signature["sig"]), keys[0][1], tmp_path)


def test_an_envelope_of_another_key_or_that_was_changed_is_not_opened(
    ours: SigningKey, others: SigningKey, public: PublicKey
) -> None:
    envelope = json.loads(sealed(b"{}", ours))
    assert opened(json.dumps(envelope).encode(), public) == b"{}"
    changes: list[dict[str, Any]] = [
        {"payload": base64.b64encode(b"[]").decode()},
        {"payloadType": "text/plain"},
        {"payload": "no base64"},
        {"signatures": []},
        {"signatures": [{"sig": "?"}]},
        {"signatures": [{}]},
    ]
    for change in changes:
        assert opened(json.dumps({**envelope, **change}).encode(), public) is None
    assert opened(sealed(b"{}", others), public) is None
    assert opened(b"no JSON", public) is None


def test_who_signs_twice_leaves_one_signature_and_others_stay(
    address: str, place: ImageByDigest, ours: SigningKey, others: SigningKey
) -> None:
    sign(place, others)
    for _ in range(2):
        sign(place, ours)
    assert len(layers(address, place)) == 2
    require_signed(place, ours.public)
    require_signed(place, others.public)


def test_what_openssl_signs_as_cosign_does_is_taken(
    place: ImageByDigest, public: PublicKey, keys: list[tuple[Path, Path]]
) -> None:
    """With another order, spaces and remarks of its own: what is signed are bytes."""
    fields = json.loads(signed_text("another.example/name", place.digest))
    text = json.dumps({"optional": {"creator": "somebody", "timestamp": 1}, **fields}, indent=2).encode()
    signature = openssl("dgst", "-sha256", "-sign", str(keys[0][0]), data=text)
    store(place, [(text, base64.b64encode(signature).decode())])
    require_signed(place, public)


def store(place: ImageByDigest, signed: list[tuple[bytes, str]]) -> None:
    """Put texts with these annotations where an image's signatures are."""
    made = [
        {
            "mediaType": TEXT_TYPE,
            "size": len(text),
            "digest": place.api.put_blob(place.repository, text),
            "annotations": {ANNOTATION: signature},
        }
        for text, signature in signed
    ]
    config = {"mediaType": TEXT_TYPE, "size": 2, "digest": place.api.put_blob(place.repository, b"{}")}
    fields = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": made}
    manifest = Manifest(MANIFEST_TYPE, json.dumps(fields).encode())
    place.api.put(place.repository, f"sha256-{place.digest.removeprefix('sha256:')}.sig", manifest)


def test_an_image_without_a_signature_is_refused(place: ImageByDigest, public: PublicKey) -> None:
    with pytest.raises(SignatureError) as caught:
        require_signed(place, public)
    assert caught.value.key == f"{place.name}@{place.digest}"
    assert public.file not in caught.value.found, "none of this key is there that is said to be another image's"
    assert not is_signed(place, public)


def test_a_signature_of_another_key_is_refused(place: ImageByDigest, public: PublicKey, others: SigningKey) -> None:
    sign(place, others)
    with pytest.raises(SignatureError, match=r"ours\.pub"):
        require_signed(place, public)


def test_a_signature_of_another_image_is_refused(place: ImageByDigest, public: PublicKey, ours: SigningKey) -> None:
    other = image(place.api, place.host, "another one")
    sign(other, ours)
    copied = place.api.manifest(other.repository, other.tag("sig"))
    assert copied is not None
    place.api.put(place.repository, place.tag("sig"), copied)
    with pytest.raises(SignatureError, match=r"ours\.pub"):
        require_signed(place, public)
    require_signed(other, public)


def test_what_only_looks_like_a_signature_is_refused(place: ImageByDigest, public: PublicKey, ours: SigningKey) -> None:
    text = signed_text(place.name, place.digest)
    of_no_image = b'{"critical": {"type": "cosign container image signature"}}'
    attestation = text.replace(b"cosign container image signature", b"a holiday greeting")
    for wrong in (
        (text, ""),
        (text, "no base64"),
        (text, base64.b64encode(b"no signature").decode()),
        (text, base64.b64encode(ours.sign(text + b" ")).decode()),
        (of_no_image, base64.b64encode(ours.sign(of_no_image)).decode()),
        (attestation, base64.b64encode(ours.sign(attestation)).decode()),
        (b"no JSON", base64.b64encode(ours.sign(b"no JSON")).decode()),
        (text + b" " * 2**16, base64.b64encode(ours.sign(text + b" " * 2**16)).decode()),
    ):
        store(place, [wrong])
        with pytest.raises(SignatureError):
            require_signed(place, public)
    # Beside the right one they do no harm.
    store(place, [(text, "no base64"), (text, base64.b64encode(ours.sign(text)).decode())])
    require_signed(place, public)


def test_more_signatures_than_anybody_needs_are_not_read(place: ImageByDigest, public: PublicKey) -> None:
    store(place, [(b"{}", "")] * (MOST_LAYERS + 1))
    with pytest.raises(RegistryError, match=place.host):
        require_signed(place, public)


def test_an_index_is_signed_like_an_image(place: ImageByDigest, ours: SigningKey) -> None:
    entry = {"mediaType": MANIFEST_TYPE, "digest": place.digest, "size": 1, "platform": {"os": "linux"}}
    whole = replace(place, digest=index_of([entry]).digest)
    sign(whole, ours)
    require_signed(whole, ours.public)
    assert not is_signed(place, ours.public)


@pytest.mark.parametrize(
    "location", ["", "http://127.0.0.2:1/v2/x", "https://registry.example/v2/x", "//elsewhere/x", "https://[::1"]
)
def test_an_upload_goes_on_nowhere_but_at_the_registry(location: str) -> None:
    asked: list[Asked] = []
    with serving(lambda _: Answer(202, headers={"Location": location}), asked) as port:
        api = Api(Engine(), Registry(f"127.0.0.1:{port}", "team"))
        with pytest.raises(RegistryError):
            api.put_blob("team/python", b"content")
    assert {one.method for one in asked} == {"POST"}


def test_a_blob_that_was_changed_on_the_way_is_refused() -> None:
    with serving(lambda _: Answer(200, b"other content")) as port:
        api = Api(Engine(), Registry(f"127.0.0.1:{port}", "team"))
        with pytest.raises(RegistryError, match=hashlib.sha256(b"other content").hexdigest()):
            api.blob("team/python", f"sha256:{hashlib.sha256(b'content').hexdigest()}")
