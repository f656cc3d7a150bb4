"""What is left of a trial that did not come to its end."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import requests

from interlock.errors import EngineError, StoreError
from interlock.results import store
from interlock.results.answers import OWN, OWN_TWIN, Figure, Trial
from interlock.results.journal import KILLED
from interlock.trial import running
from interlock.trial.rounds import TrialMeasurements
from interlock.trial.running import Assignment
from tests.builders import ROOT
from tests.trials import HOST, make_candidate, make_trial_settings

# A trial whose runs take no time, and write what they measured as the real ones do; it prints a line after each.
WRITER = """\
import sys
from pathlib import Path
from interlock.results.answers import OWN, OWN_TWIN, Figure
from interlock.trial import rounds
from interlock.trial.rounds import CandidateRuns, Checks, TriedCandidate, TrialResources
from tests.trial.test_running import journal_in
from tests.trials import make_candidate, make_trial_settings

def measure(_, entry):
    entry.add({Figure.LOAD_S: 1.0})
    print("run", flush=True)

class Watch:
    def __init__(self, **_): pass
    def warnings(self, *_): return []

CandidateRuns.measure = measure
rounds.disturbances.Watch = Watch
rounds._loader_cpu_s = lambda _: 0.0
from types import SimpleNamespace
services = SimpleNamespace(workspace=SimpleNamespace(is_elsewhere=False), loader=SimpleNamespace(id=""))
settings = make_trial_settings(rounds=10_000, profiled=False)
resources = TrialResources(services, Checks(), settings, lambda _: None, on_block=journal_in(Path(sys.argv[1])).add)
rounds.measure_rounds(resources, [TriedCandidate(make_candidate(label)) for label in (OWN, OWN_TWIN, "cpython-3.14")])
"""


def journal_in(results: Path, output: Path | None = None) -> Any:
    assignment = SimpleNamespace(output=output, results=results, command="c", settings=make_trial_settings())
    begun = running._TrialStart("classic", HOST, datetime.datetime.now(datetime.UTC), time.monotonic())
    return running._Journal(cast("Assignment", assignment), begun)


def some_of(count: int) -> TrialMeasurements:
    labels = (OWN, OWN_TWIN, "cpython-3.14")
    values = {Figure.REQUEST_S: [0.001] * count} if count else {}
    return TrialMeasurements(None, "", candidates=[make_candidate(label, values=values) for label in labels])


def read(results: Path) -> Trial:
    (folder,) = results.iterdir()
    return store.read_json(folder / store.TRIAL_FILE, Trial)


def test_what_a_killed_trial_had_measured_is_there_but_for_the_run_that_was_cut(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(20):
            assert process.stdout.readline() == "run\n"
        process.send_signal(signal.SIGKILL)
        said = 20 + process.stdout.read().count("run\n")
    found = read(tmp_path)
    assert found.ended_by == KILLED
    written = sum(len(one.values[Figure.LOAD_S]) for one in found.candidates)
    assert written in {said - 1, said}
    assert sum(map(len, found.order)) == written
    assert [path.name for path in next(tmp_path.iterdir()).iterdir() if not path.name.startswith(".")] == ["trial.json"]


def test_a_trial_without_a_figure_leaves_no_folder(tmp_path: Path) -> None:
    journal = journal_in(tmp_path / "results")
    journal.add(some_of(0))
    assert not (tmp_path / "results").exists()
    error = StoreError(found="full", todo="Free some.")
    assert journal.end_by(error) is error


def test_what_ended_a_trial_is_in_its_record_and_the_error_says_where_that_is(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    journal.add(some_of(3))
    found = journal.end_by(requests.ConnectionError("('Connection aborted.', ConnectionRefusedError(111, 'refused'))"))
    assert isinstance(found, EngineError)
    (folder,) = tmp_path.iterdir()
    assert f"interlock report {folder}" in found.todo
    assert read(tmp_path).ended_by.startswith("an error (")


def test_what_was_measured_goes_into_the_folder_that_was_asked_for(tmp_path: Path) -> None:
    journal = journal_in(tmp_path / "results", tmp_path / "there")
    for count in (1, 2):
        journal.add(some_of(count))
        assert len(read_folder(tmp_path / "there").candidates[0].values[Figure.REQUEST_S]) == count
    folder, trial = journal.write(some_of(3))
    assert (folder, trial.name, trial.ended_by) == (tmp_path / "there", "there", "")
    assert read_folder(folder) == trial
    assert not (tmp_path / "results").exists()
    assert os.listdir(folder) == [store.TRIAL_FILE]  # noqa: PTH208  names alone


def read_folder(folder: Path) -> Trial:
    return store.read_json(folder / store.TRIAL_FILE, Trial)
