"""The command line: every option explained, every error one line with its exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock import __version__
from interlock.cli import main
from interlock.cli.main import COMMANDS, load_command
from interlock.cli.matrix import fail_on_failed_cells
from interlock.cli.options import parse_duration, split_names
from interlock.engine.protocol import LEAVE_OUT
from interlock.errors import UsageError, WorkloadError
from interlock.results import store
from interlock.results.experiments import Outcome, State
from interlock.results.profiles import CellProfile
from tests.apart import command
from tests.builders import ROOT, Entry, edit, make_cell, make_experiment, make_profile
from tests.cli.conftest import Run

PARAMETERS = [(name, parameter) for name in COMMANDS for parameter in load_command(name).params]


@pytest.mark.parametrize(
    "words", [[], *([name] for name in COMMANDS)], ids=lambda words: " ".join(words) or "interlock"
)
def test_help_explains_every_command(words: list[str]) -> None:
    result = CliRunner().invoke(main.app, [*words, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output


@pytest.mark.parametrize(("command", "parameter"), PARAMETERS, ids=lambda value: getattr(value, "name", value))
def test_every_option_and_argument_has_a_help_text_that_is_a_sentence(command: str, parameter: Any) -> None:
    assert parameter.help, f"{command} {parameter.name}"
    assert parameter.help.endswith(".")


def test_the_version_is_the_packages() -> None:
    result = CliRunner().invoke(main.app, ["--version"])
    assert result.output == f"interlock {__version__}\n"


@pytest.mark.parametrize("words", [[], ["report"]])
def test_the_short_option_for_help_is_the_same(words: list[str]) -> None:
    short, long = (CliRunner().invoke(main.app, [*words, option]) for option in ("-h", "--help"))
    assert (short.exit_code, short.output) == (0, long.output)


def test_help_groups_the_commands_by_what_people_do() -> None:
    lines = CliRunner().invoke(main.app, ["--help"]).output.splitlines()
    order = [line.strip("╭─╮ ") for line in lines if line.startswith("╭")]
    assert order == ["Options", "Answer", "Measure", "Build", "Share", "Maintain"]
    shown = [line.split()[1] for line in lines if line.startswith("│ ") and line.split()[1] in COMMANDS]
    assert shown == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_the_command_itself_says_first(name: str) -> None:
    assert str(load_command(name).help).splitlines()[0] == COMMANDS[name].help


HEAVY = ("docker", "jinja2", "numpy", "pandas", "psutil", "pydantic", "scipy")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["pick", "--help"]])
def test_help_loads_no_module_that_takes_long(words: list[str]) -> None:
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    code += "from interlock.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "typer" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_what_measures_nothing_loads_nothing_to_calculate_with() -> None:
    code = "import sys; from interlock.cli import images, progress, swap; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"scipy", "numpy", "pyperf"} & set(loaded) == set()


@pytest.mark.parametrize(("command", "option"), re.findall(r"`(\w+) (--[\w-]+)`", LEAVE_OUT))
def test_an_option_that_an_error_of_the_profiler_names_is_one_of_its_command(command: str, option: str) -> None:
    """A trial was told to leave out its profile by an option of matrix."""
    assert option in CliRunner().invoke(main.app, [command, "--help"]).output


def test_a_shell_completes_commands_and_the_options_of_one() -> None:
    def complete(words: str) -> str:
        code = "from interlock.cli.main import main; main()"
        variables = {"_INTERLOCK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return subprocess.run(
            [sys.executable, "-c", f"import sys; sys.argv[0] = 'interlock'; {code}"],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    assert complete("interlock com").split() == ["compare"]
    assert "--markdown" in complete("interlock compare --m").split()
    assert complete("interlock build --engine p").split() == ["podman"]


def test_a_wrong_engine_is_answered_with_the_one_that_was_meant_and_the_variable_that_has_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = run("doctor", "--engine", "dokcer")
    assert (code, said.startswith("error: --engine: "), "'docker'?" in said) == (2, True, True)
    assert "INTERLOCK_ENGINE" not in said
    monkeypatch.setenv("INTERLOCK_ENGINE", "dokcer")
    code, said = run("doctor")
    assert (code, "INTERLOCK_ENGINE" in said) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        "claims nowhere",
        "pick --workload nothing=1",
        "compare nowhere nothing",
        "audit",
        "compare",
        "compare --no-such-option",
        "doctor --engine dokcer",
    ],
)
def test_with_json_an_error_is_json_on_standard_error(run: Run, words: str) -> None:
    code, said = run(*words.split(), "--json")
    error = json.loads(said)["error"]
    assert (code, error["kind"], error["exit_code"]) == (2, "UsageError", 2)
    assert error.keys() == {"kind", "message", "file", "key", "found", "todo", "exit_code"}
    assert error["found"]


@pytest.mark.parametrize(
    "words",
    [["build", "cpython-9.9"], ["matrix", "--variants", "cpython-9.9"], ["matrix", "--baseline", "cpython-9.9"]],
    ids=" ".join,
)
def test_an_unknown_variant_is_answered_with_the_nearest_one_alone(run: Run, words: list[str]) -> None:
    code, said = run(*words)
    assert code == 2
    assert "'cpython-9.9'" in said
    assert "'cpython-3.9'" in said
    assert "pypy" not in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "beginning"),
    [
        ("matrix --baseline nothing", "error: --baseline: "),
        ("matrix --resume variants/keys", "error: --resume: there is no experiment.json in variants/keys"),
        ("train nothing", "error: no variant 'nothing' follows a profile"),
    ],
)
def test_what_is_typed_wrong_is_named_before_an_engine_is_asked_for(run: Run, words: str, beginning: str) -> None:
    """The option was left out, a folder was called a name that is not valid, and the engine was asked first."""
    code, said = run(*words.split())
    assert (code, said[: len(beginning)]) == (2, beginning)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--variants", "cpython-2.7+quick"], ["cpython-2.7", "'quick'", "waking-sem-post", "pth-preload"]),
        (["--variants", "nogil-3.9+quick"], ["nogil-3.9", "'quick'"]),
        (["--workloads", "download,lokcs"], ["'lokcs'", "'locks'?"]),
    ],
)
def test_an_unknown_mode_or_workload_is_answered_with_those_that_exist(
    run: Run, words: list[str], named: list[str]
) -> None:
    code, said = run("matrix", *words)
    assert code == 2
    assert [name for name in named if name not in said] == []


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["matrix", "--baseline", "all"], "'all'"),
        (["matrix", "--variants", "all,cpython-3.13"], "'all'"),
        (["sbom", "all"], "'all'"),
        (["why", "cpython-3.13", "core/queue"], "'core'"),
    ],
)
def test_a_word_for_many_names_is_none_where_one_is_asked_for(run: Run, words: list[str], named: str) -> None:
    """Each of these ended with 70, as a defect of Interlock."""
    code, said = run(*words)
    assert (code, named in said, said.count("\n")) == (2, True, 1), said


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1h", 3600), ("0.5h", 1800)])
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text, "--budget") == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "-5m", "0s", "1h30m", "10min", f"{'9' * 400}s", "٣m"])
def test_what_is_no_duration_is_one_error_that_names_the_option(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration(text, "--budget")
    assert caught.value.key == "--budget"
    assert f"'{text}'" in str(caught.value)


@pytest.mark.parametrize("words", [["matrix", "--rounds", "1"], ["matrix", "--speed"], ["no-such-command"]])
def test_a_wrong_command_line_ends_with_2(run: Run, words: list[str]) -> None:
    assert run(*words)[0] == 2


def test_a_damaged_catalog_is_one_line_with_file_and_key(run: Run, project: Path) -> None:
    edit(project, "variants/nogil-3.9.toml", 'gil = "off"', 'gil = "gone"')
    code, said = run("render")
    assert code == 3
    assert said.startswith("error: variants/nogil-3.9.toml, key 'proof.gil': found 'gone'. ")
    assert said.count("\n") == 1


def test_outside_a_clone_what_writes_into_one_says_where_to_go(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    code, said = run("render")
    assert code == 2
    assert said.startswith("error: /: ")


def test_rendering_and_then_checking_finds_nothing(run: Run, project: Path) -> None:
    assert run("render") == (0, "")
    assert (project / "dockerfiles/cpython-3.13t/build.sh").is_file()
    assert (project / "variants/variant.schema.json").is_file()
    assert run("render", "--check") == (0, "")


def test_checking_a_damaged_copy_names_the_file_and_ends_with_the_exit_code_that_the_help_promises(
    run: Run, project: Path
) -> None:
    assert re.search(r"\b1\b", next(str(vars(one)["help"]) for _, one in PARAMETERS if one.name == "check"))
    run("render")
    edit(project, "dockerfiles/cpython-3.13t/build.sh", "set -eu", "set -e")
    code, said = run("render", "--check")
    assert code == 1
    assert said.startswith("error: dockerfiles/cpython-3.13t/build.sh: ")
    assert "`interlock render`" in said
    (project / "dockerfiles/cpython-3.13t/build.sh").unlink()
    assert run("render", "--check")[0] == 1


def test_without_an_engine_building_ends_in_one_line_and_no_traceback(project: Path, tmp_path: Path) -> None:
    socket = f"unix://{tmp_path}/none.sock"
    done = subprocess.run(
        command("build", "cpython-3.13", "--engine", "docker"),
        cwd=project,
        env={
            "DOCKER_HOST": socket,
            "XDG_CACHE_HOME": str(tmp_path),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),  # of a clone that nox has not installed
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: {socket}: ")
    assert "(No such file or directory)" in done.stderr  # the system's own words
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--verify", "--cache-from=localhost:1/team"])
@pytest.mark.usefixtures("run")
def test_an_option_that_is_of_images_is_refused_before_anything_is_planned_without_them(
    entry: Entry, option: str
) -> None:
    """Hours of building were announced first, and with --dry-run nothing else was."""
    code, out, said = entry("build", "cpython-3.13", "--engine", "host", "--as-root", "--dry-run", option)
    assert (code, out, said.partition(": unsupported")[0]) == (2, "", f"error: {option.partition('=')[0]}")


NEED_CONTAINERS = (
    ["audit", "-r", "service/requirements.txt"],
    ["trial", "service", "--cmd", "true"],
    ["check"],
    ["sbom", "cpython-3.13"],
    ["push", "--registry", "localhost:1/team"],
    ["pull", "--registry", "localhost:1/team"],
    ["swap", "service/Dockerfile", "--to", "cpython-3.14", "--try"],
    ["pick", "--needs", "service/requirements.txt", "--from", str(ROOT / "results/reference/2026-11-29-a")],
    ["build", "cpython-3.13", "--engine", "docker"],
    ["matrix", "--variants", "cpython-3.13", "--engine", "docker"],
    ["clean", "--engine", "docker"],
)


@pytest.mark.parametrize("words", NEED_CONTAINERS, ids=lambda words: words[0])
def test_without_an_engine_a_command_says_what_to_start_and_names_no_option_that_it_lacks(
    run: Run, project: Path, words: list[str]
) -> None:
    (project / "service").mkdir()
    (project / "service/requirements.txt").write_text("six\n")
    (project / "service/Dockerfile").write_text("FROM python:3.13-slim\n")
    code, said = run(*words)
    assert code == 4
    assert "docker" in said
    assert "podman" in said
    own = {name for one in load_command(words[0]).params for name in one.opts}
    assert {word.rstrip(".") for word in re.findall(r"--[a-z-]+", said)} <= own
    assert ("--engine" in own) == ("--engine host" in said)


def write_experiment(project: Path, **changes: Any) -> Path:
    folder = project / "results" / "2026-11-21-a"
    store.write_json(folder / "experiment.json", make_experiment(**changes))
    return folder


@pytest.mark.parametrize(
    ("words", "beginning", "part"),
    [
        (["report", "--markdown"], "# Experiment 2026-11-21-a\n", "| cpython-3.14t |"),
        (["claims", "--full"], "host     2 cores Example CPU 9000", "pth-futex-calls-today: no data yet"),
    ],
)
def test_the_latest_experiment_is_reported_and_the_shipped_claims_are_evaluated_on_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], beginning: str, part: str
) -> None:
    write_experiment(project)
    monkeypatch.chdir(project)
    result = CliRunner().invoke(main.app, words)
    assert (result.exit_code, result.output[: len(beginning)], part in result.output) == (0, beginning, True)


def test_an_experiment_is_reported_by_its_folder_from_anywhere(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_experiment(project)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main.app, ["report", str(folder), "--full"])
    assert result.exit_code == 0
    assert "repeat   nox -s matrix -- --quick --seed 7" in result.output


def test_a_folder_that_holds_no_experiment_is_named(run: Run, tmp_path: Path) -> None:
    code, said = run("report", str(tmp_path))
    assert code == 7
    assert said.startswith(f"error: {tmp_path}/experiment.json: ")


GATE = """
[sources.note]
author = "somebody"
title = "Something"
date = "2026"

