"""Without containers: a variant is built into a prefix, measured by the same rounds, and nothing of it stays."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from interlock.engine.host import account, memory
from interlock.engine.ownership import MARK
from interlock.results import store
from interlock.results.experiments import Experiment, State
from tests.integration.shared import measure_little
from tests.integration.toys import ANSWERS, copy_project, interlock, toy_tarball, toy_variant

pytestmark = pytest.mark.needs("gcc", "make")

# A toy without pip that runs the workload's program with the Python of this test: its build takes a second.
VARIANT, NAME = "toy-here", f"host-engine-{os.getpid()}"
RUNS_PROGRAMS = f"""case "$*" in *import_loop.py*) exec {sys.executable} "$@";; *"-m pip"*) exit 1;; esac"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def project(root: Path, home: Path) -> Path:
    project = copy_project(root, home / "project", [], ["import-loop", "service"])
    measure_little(project / "workloads/import-loop.toml", profiled=False)
    toy_variant(project, VARIANT, "toy.tgz", toy_tarball(home / "mirror", "toy.tgz", first=RUNS_PROGRAMS))
    return project


def without_engine(home: Path) -> dict[str, str]:
    """The environment of somebody whose engine does not answer, with a cache and a mirror of their own."""
    (home / "mirror").mkdir(exist_ok=True)
    return {
        "XDG_CACHE_HOME": str(home / "cache"),
        "INTERLOCK_AS_ROOT": "1",
        "DOCKER_HOST": f"unix://{home}/none.sock",
        "INTERLOCK_SOURCE_MIRROR": str(home / "mirror"),
    }


def measured_without_engine(
    root: Path, home: Path, variant: str, workloads: str, **more: str
) -> tuple[Path, Experiment]:
    """Build a variant from its source on this machine, measure it in two rounds, and return the experiment."""
    interlock(
        root, "matrix", "--engine", "host", "--variants", variant, "--workloads", workloads,
        "--quick", "--rounds", "2", "--no-profile", "--results", str(home / "results"), "--name", NAME,
        environment=without_engine(home) | more,
    )  # fmt: skip
    folder = store.latest_experiment(home / "results")
    return folder, store.read_experiment(folder)


@pytest.fixture(scope="module")
def measured(home: Path, project: Path) -> tuple[Path, Experiment]:
    """Two workloads on a toy, built from its source by its build.sh."""
    return measured_without_engine(project, home, VARIANT, "import-loop,service")


def test_a_variant_is_built_by_its_own_build_script_and_measured(measured: tuple[Path, Experiment]) -> None:
    folder, described = measured
    assert described.host["engine"]["name"] == "host"
    cell = next(cell for cell in described.cells if (cell.label, cell.workload) == (VARIANT, "import-loop"))
    assert {name: one.state for name, one in cell.benchmarks.items()} == dict.fromkeys(
        ("function", "module", "threads"), State.OK
    )
    values, _ = store.read_cells(folder, described)
    assert [len(one.processes) for one in values[VARIANT, "import-loop"].values()] == [2, 2, 2]
    assert described.facts[VARIANT].version == ANSWERS["version"]


def test_what_needs_containers_is_unsupported_and_stops_nothing(measured: tuple[Path, Experiment]) -> None:
    cell = next(cell for cell in measured[1].cells if (cell.label, cell.workload) == (VARIANT, "service"))
    assert cell.outcome.state is State.UNSUPPORTED
    assert "needs a container engine" in cell.outcome.reason


def test_nothing_of_a_run_stays_but_its_prefix_and_its_results(home: Path, measured: tuple[Path, Experiment]) -> None:
    assert measured[0].is_dir()
    assert not list((home / "cache/interlock/runs").iterdir())
    marks = [path.read_text() for place in memory.places() for path in place.glob(f"interlock-*/{MARK}")]
    assert not [one for one in marks if NAME in one]  # others may measure here
    assert [path.name[: len(VARIANT)] for path in (home / "cache/interlock/prefixes").iterdir()] == [VARIANT]


@pytest.mark.skipif(
    os.geteuid() != 0 or not account.is_disposable(), reason="only a container's root becomes another user"
)
def test_root_of_a_container_builds_and_measures_as_a_user_without_rights(root: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # where that user goes, too
        home = Path(name)
        home.chmod(0o755)
        (home / "said").mkdir()
        (home / "said").chmod(0o777)
        project = copy_project(root, home / "project", [], ["import-loop"])
        measure_little(project / "workloads/import-loop.toml", profiled=False)
        python = f"""echo "$(id -un) $(grep -c '^CapEff:.*0000$' /proc/self/status)" >> {home}/said/python; """
        python += RUNS_PROGRAMS.replace(sys.executable, "/usr/bin/python3")
        tarball = toy_tarball(home / "mirror", "toy.tgz", configure=f"id -un > {home}/said/build", first=python)
        toy_variant(project, VARIANT, "toy.tgz", tarball)
        as_root_of_a_container = {"INTERLOCK_AS_ROOT": "", "HOME": str(home / "closed")}
        _, described = measured_without_engine(project, home, VARIANT, "import-loop/function", **as_root_of_a_container)
        assert described.host["engine"]["user"] == account.NAME
        assert (home / "said/build").read_text().split() == [account.NAME]
        assert {*(home / "said/python").read_text().splitlines()} == {f"{account.NAME} 1"}
        (prefix,) = (home / "cache/interlock/prefixes").iterdir()
        assert {path.lstat().st_uid for path in (prefix, *prefix.rglob("*"))} == {0}
        assert not list((home / "cache/interlock/runs").iterdir())
