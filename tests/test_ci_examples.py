"""The examples for CI systems are what those systems take, and call what Interlock has."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from interlock.catalog import project
from tests.builders import ROOT, edit, make_program
from tests.test_docs import options_of

CI = ROOT / "examples/ci"
PUBLISH = ROOT / ".github/workflows/publish.yml"
RELEASE = ROOT / ".github/workflows/release.yml"
UPDATE = ROOT / ".github/workflows/update.yml"
SCHEMAS = {"github-workflow.yml": "vendor.github-workflows", "gitlab-ci.yml": "vendor.gitlab-ci"}


def checked(schema: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Hold files against the schema of a system."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("name", "schema"), SCHEMAS.items())
def test_an_example_is_valid_by_the_schema_of_its_system_which_refuses_a_word_that_it_does_not_know(
    name: str, schema: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text((CI / name).read_text())
    edit(tmp_path, name, "matrix:", "matricks:")
    transform = ["--data-transform", "gitlab-ci"] if "gitlab" in schema else []
    found = json.loads(checked(schema, CI / name, tmp_path / name, "-o", "JSON", *transform).stdout)
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
        assert {word for word in words if word.startswith("--")} <= options_of(command), call


def test_a_job_of_gitlab_puts_nothing_into_the_services_folder_which_swap_checks_and_trial_builds(
    tmp_path: Path,
) -> None:
    example = YAML(typ="safe").load(CI / "gitlab-ci.yml")
    service, programs = tmp_path / "service", tmp_path / "bin"
    service.mkdir()
    programs.mkdir()
    make_program(programs / "git", '[ "$1" = -C ] || mkdir "$4"')
    make_program(programs / "python3", 'mkdir "$3"')
    make_program(programs / "pip", "")
    given = {"CI_PROJECT_DIR": str(service), "INTERLOCK_URL": "https://x/y", "INTERLOCK_REF": "main"}
    own = {name: value.replace("$CI_PROJECT_DIR", str(service)) for name, value in example["variables"].items()}
    where: dict[str, Any] = {
        "cwd": service,
        "env": {**given, **own, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
    }
    script = "\n".join(example[".interlock"]["before_script"])
    for _ in range(2):  # a shell runner keeps what is beside that folder
        done = subprocess.run(["bash", "-ec", script], **where, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr, list(service.iterdir())) == (0, "", [])


@pytest.mark.parametrize("file", [CI / "github-workflow.yml", UPDATE], ids=lambda file: str(file.name))
def test_every_action_is_pinned_to_a_commit(file: Path) -> None:
    used = re.findall(r"uses: (\S+)", file.read_text(encoding="utf-8"))
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one)] == []


def test_the_hook_for_pre_commit_calls_what_there_is_on_the_files_that_a_swap_reads() -> None:
    (hook,) = YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")
    program, command, *words = shlex.split(hook["entry"])
    assert (program, hook["pass_filenames"], hook["language"]) == ("interlock", False, "python")
    assert {word for word in words if word.startswith("--")} <= options_of(command)
    names = ["Dockerfile", "api/Dockerfile.prod", "api.Dockerfile", "compose.yaml", ".devcontainer/devcontainer.json"]
    assert all(re.search(hook["files"], name) for name in names)
    assert not re.search(hook["files"], "docs/Dockerfiles.md")


PUSHES, SIGNS = {"contents": "read", "packages": "write"}, {"id-token": "write"}
# Of a workflow, and of those of its jobs that have their own.
RIGHTS = {
    PUBLISH: {"": {}, "images": PUSHES, "publish": PUSHES | SIGNS},
    RELEASE: {"": {}, "package": {"contents": "read", "attestations": "write"} | SIGNS},
    UPDATE: {"": {"contents": "write", "pull-requests": "write"}},
}


@pytest.mark.parametrize("file", RIGHTS, ids=lambda file: str(file.name))
def test_a_workflow_is_valid_has_few_rights_installs_what_is_locked_and_says_where_an_action_is_no_commit(
    file: Path,
) -> None:
    assert checked(SCHEMAS["github-workflow.yml"], file).returncode == 0
    text = file.read_text(encoding="utf-8")
    workflow = YAML(typ="safe").load(text)
    rights = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    assert {"": workflow["permissions"], **rights} == RIGHTS[file]
    assert all((ROOT / locked).is_file() for locked in re.findall(r"-r (\S+\.txt)", text))
    used = re.findall(r"uses: \S+?@(\S+)( # .+)?", text)
    assert used
    assert all(re.fullmatch(r"[0-9a-f]{40}", version) or comment for version, comment in used)


@pytest.mark.promise
def test_two_builds_of_a_release_have_one_sum_as_its_workflow_checks(tmp_path: Path) -> None:
    """The step's own words, in a clone: another folder, umask, time zone and order of sets change nothing."""
    steps = YAML(typ="safe").load(RELEASE)["jobs"]["package"]["steps"]
    (script,) = [step["run"] for step in steps if "twice" in step.get("name", "")]
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, clone], check=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    where: dict[str, Any] = {"cwd": clone, "env": {**os.environ, "GITHUB_WORKSPACE": str(clone), "PATH": path}}
    done = subprocess.run(["bash", "-ec", script], **where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": OK") == 2  # the wheel and the source archive
    for made in (tmp_path / "again/dist").iterdir():
        made.write_bytes(made.read_bytes() + b" ")
    compared = ["bash", "-ec", script.splitlines()[-1]]
    assert subprocess.run(compared, **where, capture_output=True, check=False).returncode == 1


def test_images_that_are_published_are_optimised() -> None:
    workflow = YAML(typ="safe").load(PUBLISH)
    catalog = project.load(ROOT)
    names = workflow["env"]["VARIANTS"].split("'")[1].split()
    assert names
    assert all(catalog.variants[name].optimisations == ["PGO", "LTO"] for name in names)
