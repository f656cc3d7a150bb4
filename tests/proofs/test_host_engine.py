"""Without containers, with real interpreters: built with this machine's compiler, measured, and asked why they wait."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from interlock.engine.host import profiler
from interlock.engine.host.engine import HostEngine
from interlock.engine.protocol import Needs
from interlock.results import store
from interlock.results.experiments import State
from interlock.results.json_documents import Explained
from tests.builders import ROOT
from tests.integration import lock_lines
from tests.integration.test_host_engine import measured_without_engine, without_engine
from tests.integration.test_why import lock_sites
from tests.integration.toys import interlock

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


# The smallest that has threads.
THREADED = "cpython-2.7"
OWNER = "test-why-here"


def test_what_a_variant_that_was_built_here_waits_for_has_the_names_of_its_symbols(tmp_path: Path) -> None:
    """Needs root, BPF and what `doctor --engine host` names."""
    done = interlock(
        ROOT, "why", THREADED, "locks/queue", "--engine", "host", "--json", "--results", str(tmp_path / "results"),
        environment=without_engine(tmp_path),
    )  # fmt: skip
    (found,) = Explained.model_validate_json(done.stdout).variants.values()
    assert {"GIL", "queue.Queue.mutex"} <= {site.lock for site in found.sites}
    assert (found.no_frames, found.no_symbols) == ("", "")
    assert found.named_share >= 0.95
    assert not [path for one in profiler.HIERARCHIES for path in one.rglob("interlock-*.cell-*")]


@pytest.mark.usefixtures("alone_on_the_machine")
@pytest.mark.parametrize("pairs", [1, 8])
def test_each_contended_acquire_of_this_machines_own_interpreter_comes_back_at_its_line(
    tmp_path: Path, pairs: int
) -> None:
    engine = HostEngine(ROOT, tmp_path)
    programs = {lock_lines.PROGRAM.name: lock_lines.PROGRAM.read_bytes()}
    workspace = engine.set_up(OWNER, Needs(ROOT, [], programs))
    try:
        with workspace.network(None, load=False) as network:
            lock_lines.assert_exact(lock_sites(network.open_sandbox(sys.base_prefix), pairs), pairs)
    finally:
        engine.clean_up(OWNER)
