"""What is kept is taken only if nothing in it changed; `clean` leaves the living and removes the dead."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from interlock.engine import ownership
from interlock.engine.packages.kept_wheels import KeptWheels
from tests.engine.packages.test_kept_wheels import DATA, NAME, Container
from tests.engine.test_ownership import other_process
from tests.torture.experiments import Record, count

pytestmark = pytest.mark.promise

CHANGES, PROCESSES = 3000, 40


def changed(data: bytes, chance: random.Random) -> bytes:
    """The data with a byte that is another, missing or too much, or cut short."""
    at = chance.randrange(len(data))
    other = bytes([(data[at] + chance.randrange(1, 256)) % 256])
    return chance.choice([data[:at] + other + data[at + 1 :], data[:at] + data[at + 1 :], data + other, data[:at]])


def test_a_kept_wheel_in_which_anything_changed_is_not_taken(tmp_path: Path, record_property: Record) -> None:
    chance, container = random.Random(17), Container(tmp_path / "root")
    kept, into, wrong = KeptWheels(container), tmp_path / "into", list[str]()
    into.mkdir()
    (tmp_path / NAME).write_bytes(DATA)
    for _ in range(CHANGES):
        kept.keep("key", tmp_path / NAME, 1.5)
        (wheel,) = (tmp_path / "root/cache/key").rglob("*.whl")
        spoiled = chance.choice([wheel, tmp_path / "root/cache/key/record.json"])
        spoiled.write_bytes(changed(spoiled.read_bytes(), chance))
        found = kept.take("key", into)
        wrong += [f"{spoiled} was taken"] if found is not None and found[0].read_bytes() != DATA else []
    count(record_property, CHANGES, wrong)


def test_clean_tells_the_living_from_the_dead_at_any_moment(tmp_path: Path, record_property: Record) -> None:
    chance, wrong = random.Random(17), list[str]()
    with ExitStack() as ending:
        others = [ending.enter_context(other_process(tmp_path)) for _ in range(PROCESSES)]
        for process, folder, _ in chance.sample(others, PROCESSES):
            process.kill()
            process.wait()
            removed = ownership.remove_dead(tmp_path)
            wrong += [] if removed == [folder] else [f"{removed}, not {folder}"]
    count(record_property, PROCESSES, wrong)
