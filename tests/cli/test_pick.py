"""`interlock pick` from the command line: on the shipped results, and on experiments of the user's own."""

from __future__ import annotations

import datetime
import functools
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import data_folder
from interlock.cli import picking as command
from interlock.results import store
from interlock.results.answers import Pick
from interlock.trial.own_dockerfile import own_dockerfile
from tests.builders import ROOT, Entry, make_built, present
from tests.picks import SIX, TODAY, Figures, experiment_of, noisy, write_figures

MEASURED = {path.stem for path in ROOT.glob("results/reference/*/*/*/*.json") if ".profile" not in path.name}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, entry: Entry, project: Path, tmp_path: Path) -> Entry:
    """Runs it in the copy of the project, where no engine answers: exit code, output and errors."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(command, "today", lambda: TODAY)
    return functools.partial(entry, "pick")


@pytest.fixture
def shipped(project: Path) -> Path:
    """The shipped results in the copy of the project."""
    folder = project / "results" / "reference"
    folder.parent.mkdir()
    folder.symlink_to(ROOT / "results" / "reference", target_is_directory=True)
    return folder


def picked(out: str) -> Pick:
    return Pick.model_validate_json(out)


def write(results: Path, figures: Figures, name: str = "2026-11-22-a", **changes: Any) -> Path:
    """An experiment of variants that the project has."""
    return write_figures(results / name, experiment_of(figures, name=name, **changes), figures)


MEASURE = "interlock matrix --workloads locks --variants cpython-3.13,cpython-3.14,cpython-3.14t --quick"
OURS: Figures = {
    "cpython-3.13": {"locks/queue": SIX},
    "cpython-3.14": {"locks/queue": noisy(0.8)},
    "cpython-3.14t": {"locks/queue": noisy(1.3)},
}


def test_the_shipped_results_serve_before_anything_is_measured(run: Entry, shipped: Path) -> None:
    code, out, err = run("--workload", "locks=2", "--workload", "startup", "--why")
    assert (code, err) == (0, "")
    assert "next  interlock matrix --workloads locks,startup --variants cpython-3.13," in out
    assert "2030-10-31" in out


@pytest.mark.parametrize("workload", sorted(MEASURED))
def test_every_workload_of_the_shipped_results_can_be_picked_by(run: Entry, shipped: Path, workload: str) -> None:
    code, out, _ = run("--workload", workload, "--json")
    found = picked(out)
    assert code == 0
    assert found.shipped
    assert {one.workload for one in found.shares} == {workload}
    assert found.baseline in {one.label for one in found.contenders}
    assert {one.label for one in found.contenders}.isdisjoint({one.label for one in found.excluded})


def test_constraints_exclude_and_the_answer_meets_them(run: Entry, shipped: Path) -> None:
    code, out, _ = run("--workload", "startup", "--min-python", "3.14", "--max-rss", "60MB", "--json")
    found = picked(out)
    assert code == 0
    assert all(one.label.startswith(("cpython-3.14", "cpython-3.15")) for one in found.contenders)
    assert present(found.recommended).reference.startswith("localhost/interlock/python:3.1")
    older = catalogs.load(ROOT).variants["cpython-3.13"].version
    assert any({older, "3.14"} <= set(reason.split()) for one in found.excluded for reason in one.reasons)


def test_if_no_image_meets_the_constraints_it_says_why_and_ends_with_1(run: Entry, shipped: Path) -> None:
    code, out, err = run("--workload", "startup", "--max-rss", "1MB", "--why")
    assert code == 1
    assert re.search(r"[0-9.]+ MB\b.*\b1\.0 MB", out)
    assert err.startswith("error: NOTHING FITS")
    assert err.count("\n") == 1
    code, out, _ = run("--workload", "startup", "--max-rss", "1MB", "--json")
    assert (code, picked(out).decision) == (1, "nothing")
    # Without --why no reason is above.
    assert "--why" not in err
    assert "--why" in run("--workload", "startup", "--max-rss", "1MB")[2]


def test_an_experiment_of_the_users_own_comes_before_the_shipped_ones(run: Entry, project: Path, shipped: Path) -> None:
    write(project / "results", OURS)
    code, out, _ = run("--workload", "locks", "--json")
    found = picked(out)
    assert code == 0
    assert (found.experiment, found.shipped, found.decision) == ("2026-11-22-a", False, "switch")
    assert [one.label for one in found.contenders] == ["cpython-3.14", "cpython-3.13", "cpython-3.14t"]
    assert picked(run("--workload", "startup", "--json")[1]).shipped


def test_without_options_there_is_an_answer_of_four_lines(run: Entry, shipped: Path) -> None:
    code, out, err = run()
    assert (code, err, out.count("\n")) == (0, "", 4)
    *candidates, whose, then = (line.split(maxsplit=2) for line in out.splitlines())
    assert {line[1] for line in candidates} <= {"SWITCH", "STAY", "ALSO"}
    assert (whose[0], then[0]) == ("from", "next")
    assert "yours: none in " in whose[2]
    assert picked(run("--json")[1]).measured_otherwise == ""


def test_whichever_shipped_folder_is_read_the_answer_is_the_same(run: Entry, shipped: Path) -> None:
    words = ("--workload", "download=3", "--workload", "startup=1", "--cpus", "4")
    answers = {run(*words)[1], *(run(*words, "--from", one.name)[1] for one in store.experiments_below(shipped))}
    assert len(answers) == 1


def test_figures_of_builds_that_are_optimised_otherwise_now_serve_and_say_so(
    run: Entry, project: Path, shipped: Path
) -> None:
    write(project / "results", OURS, images=[make_built(name, optimisations=[]) for name in OURS])
    found = picked(run("--workload", "locks", "--json")[1])
    assert (found.measured_otherwise, found.shipped) == ("neither PGO nor LTO instead of PGO and LTO", False)
    assert present(found.recommended).reference == "localhost/interlock/python:3.14-trixie"
    assert found.measured_otherwise in run("--workload", "locks")[1]


def test_the_answer_ends_with_the_from_line_and_the_next_commands(run: Entry, project: Path) -> None:
    write(project / "results", OURS)
    code, out, err = run("--workload", "locks", "--why")
    assert (code, err) == (0, "")
    assert out.splitlines()[-4:] == [
        "FROM localhost/interlock/python:3.14-trixie",
        "",
        f"next  {MEASURE}",
        "then  interlock build cpython-3.14 --engine host",
    ]
    assert re.match(r"cpython-3\.14 +SWITCH  25 % more throughput on 2 CPUs \(2", out)


def test_whose_figures_answer_can_be_chosen_and_is_said(run: Entry, project: Path, shipped: Path) -> None:
    write(data_folder() / "results", OURS, "2026-11-23-b")
    answer = ("--workload", "locks", "--json")
    assert (picked(run(*answer)[1]).whose, picked(run(*answer, "--from", "elsewhere")[1]).whose) == ("elsewhere",) * 2
    assert picked(run(*answer, "--from", "project")[1]).whose == "project"
    assert run(*answer, "--from", "here")[0] == 2
    write(project / "results", OURS)
    ours = picked(run(*answer)[1])
    assert (ours.whose, ours.also) == ("here", "the project's: --from project")
    assert "--from here" in picked(run(*answer, "--from", "project")[1]).also


@pytest.mark.parametrize(
    ("text", "table", "options"),
    [
        ("FROM a\nEXPOSE 80/tcp\n", "", ["--http", ":80/", "--load"]),
        # As `init` reads it: it took another port and path than `pick`.
        ("FROM a AS b\nEXPOSE 1\nFROM b\nEXPOSE 80\n", "", ["--http", ":80/", "--load"]),
        ("FROM a\nHEALTHCHECK CMD curl -f http://localhost:81/up\n", "", ["--http", ":81/up", "--load"]),
        ("FROM a\n", "", ["--http", ":8000/", "--load"]),
        ("FROM a\n", '[trial]\nhttp = ":80/health"\n', ["--load"]),
        ("FROM a\n", '[trial]\nhttp = ":80/health"\nload = "wrk {url}"\n', []),
        ("FROM a\n", '[trial]\ncmd = "pytest"\n', []),
        (None, "", None),
    ],
)
def test_a_trial_is_given_what_the_folders_own_defaults_do_not_say(
    tmp_path: Path, text: str | None, table: str, options: list[str] | None
) -> None:
    if text is not None:
        (tmp_path / "Dockerfile").write_text(text, encoding="utf-8")
    if table:
        (tmp_path / "interlock.toml").write_text(table, encoding="utf-8")
    own = own_dockerfile(tmp_path)
    words = None if own is None else [word for word in shlex.split(own.options) if word.startswith(("-", ":"))]
    assert words == options


def test_a_dockerfile_of_another_name_is_named_in_each_command(tmp_path: Path) -> None:
    """A folder with a Containerfile got `interlock trial .`, which finds no Dockerfile."""
    (tmp_path / "Containerfile").write_text("FROM a\n", encoding="utf-8")
    own = present(own_dockerfile(tmp_path))
    assert (own.file, own.options.split()[:2]) == ("Containerfile", ["--file", "Containerfile"])
    (tmp_path / "interlock.toml").write_text('[trial]\nfile = "Containerfile"\n', encoding="utf-8")
    assert "--file" not in present(own_dockerfile(tmp_path)).options


def test_the_folders_own_file_that_asks_another_question_is_named(
    entry: Entry, run: Entry, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two folders two answers stood, and nothing said that one of them was asked by a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "interlock.toml").write_text("[workloads]\nstartup = 1\n", encoding="utf-8")
    assert picked(run("--json")[1]).also.endswith("asked by interlock.toml")
    assert "asked by" not in picked(run("--json", "--workload", "startup")[1]).also


def test_a_mode_is_recommended_with_its_env_line(run: Entry, project: Path) -> None:
    figures: Figures = {"cpython-3.13": {"locks/queue": SIX}, "cpython-3.13+mimalloc": {"locks/queue": noisy(0.5)}}
    write(project / "results", figures)
    code, out, _ = run("--workload", "locks", "--why")
    assert code == 0
    assert "\nFROM localhost/interlock/python:3.13-trixie\nENV PYTHONMALLOC=mimalloc\n" in out


def test_of_several_experiments_the_latest_that_has_everything_is_taken(run: Entry, project: Path) -> None:
    results = project / "results"
    write(results, OURS, "2026-11-22-a", started="2026-11-22T06:00:00+00:00")
    write(results, OURS, "2026-11-23-a", started="2026-11-23T06:00:00+00:00")
    write(results, {"cpython-3.13": {"startup/pass": SIX}}, "2026-11-24-a", started="2026-11-24T06:00:00+00:00")
    assert picked(run("--workload", "locks", "--json")[1]).experiment == "2026-11-23-a"
    assert picked(run("--workload", "locks", "--from", "2026-11-22-a", "--json")[1]).experiment == "2026-11-22-a"


def test_an_experiment_is_named_by_its_folder_too_and_looked_for_in_results(
    run: Entry, project: Path, tmp_path: Path
) -> None:
    for place, whose in ((tmp_path / "elsewhere", "elsewhere"), (project / "results", "here")):
        found = picked(run("--workload", "locks", "--from", str(write(place, OURS)), "--json")[1])
        assert (found.experiment, found.whose) == ("2026-11-22-a", whose)
    out = run("--workload", "locks", "--results", str(tmp_path / "elsewhere"), "--json")[1]
    assert not picked(out).shipped


def test_where_figures_of_ones_own_are_not_taken_they_are_led_to_in_their_folder(
    run: Entry, shipped: Path, tmp_path: Path
) -> None:
    """`pick --from here` looked in the project's folder, which had none."""
    write(tmp_path / "elsewhere", OURS)
    words = ("--results", str(tmp_path / "elsewhere"))
    found = picked(run("--workload", "startup", "--json", *words)[1])
    assert found.shipped
    (asked,) = re.findall(r"`interlock pick (.*)`", found.also)
    assert shlex.split(asked) == ["--from", "here", *words]


