"""The folder that cells write to: in memory, or on a disk where there is too little of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine.host import memory
from interlock.engine.host.account import MYSELF

ROOM = 600 * 2**20


def chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: dict[str, int]) -> str:
    """The name of the place that is chosen of places with so many bytes free."""
    for name in free:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(memory, "places", lambda: [*(tmp_path / name for name in free), tmp_path / "none"])
    monkeypatch.setattr(memory, "_free_bytes", lambda place: free[place.name])
    return memory.choose(MYSELF).name


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        ({"shm": ROOM, "tmp": 2 * ROOM}, "shm"),
        ({"shm": 64 * 2**20, "tmp": ROOM, "var": 2 * ROOM}, "tmp"),  # what engines give a container of shared memory
        ({"shm": 1, "tmp": 3, "var": 2}, "tmp"),
    ],
)
def test_memory_comes_first_then_the_first_place_with_room_and_without_any_the_one_with_most(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: dict[str, int], expected: str
) -> None:
    assert chosen(monkeypatch, tmp_path, free) == expected


def test_a_place_is_told_with_whether_it_is_on_a_disk(tmp_path: Path) -> None:
    assert memory.words(Path("/dev/shm")) == "/dev/shm (in memory)"
    assert memory.is_memory(Path("/proc")) is False
    assert "on a disk, proc" in memory.words(Path("/proc/self"))


def test_what_an_experiment_left_is_looked_for_in_every_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert chosen(monkeypatch, tmp_path, {"shm": ROOM, "tmp": ROOM}) == "shm"
    assert memory.make("one", MYSELF) in memory.folders_of("one")
    assert {path.parent.name for path in memory.folders_of("one")} == {"shm", "tmp", "none"}
