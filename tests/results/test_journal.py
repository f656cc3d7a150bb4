"""A completed block survives any end: the journal is written, cut anywhere, and read again."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.errors import StoreError
from interlock.measure import resumable
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, State, Times
from interlock.results.journal import JOURNAL_FILE, KILLED, Journal
from tests.builders import ROOT, make_profile, make_workload
from tests.results.writer import LABELS, begun, can_mount, entry_of, files_of, run_of, value_of

pytestmark = pytest.mark.promise


def make_folder(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    store.write_json(folder / EXPERIMENT_FILE, begun())
    return folder


def write_blocks(folder: Path, count: int) -> None:
    """A journal of so many blocks, as a killed process leaves it."""
    opened = Journal(folder)
    opened.begin(make_workload("locks"), {})
    for block in range(1, count + 1):
        opened.add(entry_of(1, block))
    opened.close()


def killed(tmp_path: Path, blocks: int) -> Path:
    """The folder of an experiment that was killed after so many blocks."""
    folder = make_folder(tmp_path / "x")
    write_blocks(folder, blocks)
    return folder


def measured(folder: Path, label: str = "base") -> list[float]:
    """The values of a row in the cell's file."""
    found = store.read_values(store.cell_path(folder, "box", label, None, "locks"))
    return [value for run in found["uncontended"].processes for value in run] if found else []


def expected(count: int, label: str = "base") -> list[float]:
    return [value_of(block, label) for block in range(1, count + 1)]


def test_whatever_blocks_a_killed_process_has_written_can_be_reported_and_resumed(tmp_path: Path) -> None:
    folder = killed(tmp_path, 3)
    found = store.read_experiment(folder)
    values, _ = store.read_cells(folder, found)
    assert measured(folder) == expected(3)
    assert measured(folder, "a") == expected(3, "a")
    assert [one.processes for one in values["a", "locks"].values()] == [[[one] for one in expected(3, "a")]]
    assert (found.ended_by, found.unfinished, found.times) == (KILLED, ["locks"], {"locks": Times(measuring_s=3)})
    states = {(one.label, one.workload): one.outcome.state for one in found.cells}
    assert states == {
        (label, name): State.OK if name == "locks" else State.NOT_MEASURED
        for name in ("locks", "startup")
        for label in LABELS
    }
    assert found.order == {"locks": [list(LABELS)] * 3}
    assert resumable.remaining(found) == ["locks", "startup"]
    assert sorted(path.name for path in folder.iterdir()) == ["box", "experiment.json"]
    assert store.read_experiment(folder) == found