def test_a_folder_with_dependencies_is_like_a_program_that_was_tried_and_a_clone_of_interlock_is_like_none(
    run: Entry, project: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shipped.is_dir()
    (project / "results" / "services").symlink_to(ROOT / "results" / "services", target_is_directory=True)
    service = project / "mine"
    service.mkdir()
    likes = []
    for folder in (project, service):
        (folder / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\ndependencies = ["kinto"]\n')
        monkeypatch.chdir(folder)
        _, out, _ = run("--cpus", "2", "--json")
        likes.append(picked(out).like)
    assert likes[0] == ""
    assert "kinto" in likes[1]


def test_an_end_of_life_is_of_today(run: Entry, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project / "results", OURS)
    monkeypatch.setattr(command, "today", lambda: datetime.date(2030, 1, 1))
    code, out, _ = run("--workload", "locks", "--json")
    assert code == 0
    assert {one.label: one.reasons for one in picked(out).excluded} == {
        "cpython-3.13": ["end of life since 2029-10-31"]
    }
    assert picked(run("--workload", "locks", "--allow", "end-of-life", "--json")[1]).excluded == []


@pytest.mark.parametrize(
    ("words", "key", "named"),
    [
        ("", "", ["service", "download", "2026-11-22-a"]),
        ("--workload lokcs=1", "--workload", ["'lokcs'", "'locks'"]),
        ("--workload locks=x", "--workload", ["'locks=x'"]),
        ("--workload locks=-1", "--workload", ["'locks=-1'"]),
        ("--workload locks/x", "--workload", ["locks", "'x'"]),
        ("--workload startup", "", ["startup", "2026-11-22-a"]),
        ("--workload locks --max-rss much", "--max-rss", ["'much'"]),
        ("--workload locks --min-python new", "--min-python", ["'new'"]),
        ("--workload locks --supported-until x", "--supported-until", ["'x'"]),
        ("--workload locks --allow bugfix", "--allow", ["'bugfix'"]),
        ("--workload locks --baseline cpython-3.13x", "--baseline", ["'cpython-3.13x'", "'cpython-3.13"]),
        ("--workload locks --baseline cpython-3.9", "", ["locks", "2026-11-22-a"]),
        ("--workload locks --from x", "--from", ["'x'", "2026"]),
    ],
)
def test_what_cannot_be_answered_is_one_sentence_and_exit_code_2(
    run: Entry, project: Path, words: str, key: str, named: list[str]
) -> None:
    write(project / "results", OURS)
    code, out, err = run(*words.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {key}")
    assert all(one in err for one in named), err
    assert err.count("\n") == 1


def test_without_any_experiment_the_error_says_how_to_measure(run: Entry) -> None:
    code, _, err = run("--workload", "locks")
    assert code == 2
    assert err.startswith("error: ")
    assert "`interlock matrix --workloads locks`" in err


def test_a_damaged_experiment_is_named(run: Entry, project: Path) -> None:
    folder = write(project / "results", OURS)
    (folder / "box/cpython-3.14/locks.json").write_text("{", encoding="utf-8")
    code, _, err = run("--workload", "locks")
    assert code == 7
    assert err.startswith("error: results/2026-11-22-a/box/cpython-3.14/locks.json: ")
    (folder / "experiment.json").write_text("{", encoding="utf-8")
    assert run("--workload", "locks")[0] == 7


def test_picking_changes_no_file(run: Entry, project: Path) -> None:
    write(project / "results", OURS)
    before = {path: path.stat().st_mtime_ns for path in project.rglob("*")}
    assert run("--workload", "locks")[0] == 0
    assert {path: path.stat().st_mtime_ns for path in project.rglob("*")} == before


def test_dependencies_cannot_be_tried_without_an_engine(run: Entry, project: Path) -> None:
    write(project / "results", OURS)
    (project / "requirements.txt").write_text("six\n", encoding="utf-8")
    code, out, err = run("--workload", "locks", "--needs", "requirements.txt")
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert "none.sock" in err


def test_requirements_that_cannot_be_read_are_named_first(run: Entry, project: Path) -> None:
    # `Path.exists` raises for it, as for a path in a folder that is closed to this user.
    (project / "long.txt").write_text(f"-e ./{'a' * 300}\n", encoding="utf-8")
    for name in ("none.txt", "long.txt"):
        code, _, err = run("--workload", "locks", "--needs", name)
        assert code == 3
        assert err.startswith(f"error: {name}")
        assert err.count("\n") == 1


def test_the_example_of_the_docs_is_a_pick() -> None:
    text = (ROOT / "docs/pick.md").read_text(encoding="utf-8")
    example = text.split("```json\n")[1].split("```")[0]
    assert set(json.loads(example)) == set(Pick.model_fields)
    Pick.model_validate_json(example)


def test_every_field_of_the_json_is_explained_in_the_docs() -> None:
    text = (ROOT / "docs/pick.md").read_text(encoding="utf-8")
    assert [name for name in Pick.model_fields if f"`{name}`" not in text] == []
