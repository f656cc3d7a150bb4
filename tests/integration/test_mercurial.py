"""Mercurial from the package index, in the real engine: its version, a repository's status, and its command server."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock import store
from interlock.model import Built, State
from tests.integration.toys import copy_project, edit_only, interlock

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize("variant", ["cpython-2.7", "cpython-2.7-pth"])
def test_mercurial_does_its_work_with_a_process_for_each_command_and_with_one_for_all(
    root: Path, built: dict[str, Built], tmp_path: Path, variant: str
) -> None:
    project = copy_project(root, tmp_path / "project", [*built], ["startup"])
    edit_only(project, "startup", ["hg", "hg-status", "hg-cmdserver"])
    done = interlock(
        project, "matrix", "--variants", variant, "--baseline", variant, "--quick", "--rounds", "2", "--no-profile",
        "--results", str(tmp_path / "results"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    described = store.read_experiment(store.latest_experiment(tmp_path / "results"))
    (cell,) = [one for one in described.cells if one.mode is None]
    assert {name: outcome.state for name, outcome in cell.benchmarks.items()} == dict.fromkeys(
        ("hg", "hg-status", "hg-cmdserver"), State.OK
    )
    assert {versions["mercurial"] for versions in cell.packages.values()} == {"6.1.4"}
