"""Which archives are given to the engine: those of the named sum that list what they have, and have nothing of ours."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.engine.registry import archives
from interlock.engine.registry.keys import PublicKey, SigningKey, read_public_key, read_signing_key
from interlock.errors import EngineError, SignatureError
from tests.signing import make_key, openssl

TAG, BASE = "interlock/python:3.13-trixie", "interlock/base:trixie-0123456789ab"
NO_VARIANTS = [
    "interlock/instruments:latest",
    "localhost/interlock/instruments:latest",
    "interlock/load:latest",
    "interlock/builder:3.13-trixie",
    "python:3.13-slim",
    "registry.example/interlock/python:3.13",
    "interlock/python:a/b",
]
CONFIG = b'{"architecture": "amd64"}'


class Engine:
    """Says what it was given to load."""

    def __init__(self) -> None:
        self.loaded: list[bytes] = []
        self.images = self

    def load(self, file: Any) -> list[Any]:
        self.loaded.append(file.read())
        return [SimpleNamespace(tags=[TAG, BASE, "another:tag"])]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def members(*tags: str, config: bytes = CONFIG) -> dict[str, bytes]:
    """What an engine writes for one image with these tags."""
    name = f"{sha256(config)}.json"
    listed = [{"Config": name, "RepoTags": list(tags), "Layers": []}]
    return {name: config, "manifest.json": json.dumps(listed).encode()}


def own(*tags: str, config: bytes = CONFIG) -> dict[str, bytes]:
    return {"interlock.json": json.dumps(dict.fromkeys(tags, sha256(config))).encode()}


def write(path: Path, *parts: dict[str, bytes]) -> str:
    """An archive with these files one after the other; its sum."""
    with tarfile.open(path, "w") as tar:
        for name, data in (item for part in parts for item in part.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return sha256(path.read_bytes())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "images.tar"


@pytest.mark.parametrize("tags", [(TAG, BASE), (f"localhost/{TAG}", f"localhost/{BASE}")], ids=["docker", "podman"])
@pytest.mark.parametrize("prefix", ["", "sha256:"])
def test_an_archive_of_the_named_sum_is_loaded_and_its_own_tags_are_returned(
    path: Path, tags: tuple[str, ...], prefix: str
) -> None:
    engine: Any = Engine()
    found = write(path, members(*tags), own(*tags))
    assert archives.load(engine, path, prefix + found) == [BASE, TAG]
    assert engine.loaded == [path.read_bytes()]


@pytest.mark.parametrize(
    "parts",
    [
        [members(TAG)],
        [members(TAG), own(TAG, BASE)],
        [members(TAG, BASE), own(TAG)],
        [members(TAG), own(TAG, config=b"{}")],
        [members(TAG), own(TAG), members(BASE)],
        [members(TAG), own(TAG), own(TAG)],
        [members(TAG), {"interlock.json": b"no json"}],
        [{"manifest.json": b"[1]"}, own(TAG)],
        [members(), own(sha256(CONFIG))],
        *([members(TAG, tag), own(TAG, tag)] for tag in NO_VARIANTS),
    ],
)
def test_an_archive_that_lists_other_images_or_brings_what_is_no_variant_is_refused(
    path: Path, parts: list[dict[str, bytes]]
) -> None:
    engine: Any = Engine()
    with pytest.raises(EngineError):
        archives.load(engine, path, write(path, *parts))
    assert engine.loaded == []


@pytest.mark.parametrize("named", ["0" * 64, "", "sha256:", "md5:0", "F" * 64])
def test_an_archive_of_another_sum_is_refused_before_it_is_parsed(path: Path, named: str) -> None:
    engine: Any = Engine()
    found = write(path, members(TAG), own(TAG))
    with pytest.raises(EngineError, match=found):
        archives.load(engine, path, named)
    assert engine.loaded == []


@pytest.fixture
def keys(tmp_path: Path) -> list[tuple[SigningKey, PublicKey]]:
    made = [make_key(tmp_path, name) for name in ("ours", "others")]
    return [(read_signing_key(private), read_public_key(public)) for private, public in made]


def test_an_archive_that_the_key_has_signed_is_loaded_without_a_sum(
    path: Path, keys: list[tuple[SigningKey, PublicKey]], tmp_path: Path
) -> None:
    engine: Any = Engine()
    found = write(path, members(TAG, BASE), own(TAG, BASE))
    (ours, public), _ = keys
    text = archives.signature_text(found, ours)
    (tmp_path / "images.tar.sig").write_text(text)
    assert archives.load(engine, path, "", public) == [BASE, TAG]
    assert archives.load(engine, path, found, public) == [BASE, TAG]
    with pytest.raises(EngineError, match=found):
        archives.load(engine, path, "0" * 64, public)
    (tmp_path / "der").write_bytes(base64.b64decode(text))
    openssl("dgst", "-sha256", "-verify", public.file, "-signature", str(tmp_path / "der"), str(path))


@pytest.mark.parametrize("beside", [None, "", "no base64", "AAAA", "others", "another file", "long"])
def test_an_archive_that_the_key_has_not_signed_is_refused_before_it_is_parsed(
    path: Path, keys: list[tuple[SigningKey, PublicKey]], beside: str | None
) -> None:
    engine: Any = Engine()
    found = write(path, members(TAG), own(TAG))
    (ours, public), (others, _) = keys
    texts = {
        "others": archives.signature_text(found, others),
        "another file": archives.signature_text(sha256(b"another file"), ours),
        "long": archives.signature_text(found, ours) + " " * archives.MOST_SIGNATURE_BYTES,
    }
    if beside is not None:
        path.with_name("images.tar.sig").write_text(texts.get(beside, beside))
    for named in ("", found):
        with pytest.raises(SignatureError, match=r"images\.tar\.sig"):
            archives.load(engine, path, named, public)
    assert engine.loaded == []


def test_a_list_that_is_too_large_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_LIST_BYTES", 100)
    engine: Any = Engine()
    with pytest.raises(EngineError):
        archives.load(engine, path, write(path, members(TAG), own(TAG)))
    assert engine.loaded == []


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, lambda data: gzip.compress(data)[:-9]])
def test_an_archive_that_is_packed_is_not_unpacked_to_look_into_it(path: Path, pack: Callable[[bytes], bytes]) -> None:
    write(path, members(TAG), own(TAG))
    path.write_bytes(pack(path.read_bytes()))
    engine: Any = Engine()
    with pytest.raises(EngineError):
        archives.load(engine, path, sha256(path.read_bytes()))
    assert engine.loaded == []
