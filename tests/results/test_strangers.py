"""A folder of results that a stranger made: nothing outside of it is read or written, and nothing waits for ever."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from interlock import untrusted
from interlock.errors import StoreError
from interlock.fleet.record import FleetRecord, HostRecord
from interlock.results import packed, store
from interlock.results.experiments import EXPERIMENT_FILE, CellResult, Experiment
from interlock.results.journal import JOURNAL_FILE, JournalEntry, JournalHeader
from interlock.results.trials import Trial
from tests.builders import make_cell, make_experiment, make_profile, make_workload
from tests.fleet.test_record import RECORD
from tests.results.writer import begun, entry_of, run_of
from tests.trials import make_trial

pytestmark = pytest.mark.promise

NAMES = ["../../x", "/tmp/x", "a/b", "..", "", "a\0b", "a+../x", "a\n", "a+b+/c"]


def outside(tmp_path: Path) -> dict[str, bytes | None]:
    """What is around the experiment's folder `in/x`."""
    there = [path for path in tmp_path.rglob("*") if path.relative_to(tmp_path).parts[:2] != ("in", "x")]
    return {str(path): path.read_bytes() if path.is_file() else None for path in there}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in" / "x"
    made.mkdir(parents=True)
    (tmp_path / "out").mkdir()
    return made


def write_journal(folder: Path, entries: list[dict[str, Any]]) -> None:
    """An experiment that was killed, with a journal that says anything."""
    store.write_json(folder / EXPERIMENT_FILE, begun())
    first = JournalHeader(
        experiment=untrusted.sha256_of(folder / EXPERIMENT_FILE), workload=make_workload("locks")
    ).model_dump_json()
    lines = [first, *map(json.dumps, entries), ""]
    (folder / JOURNAL_FILE).write_text("\n".join(lines))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", ["runs", "profiles"])
def test_a_label_of_a_journal_names_no_file_elsewhere(name: str, key: str, folder: Path, tmp_path: Path) -> None:
    what: object = [run_of(1, "a").model_dump()] if key == "runs" else make_profile().model_dump(mode="json")
    entry = {**entry_of(1, 1).model_dump(mode="json"), key: {name: {"uncontended": what}}}
    write_journal(folder, [entry])
    before = outside(tmp_path)
    assert store.read_experiment(folder) == begun()  # the line is none
    assert outside(tmp_path) == before
    assert [path.name for path in folder.rglob("*")] == [EXPERIMENT_FILE]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "make",
    [
        lambda name: make_experiment(name=name),
        make_cell,
        lambda name: make_cell("a", mode=name),
        lambda name: make_cell("a", name),
        lambda name: JournalEntry.model_validate({**entry_of(1, 1).model_dump(), "runs": {name: {}}}),
        lambda name: make_trial(tried={name: {}}),
        lambda name: FleetRecord.model_validate({**RECORD.model_dump(), "name": name}),
        lambda name: FleetRecord.model_validate({**RECORD.model_dump(), "hosts": {name: HostRecord()}}),
    ],
    ids=["experiment", "variant", "mode", "workload", "journal", "trial", "fleet", "host"],
)
def test_a_name_that_a_path_is_made_of_is_one_name(
    name: str, make: Callable[[str], Experiment | CellResult | JournalEntry | Trial | FleetRecord]
) -> None:
    with pytest.raises(ValidationError):
        make(name)


@pytest.mark.parametrize("name", [one for one in NAMES if "+" not in one and one != "a\n"])
def test_no_path_of_a_cell_is_made_of_what_is_no_name(name: str, folder: Path) -> None:
    for words in ((name, "a", None, "w"), ("box", "a", None, f"../{name}"), ("box", name, "../m", "w")):
        with pytest.raises(StoreError):
            store.cell_path(folder, *words)


def with_cells(folder: Path) -> Path:
    """Write an experiment whose values are read; return the file of a cell."""
    write_journal(folder, [entry_of(1, 1).model_dump(mode="json")])
    found = store.read_experiment(folder)
    assert [bool(one) for key, one in store.read_cell_values(folder, found).items() if key[1] == "locks"] == [True] * 2
    return store.cell_path(folder, "box", "a", None, "locks")


@pytest.mark.parametrize("depth", ["host", "label"])
def test_a_folder_that_is_a_link_out_of_the_experiment_is_neither_read_nor_written(
    depth: str, folder: Path, tmp_path: Path
) -> None:
    linked = with_cells(folder).parent
    linked = linked.parent if depth == "host" else linked
    linked.rename(tmp_path / "out" / "theirs")
    linked.symlink_to("../../../out/theirs" if depth == "label" else "../../out/theirs")
    write_journal(folder, [entry_of(1, 2).model_dump(mode="json")])
    before = outside(tmp_path)
    with pytest.raises(StoreError, match="link") as caught:
        store.read_experiment(folder)
    assert caught.value.file == str(folder)
    (folder / JOURNAL_FILE).unlink()
    with pytest.raises(StoreError, match="link"):
        store.read_cells(folder, store.read_experiment(folder))
    assert outside(tmp_path) == before


def test_a_link_to_the_whole_folder_is_followed_and_so_is_one_that_stays_inside(folder: Path, tmp_path: Path) -> None:
    cell = with_cells(folder)
    cell.parent.rename(folder / "box" / "moved")
    cell.parent.symlink_to("moved")
    (tmp_path / "link").symlink_to(folder)
    found = store.read_cell_values(tmp_path / "link", store.read_experiment(tmp_path / "link"))
    assert found["a", "locks"]


def into_fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def into_link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def into_device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [into_fifo, into_link, into_device, lambda path, _: path.mkdir()])
@pytest.mark.parametrize("kind", ["values", "profile"])
def test_a_raw_file_that_is_no_regular_file_is_refused_and_nothing_waits(
    kind: str, make: Callable[[Path, Path], None], folder: Path, tmp_path: Path, deadline: None
) -> None:
    cell = with_cells(folder)
    secret = tmp_path / "out" / "secret"
    secret.write_bytes(cell.read_bytes())
    path = cell if kind == "values" else store.profile_path(cell)
    path.unlink(missing_ok=True)
    make(path, secret)
    described = store.read_experiment(folder)
    with pytest.raises(StoreError) as caught:
        store.read_cells(folder, described)
    assert caught.value.file == str(path)
    if kind == "values":
        with pytest.raises(StoreError):
            store.read_runs(path)


def test_a_journal_that_is_a_fifo_does_not_make_a_reader_wait(folder: Path, deadline: None) -> None:
    with_cells(folder)
    os.mkfifo(folder / JOURNAL_FILE)
    assert store.read_experiment(folder)


def test_a_journal_of_a_gigabyte_is_refused_before_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_journal(folder, [])
    path = folder / JOURNAL_FILE
    os.truncate(path, 2**30)  # with a hole: it takes no space
    monkeypatch.setattr(os, "dup", lambda _: pytest.fail("it is read"))
    with pytest.raises(StoreError, match="MiB") as caught:
        store.read_experiment(folder)
    assert caught.value.file == str(path)
    assert path.is_file()


def test_packed_values_of_a_gigabyte_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / packed.VALUES_FILE).write_bytes(b"")
    os.truncate(folder / packed.VALUES_FILE, 2**30)
    with pytest.raises(StoreError, match="MiB"):
        packed.with_values(folder, tmp_path / "cache")
