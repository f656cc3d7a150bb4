"""Options become settings; those of an experiment that goes on are what its record says."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog import selection
from interlock.cli.matrix import place_of_references
from interlock.cli.options import MatrixOptions
from interlock.cli.settings import require_no_contradiction, resumed_place, settings_from, unfinished
from interlock.engine.machine import facts
from interlock.errors import UnsupportedHereError, UsageError
from interlock.measure import noise
from interlock.measure.forecast import usual_budget_s
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, EngineName, Experiment, Times
from tests.builders import ROOT, make_experiment
from tests.cli.conftest import Run


def test_without_names_a_matrix_is_the_core_set_and_with_all_it_is_everything() -> None:
    known = catalogs.load(ROOT)
    core, everything, named = (
        settings_from(known, MatrixOptions(variants=variants, workloads=workloads))
        for variants, workloads in ((None, None), ("all", "all"), ("cpython-3.13", "locks"))
    )
    assert (core.variants_word, core.workloads_word) == ("core", "core")
    assert core.variants == selection.select_labels(known.variants, ["core"])
    assert (everything.variants_word, everything.workloads_word) == ("all", "all")
    assert set(core.workloads) < set(everything.workloads) == set(known.workloads)
    assert (named.variants_word, named.workloads_word) == ("", "")


def test_what_a_fleets_host_is_told_to_measure_is_what_it_measures() -> None:
    """Without containers it chose a core set of its own, which was refused; with --quick it had a budget."""
    known = catalogs.load(ROOT)
    asked = settings_from(known, MatrixOptions(quick=True, seed=7)).with_baseline("cpython-3.13")
    given = dict(itertools.pairwise(asked.options))
    told = MatrixOptions(
        variants=given["--variants"], workloads=given["--workloads"], baseline="cpython-3.13", quick=True, seed=7
    )
    settings = settings_from(known, told)
    assert (settings.variants, settings.variants_word) == (asked.variants, "")
    assert usual_budget_s(settings) is None


def test_chosen_benchmarks_are_settings_and_no_word_stands_for_their_workloads() -> None:
    known = catalogs.load(ROOT)
    settings = settings_from(known, MatrixOptions(workloads="locks/queue,startup,locks/contended"))
    assert settings.workloads == ["locks", "startup"]
    assert settings.benchmarks == {"locks": ["contended", "queue"]}
    one_of_each = ",".join(f"{name}/{workload.benchmarks[0].name}" for name, workload in known.workloads.items())
    assert settings_from(known, MatrixOptions(workloads=one_of_each)).workloads_word == ""


def test_a_baseline_that_is_named_is_a_row_and_leaves_the_word_for_the_others() -> None:
    settings = settings_from(catalogs.load(ROOT), MatrixOptions(baseline="cpython-3.6", seed=7))
    assert (settings.baseline, settings.variants[-1], settings.seed) == ("cpython-3.6", "cpython-3.6", 7)
    assert settings.variants_word == "core"


def test_the_core_set_has_a_budget_with_quick_unless_rounds_or_other_rows_are_asked_for() -> None:
    known = catalogs.load(ROOT)
    assert usual_budget_s(settings_from(known, MatrixOptions(quick=True))) == 16 * 60
    for options in (
        MatrixOptions(),
        MatrixOptions(quick=True, rounds=3),
        MatrixOptions(quick=True, workloads="locks"),
        MatrixOptions(quick=True, variants="all"),
    ):
        assert usual_budget_s(settings_from(known, options)) is None


def ended_experiment() -> Experiment:
    """What `matrix --variants cpython-3.13,cpython-3.14 --workloads locks` left when it was ended."""
    here = {"folder": "box", **facts(), "engine": {"name": "docker", "version": "28", "storage_driver": "x"}}
    return make_experiment(
        ["cpython-3.13", "cpython-3.14"], host=here, times={"locks": Times(measuring_s=1)}, unfinished=["locks"]
    )


@pytest.mark.parametrize(
    ("option", "same", "other"),
    [
        ("variants", "cpython-3.14", "cpython-3.9"),
        ("workloads", "locks", "startup"),
        ("workloads", "locks", "locks/queue"),
        ("quick", True, None),
        ("baseline", "cpython-3.13", "cpython-3.14"),
        ("seed", 7, 8),
        ("rounds", 3, 4),
        ("profile", True, False),
        ("engine", EngineName.DOCKER, EngineName.HOST),
    ],
)
def test_an_experiment_goes_on_as_it_began_and_an_option_that_contradicts_is_named(
    option: str, same: Any, other: Any
) -> None:
    known, began = catalogs.load(ROOT), ended_experiment()
    options = MatrixOptions(**{option: same})
    require_no_contradiction(options, settings_from(known, options), began)
    if other is not None:
        contradicting = MatrixOptions(**{option: other})
        with pytest.raises(UsageError) as caught:
            require_no_contradiction(contradicting, settings_from(known, contradicting), began)
        assert caught.value.key in {f"--{option}", f"--no-{option}"}
        assert began.command in str(caught.value)


def test_an_engine_that_the_environment_contradicts_is_told_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice was to leave out an option that nobody had typed."""
    monkeypatch.setenv("INTERLOCK_ENGINE", "host")
    options = MatrixOptions(engine=EngineName.HOST)
    with pytest.raises(UsageError) as caught:
        require_no_contradiction(options, settings_from(catalogs.load(ROOT), options), ended_experiment())
    assert "INTERLOCK_ENGINE" in caught.value.todo


