"""The command that repeats a trial has what was asked for, and its folder what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.trial import _repeat, _write_result
from interlock.results.journal import KILLED
from interlock.results.profiles import BenchmarkProfile, LockSites, Method, PhaseCounts
from tests.cli.conftest import Run
from tests.trial.test_running import journal_in, some_of
from tests.trials import make_candidate, make_trial, make_trial_settings


@pytest.mark.parametrize("why", [True, False])
def test_the_command_that_repeats_a_trial_takes_stacks_again(why: bool) -> None:
    settings = make_trial_settings(why=why)
    assert ("--why" in _repeat(settings, ["cpython-3.14"], None, 60, 600).split()) == why


def test_each_candidate_whose_stacks_were_taken_has_a_flame_graph(tmp_path: Path) -> None:
    plain = BenchmarkProfile(
        method=Method.BPF, perturbed=False, units=1, phases={"work": PhaseCounts(total=0, syscalls={})}, counted="work"
    )
    explained = plain.model_copy(update={"why": LockSites(units=1, ns=1, sites=[])})
    tried = make_trial(
        make_candidate("cpython-3.13", 0.001, profile=plain), make_candidate("cpython-3.14", 0.001, profile=explained)
    )
    _write_result(tmp_path, tried, as_json=False)
    assert [path.name for path in tmp_path.glob("*.svg")] == ["why-cpython-3.14.svg"]


def test_a_trial_that_was_killed_is_reported(tmp_path: Path, run: Run) -> None:
    journal_in(tmp_path / "results").add(some_of(4))
    (folder,) = (tmp_path / "results").iterdir()
    assert run("report", str(folder)) == (0, "")
    assert KILLED in (folder / "trial.md").read_text()
    code, said = run("report", str(folder), "--html")
    assert (code, said.count("\n")) == (2, 1)
