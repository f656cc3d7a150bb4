"""Podman: a variant is built, proved, measured and profiled by it, from an empty store to a report."""

from __future__ import annotations

import shutil
from pathlib import Path

from interlock.results import store
from interlock.results.experiments import State
from tests.integration.images import QUICK
from tests.integration.toys import copy_project, edit_only, interlock


def test_podman_builds_and_measures_and_says_that_it_was_podman(root: Path, tmp_path: Path) -> None:
    assert shutil.which("podman"), "podman is not installed: apt-get install podman catatonit"
    project = copy_project(root, tmp_path / "project", [QUICK], ["import-loop"])
    edit_only(project, "import-loop", ["function"])
    done = interlock(project, "matrix", "--engine", "podman", "--quick", "--rounds", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    described = store.read_experiment(store.latest_experiment(project / "results"))
    assert described.host["engine"]["name"] == "podman"
    assert {cell.outcome.state for cell in described.cells} == {State.OK}
