# ruff: noqa: E501  the texts are what others answer
"""What registries, engines and hosts answer, and archives: whole answers and tars are described in JSON, and made of it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import lzma
import random
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from requests.structures import CaseInsensitiveDict

from interlock.engine.build import sbom
from interlock.engine.packages import installer
from interlock.engine.packages.kept_wheels import KeptWheels
from interlock.engine.registry import api, archives, keys, signatures
from interlock.engine.registry.names import Registry, parse_registry
from interlock.engine.registry.session import UnsafeAnswerError, may_have_password, origin
from interlock.engine.registry.signatures import ImageByDigest
from interlock.engine.registry.transfer import follow_transfer
from interlock.engine.run import cells, trials
from interlock.errors import EngineError, InterlockError
from interlock.fleet.record import take_in_results
from interlock.results import store
from tests.engine.registry.test_archives import TAG, Engine, members, own
from tests.fleet.test_record import RECORD, VARIANTS, measured
from tests.fuzzing.damage import Form, Target, is_json, require_sentence
from tests.results.writer import run_of
from tests.signing import make_key, openssl

DIGEST = f"sha256:{'0' * 64}"
HOST, REPOSITORY = "127.0.0.1:5000", "team/python"


def _registry(text: str, _: Path) -> object:
    asked = api.Api.__new__(api.Api)
    vars(asked)["_registry"] = Registry("registry.example", "team")
    refused = 0
    for kind in (api.ImageIndex, api.ImageManifest, api.ImageConfig, api.LoginToken, api.Errors, signatures.Layers):
        try:
            found = asked.read(kind, text.encode("utf-8", "replace"))
            if isinstance(found, api.ImageIndex):
                api.index_of([one.model_dump(exclude_unset=True) for one in found.manifests])
        except InterlockError:
            refused += 1
    for line in text.splitlines()[:5]:
        with suppress(UnsafeAnswerError):
            may_have_password(origin(line)[1], "registry.example.co.uk")
        api._parameters(line)
        with suppress(InterlockError):
            parse_registry(line, "--registry")
    return refused


REGISTRY = [
    json.dumps({"schemaVersion": 2, "config": {"digest": DIGEST, "size": 1}, "layers": []}),
    json.dumps({"manifests": [{"mediaType": "a", "digest": DIGEST, "platform": {"os": "linux"}}]}),
    json.dumps({"architecture": "amd64", "os": "linux", "config": {"Labels": {"a": "b"}}, "token": "x"}),
    json.dumps({"errors": [{"code": "DENIED", "message": "no"}], "token": "x", "access_token": "y"}),
]


@cache
def _keys() -> tuple[keys.SigningKey, str, str]:
    with tempfile.TemporaryDirectory() as there:
        private, public = make_key(Path(there), "ours")
        return keys.read_signing_key(private), private.read_text(), public.read_text()


class _Served:
    """An HTTP session with a registry whose answers are described in JSON by what they are answers to."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers
        self.bodies = {name: self._body(one) for name, one in answers.items() if isinstance(one, dict)}

    def _body(self, described: Mapping[str, Any]) -> bytes:
        if "body" in described:
            return str(described["body"]).encode("utf-8", "replace")
        return json.dumps(described.get("json")).encode()

    def _filled(self, body: bytes) -> bytes:
        for name in ("config", "text", "image"):
            digest = f"sha256:{hashlib.sha256(self.bodies.get(name, b'')).hexdigest()}"
            body = body.replace(f"<{name}>".encode(), digest.encode())
        return body

    def _name(self, method: str, url: str) -> str:
        if "/token" in url:
            return "token"
        if method != "GET":
            return "upload" if method == "POST" else "put"
        if ".sig" in url or ".att" in url:
            return "signatures"
        if "/blobs/" in url:
            digest = url.rpartition("sha256:")[2]
            by_sum = {hashlib.sha256(self._filled(body)).hexdigest(): name for name, body in self.bodies.items()}
            return by_sum.get(digest, "config")
        return "image" if "sha256:" in url else "manifest"

    @contextmanager
    def request(self, method: str, url: str, headers: Mapping[str, str], **_: Any) -> Iterator[Any]:
        name = self._name(method, url)
        if "challenge" in self.answers and "Authorization" not in headers and name != "token":
            found: Any = {"status": 401, "headers": {"WWW-Authenticate": self.answers["challenge"]}}
        else:
            found = self.answers.get(name)
        if not isinstance(found, dict):
            found = {"status": 404}
        status = found.get("status")
        given = found.get("headers")
        shown = {str(key): str(value) for key, value in given.items()} if isinstance(given, dict) else {}
        body = io.BytesIO(self._filled(self.bodies.get(name, b"")))
        yield SimpleNamespace(
            status_code=status if isinstance(status, int) and 100 <= status <= 999 else 200,
            reason=str(found.get("reason", "")),
            headers=CaseInsensitiveDict(shown),
            raw=SimpleNamespace(read1=lambda size, decode_content: body.read(size)),
        )


