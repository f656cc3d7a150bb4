"""The entry point as a user calls it, in a copy of the project, where no engine answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.engine.build import base
from tests.builders import Entry
from tests.keyring import open_keyring
from tests.playing_upstream import Playing, make_keys, playing

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, entry: Entry, project: Path, tmp_path: Path) -> Run:
    """Runs it: its exit code, and what it wrote to stderr."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")

    def call(*words: str) -> tuple[int, str]:
        code, _, said = entry(*words)
        return code, said

    return call


@pytest.fixture
def fed_by_world(
    monkeypatch: pytest.MonkeyPatch, project: Path, tmp_path_factory: pytest.TempPathFactory, world: Playing
) -> Path:
    """The copy of the project, around the current folder; its mirror is the world, which serves nothing yet."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("INTERLOCK_DEBIAN_MIRROR", world.mirror)
    monkeypatch.setattr(base, "KEYRINGS", (tmp_path_factory.getbasetemp() / "archive.gpg",))
    world.served.clear()
    return project


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playing]:
    """A server that plays upstream and Debian's mirror, with keys of its own."""
    with open_keyring() as keyring, playing(keyring) as world:
        make_keys(keyring, tmp_path_factory.getbasetemp())
        yield world
