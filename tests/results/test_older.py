"""Experiments of older versions of Interlock, cut to one benchmark of two variants, are read and reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.report import load_experiment
from interlock.report import experiment as report
from interlock.results import store
from interlock.results.experiments import State

OLDER = sorted(path.parent for path in (Path(__file__).parent / "older").glob("*/experiment.json"))


def test_every_older_form_is_kept() -> None:
    assert [folder.name.partition("-")[0] for folder in OLDER] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("folder", OLDER, ids=lambda folder: folder.name)
def test_an_older_experiment_is_read_with_its_values_and_reported(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = store.read_experiment(folder)
    values, profiles = store.read_cells(folder, found)
    assert values
    for cell in found.cells:
        assert cell.outcome.state is State.OK
        (benchmark,) = values[cell.label, cell.workload].values()
        assert len(benchmark.processes) >= 3
    (profile,) = [one for some in profiles.values() for one in some.values()]
    assert profile.futex_per_unit >= 0
    assert profile.calls_per_unit("all") > 100
    text = report.markdown(*load_experiment(folder))
    for label in found.settings.variants:
        assert label in text
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
