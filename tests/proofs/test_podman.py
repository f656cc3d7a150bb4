"""Podman: a variant is built, proved, measured and profiled by it, from an empty store to a report."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interlock.results import store
from interlock.results.experiments import State
from interlock.results.json_documents import Explained
from tests.integration.images import QUICK
from tests.integration.toys import copy_project, interlock
from tests.proofs import door


@pytest.fixture
def limits_that_may_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Podman raises limits, unless it is told not to where root may not: docs/engines.md."""
    if not door.may_raise_limits():
        (tmp_path / "containers.conf").write_text(f"[containers]\n{door.LIMITS}\n")
        monkeypatch.setenv("CONTAINERS_CONF", str(tmp_path / "containers.conf"))


@pytest.mark.usefixtures("limits_that_may_be_set")
def test_podman_builds_and_measures_and_says_that_it_was_podman(root: Path, tmp_path: Path) -> None:
    assert shutil.which("podman"), "podman is not installed: apt-get install podman catatonit"
    project = copy_project(root, tmp_path / "project", [QUICK], ["import-loop"])
    interlock(
        project, "matrix", "--engine", "podman", "--workloads", "import-loop/function", "--quick", "--rounds", "2"
    )  # fmt: skip
    described = store.read_experiment(store.latest_experiment(project / "results"))
    assert described.host["engine"]["name"] == "podman"
    assert {cell.outcome.state for cell in described.cells} == {State.OK}


@pytest.mark.usefixtures("limits_that_may_be_set")
def test_podman_says_why_a_benchmark_waits(root: Path, tmp_path: Path) -> None:
    project = copy_project(root, tmp_path / "project", [QUICK], ["locks"])
    done = interlock(project, "why", QUICK, "locks/queue", "--engine", "podman", "--json")
    (sites,) = Explained.model_validate_json(done.stdout).variants.values()
    assert {"GIL", "queue.Queue's condition"} <= {site.lock for site in sites.sites}
