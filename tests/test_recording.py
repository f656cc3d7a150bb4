"""builds.json: what a run of `interlock build` says of itself."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock import recording, store
from interlock.model import Built, Outcome, State


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((["a", "b"], False, "standard", False), "interlock build a b"),
        ((["a", "b"], True, "standard", True), "interlock build --all --force"),
        ((["a"], False, "release", False), "interlock build a --release"),
    ],
)
def test_the_command_is_the_one_that_repeats_the_build(words: Any, expected: str) -> None:
    assert recording.build_command(*words) == expected


def test_what_is_written_is_read_back_with_machine_engine_and_duration(tmp_path: Path) -> None:
    client = SimpleNamespace(
        info=lambda: {"ServerVersion": "1", "Driver": "overlay2", "NCPU": 2, "MemTotal": 1, "CgroupVersion": "2"},
        version=lambda: {"Version": "1", "Platform": {"Name": "an engine"}},
    )
    missing = Outcome(state=State.UNAVAILABLE, reason="example.org: no answer")
    built = [Built(variant="a", profile="standard", outcome=missing)]
    began = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
    run = recording.Run("interlock build a", "standard", began, time.monotonic() - 61)
    folder = tmp_path / "references" / "one"
    assert recording.write_record(client, folder, built, run) == folder / store.BUILDS_FILE
    record = store.latest_builds(tmp_path / "references", "standard")
    assert record is not None
    assert (record.name, record.command, record.builds) == ("one", "interlock build a", built)
    assert record.started == "2026-11-21T12:00:00+00:00"
    assert 61 <= record.duration_s < 120
    assert record.host["engine"]["storage_driver"] == "overlay2"
    assert store.latest_builds(tmp_path / "references", "release") is None
