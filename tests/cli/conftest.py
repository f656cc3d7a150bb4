"""The entry point as a user calls it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.cli import main

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], project: Path, tmp_path: Path
) -> Iterator[Run]:
    """Runs the entry point in the copy of the project: its exit code, and what it wrote to stderr."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")

    def call(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["interlock", *words])
        try:
            main.main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        return code, capfd.readouterr().err

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)
