"""Without containers, with a real interpreter: built from its source with this machine's compiler, and measured."""

from __future__ import annotations

from pathlib import Path

from interlock.results import store
from interlock.results.experiments import State
from tests.builders import ROOT
from tests.integration.test_host_engine import measured_without_engine

VARIANT = "cpython-2.7-nothreads"


def test_a_real_variant_is_built_by_its_own_build_script_and_measured(tmp_path: Path) -> None:
    folder, described = measured_without_engine(ROOT, tmp_path, VARIANT, "import-loop")
    cell = next(cell for cell in described.cells if cell.label == VARIANT)
    # One benchmark of it imports in two threads, and that the variant says so is its answer.
    assert {name: one.state for name, one in cell.benchmarks.items()} == {
        "function": State.OK,
        "module": State.OK,
        "threads": State.UNSUPPORTED,
    }
    values, _ = store.read_cells(folder, described)
    assert [len(one.processes) for one in values[VARIANT, "import-loop"].values()] == [2, 2]
    assert described.facts[VARIANT].thread_flavour.value == "none"
