"""Tests pass in a clone that is in use: its results hold experiments, good and bad ones, and one is being measured.

It is run by .ci/run too. The experiment is a user's, with that user's home and the lock that all users share; that it
goes on undisturbed is a part of what is proved.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, Built, State
from interlock.results.journal import JOURNAL_FILE
from tests.builders import ROOT
from tests.integration.images import QUICK

REFERENCE = ROOT / "results/reference/2026-11-29-a"
# What reads a user's results, journals and caches, takes locks, and is fast: two minutes beside an experiment.
FAST = (
    *("tests/catalog/test_overlay.py", "tests/cli", "tests/fleet/test_record.py", "tests/results"),
    *("tests/test_errors.py", "tests/test_readme.py::test_the_pick_of_the_readme_answers_what_it_shows"),
    *(f"--ignore=tests/cli/test_{name}.py" for name in ("failures", "main", "update")),
    *("-m", "not slow"),
)
# As `interlock` is called, and longer than the tests take.
EXPERIMENT = [sys.executable, "-c", "from interlock.cli.main import main; main()", "matrix", "--quick"]
EXPERIMENT += ["--variants", QUICK, "--workloads", "startup", "--rounds", "5000", "--no-profile"]
STARTS_S, ENDS_S, MOST_S = 300, 60, 1500


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What git has of this clone, and in its results/ a finished, a broken and a newer experiment."""
    clone = tmp_path / "clone"
    clone.mkdir()
    subprocess.run(["sh", "-c", f"git ls-files -z | xargs -0 cp --parents -t {clone}"], cwd=ROOT, check=True)
    shutil.copy(ROOT / "src/interlock/_version.py", clone / "src/interlock")
    described = (REFERENCE / EXPERIMENT_FILE).read_text(encoding="utf-8")
    newer = json.dumps({**json.loads(described), "schema_version": 1000})
    for name, text in {"finished": described, "broken": described[: len(described) // 2], "newer": newer}.items():
        folder = shutil.copytree(REFERENCE, clone / "results" / f"2026-11-27-{name}")
        (folder / EXPERIMENT_FILE).write_text(text, encoding="utf-8")
    return clone


@contextmanager
def measured_by_a_user(clone: Path, environment: dict[str, str]) -> Iterator[None]:
    """While an experiment of the clone's owner is being measured; at the end Ctrl-C ends it, and it is whole."""
    before = set((clone / "results").iterdir())
    said = clone.parent / "said"
    with (
        said.open("w") as output,
        subprocess.Popen(EXPERIMENT, cwd=clone, env=environment, stdout=output, stderr=output) as process,
    ):
        try:
            limit = time.monotonic() + STARTS_S
            while not list((clone / "results").glob(f"*/{JOURNAL_FILE}")):
                assert process.poll() is None, said.read_text()
                assert time.monotonic() < limit, said.read_text()
                time.sleep(0.2)
            yield
            assert process.poll() is None, said.read_text()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(ENDS_S)
    assert process.returncode == 130, said.read_text()
    (folder,) = set((clone / "results").iterdir()) - before
    found = store.read_experiment(folder)
    assert {cell.outcome.state for cell in found.cells} == {State.OK}, said.read_text()


def test_a_clone_with_experiments_of_which_one_is_being_measured_passes(
    clone: Path, quick: Built, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = kept | {"HOME": str(home), "PYTHONPATH": str(clone / "src"), "COLUMNS": "160"}
    with measured_by_a_user(clone, environment):
        words = [sys.executable, "-m", "pytest", "-n2", "--dist=loadscope", "--hypothesis-profile=quick", *FAST]
        done = subprocess.run(
            words, cwd=clone, env=environment, capture_output=True, text=True, check=False, timeout=MOST_S
        )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