def _whole(text: str, _: Path) -> None:
    """Everything that is asked of a registry: a tag, its images, who has signed them, and to take what is signed."""
    answers = json.loads(text) if text.startswith("{") and is_json(text) else {"manifest": {"body": text}}
    engine: Any = SimpleNamespace(info=dict)
    signer = _keys()[0]
    for ask in (_tag, _signed, _sign, _attested):
        asked = api.Api(engine, Registry(HOST, "team"))
        vars(asked._session)["_session"] = _Served(answers if isinstance(answers, dict) else {"manifest": answers})
        try:
            ask(asked, signer)
        except InterlockError as error:
            require_sentence(error)


def _tag(asked: api.Api, _: keys.SigningKey) -> None:
    found = api.read_tag(asked, REPOSITORY, "3.13")
    for entry in found.entries if found else ():
        api.read_image(asked, REPOSITORY, entry)
        api.platform_text(api.platform_of(entry.get("platform") or {}))
    if found:
        found.entry_for({"os": "linux", "architecture": "amd64"})
        api.index_of(found.entries)


def _signed(asked: api.Api, signer: keys.SigningKey) -> None:
    signatures.require_signed(ImageByDigest(asked, HOST, REPOSITORY, DIGEST), signer.public)


def _sign(asked: api.Api, signer: keys.SigningKey) -> None:
    signatures.sign(ImageByDigest(asked, HOST, REPOSITORY, DIGEST), signer)


def _attested(asked: api.Api, signer: keys.SigningKey) -> None:
    signatures.attest(ImageByDigest(asked, HOST, REPOSITORY, DIGEST), {"predicateType": "x"}, signer)


@cache
def _answers() -> list[str]:
    signer = _keys()[0]
    text = signatures.signed_text(f"{HOST}/{REPOSITORY}", DIGEST)
    kind = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
    image = {"schemaVersion": 2, "config": {"digest": "<config>", "size": 1}}
    platform = {"os": "linux", "architecture": "amd64", "variant": ""}
    entry = {"mediaType": kind["Content-Type"], "digest": "<image>", "size": 9, "platform": platform}
    layer = {
        "mediaType": signatures.TEXT_TYPE,
        "digest": "<text>",
        "size": len(text),
        "annotations": {signatures.ANNOTATION: base64.b64encode(signer.sign(text)).decode()},
    }
    sealed = signatures.sealed(b'{"predicateType": "x"}', signer).decode()
    common = {
        "config": {"json": {**platform, "config": {"Labels": {"interlock.hash": "a"}}}},
        "image": {"headers": kind, "json": image},
        "text": {"body": text.decode()},
        "signatures": {"headers": kind, "json": {"layers": [layer]}},
        "upload": {"status": 202, "headers": {"Location": "/v2/team/python/blobs/uploads/1?a=b"}},
        "put": {"status": 201},
        "token": {"json": {"token": "abc", "access_token": "abc"}},
    }
    bearer = f'Bearer realm="https://{HOST}/token",service="registry",scope="repository:x:pull"'
    plain = {**common, "manifest": {"headers": kind, "json": image}}
    index = {**common, "manifest": {"headers": {"Content-Type": api.OCI_INDEX}, "json": {"manifests": [entry]}}}
    refused = {"status": 403, "reason": "Forbidden", "json": {"errors": [{"code": "DENIED", "message": "no"}]}}
    moved = {"status": 307, "headers": {"Location": "https://store.example/blob?sig=1"}}
    envelope = {**common, "text": {"body": sealed}}
    every = [plain, index, envelope, {**plain, "challenge": bearer}, {**plain, "manifest": refused}]
    return [json.dumps(one) for one in (*every, {**index, "config": moved}, {**index, "token": refused})]


