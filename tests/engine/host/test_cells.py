"""A cell of the host engine: places are translated, the user's settings stay out, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.host import cells
from interlock.errors import WorkloadError
from interlock.model import PRODUCTION

PLACES = {"/interlock": "/home/me/tools", "/scratch": "/dev/shm/one"}
WORDS = st.text(alphabet="/abcsrtinelok-.: ", max_size=30)


@pytest.fixture
def cell(tmp_path: Path) -> cells.HostCell:
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").write_text('#!/bin/sh\necho an interpreter: "$@"\n', encoding="utf-8")
    (prefix / "bin" / "python").chmod(0o755)
    return cells.start_cell(prefix, tmp_path / "tools", PRODUCTION, tmp_path / "disk", tmp_path)


def test_the_interpreter_of_the_prefix_is_the_one_that_runs(cell: cells.HostCell) -> None:
    assert cells.run_process(cell, ["python", "-c", "pass"], 10, {}).stdout == "an interpreter: -c pass\n"
    cells.remove(cell)


def test_what_a_program_writes_into_its_places_is_gone_with_the_cell(cell: cells.HostCell) -> None:
    ended = cells.run_process(cell, ["touch", "/scratch/a", "/disk/b"], 10, {})
    assert ended.exit_code == 0
    written = [Path(cell.places["/scratch"]) / "a", Path(cell.places["/disk"]) / "b"]
    assert all(path.exists() for path in written)
    cells.remove(cell)
    assert not [path for path in (*written, cell.folder) if path.exists()]


def test_what_a_mode_preloads_is_looked_for_among_the_instruments(cell: cells.HostCell) -> None:
    said = cells.run_process(cell, ["env"], 10, {"SHOWN": "/interlock/one.so:/interlock/two.so:/lib/three.so"}).stdout
    tools = cell.places["/interlock"]
    assert f"SHOWN={tools}/one.so:{tools}/two.so:/lib/three.so" in said.splitlines()
    cells.remove(cell)


def test_a_condition_needs_a_container(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="a condition is of a container"):
        cells.start_cell(
            tmp_path, tmp_path, PRODUCTION.model_copy(update={"seccomp": "unconfined"}), tmp_path, tmp_path
        )


def test_only_the_places_themselves_and_what_is_below_them_are_translated() -> None:
    words = ["/interlock", "/interlock/launch", "/interlocked", "interlock", "x/interlock/y", "/scratch/f"]
    assert [cells.translated(word, PLACES) for word in words] == [
        "/home/me/tools",
        "/home/me/tools/launch",
        "/interlocked",
        "interlock",
        "x/interlock/y",
        "/dev/shm/one/f",
    ]


@given(WORDS)
def test_a_word_that_names_no_place_stays_as_it_is(word: str) -> None:
    if not word.startswith(tuple(PLACES)):
        assert cells.translated(word, PLACES) == word