def test_an_experiment_that_does_not_exist_or_is_complete_cannot_be_resumed(run: Run, tmp_path: Path) -> None:
    """One further below was answered with 'Did you mean' its own name."""
    began, below = ended_experiment(), tmp_path / "r/reference/2026-11-20-a"
    for folder in (tmp_path / "r" / began.name, below):
        store.write_json(folder / EXPERIMENT_FILE, began.model_copy(update={"unfinished": []}))
    for name, said_of_it in (
        ("2026-11-21-x", f"'{began.name}'"),
        (began.name, "is complete"),
        (below.name, f"Name its folder: {below}"),
    ):
        code, said = run("matrix", "--resume", name, "--results", str(tmp_path / "r"))
        assert code == 2
        assert said_of_it in said
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("began", "now", "is_refused"),
    [
        ("1.2.0", "1.2.0", False),
        ("1.2.0", "1.3.0", True),
        ("1.2.0", "1.3.0rc1", True),
        ("1.2.0", "1.2.1.dev3+gabc.d20261201", False),
        ("1.2.0.dev3+gabc", "1.2.0", False),
    ],
)
def test_an_experiment_goes_on_with_its_release_and_with_another_development_version_not_silently(
    began: str,
    now: str,
    is_refused: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rounds of two programs were one row, and the record named the second."""
    monkeypatch.setattr("interlock.cli.settings.__version__", now)
    record = ended_experiment().model_copy(update={"tool_version": began})
    store.write_json(tmp_path / "e4" / EXPERIMENT_FILE, record)
    with pytest.raises(UsageError, match=r"^--resume: ") if is_refused else nullcontext() as caught:
        unfinished(tmp_path, "e4", is_trial=False)
    said = caught.value.found if caught else capsys.readouterr().err
    assert (began in said, now in said) == (began != now,) * 2


def test_a_resumed_experiment_has_its_own_name(run: Run) -> None:
    code, said = run("matrix", "--resume", "a", "--name", "b")
    assert (code, "--name" in said) == (2, True)


def test_an_experiment_to_go_on_with_is_named_by_its_name_or_its_folder(tmp_path: Path) -> None:
    store.write_json(tmp_path / "e4" / EXPERIMENT_FILE, ended_experiment())
    assert resumed_place("e4", None) == ("e4", None)
    assert resumed_place(str(tmp_path / "e4"), None) == ("e4", tmp_path.resolve())
    assert resumed_place(None, tmp_path) == (None, tmp_path)


def test_references_lie_in_a_clone_and_are_measured_where_it_is_quiet(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(noise, "of_this_machine", lambda: {0: 0.2})
    monkeypatch.chdir(tmp_path)
    code, said = run("matrix", "--for-reference")
    assert code == 2
    assert str(tmp_path) in said
    monkeypatch.chdir(ROOT)
    with pytest.raises(UnsupportedHereError):
        place_of_references(None)
    with pytest.raises(UsageError):
        place_of_references(tmp_path)
    monkeypatch.setattr(noise, "of_this_machine", lambda: {0: 0.002})
    assert place_of_references(None) == ROOT / "results/reference"


def test_an_experiment_that_goes_on_as_a_reference_is_one(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At its end the page of one elsewhere was deleted."""
    monkeypatch.setattr(noise, "of_this_machine", lambda: {0: 0.002})
    monkeypatch.chdir(ROOT)
    store.write_json(tmp_path / "e4" / EXPERIMENT_FILE, ended_experiment())
    with pytest.raises(UsageError) as caught:
        place_of_references(None, str(tmp_path / "e4"))
    assert caught.value.key == "--resume"
    code, said = run("matrix", "--for-reference", "--dry-run", "--resume", str(tmp_path / "e4"))
    assert (code, str(tmp_path / "e4") in said) == (2, True)
    for name in ("2026-11-29-a", "results/reference/2026-11-29-a"):
        assert place_of_references(None, name) == ROOT / "results/reference"


def test_a_dry_run_for_a_reference_keeps_no_cpu_busy(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> dict[int, float]:
        raise AssertionError("it was measured")

    monkeypatch.setattr(noise, "of_this_machine", refuse)
    monkeypatch.chdir(ROOT)
    code, said = run("matrix", "--for-reference", "--dry-run", "--workloads", "nothing-like-it")
    assert (code, "nothing-like-it" in said) == (2, True)
