"""The experiment of a trial is read by the commands that read any other."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.catalog.services import Probed
from interlock.cli import main
from interlock.cli.trial import DockerfileOptions, RoundOptions, ServiceOptions, _began, _repeat
from interlock.errors import UsageError
from interlock.results import store
from interlock.results.experiments import Outcome, State
from interlock.results.trials import OWN
from interlock.trial.options import exposed_address, parse_address
from interlock.trial.workloads import ServicePlace, workload_of
from tests.cli.conftest import Run
from tests.trials import CHECKS, OWN_TWIN, make_trial, make_tried, write_tried

FAST, DEAD = "cpython-3.14", "cpython-3.13t"
SECONDS = {OWN: 0.001, OWN_TWIN: 0.00101, FAST: 0.0005}


def write(folder: Path, day: str, factor: float = 1.0, **changes: Any) -> Path:
    failed = Outcome(state=State.FAILED, reason="it does not build: error: no wheel")
    experiment, _ = make_tried({FAST: [0.001] * 8}, {DEAD: failed}, started=f"{day}T06:00:00+00:00", **changes)
    seconds = SECONDS | {FAST: factor * SECONDS[FAST]}
    write_tried(folder / day, experiment, seconds)
    return folder / day


def begin(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Path:
    """A trial that was begun on this machine and ended by Ctrl-C."""
    path = write(folder, "2026-11-21", ended_by="Ctrl-C", unfinished=["trial-service"], **changes)
    monkeypatch.setattr("interlock.cli.settings.facts", lambda: store.read_experiment(path).host)
    return path


def said(*words: str | Path) -> str:
    """What a command that ends well prints."""
    result = CliRunner().invoke(main.app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.output


def test_a_trial_is_reported_compared_and_exported_as_an_experiment(tmp_path: Path) -> None:
    first, second = write(tmp_path, "2026-11-21"), write(tmp_path, "2026-11-22", 1.5)
    for option in ([], ["--full"], ["--markdown"]):
        shown = said("report", first, *option)
        assert FAST in shown
        assert "no wheel" in shown
    verdicts = {
        one["label"]: one["verdict"] for one in json.loads(said("report", first, "--json"))["trial"]["verdicts"]
    }
    assert verdicts == {FAST: "switch", DEAD: "do not switch"}
    said("report", first, "--html")
    assert (first / "report.html").is_file()
    (row,) = json.loads(said("compare", first, second, "--json"))["tables"][0]["rows"]
    assert row["change"]["verdict"] == "slower"
    said("export", first, "--output", tmp_path / "tables")
    assert FAST in (tmp_path / "tables/ratios.csv").read_text()


def test_a_trial_answers_no_pick(tmp_path: Path, run: Run) -> None:
    folder = write(tmp_path, "2026-11-21")
    code, error = run("pick", "--workload", "locks", "--from", str(folder))
    assert (code, error.count("\n")) == (2, 1)
    assert "locks" in error


def test_a_matrix_does_not_go_on_with_a_trial(tmp_path: Path, run: Run) -> None:
    code, error = run("matrix", "--resume", str(write(tmp_path, "2026-11-21")))
    assert (code, error.count("\n")) == (2, 1)
    assert "trial" in error


@pytest.mark.parametrize(
    ("changes", "seed", "options", "differ"),
    [
        ({}, 7, {}, ""),
        ({"budget_s": 60.0}, 7, {}, ""),
        ({"seed": 8}, None, {}, ""),
        ({"seed": 8}, 8, {}, "--seed"),
        ({"variants": [OWN, FAST]}, 7, {}, "--variants"),
        ({"profiled": False, "rounds": 9, "rounds_limit": 9}, 7, {}, "--rounds, --no-syscalls"),
        ({}, 7, {"context": "/srv/service", "builder": "BuildKit"}, ""),
        ({}, 7, {"environment": ["B", "A"]}, ""),
        ({}, 7, {"memory": "256m"}, "--memory"),
        ({}, 7, {"network": "other"}, "--network"),
        ({}, 7, {"environment_sum": "of another value of A"}, "the values of --env"),
        ({}, 7, {"test": "pytest -q"}, "--cmd"),
        ({}, 7, {"build_args": ["B", "A"]}, ""),
        ({}, 7, {"build_args": ["A"], "target": "app", "stage": "app"}, "--target, --stage, the names of --build-arg"),
    ],
)
def test_a_trial_goes_on_as_it_was_begun(
    changes: dict[str, object],
    seed: int | None,
    options: dict[str, object],
    differ: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With another limit of memory it went on, and its record had the last one for all rounds."""
    given = {"environment": ["A", "B"], "environment_sum": "of A and B", "memory": "512m", "network": "db"}
    given |= {"build_args": ["A", "B"]}
    folder = begin(tmp_path, monkeypatch, trial=make_trial(**given))
    began = store.read_experiment(folder)
    settings = began.settings.model_copy(update=changes)
    workloads = [*began.workloads.values()]
    if not differ:
        assert _began(tmp_path, folder.name, settings, seed, make_trial(**given | options), workloads) == began
        return
    with pytest.raises(UsageError, match=re.escape(f"other options ({differ}): ")):
        _began(tmp_path, folder.name, settings, seed, make_trial(**given | options), workloads)


