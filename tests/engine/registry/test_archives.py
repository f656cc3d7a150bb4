"""Which archives are given to the engine: those of the named sum that list what they have, and have nothing of ours."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.engine.registry import archives
from interlock.errors import EngineError

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


def test_a_list_that_is_too_large_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_LIST_BYTES", 100)
    engine: Any = Engine()
    with pytest.raises(EngineError):
        archives.load(engine, path, write(path, members(TAG), own(TAG)))
    assert engine.loaded == []
