"""What a candidate of a trial is started with."""

from __future__ import annotations

import os
import random
import signal
from typing import Any

import pytest

from interlock.measure.ending import Ending, exit_code_of
from interlock.results.answers import OWN, OWN_TWIN, Candidate, Figure
from interlock.trial import rounds
from interlock.trial.rounds import CandidateRuns, Checks, TrialResources, TriedCandidate, python_path
from tests.trials import make_candidate, make_trial_settings


def test_the_gil_probe_stands_before_the_images_own_path() -> None:
    assert python_path({}, "/w") == "/w"
    assert python_path({"PYTHONPATH": "/app:/lib"}, "/w") == "/w:/app:/lib"


SECONDS = {OWN: 1.0, OWN_TWIN: 1.0, "slow": 2.0, "near": 1.04}


def run_rounds(monkeypatch: pytest.MonkeyPatch, labels: list[str], ending: Ending) -> dict[str, Candidate]:
    """The candidates after their rounds, each run of which takes its seconds, give or take a tenth."""
    rng = random.Random(7)

    def measure(_: CandidateRuns, entry: TriedCandidate) -> None:
        entry.add({Figure.LOAD_S: SECONDS[entry.label] * rng.gauss(1, 0.1)})

    monkeypatch.setattr(CandidateRuns, "measure", measure)
    entries = [TriedCandidate(make_candidate(label)) for label in (OWN, OWN_TWIN, *labels)]
    nothing: Any = None
    settings = make_trial_settings(rounds=3, rounds_limit=20)
    resources = TrialResources(nothing, Checks(), settings, lambda _: None, ending=ending)
    rounds._rounds(resources, entries)
    return {entry.label: entry.candidate for entry in entries}


def test_a_service_that_is_slower_by_a_factor_of_two_is_told_within_four_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = run_rounds(monkeypatch, ["slow", "near"], Ending())
    assert len(found["slow"].values[Figure.LOAD_S]) <= 4
    assert len(found["near"].values[Figure.LOAD_S]) == len(found[OWN].values[Figure.LOAD_S]) > 4


def test_a_budget_ends_the_rounds_before_all_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    ending = Ending(1e-9)
    found = run_rounds(monkeypatch, ["near"], ending)
    assert [one.values for one in found.values()] == [{}] * 3
    assert ending.reason.startswith("the budget of ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_rounds_with_the_figures_until_then(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(7)
    runs = 0

    def measure(_: CandidateRuns, entry: TriedCandidate) -> None:
        nonlocal runs
        runs += 1
        if runs == 8:
            os.kill(os.getpid(), number)
        entry.add({Figure.LOAD_S: rng.gauss(1, 0.1)})

    monkeypatch.setattr(CandidateRuns, "measure", measure)
    entries = [TriedCandidate(make_candidate(label)) for label in (OWN, OWN_TWIN, "near")]
    nothing: Any = None
    ending = Ending()
    settings = make_trial_settings(rounds=3, rounds_limit=20)
    resources = TrialResources(nothing, Checks(), settings, lambda _: None, ending=ending)
    with ending.listening():
        rounds._rounds(resources, entries)
    assert sum(len(entry.candidate.values[Figure.LOAD_S]) for entry in entries) == 7
    assert exit_code_of(ending.reason) == 128 + number
