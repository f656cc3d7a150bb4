"""The record of a run of `interlock build`: what each variant took and came to, on which machine."""

from __future__ import annotations

import datetime
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock import __version__, host, store
from interlock.engine.build import worker_count
from interlock.engine.running import facts_of
from interlock.model import BuildRecord, Built


def build_command(names: Sequence[str], everything: bool, profile: str, force: bool) -> str:
    """The command that repeats a build."""
    words = ["interlock", "build", *(["--all"] if everything else names)]
    words += ["--release"] if profile == "release" else []
    return shlex.join([*words, *(["--force"] if force else [])])


@dataclass(frozen=True)
class Run:
    """One run of `interlock build`: its command, and when it began by the calendar and by the monotonic clock."""

    command: str
    profile: str
    started: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    clock_s: float = field(default_factory=time.monotonic)


def write_record(client: Any, folder: Path, built: list[Built], run: Run) -> Path:
    """builds.json in `folder`."""
    record = BuildRecord(
        name=folder.name,
        tool_version=__version__,
        command=run.command,
        started=run.started.isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - run.clock_s, 1),
        profile=run.profile,
        side_by_side=worker_count(len(built)),
        host={**host.facts(), "engine": facts_of(client)},
        builds=built,
    )
    path = folder / store.BUILDS_FILE
    store.write_json(path, record)
    return path
