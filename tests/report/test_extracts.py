"""Many experiments are read on all cores, in their order, and the first that is spoilt is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.errors import StoreError
from interlock.report import extracts
from tests.analysis.extracts import OTHER, write_experiment


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [write_experiment(tmp_path / f"e{day}", {OTHER: 1.0 + day}, day) for day in range(4)]


def test_experiments_come_back_in_their_order(folders: list[Path]) -> None:
    found = extracts.read_extracts(folders)
    assert [one.name for one in found] == [f"2026-11-{day:02}-a" for day in (1, 2, 3, 4)]
    points = [one.measured["locks", "uncontended"].points[OTHER] for one in found]
    assert [point.ratio.estimate for point in points] == pytest.approx([1, 2, 3, 4])


def test_on_several_cores_they_are_the_same(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    alone = extracts.read_extracts(folders)
    monkeypatch.setattr(extracts, "MIN_PER_PROCESS", 2)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert extracts.read_extracts(folders) == alone


def test_a_spoilt_file_is_named_from_another_process_too(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    spoilt = folders[2] / "box" / OTHER / "locks.json"
    spoilt.write_text("{", encoding="utf-8")
    for fewest in (100, 2):
        monkeypatch.setattr(extracts, "MIN_PER_PROCESS", fewest)
        monkeypatch.setattr("os.cpu_count", lambda: 2)
        with pytest.raises(StoreError, match="not a pyperf file") as caught:
            extracts.read_extracts(folders)
        assert caught.value.file == str(spoilt)
