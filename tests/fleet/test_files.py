"""fleet.json: what is read of earlier fleets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.errors import StoreError
from interlock.fleet import files
from interlock.fleet.record import Attempt, Ending, FleetRecord, Shard
from tests.builders import make_settings

SETTINGS = make_settings(["cpython-3.13", "cpython-3.14t"])


def attempt(ending: Ending, duration_s: float) -> Attempt:
    return Attempt(host=f"host-{ending}", started="2026-11-21T06:00:00+00:00", duration_s=duration_s, ending=ending)


def record(name: str, duration_s: float, **changes: Any) -> FleetRecord:
    attempts = [attempt(Ending.LOST, 7), attempt(Ending.DONE, duration_s)]
    data: dict[str, Any] = {
        "name": name,
        "token": "abc",
        "tool_version": "0",
        "command": "",
        "started": f"{name}T06:00:00+00:00",
        "duration_s": 1,
        "settings": SETTINGS,
        "each": False,
        "images": {},
        "hosts": {},
        "shards": [Shard(kind="epyc", workload="locks", expected_s=1, attempts=attempts)],
    }
    return FleetRecord.model_validate(data | changes)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    files.write(tmp_path, record("2026-11-21", 60))
    assert files.read(tmp_path) == record("2026-11-21", 60)


def test_a_fleet_that_is_not_there_is_said_by_its_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"fleet\.json"):
        files.read(tmp_path)


def test_what_took_how_long_is_told_oldest_first_without_lost_tries_and_for_as_many_variants(tmp_path: Path) -> None:
    files.write(tmp_path / "b", record("2026-11-22", 80))
    files.write(tmp_path / "a", record("2026-11-21", 60))
    one = make_settings(["cpython-3.13"])
    assert list(files.measured_s(tmp_path, one)) == [("locks", 30), ("locks", 40)]


def test_full_runs_say_nothing_of_quick_ones(tmp_path: Path) -> None:
    files.write(tmp_path / "a", record("2026-11-21", 60, settings=SETTINGS.model_copy(update={"quick": False})))
    assert list(files.measured_s(tmp_path, SETTINGS)) == []