[claims.no-calls]
statement = "It makes no call."
source = "note"
workload = "locks"
benchmark = "uncontended"
metric = "futex"
variant = "cpython-3.14t"
published = 0
tolerance = 0
required = true
"""


def write_gate(folder: Path, **changes: Any) -> tuple[Path, Path]:
    """A gate, and an experiment in which the variant makes a call for each two units."""
    (folder / "gate.toml").write_text(GATE, encoding="utf-8")
    experiment = write_experiment(folder, **changes)
    path = store.cell_path(experiment, "box", "cpython-3.14t", None, "locks")
    store.write_json(store.profile_path(path), CellProfile(benchmarks={"uncontended": make_profile(0.5)}))
    return folder / "gate.toml", experiment


def test_a_gate_that_is_contradicted_ends_with_1_and_its_name_also_outside_a_project(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, folder = write_gate(tmp_path)
    monkeypatch.chdir("/")
    code, said = run("claims", str(folder), "--claims", str(gate))
    assert code == 1
    assert said.startswith(f"error: {folder}, no-calls: ")
    assert "opposite" in said


def test_a_gate_that_holds_or_was_not_tested_ends_with_0(run: Run, tmp_path: Path) -> None:
    gate, folder = write_gate(tmp_path, cells=[make_cell("cpython-3.13")])
    assert run("claims", str(folder), "--claims", str(gate)) == (0, "")


def test_findings_are_json_for_programs(tmp_path: Path) -> None:
    gate, folder = write_gate(tmp_path)
    result = CliRunner().invoke(main.app, ["claims", str(folder), "--claims", str(gate), "--json"])
    (finding,) = json.loads(result.stdout)["findings"]
    assert (finding["verdict"], finding["count"]) == ("opposite", 0.5)


def test_a_damaged_file_of_claims_is_one_line_with_file_and_key(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = write_gate(tmp_path)
    edit(tmp_path, "gate.toml", "required = true", "requierd = true")
    monkeypatch.chdir(tmp_path)
    code, said = run("claims", str(folder), "--claims", "gate.toml")
    assert code == 3
    assert said.startswith("error: gate.toml, key 'claims.no-calls.requierd': ")
    assert said.count("\n") == 1


def test_a_file_of_claims_that_is_not_there_is_bad_usage(run: Run, tmp_path: Path) -> None:
    assert run("claims", "--claims", str(tmp_path / "none.toml"))[0] == 2


def test_a_failed_cell_makes_the_command_fail(project: Path) -> None:
    failed = Outcome(state=State.FAILED, reason="it crashed")
    folder = write_experiment(project, cells=[make_cell("cpython-3.13"), make_cell("cpython-3.14t", outcome=failed)])
    with pytest.raises(WorkloadError) as caught:
        fail_on_failed_cells(folder, store.read_experiment(folder))
    assert (caught.value.key, caught.value.found) == ("cpython-3.14t / locks", failed.reason)


@pytest.mark.parametrize(("names", "expected"), [(None, None), ("a, b,,c ", ["a", "b", "c"]), ("", [])])
def test_names_are_split_at_commas(names: str | None, expected: list[str] | None) -> None:
    assert split_names(names) == expected


def test_the_committed_page_is_what_the_commands_are() -> None:
    assert (ROOT / main.REFERENCE).read_text(encoding="utf-8") == main.reference_page()


def test_an_option_of_many_commands_is_explained_once_and_named_by_each() -> None:
    page = main.reference_page()
    assert page.count("* `--json`: ") == page.count("* `--dry-run`: ") == 1
    assert page.count("`--dry-run`") > 5
    assert "<list[" not in page


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_section_with_all_its_options(name: str) -> None:
    section = main.reference_page().partition(f"\n### `interlock {name}`\n")[2].partition("\n### ")[0]
    assert section
    options = [option for one in load_command(name).params for option in (*one.opts, *one.secondary_opts)]
    assert [option for option in options if option.startswith("-") and option not in re.split("[`, ]", section)] == []