EXPOSED = exposed_address(["8000/tcp"])


@pytest.mark.parametrize(
    ("began", "changes", "differ"),
    [
        ({}, {}, ""),
        ({}, {"address": parse_address(":9999/")}, "--http"),
        ({}, {"address": None}, "--http"),
        ({"address": EXPOSED}, {}, "--http"),
        ({"address": EXPOSED}, {"address": None}, ""),
        ({}, {"deadline_s": 5}, "--deadline"),
        ({}, {"healthy_within_s": 5}, "--healthy-within"),
    ],
)
def test_what_a_trial_measures_is_compared_before_anything_is_built(
    began: dict[str, Any], changes: dict[str, Any], differ: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another --http or --deadline was refused once all images were built again."""
    probed = Probed(slice_s=3, turns=2, decides="cpu")
    folder = begin(tmp_path, monkeypatch, checks=replace(CHECKS, **began), probed=probed)
    before = store.read_experiment(folder)
    now = [workload_of(Path("service"), replace(CHECKS, **changes))]
    with pytest.raises(UsageError, match=re.escape(f"({differ})")) if differ else nullcontext():
        _began(tmp_path, folder.name, before.settings, 7, make_trial(), now)


def test_a_trial_goes_on_with_as_many_cpus_of_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = begin(tmp_path, monkeypatch)
    settings = store.read_experiment(folder).settings
    swept = [workload_of(Path("service"), CHECKS, ServicePlace(suffix=f"-{cpus}cpu")) for cpus in (1, 2)]
    for now in (swept, [workload_of(Path("other"), CHECKS)]):
        with pytest.raises(UsageError, match="--sweep"):
            _began(tmp_path, folder.name, settings, 7, make_trial(), now)


@pytest.mark.parametrize("why", [True, False])
def test_the_command_that_repeats_a_trial_has_its_options_and_no_value_that_may_be_secret(why: bool) -> None:
    service = ServiceOptions(load="wrk {url}/", env=["TOKEN=abc"], memory="256m")
    dockerfile = DockerfileOptions(build_arg=["KEY=abc"], target="app")
    measured = RoundOptions(why=why, seed=7)
    settings = measured.settings([FAST], results=Path("/elsewhere"))
    words = _repeat(Path("site"), Path("site/Dockerfile"), settings, service, dockerfile, measured)
    assert ("--why" in words.split()) is why
    assert "abc" not in words
    for named in ("--env TOKEN", "--build-arg KEY", "--target app", "--memory 256m", "--seed 7", "--budget 600s"):
        assert named in words
    read = main.load_command("trial").make_context("trial", shlex.split(words)[2:])
    assert read.params["variants"] == FAST
    assert read.params["load"] == "wrk {url}/"
    assert read.params["results"] == Path("/elsewhere")


def test_a_trial_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="--load, --cmd or --http"):
        ServiceOptions().checks()


def test_a_fixed_number_of_rounds_has_no_budget_unless_one_is_given() -> None:
    assert RoundOptions().settings([FAST]).budget_s == 600
    fixed = RoundOptions(rounds=3).settings([FAST])
    assert (fixed.rounds, fixed.rounds_limit, fixed.budget_s) == (3, None, None)
    assert RoundOptions(rounds=3, budget="90s").settings([FAST]).budget_s == 90
