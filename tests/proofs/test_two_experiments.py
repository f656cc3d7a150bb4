"""Two experiments that are started at the same moment are measured one after the other."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from interlock.results import store
from interlock.results.experiments import Experiment
from tests.integration.images import QUICK
from tests.integration.test_misfortune import start
from tests.integration.toys import GOOD, add_workload, copy_project

pytestmark = pytest.mark.usefixtures("nothing_left", "quick")


@pytest.fixture
def projects(root: Path, tmp_path: Path) -> list[Path]:
    """Two clones with one variant and no workload yet."""
    return [copy_project(root, tmp_path / name, [QUICK], []) for name in ("one", "other")]


def test_two_experiments_at_the_same_time_wait_for_each_other_and_say_so(projects: list[Path]) -> None:
    for project in projects:
        add_workload(project, "good", GOOD)
    with start(projects[0]) as one, start(projects[1]) as other:
        printed = [process.communicate(timeout=1500) for process in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], printed
    said = "".join(out for out, _ in printed)
    waited = [f"waiting for the lock that matrix into {project / 'results'} (process " in said for project in projects]
    assert any(waited)
    assert not all(waited)
    moments = [_times(store.read_experiment(store.latest_experiment(project / "results"))) for project in projects]
    (_, first_ended), (second_started, _) = sorted(moments)
    assert first_ended <= second_started + 1  # whole seconds are recorded


def _times(described: Experiment) -> tuple[float, float]:
    started = datetime.fromisoformat(described.started).timestamp()
    return started, started + described.duration_s
