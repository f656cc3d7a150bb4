"""The first rows are measured before the others are built: the others join them, whatever ends the command between."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.analysis.verdicts import LOOKS
from interlock.results import store
from interlock.results.experiments import Experiment, State
from tests.apart import command
from tests.builders import edit
from tests.integration.shared import measure_little
from tests.integration.test_host_engine import RUNS_PROGRAMS, without_engine
from tests.integration.toys import copy_project, interlock, toy_tarball, toy_variant

pytestmark = [pytest.mark.slow, pytest.mark.needs("gcc", "make")]
FIRST, LATER = ("toy-base", "toy-new"), ("toy-old", "toy-older")
MATRIX = (
    "matrix", "--engine", "host", "--variants", ",".join((*FIRST, *LATER)), "--baseline", FIRST[0],
    "--workloads", "import-loop/function", "--quick", "--no-profile", "--budget", "60s",
)  # fmt: skip
LIMIT_S = 240


@pytest.fixture(scope="module")
def project(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of four toys of the core set, one of which upstream still mends; each has its build's second."""
    home = tmp_path_factory.mktemp("staged")
    found = copy_project(root, home / "project", [], ["import-loop"])
    measure_little(found / "workloads/import-loop.toml", profiled=False)
    for name in (*FIRST, *LATER):
        file = f"{name}.tgz"
        # A build takes a second, or ten minutes while the file with its name is there.
        configure = f"sleep 1; [ ! -e {home}/{name} ] || sleep 600"
        toy_variant(found, name, file, toy_tarball(home / "mirror", file, configure, first=RUNS_PROGRAMS))
        phase = "bugfix" if name == "toy-new" else "security"
        edit(
            found, f"variants/{name}.toml", '[support]\nphase = "bugfix"', f'core = true\n[support]\nphase = "{phase}"'
        )
    return found


def environment(project: Path, cache: Path) -> dict[str, str]:
    return without_engine(project.parent) | {"XDG_CACHE_HOME": str(cache)}


def blocks_of(folder: Path, described: Experiment) -> dict[str, list[int]]:
    values, _ = store.read_cells(folder, described)
    return {label: sorted(set(cell["function"].blocks)) for (label, _), cell in values.items()}


def whole(folder: Path) -> Experiment:
    """The experiment once all rows are in it: those that were first in its first blocks, the others in later ones."""
    described = store.read_experiment(folder)
    assert {cell.label: cell.outcome.state for cell in described.cells if cell.mode is None} == dict.fromkeys(
        (*FIRST, *LATER), State.OK
    )
    blocks = blocks_of(folder, described)
    (began,) = {blocks[label][0] for label in LATER}
    alone = [*range(1, began)]
    assert 1 <= len(alone) <= min(LOOKS)
    assert all(blocks[label][: len(alone)] == alone for label in (*FIRST, f"{FIRST[0]}+twin"))
    # The baseline and its twin are beside the others in all of their blocks.
    assert all(set(blocks[label]) <= set(blocks[FIRST[0]]) for label in LATER)
    return described


def test_the_first_rows_are_measured_before_the_others_are_built(project: Path, tmp_path: Path) -> None:
    done = interlock(project, *MATRIX, "--results", str(tmp_path), environment=environment(project, tmp_path / "cache"))
    (folder,) = store.experiments_in(tmp_path)
    described = whole(folder)
    assert described.settings.budget_s == 60
    said = done.stdout.splitlines()
    places = [
        next(number for number, line in enumerate(said) if line.startswith(words))
        for words in (
            "plan    first rows",
            "build   toy-new  ok",
            "report  ",
            "measure round 4",
            "build   toy-old  start",
        )
    ]
    assert places == sorted(places)
    assert not any(line.startswith("measure round") for line in said[places[-1] : _last_build(said)])
    for name in ("report.html", "report.md"):
        assert "goes on" not in (folder / name).read_text()


def _last_build(said: list[str]) -> int:
    return max(number for number, line in enumerate(said) if line.startswith("build "))


def begun(project: Path, results: Path, until: Callable[[str], bool]) -> tuple[subprocess.Popen[bytes], Path]:
    """A matrix that was begun and has printed a line; it ends if that does not come."""
    said = results / "said"
    with said.open("wb") as stream:
        process = subprocess.Popen(
            command(*MATRIX, "--results", str(results), "--name", "cut"),
            cwd=project,
            env={**os.environ, **environment(project, results / "cache")},
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    limit_s = time.monotonic() + LIMIT_S
    while not any(map(until, said.read_text().splitlines())):
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < limit_s, said.read_text()
        time.sleep(0.05)
    return process, said


def test_what_is_killed_between_the_stages_goes_on_with_all_rows(project: Path, tmp_path: Path) -> None:
    process, said = begun(project, tmp_path, lambda line: line.startswith("build   toy-old  configuring"))
    page = (tmp_path / "cut/report.html").read_text()
    assert 'http-equiv="refresh"' in page
    process.kill()
    assert process.wait(LIMIT_S) == -signal.SIGKILL, said.read_text()
    cut = store.read_experiment(tmp_path / "cut")
    states = {cell.label: cell.outcome.state for cell in cut.cells if cell.mode is None}
    assert states == dict.fromkeys(FIRST, State.OK) | dict.fromkeys(LATER, State.NOT_MEASURED)
    assert cut.ended_by
    words = ("matrix", "--resume", "cut", "--results", str(tmp_path))
    interlock(project, *words, environment=environment(project, tmp_path / "cache"))
    whole(tmp_path / "cut")


def test_ended_while_building_what_is_built_is_kept_and_reported(project: Path, tmp_path: Path) -> None:
    """Other signals, and one before anything is built, are tried in tests/measure."""
    long = project.parent / "toy-new"
    long.touch()
    process, said = begun(project, tmp_path, lambda line: line.startswith("build   toy-new  configuring"))
    time.sleep(2)
    process.send_signal(signal.SIGTERM)
    long.unlink()
    assert process.wait(LIMIT_S) == 128 + signal.SIGTERM, said.read_text()
    described = store.read_experiment(tmp_path / "cut")
    assert described.ended_by == "SIGTERM"
    assert 'http-equiv="refresh"' not in (tmp_path / "cut/report.html").read_text()
    assert not list((tmp_path / "cache/interlock/prefixes").glob("*.build"))
    states = {image.variant: image.outcome.state for image in described.images}
    assert states == {FIRST[0]: State.OK} | dict.fromkeys((FIRST[1], *LATER), State.NOT_MEASURED)
    assert "toy-base" in (tmp_path / "cut/report.md").read_text()
    assert not subprocess.run(["pgrep", "-f", str(tmp_path / "cache")], capture_output=True, check=False).stdout
    kept = interlock(
        project, "build", FIRST[0], "--engine", "host", environment=environment(project, tmp_path / "cache")
    )
    assert "unchanged" in kept.stdout
