"""The examples for CI systems are what those systems take, and call what Interlock has."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from interlock.cli.main import load_command
from tests.builders import ROOT, edit

CI = ROOT / "examples/ci"
WORKFLOWS = [CI / "github-workflow.yml", *(ROOT / ".github/workflows").glob("*.yml")]
SCHEMAS = {"github-workflow.yml": "vendor.github-workflows", "gitlab-ci.yml": "vendor.gitlab-ci"}


@pytest.mark.parametrize(("name", "schema"), SCHEMAS.items())
def test_an_example_is_valid_by_the_schema_of_its_system_which_refuses_a_word_that_it_does_not_know(
    name: str, schema: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text((CI / name).read_text())
    edit(tmp_path, name, "matrix:", "matricks:")
    transform = ["--data-transform", "gitlab-ci"] if "gitlab" in schema else []
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, "-o", "JSON", *transform]
    done = subprocess.run([*command, str(CI / name), str(tmp_path / name)], capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert {error["filename"] for error in found["errors"]} == {str(tmp_path / name)}
    assert found["parse_errors"] == []


def test_every_example_is_checked_and_documented() -> None:
    assert {path.name for path in CI.iterdir()} == set(SCHEMAS)
    page = (ROOT / "docs/ci.md").read_text()
    assert all(f"(../examples/ci/{name})" in page for name in SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_example_calls_commands_and_options_that_there_are(name: str) -> None:
    text = (CI / name).read_text()
    steps = re.sub(r"\n\s+(?=--)", " ", text)
    calls = re.findall(r"interlock ((?:trial|claims|pull|matrix|swap) .+)", steps)
    assert {call.split()[0] for call in calls} == {"trial", "claims", "pull", "matrix", "swap"}
    for call in calls:
        command, *words = shlex.split(call.rstrip(")").partition(" > ")[0])
        known = {option for parameter in load_command(command).params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, call


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: str(file.name))
def test_every_action_is_pinned_to_a_commit(file: Path) -> None:
    used = re.findall(r"uses: (\S+)", file.read_text(encoding="utf-8"))
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one)] == []


def test_the_project_s_own_workflows_are_valid_and_install_by_hash_what_there_is() -> None:
    own = [str(file) for file in WORKFLOWS[1:]]
    assert own
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *own]
    assert subprocess.run(command, check=False).returncode == 0
    text = (ROOT / ".github/workflows/update.yml").read_text(encoding="utf-8")
    assert "run: interlock update |" in text
    files = re.findall(r"-r (\S+)", text)
    assert files
    assert all((ROOT / file).is_file() for file in files)


def test_the_hook_for_pre_commit_calls_what_there_is_on_the_files_that_a_swap_reads() -> None:
    (hook,) = YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")
    program, command, *words = shlex.split(hook["entry"])
    assert (program, hook["pass_filenames"], hook["language"]) == ("interlock", False, "python")
    known = {option for parameter in load_command(command).params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
    names = ["Dockerfile", "api/Dockerfile.prod", "api.Dockerfile", "compose.yaml", ".devcontainer/devcontainer.json"]
    assert all(re.search(hook["files"], name) for name in names)
    assert not re.search(hook["files"], "docs/Dockerfiles.md")
