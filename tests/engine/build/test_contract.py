"""What an image owes, what was found of it, and what the variant declares."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from interlock.catalog.variants import Variant
from interlock.engine.build import contract
from interlock.engine.build.contract import CHECKS, CONFIG, INSIDE, ContractFinding, ContractState, Runs
from interlock.errors import BuildError
from tests.builders import ROOT, make_variant
from tests.workloads.test_syntax import too_new_for_vermin, vermin

PROGRAM = ROOT / "src/interlock/engine/inside/contract.py"
GOOD: dict[str, Any] = {
    "Env": [
        *("PATH=/usr/local/bin:/usr/bin", "LANG=C.UTF-8", "PYTHON_VERSION=3.13.1"),
        *("UV_PYTHON=3.13", "UV_PYTHON_DOWNLOADS=never"),
    ],
    "Cmd": ["python3"],
}
NAMES = [check.name for check in INSIDE]


def runs(**second: str) -> Runs:
    """Two runs in which all is well, but for what the second one found; `_` stands for a dash."""
    kept = dict.fromkeys(NAMES, "")
    return {"first": kept, "second": kept | {name.replace("_", "-"): found for name, found in second.items()}}


def judged(
    variant: Variant, config: Mapping[str, Any] = GOOD, answers: Runs | None = None
) -> dict[str, ContractFinding]:
    """What is not kept, by the check."""
    found = contract.judge(variant, config, answers or runs())
    return {finding.check: finding for finding in found if finding.verdict is not ContractState.OK}


@given(st.dictionaries(st.sampled_from(NAMES), st.text(st.characters(exclude_characters="\n"), min_size=1)))
def test_any_answers_come_back(answers: dict[str, str]) -> None:
    output = "".join(f"{name}={found}\n" for name, found in answers.items())
    assert contract.parse_answers(output) == {name: "" if found == "ok" else found for name, found in answers.items()}


@given(st.text())
def test_whatever_an_interpreter_prints_is_not_mistaken_for_a_kept_promise(output: str) -> None:
    assert all(found for found in contract.parse_answers(output).values())


def answers_of(folder: Path, *stubs: str, before: str = "") -> dict[str, str]:
    """Return what the program answers on the Python that runs this, after some lines of Python.

    The modules of which there is a stub end at once: some take longer than all other checks, and images prove them.
    """
    for stub in stubs:
        (folder / f"{stub}.py").write_text("raise SystemExit(3)\n")
    program = [sys.executable, "-c", before + PROGRAM.read_text()]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert [line.split("=", 1)[0] for line in done.stdout.splitlines()] == NAMES
    return dict(contract.parse_answers(done.stdout))


def test_the_program_answers_every_check_on_the_python_that_runs_this(tmp_path: Path) -> None:
    answers = answers_of(tmp_path, "venv")
    for name in ("zlib", "sqlite3", "threads", "expat", "multiprocessing", "compileall"):
        assert answers[name] == ""
    assert "ended with 3" in answers["venv"]


def test_the_program_goes_on_after_a_check_that_fails_and_says_what_it_found(tmp_path: Path) -> None:
    # As a variant's that froze the one which the build silences.
    (tmp_path / "compileall.py").write_text("")
    answers = answers_of(
        tmp_path,
        *("venv", "pip", "setuptools"),
        before="import sys, threading\nsys.modules['zlib'] = None\n"
        "def refuse(self): raise RuntimeError('no\\nthreads')\nthreading.Thread.start = refuse\n",
    )
    assert answers["zlib"].startswith("ModuleNotFoundError: ")
    assert answers["threads"] == "RuntimeError: no threads"
    assert answers["compileall"]
    assert answers["multiprocessing"] == ""


def test_the_program_is_valid_for_python_2_5_and_3_0() -> None:
    found = vermin(PROGRAM)
    assert found.returncode == 0, found.stdout + found.stderr
    assert too_new_for_vermin(PROGRAM.read_text()) == []


def test_every_check_has_a_name_of_its_own_that_a_variant_may_declare() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert make_variant(differences=dict.fromkeys(names, "because")).differences.keys() == set(names)


@pytest.mark.parametrize(
    ("version", "owed", "not_owed"),
    [
        ("2.5.1", {"bz2", "pip"}, {"lzma", "ssl", "venv", "multiprocessing", "command-pydoc-major"}),
        ("2.7.18", {"ssl", "setuptools", "env-lang"}, {"lzma", "venv", "zoneinfo", "sqlite3-extensions"}),
        ("3.9.2", {"lzma", "venv", "zoneinfo", "wheel"}, {"zstd"}),
        ("3.12.1", {"env-lang"}, {"setuptools", "wheel"}),
        ("3.13.0", {"venv"}, {"env-lang", "zstd"}),
        ("3.14.4", {"zstd"}, {"setuptools"}),
        ("3.15.0a1", {"zstd"}, {"env-lang"}),
    ],
)
def test_a_version_owes_what_it_came_with(version: str, owed: set[str], not_owed: set[str]) -> None:
    names = {check.name for check in contract.promised(version)}
    assert owed <= names
    assert not names & not_owed


@pytest.mark.parametrize("name", ["lzma", "venv", "zoneinfo", "sqlite3", "ssl"])
def test_the_running_pythons_own_list_of_modules_agrees(name: str) -> None:
    owed = {check.name for check in contract.promised(".".join(map(str, sys.version_info[:3])))}
    assert (name in owed) == (name in sys.stdlib_module_names)


def test_an_image_that_keeps_everything_has_no_other_finding() -> None:
    found = contract.judge(make_variant(), GOOD, runs())
    assert {finding.verdict for finding in found} == {ContractState.OK}
    assert [finding.check for finding in found] == [check.name for check in contract.promised("3.13.1")]
    assert contract.failures(found) == []


@pytest.mark.parametrize(
    ("declared", "state"), [("", ContractState.UNDECLARED), ("not built", ContractState.DIFFERENCE)]
)
def test_a_difference_is_a_failure_unless_it_is_declared_and_names_the_run_that_shows_it(
    declared: str, state: ContractState
) -> None:
    found = judged(make_variant(differences={"venv": declared} if declared else {}), answers=runs(venv="no pip"))
    assert found == {"venv": ContractFinding("venv", state, "second: no pip", declared)}
    assert contract.failures(found.values()) == [found["venv"]] * (not declared)


@pytest.mark.parametrize("name", ["venv", "zstd", "vnev"])
def test_a_declaration_of_what_is_no_difference_is_stale_and_a_failure(name: str) -> None:
    found = judged(make_variant(differences={name: "not built"}))
    assert found == {name: ContractFinding(name, ContractState.STALE, found[name].difference, "not built")}
    assert found[name].difference
    assert contract.failures(found.values()) == [found[name]]


def test_a_check_without_an_answer_is_not_kept() -> None:
    answers = {run: {name: "" for name in NAMES if name != "readline"} for run in ("first", "second")}
    assert judged(make_variant(), answers=answers)["readline"].difference == contract.NO_ANSWER


@pytest.mark.parametrize(
    ("key", "value", "check", "found"),
    [
        ("Env", ["PATH=/usr/bin"], "env-path", "PATH=/usr/bin"),
        ("Env", ["PYTHON_VERSION=3.13.10"], "env-python-version", "3.13.10"),
        ("Env", ["PYTHONUNBUFFERED=1=1"], "env-others", "PYTHONUNBUFFERED"),
        ("Env", ["UV_PYTHON=3.12"], "env-uv", "UV_PYTHON=3.12"),
        ("Cmd", ["bash"], "cmd", "bash"),
        ("Cmd", [], "cmd", "none"),
        ("Entrypoint", ["/init"], "entrypoint", "/init"),
        ("User", "app", "user", "app"),
        ("WorkingDir", "/app", "workdir", "/app"),
        ("ExposedPorts", {"80/tcp": {}}, "ports", "80/tcp"),
        ("Volumes", {"/data": {}}, "volumes", "/data"),
    ],
)
def test_what_is_wrong_with_the_configuration_is_named(key: str, value: Any, check: str, found: str) -> None:
    changed = [*GOOD["Env"], *value] if key == "Env" else value
    assert judged(make_variant(), GOOD | {key: changed}) == {
        check: ContractFinding(check, ContractState.UNDECLARED, found)
    }


def test_every_check_of_the_configuration_can_fail() -> None:
    lists = {"Cmd": [], "Entrypoint": ["x"], "ExposedPorts": {"80/tcp": {}}, "Volumes": {"/data": {}}}
    found = contract.of_config({"Env": ["A=1"], "User": "app", "WorkingDir": "/app", **lists}, make_variant())
    assert list(found) == [check.name for check in CONFIG]
    assert all(found.values())


def test_what_the_engine_leaves_out_of_the_configuration_or_sets_to_null_is_nothing() -> None:
    keys = ("Env", "Cmd", "Entrypoint", "User", "WorkingDir", "ExposedPorts", "Volumes")
    assert contract.of_config(dict.fromkeys(keys), make_variant()) == contract.of_config({}, make_variant())


KEPT = ContractFinding("zlib", ContractState.OK)
DECLARED = ContractFinding("pip", ContractState.DIFFERENCE, "no pip", "has no threads")
FAILED = ContractFinding("venv", ContractState.UNDECLARED, "no [venv]")


def test_the_first_failure_is_an_error_with_the_file_the_key_and_what_to_do() -> None:
    contract.require({"a": [KEPT, DECLARED]})
    with pytest.raises(BuildError) as caught:
        contract.require({"a": [KEPT], "b": [FAILED]})
    assert (caught.value.file, caught.value.key) == ("variants/b.toml", "differences.venv")
    assert FAILED.difference in caught.value.found


def test_the_table_counts_and_what_is_not_kept_stands_below_it() -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(contract.terminal({"cpython-2.7": [KEPT, DECLARED, FAILED], "b": []}))
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert [re.split("  +", line) for line in lines[:3]] == [
        ["variant", "checks", "kept", "differences", "failures"],
        ["cpython-2.7", "3", "1", "1", "1"],
        ["b", "0", "0", "0", "0"],
    ]
    assert lines[3:] == ["cpython-2.7: pip: has no threads", "cpython-2.7: venv: undeclared: no [venv]"]
