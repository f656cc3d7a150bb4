"""The entry point as a user calls it, in a copy of the project, where no engine answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import Entry

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
