"""Which tests run on one worker, and that nothing that measures or traces runs beside an experiment on another."""

from __future__ import annotations

import re
from itertools import chain

import pytest

from tests.builders import ROOT
from tests.conftest import BROWSER, ENGINE, EXPERIMENTS, LONGEST, MEASURING, RUNNING, TRIALS, group_of, place_of

# How a test starts an experiment or a trial of containers, reads the shared one, cleans up, or installs packages.
STARTS = re.compile(
    r'"(matrix|trial)", |"clean"[,)]|\bcommand\("(matrix|trial)"|experiment\.run\(|measured: Measured|Installer\('
)
# What traces beside an experiment makes its profile fail, so that it takes the lock of experiments.
TRACES = re.compile(r"Method\.BPF|\bbest_probe\(")
# How a test builds images of its own: toys, or whatever a Dockerfile or a command builds.
BUILDS = re.compile(r'toy_variant\(|"build"|images\.build\(|\.build\(catalog')
# It measures without containers, and its command takes the lock like any other.
WITHOUT_CONTAINERS = "tests/integration/test_host_engine.py"

FILES = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "tests/integration").glob("test_*.py")}


def test_every_file_that_starts_experiments_is_on_a_worker_of_experiments_or_trials() -> None:
    starting = {name for name, text in FILES.items() if STARTS.search(text)} - {WITHOUT_CONTAINERS}
    assert {name for name in starting if group_of(f"{name}::test") not in MEASURING} == set()
    assert len(starting) > 5


def test_every_file_that_traces_takes_the_lock_of_experiments() -> None:
    tracing = {name for name, text in FILES.items() if TRACES.search(text)}
    assert {name for name in tracing if "alone_on_the_machine" not in FILES[name]} == set()
    assert tracing


def test_no_file_that_builds_images_runs_beside_the_others_that_do() -> None:
    building = {name for name, text in FILES.items() if BUILDS.search(text)} - {WITHOUT_CONTAINERS}
    assert building.isdisjoint(RUNNING)
    assert len(building) > 5


@pytest.mark.parametrize("name", [*chain(*MEASURING.values()), *(one for one in LONGEST if "/" in one)])
def test_every_place_in_the_order_is_there(name: str) -> None:
    assert (ROOT / name).exists()


def test_experiments_begin_first_then_what_needs_an_engine_then_pages_then_files_and_what_needs_images_last() -> None:
    names = [
        *(f"tests/integration/test_{name}.py" for name in ("matrix", "trial", "new")),
        f"{BROWSER}test_x.py",
        "tests/x.py",
    ]
    names.append(RUNNING[-1])
    places = [place_of(f"{name}::test_x[1]") for name in names]
    assert places == sorted(set(places))
    assert [group_of(f"{name}::test") for name in names] == [EXPERIMENTS, TRIALS, ENGINE, BROWSER, *names[4:]]