def _key(text: str, folder: Path) -> None:
    path = folder / "key.pem"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    for read in (keys.read_public_key, keys.read_signing_key):
        try:
            read(path)
        except InterlockError as error:
            require_sentence(error)
    public = _keys()[0].public
    signatures.opened(text.encode("utf-8", "replace"), public)
    public.has_signed(b"x", signatures.decoded(text.encode("utf-8", "replace")))


@cache
def _key_texts() -> list[str]:
    signer, private, public = _keys()
    locked = openssl("pkey", "-aes128", "-passout", "pass:x", data=private.encode()).decode()
    rsa = openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024").decode()
    sealed = signatures.sealed(b'{"predicateType": "x"}', signer).decode()
    return [private, public, locked, rsa, sealed, base64.b64encode(signer.sign(b"x")).decode()]


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def _transfer(text: str, _: Path) -> object:
    return follow_transfer(_events(text), "registry.example", lambda _: None)


PACKED: Mapping[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress}
FAULTS = 0.3  # the share of tars in which bytes are changed besides


def _tar(text: str, pack: str = "") -> bytes | None:
    """The tar that a text describes as JSON, {"members": [{"name", "type", "json" or "text", "size", ...}]}.

    What is no such JSON is the tar itself; None for what no tar can have. A third has bytes changed besides, packed or
    not: which is the text's own.
    """
    chance = random.Random(zlib.crc32(text.encode("utf-8", "replace")))
    described = json.loads(text) if is_json(text) else None
    if not isinstance(described, dict) or not isinstance(described.get("members"), list):
        data = text.encode("utf-8", "replace")
    else:
        try:
            data = _tar_of(described["members"])
        except (ValueError, LookupError, TypeError, OverflowError, AttributeError):
            return None
        pack = described.get("pack", pack) if isinstance(described.get("pack", pack), str) else pack
    data = _faulty(data, chance)
    return _faulty(PACKED[pack](data), chance) if pack in PACKED else data


