"""What is kept is taken only if nothing in it changed; `clean` leaves the living and removes the dead."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.engine import ownership
from interlock.engine.packages.kept_wheels import KeptWheels
from tests.engine.packages.test_kept_wheels import DATA, NAME, Container
from tests.engine.test_ownership import FOLDER

CHANGES, PROCESSES = 3000, 40


def changed(data: bytes, chance: random.Random) -> bytes:
    """The data with a byte that is another, missing or too much, or cut short."""
    at = chance.randrange(len(data))
    other = bytes([(data[at] + chance.randrange(1, 256)) % 256])
    return chance.choice([data[:at] + other + data[at + 1 :], data[:at] + data[at + 1 :], data + other, data[:at]])


def test_a_kept_wheel_in_which_anything_changed_is_not_taken(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chance, container = random.Random(17), Container(tmp_path / "root")
    kept, into, lost = KeptWheels(container), tmp_path / "into", 0
    into.mkdir()
    (tmp_path / NAME).write_bytes(DATA)
    for _ in range(CHANGES):
        kept.keep("key", tmp_path / NAME, 1.5)
        (wheel,) = (tmp_path / "root/cache/key").rglob("*.whl")
        spoiled = chance.choice([wheel, tmp_path / "root/cache/key/record.json"])
        spoiled.write_bytes(changed(spoiled.read_bytes(), chance))
        found = kept.take("key", into)
        lost += found is not None and found[0].read_bytes() != DATA
    counted(record_property, "a kept wheel is what was built", CHANGES, lost)


def test_clean_tells_the_living_from_the_dead_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    chance, processes = random.Random(17), list[subprocess.Popen[str]]()
    try:
        for _ in range(PROCESSES):
            command = [sys.executable, "-c", FOLDER]
            processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        folders = [Path((one.stdout.readline() if one.stdout else "").strip()) for one in processes]
        lost = 0
        for one in chance.sample(range(PROCESSES), PROCESSES):
            processes[one].send_signal(signal.SIGKILL)
            processes[one].wait()
            lost += ownership.remove_dead(tmp_path) != [folders[one]]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    counted(record_property, "clean never touches the living and leaves nothing of the dead", PROCESSES, lost)


def counted(record_property: Callable[[str, object], None], promise: str, tried: int, lost: int) -> None:
    for name, value in (("promise", promise), ("tried", tried), ("survived", tried - lost), ("lost", lost)):
        record_property(name, value)
    assert lost == 0
