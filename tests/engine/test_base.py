"""The base is made with debootstrap only by who may; everybody else is told what to do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ImageNotFound

from interlock import catalog
from interlock.engine import base as bases
from interlock.errors import EngineError
from tests.builders import ROOT


class NoImages:
    """An engine that has no image, and whose registry has none either."""

    def get(self, reference: str) -> Any:
        raise ImageNotFound(f"no {reference}")

    pull = get


class NoRegistry:
    """Says nothing of it when it is asked to pull, as an engine does."""

    def pull(self, reference: str) -> str:
        return f"pulling {reference}"


class Engine:
    images = NoImages()
    api = NoRegistry()


def put(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.fixture
def ordinary_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Somebody who is not root; the folder is his PATH."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("sudo", "may"), [("exit 0", True), ("exit 1", False), (None, False)], ids=["sudo", "sudo asks", "no sudo"]
)
def test_an_ordinary_user_may_if_sudo_asks_nothing(ordinary_user: Path, sudo: str | None, may: bool) -> None:
    if sudo is not None:
        put(ordinary_user, "sudo", sudo)
    assert bases.may_be_root() is may


def test_root_may_without_sudo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bases.may_be_root()


def test_who_may_not_is_told_so_in_one_sentence(ordinary_user: Path, tmp_path: Path) -> None:
    put(ordinary_user, "debootstrap", "exit 0")
    base = next(iter(catalog.load(ROOT).bases.values()))
    with pytest.raises(EngineError, match="only root may run debootstrap") as raised:
        bases.ensure_base(Engine(), base, tmp_path / "cache", lambda _: None)
    assert "--engine host" in raised.value.todo
