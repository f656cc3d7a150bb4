"""The committed references have none of the artefacts that others had.

That none judges claims from disturbed rounds is in tests/analysis/test_claims.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from interlock.analysis.claims import measure
from interlock.analysis.comparison import Contents
from interlock.analysis.statistics import Ratio
from interlock.analysis.verdicts import Comparison
from interlock.catalog.claims import AnsweringFigure
from interlock.results import store

FOLDERS = store.experiments_in(Path(__file__).parents[2] / "results/reference")
# Their library is in the binary, which is read before the time begins: hot and cold are the same but for noise.
IN_THE_BINARY = {"cpython-3.13-frozen", "cpython-3.13-frozen-static"}


def refused_writes(folder: Path) -> Iterator[str]:
    """What a cell writes to a read-only file system is byte code that it compiles at each start."""
    _, profiles = store.read_cells(folder, store.read_experiment(folder))
    for (label, workload), cell in profiles.items():
        for benchmark, profile in cell.items():
            calls = [call for phase in profile.phases.values() for call in phase.syscalls.values()]
            if refused := sum(call.errors.get("EROFS", 0) for call in calls):
                yield f"{label} {workload} {benchmark}: {refused}"


def hot_beside_cold(folder: Path) -> Iterator[tuple[tuple[str, str], Ratio]]:
    """What imports from memory take of what those from the disk do, by row."""
    experiment = store.read_experiment(folder)
    contents = Contents(experiment, *store.read_cells(folder, experiment))
    for label in {cell.label for cell in experiment.cells if cell.workload == "import-stdlib"}:
        hot = AnsweringFigure(
            workload="import-stdlib", benchmark="hot", variant=label, against=label, against_benchmark="cold"
        )
        if isinstance(measured := measure(hot, contents), Comparison):
            yield (folder.name, label), measured.ratio


def test_no_cell_was_refused_to_write_its_byte_code() -> None:
    assert {folder.name: problems for folder in FOLDERS if (problems := list(refused_writes(folder)))} == {}


def test_no_module_takes_longer_from_memory_than_from_the_disk() -> None:
    ratios = dict(one for folder in FOLDERS for one in hot_beside_cold(folder))
    assert len(ratios) > 15
    least = {row: ratio.low if row[1] in IN_THE_BINARY else ratio.estimate for row, ratio in ratios.items()}
    assert {row: ratio for row, ratio in least.items() if ratio > 1} == {}


def test_each_cell_that_was_measured_has_an_outcome_of_each_benchmark() -> None:
    """One that was resumed lacked those of its benchmarks that needed no more rounds."""
    for folder in FOLDERS:
        experiment = store.read_experiment(folder)
        for cell in experiment.cells:
            wanted = {one.name for one in experiment.workloads[cell.workload].benchmarks}
            assert not cell.benchmarks or cell.benchmarks.keys() == wanted, (folder.name, cell.label, cell.workload)


def test_no_reference_is_repeated_or_resumed_into_a_folder_of_the_machine_that_measured_it() -> None:
    experiments = [store.read_experiment(folder) for folder in FOLDERS]
    named = {one.name: one.command for one in experiments if "--results" in f"{one.command} {one.resume_command}"}
    assert named == {}
    by_the_first_command = {one.name for one in experiments if not one.settings.where.for_reference}
    assert by_the_first_command == {"2026-11-29-a"}