def _tar_of(described: list[Any]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", errors="surrogatepass") as tar:
        for one in described:
            entry = tarfile.TarInfo(str(one.get("name", ""))[:5000])
            entry.type = str(one.get("type", "0"))[:1].encode() or b"0"
            entry.linkname = str(one.get("link", ""))
            entry.mtime = one.get("mtime", 0)
            content = (
                one["text"].encode("utf-8", "surrogatepass") if "text" in one else json.dumps(one["json"]).encode()
            )
            entry.size = one.get("size", len(content))
            entry.pax_headers = {str(key): str(value) for key, value in one.get("pax", {}).items()}
            tar.addfile(entry)
            stream.write(content)
            stream.write(bytes(-len(content) % 512))
            tar.offset = stream.tell()
    return stream.getvalue()


def _faulty(data: bytes, chance: random.Random) -> bytes:
    if not data or chance.random() > FAULTS:
        return data
    changed = bytearray(data)
    for _ in range(chance.choice((1, 3, 20))):
        changed[chance.randrange(min(len(changed), chance.choice((600, len(changed)))))] = chance.randrange(256)
    return bytes(changed[: chance.randrange(len(changed))]) if chance.random() < 0.2 else bytes(changed)


def _host(text: str, folder: Path) -> None:
    """What a fleet's host sends; beside the fleet's folder nothing is written, and what is taken can be read."""
    data = _tar(text, "gz")
    if data is None:
        return
    archive, there = folder / "host.tar.gz", folder / "fleet"
    shutil.rmtree(there, ignore_errors=True)
    archive.write_bytes(data)
    try:
        take_in_results(archive, there, "bench1", RECORD)
        store.read_cells(there / "bench1", store.read_experiment(there / "bench1"))
    finally:
        assert {path.name for path in folder.iterdir()} <= {archive.name, there.name}
        assert {path.name for path in there.iterdir()} <= {"bench1"}


@cache
def _hosts_answers() -> list[str]:
    described = measured()
    run = run_of(1, "base")
    values = {"version": "1.0", "benchmarks": [{"metadata": run.metadata, "runs": [{"values": run.values}]}]}
    host = described.host["folder"]
    parts = [
        {"name": "x", "type": "5", "text": ""},
        {"name": "x/experiment.json", "json": json.loads(described.model_dump_json())},
    ]
    parts += [{"name": f"x/{host}/{variant}/locks.json", "json": values} for variant in VARIANTS]
    links = [
        {"name": f"x/{host}/l", "type": "2", "link": "../..", "text": ""},
        {"name": "x/h", "type": "1", "link": "x/experiment.json", "text": ""},
    ]
    return [json.dumps({"members": parts}), json.dumps({"members": [*parts, *links]})]


class _Container:
    """A container from which every path has the same tar, in two pieces."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def get_archive(self, _: str) -> tuple[Iterator[bytes], dict[str, Any]]:
        return iter((self.data[:700], self.data[700:])), {}

    def remove(self, **_: Any) -> None:
        return


def _archive(text: str, folder: Path) -> None:
    """A tar as an archive of images, and as what is taken out of containers: the GIL's probe, wheels, versions, METADATA."""
    data = _tar(text)
    if data is None:
        return
    path, into = folder / "images.tar", folder / "into"
    into.mkdir(exist_ok=True)
    path.write_bytes(data)
    engine: Any = Engine()
    container: Any = _Container(data)
    client: Any = SimpleNamespace(
        volumes=SimpleNamespace(get=lambda _: None), containers=SimpleNamespace(create=lambda *_, **__: container)
    )
    packages: Any = SimpleNamespace(volume="v", mount_path="/packages")
    with suppress(EngineError):
        archives.load(engine, path, hashlib.sha256(data).hexdigest())
    trials.read_gil_probe(SimpleNamespace(container=container))  # type: ignore[arg-type]
    KeptWheels(container).take("key", into)
    with suppress(InterlockError), mock.patch.object(cells, "remove"):
        installer._recorded(client, "sha256:0", packages)
    with suppress(InterlockError), sbom._archive(container, sbom.LIBRARY) as tar:
        sbom._distributions(tar)
    with suppress(InterlockError):
        sbom._linked(container)
        sbom._read_packed(container)
        sbom._records(container)
    assert {one.name for one in folder.iterdir()} <= {path.name, into.name}


@cache
def _archives() -> list[str]:
    images = [{"name": name, "text": data.decode()} for name, data in {**members(TAG), **own(TAG)}.items()]
    wheel = {"wheel": "a-1-py3-none-any.whl", "sha256": "0" * 64, "build_s": 1.5}
    lib = "python3.13/site-packages/a-1.dist-info/METADATA"
    taken = [
        {"name": "gil", "type": "5", "text": ""},
        {"name": "gil/1.gil", "text": "1 0 0 json\n"},
        {"name": lib, "text": "Metadata-Version: 2.1\nName: a\nVersion: 1\n\nwords"},
        {"name": "libpython.so", "text": "\x7fELF libexpat.so"},
        {"name": "l", "type": "2", "link": "gil/1.gil", "text": ""},
    ]
    record = [{"name": "record.json", "json": wheel}]
    versions = [{"name": "interlock.json", "json": {"numpy": "2.0"}}]
    every = [json.dumps({"members": one}) for one in (images, taken, record, versions)]
    return [*every, json.dumps({"members": images, "pack": "gz"}), json.dumps({"members": taken, "pack": "xz"})]


ANSWERS = {
    "a registry's answers": Target(_registry, lambda: REGISTRY, Form.JSON),
    "a registry's conversations": Target(_whole, _answers, Form.JSON),
    "keys and signatures": Target(_key, _key_texts),
    "an engine's events": Target(
        _transfer,
        lambda: [
            '{"status": "Pushing", "id": "a", "progressDetail": {"current": 1, "total": 2}}\n'
            f'{{"status": "Digest: {DIGEST}", "aux": {{"Digest": "{DIGEST}"}}}}\n{{"error": "denied"}}\n'
        ],
        Form.LINES,
    ),
    "a fleet host's archive": Target(_host, _hosts_answers, Form.JSON),
    "archives of images and of containers": Target(_archive, _archives, Form.JSON),
}
