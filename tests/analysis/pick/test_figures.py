"""figures.json says what the raw values say, and a pick needs nothing else of an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from interlock.analysis.pick.figures import RecordedLevels, recorded_figures
from interlock.analysis.statistics import fit_levels
from interlock.results import store
from interlock.results.answers import RecordedFigures
from tests.builders import ROOT, present
from tests.picks import experiment_of, noisy, queue, values_of

REFERENCE = ROOT / "results" / "reference"
FOLDERS = sorted(path.parent for path in REFERENCE.glob("*/experiment.json"))
FIGURES = queue(x=noisy(0.9), y=noisy(1.2)[:4])


def numbers(one: object) -> Iterator[float | str]:
    """Every number, and every name, in their order."""
    if isinstance(one, Mapping):
        for name, inner in one.items():
            yield name
            yield from numbers(inner)
    elif isinstance(one, list | tuple):
        for inner in one:
            yield from numbers(inner)
    else:
        yield one if isinstance(one, int | float) else str(one)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_figures_that_come_with_interlock_are_those_of_their_raw_values(folder: Path) -> None:
    experiment = store.read_experiment(folder)
    made = recorded_figures(experiment, store.read_cell_values(folder, experiment)).model_dump(exclude={"made_of"})
    there = store.read_json(folder / store.FIGURES_FILE, RecordedFigures).model_dump(exclude={"made_of"})
    mine, theirs = list(numbers(made)), list(numbers(there))
    assert [type(one) is str for one in mine] == [type(one) is str for one in theirs]
    assert [one for one in mine if isinstance(one, str)] == [one for one in theirs if isinstance(one, str)]
    assert [one for one in mine if not isinstance(one, str)] == pytest.approx(
        [one for one in theirs if not isinstance(one, str)], rel=1e-5, abs=1e-6
    )


def test_what_is_beside_its_raw_values_is_of_them_as_they_are() -> None:
    assert store.stale_figures(REFERENCE) == {}


def test_ratios_are_those_of_the_fit_where_rows_end_early_too() -> None:
    values = values_of(FIGURES)
    table = RecordedLevels(recorded_figures(experiment_of(FIGURES), values).tables["locks"]["queue"])
    fitted = fit_levels({label: values[label, "locks"]["queue"].block_figures for label in FIGURES})
    for mine in FIGURES:
        for theirs in FIGURES:
            found, expected = present(table.ratio(mine, theirs)), present(fitted.ratio(mine, theirs))
            assert (found.estimate, found.low, found.high) == pytest.approx(
                (expected.estimate, expected.low, expected.high)
            )
            assert found.rounds == expected.rounds
            assert found.p == pytest.approx(expected.p, rel=1e-4)
    assert table.ratio("x", "none") is None
    assert table.seconds("none") is None


def test_figures_of_changed_values_are_stale_and_written_figures_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "2026-11-22-a"
    store.write_json(folder / "experiment.json", experiment_of(FIGURES))
    ((found, made_of),) = store.stale_figures(folder.parent).items()
    assert found == folder
    store.write_json(folder / store.FIGURES_FILE, RecordedFigures(made_of=made_of, tables={}))
    assert store.stale_figures(folder.parent) == {}
    (folder / "box" / "base").mkdir(parents=True)
    (folder / "box" / "base" / "locks.json").write_text("{}")
    assert list(store.stale_figures(folder.parent)) == [folder]