def test_an_experiment_that_was_killed_before_a_block_says_so_and_begins_again(tmp_path: Path) -> None:
    folder = killed(tmp_path, 0)
    found = store.read_experiment(folder)
    assert found == begun()
    assert resumable.remaining(found) == ["locks", "startup"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=settings().max_examples // 2)
@given(st.floats(0, 1), st.binary(max_size=20))
def test_a_journal_that_was_cut_anywhere_has_the_blocks_that_were_complete(
    tmp_path: Path, share: float, torn: bytes
) -> None:
    folder = killed(tmp_path, 4)
    path = folder / JOURNAL_FILE
    whole = path.read_bytes()
    kept = whole[: int(share * len(whole))]
    path.write_bytes(kept + torn.replace(b"\n", b""))
    complete = max(kept.count(b"\n") - 1, 0)
    store.read_experiment(folder)
    assert measured(folder) == expected(complete)
    for one in (store.cell_path(folder, "box", label, None, "locks") for label in LABELS):
        one.unlink(missing_ok=True)


def test_a_recovery_that_was_itself_cut_is_done_once(tmp_path: Path) -> None:
    folder = killed(tmp_path, 3)
    left = (folder / JOURNAL_FILE).read_bytes()
    first = store.read_experiment(folder)
    # Cut after everything but the removal of the journal.
    (folder / JOURNAL_FILE).write_bytes(left)
    assert store.read_experiment(folder) == first
    # Cut after cells' files, before experiment.json.
    store.write_json(folder / EXPERIMENT_FILE, begun())
    (folder / JOURNAL_FILE).write_bytes(left)
    assert store.read_experiment(folder) == first
    assert measured(folder) == expected(3)


def test_who_measures_keeps_the_journal_and_others_read_what_there_is(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "x")
    measuring = Journal(folder)
    measuring.begin(make_workload("locks"), {})
    measuring.add(entry_of(1, 1))
    assert not store.recover(folder)
    assert store.read_experiment(folder) == begun()
    with pytest.raises(StoreError) as caught:
        Journal(folder)
    assert caught.value.file == str(folder)
    measuring.close()
    assert store.recover(folder)
    assert measured(folder) == expected(1)


def test_an_error_that_ended_an_experiment_is_named_and_what_a_write_has_left_is_removed(tmp_path: Path) -> None:
    folder = killed(tmp_path, 1)
    (folder / ".experiment.json.a1b2c3d4").write_text("{")
    store.recover(folder, "an error (the disk is full)")
    assert store.read_experiment(folder).ended_by == "an error (the disk is full)"
    assert measured(folder) == expected(1)
    assert sorted(path.name for path in folder.iterdir()) == ["box", "experiment.json"]


def test_profiles_of_a_cut_workload_are_kept(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "x")
    opened = Journal(folder)
    opened.begin(make_workload("locks"), {})
    opened.add(entry_of(1, 1).model_copy(update={"profiles": {"a": {"uncontended": make_profile()}}}))
    opened.close()
    store.read_experiment(folder)
    path = store.cell_path(folder, "box", "a", None, "locks")
    assert store.read_profiles(path) == {"uncontended": make_profile()}


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = killed(tmp_path, 2)
    store.read_experiment(folder)
    (first, _) = store.read_runs(store.cell_path(folder, "box", "a", None, "locks"))["uncontended"]
    wanted = run_of(1, "a")
    assert (list(first.values), first._metadata) == (wanted.values, wanted.metadata)


FULL = """
import json, pathlib, subprocess, sys
from interlock.errors import StoreError
from interlock.results import store
from interlock.results.journal import Journal
from tests.builders import make_workload
from tests.results.test_journal import make_folder, measured
from tests.results.writer import entry_of

there = pathlib.Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", there], check=True)
folder = make_folder(there / "x")
opened = Journal(folder)
opened.begin(make_workload("locks"), {})
(there / "filler").write_bytes(b"x" * 16_000)
said, block = "", 0
try:
    while block < 10_000:
        opened.add(entry_of(1, block + 1))
        block += 1
except StoreError as error:
    said = str(error)
opened.close()
(there / "filler").unlink()
store.read_experiment(folder)
print(json.dumps([block, len(measured(folder)), said]))
"""


@pytest.mark.skipif(not can_mount(), reason="this machine lets nobody mount in a name space of their own")
def test_every_block_before_a_full_disk_is_kept(tmp_path: Path) -> None:
    argv = ["unshare", "-rm", sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)
    written, kept, said = json.loads(done.stdout)
    assert written > 0
    assert kept == written
    assert "No space left" in said


def test_every_block_that_a_killed_process_has_said_is_there(tmp_path: Path) -> None:
    """After three kills; tests/torture tries a hundred."""
    rng = random.Random(0)
    for _ in range(3):
        said = kill_once(tmp_path, rng.uniform(0, 0.15))
        found = measured(tmp_path)
        # One more than was said may have been written when it was killed.
        assert len(found) in {said, said + 1}
        assert found == expected(len(found))


def kill_once(folder: Path, after_s: float) -> int:
    """Let a process write blocks, kill it some time after the first one, and return the last one that it said."""
    argv = [sys.executable, "-m", "tests.results.writer", str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout
        first = process.stdout.readline()
        time.sleep(after_s)
        process.kill()
        lines = [first, *process.stdout.read().splitlines()]
    store.read_experiment(folder)
    return int([line for line in lines if line.strip()][-1])


def edit_last(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change the last line of a journal, and return its path."""
    path = folder / JOURNAL_FILE
    *lines, last, end = path.read_text().split("\n")
    change(entry := json.loads(last))
    path.write_text("\n".join([*lines, json.dumps(entry), end]))
    return path


@pytest.mark.parametrize("changes", [{"values": []}, {"values": [-1.0]}, {"metadata": {"loops": "x"}}])
def test_a_journal_with_runs_that_are_none_is_refused_by_its_name(tmp_path: Path, changes: dict[str, object]) -> None:
    folder = killed(tmp_path, 2)
    path = edit_last(folder, lambda entry: entry["runs"]["a"]["uncontended"][0].update(changes))
    with pytest.raises(StoreError, match="journal"):
        store.read_experiment(folder)
    assert path.is_file()


@pytest.mark.parametrize("place", ["cells", "limits"])
def test_a_journal_with_cells_of_another_workload_is_refused_and_nothing_is_written(tmp_path: Path, place: str) -> None:
    folder = killed(tmp_path, 2)
    path = edit_last(folder, lambda entry: entry.update({place: [entry["cells"][0] | {"workload": "x"}]}))
    before = files_of(folder)
    with pytest.raises(StoreError) as raised:
        store.read_experiment(folder)
    assert raised.value.file == str(path)
    assert files_of(folder) == before
