"""Without containers, with a real interpreter: built from its source with this machine's compiler, and measured."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.engine.host.cells import MEMORY
from interlock.results import store
from interlock.results.experiments import Experiment, State
from tests.builders import ROOT

VARIANT = "cpython-2.7-nothreads"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def interlock(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As somebody whose engine does not answer."""
    settings = {"XDG_CACHE_HOME": str(home / "cache"), "DOCKER_HOST": f"unix://{home}/none.sock"}
    return subprocess.run(
        [sys.executable, "-c", "from interlock.cli.main import main; main()", *words],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def measured(home: Path) -> tuple[Path, Experiment]:
    """Two workloads on the quickest variant, built from its source."""
    words = [
        "--engine",
        "host",
        "--variants",
        VARIANT,
        "--workloads",
        "import-loop,service",
        "--quick",
        "--rounds",
        "2",
    ]
    done = interlock(home, "matrix", *words, "--no-profile", "--results", str(home / "results"))
    assert done.returncode == 0, done.stdout + done.stderr
    folder = store.latest_experiment(home / "results")
    return folder, store.read_experiment(folder)


def test_a_variant_is_built_by_its_own_build_script_and_measured(measured: tuple[Path, Experiment]) -> None:
    folder, described = measured
    assert described.host["engine"]["name"] == "host"
    cell = next(cell for cell in described.cells if (cell.label, cell.workload) == (VARIANT, "import-loop"))
    # One benchmark of it imports in two threads, and that the variant says so is its answer.
    assert {name: one.state for name, one in cell.benchmarks.items()} == {
        "function": State.OK,
        "module": State.OK,
        "threads": State.UNSUPPORTED,
    }
    values, _ = store.read_cells(folder, described)
    assert [len(one.processes) for one in values[VARIANT, "import-loop"].values()] == [2, 2]
    assert described.facts[VARIANT].thread_flavour.value == "none"


def test_what_needs_containers_is_unsupported_and_stops_nothing(measured: tuple[Path, Experiment]) -> None:
    cell = next(cell for cell in measured[1].cells if (cell.label, cell.workload) == (VARIANT, "service"))
    assert cell.outcome.state is State.UNSUPPORTED
    assert "needs a container engine" in cell.outcome.reason


def test_nothing_of_a_run_stays_but_its_prefix_and_its_results(home: Path, measured: tuple[Path, Experiment]) -> None:
    assert measured[0].is_dir()
    assert not list((home / "cache/interlock/runs").iterdir())
    assert not list(MEMORY.glob("interlock-*"))
    assert [path.name[: len(VARIANT)] for path in (home / "cache/interlock/prefixes").iterdir()] == [VARIANT]
