"""A raw file that changed after the experiment ended is named, whatever it says now."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from interlock.errors import StoreError
from interlock.results import store
from interlock.results.experiments import Experiment, Profiles, Values
from interlock.results.profiles import CellProfile
from interlock.results.sums import SUMS_FILE, check_sums, read_sums, write_sums
from tests.builders import make_profile
from tests.results.test_journal import make_folder, write_blocks

pytestmark = pytest.mark.promise


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An experiment with values of two variants, profiles of one of them, and sums."""
    made = make_folder(tmp_path / "x")
    write_blocks(made, 2)
    store.read_experiment(made)
    profile = CellProfile(benchmarks={"uncontended": make_profile()})
    store.write_json(store.profile_path(cell(made)), profile)
    write_sums(made)
    return made


def cell(folder: Path) -> Path:
    return store.cell_path(folder, "box", "a", None, "locks")


def read(folder: Path) -> tuple[Values, Profiles]:
    return store.read_cells(folder, store.read_experiment(folder))


def test_the_sums_are_of_every_raw_file_and_sha256sum_reads_them(folder: Path) -> None:
    assert read_sums(folder).known.keys() == {
        "box/a/locks.json", "box/a/locks.profile.json", "box/base/locks.json"
    }  # fmt: skip
    subprocess.run(["sha256sum", "--strict", "-c", SUMS_FILE], cwd=folder, capture_output=True, check=True)
    values, profiles = read(folder)
    assert values["a", "locks"]
    assert profiles["a", "locks"]
    check_sums(folder)


@pytest.mark.parametrize("kind", ["values", "profile"])
def test_one_digit_that_changed_is_noticed_and_the_file_named(kind: str, folder: Path) -> None:
    path = cell(folder) if kind == "values" else store.profile_path(cell(folder))
    text = path.read_text()
    json.loads(changed := text.replace("1", "2", 1) if kind == "profile" else text.replace("1.0015", "1.0016"))
    assert changed != text
    path.write_text(changed)
    for reads in (read, check_sums):
        with pytest.raises(StoreError) as caught:
            reads(folder)
        assert caught.value.file == str(path)
    # Without the file the others are read, and without the sums it is taken as it is.
    path.unlink()
    assert read(folder)[0]["base", "locks"]
    path.write_text(text.replace("1.0015", "1.0016"))
    (folder / SUMS_FILE).unlink()
    assert read(folder)[0]["a", "locks"]


def test_a_raw_file_without_a_sum_among_those_that_have_one_is_named(folder: Path) -> None:
    (folder / SUMS_FILE).write_text("".join((folder / SUMS_FILE).read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(StoreError) as caught:
        read(folder)
    assert caught.value.file == str(cell(folder))


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\xff", b"0" * 64, b"0" * 64 + b"  ../../x/y.json\n", b"0" * 64 + b"  /a/b/c.json\n"]
)
def test_sums_that_are_none_are_named(content: bytes, folder: Path) -> None:
    (folder / SUMS_FILE).write_bytes(content)
    for reads in (read, check_sums):
        with pytest.raises(StoreError) as caught:
            reads(folder)
        assert caught.value.file == str(folder / SUMS_FILE)


def test_sums_are_bounded(folder: Path) -> None:
    (folder / SUMS_FILE).write_bytes(b"")
    with (folder / SUMS_FILE).open("r+b") as stream:
        stream.truncate(2**30)
    with pytest.raises(StoreError, match="MiB"):
        read(folder)


def test_what_a_journal_adds_to_raw_files_leaves_no_sum_that_is_wrong(folder: Path) -> None:
    write_blocks(folder, 3)
    found: Experiment = store.read_experiment(folder)
    assert not (folder / SUMS_FILE).exists()
    assert len(store.read_cells(folder, found)[0]["a", "locks"]["uncontended"].processes) == 3
    assert store.recover(folder)


def test_a_copy_beside_the_raw_files_with_a_name_that_no_cell_has_is_none_of_them(folder: Path) -> None:
    """It was written into the sums, whose line could not be read: 'line 1 is no sum of a raw file'."""
    before = read_sums(folder).known
    cell(folder).with_name("locks (old).json").write_text("{}")
    write_sums(folder)
    assert read_sums(folder).known == before


def test_an_experiment_without_raw_files_has_no_sums(tmp_path: Path) -> None:
    write_sums(make_folder(tmp_path / "y"))
    assert not (tmp_path / "y" / SUMS_FILE).exists()
