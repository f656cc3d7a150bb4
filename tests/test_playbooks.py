"""The playbooks: clean by ansible-lint's strictest profile, true to what the code needs, and without secrets."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from interlock.engine.host import toolchain
from interlock.fleet import ansible
from tests.builders import ROOT

PLAYBOOKS = ROOT / "playbooks"
TASKS = sorted(PLAYBOOKS.glob("roles/*/tasks/*.yml"))
# What changes the system rather than the user's own files.
PRIVILEGED = ("apt", "dnf", "package", "service", "systemd_service", "user")


def lint(folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    """Its findings as JSON, and on standard error what it looked at."""
    command = [ansible.program("ansible-lint"), "--offline", "--nocolor", "-vv", "--profile", "production"]
    path = f"{Path(command[0]).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [*command, "--format", "json", *files],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def tasks_of(path: Path) -> list[dict[str, Any]]:
    """The tasks of a file, those in blocks too."""
    found, left = [], list(read(path))
    while left:
        task = left.pop(0)
        left = [*task.get("block", []), *task.get("always", []), *left]
        found.append(task)
    return found


@pytest.mark.slow
def test_ansible_lint_finds_what_was_planted_and_nothing_else_by_its_production_profile(tmp_path: Path) -> None:
    folder = tmp_path / "playbooks"
    shutil.copytree(PLAYBOOKS, folder)
    (folder / "planted.yml").write_text("---\n- hosts: all\n  tasks:\n    - shell: ls\n")
    # These import all other playbooks and all roles; named one by one, each would be loaded anew.
    done = lint(folder, "matrix.yml", "restore.yml", "group_vars/all.yml", "inventory.example.yml", "planted.yml")
    found = json.loads(done.stdout)
    assert done.returncode == 2
    assert [one for one in found if one["location"]["path"] != "planted.yml"] == []
    assert "name[missing]" in {one["check_name"] for one in found}
    looked_at = set(re.findall(r"Examining (\S+) of type", done.stderr))
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.yml")} <= looked_at


@pytest.mark.parametrize(("family", "of"), [("Debian", "debian"), ("RedHat", "fedora")])
def test_the_packages_are_those_that_the_host_engine_asks_for(family: str, of: str) -> None:
    listed = read(PLAYBOOKS / f"roles/tools/vars/{family}.yml")
    for key, needs in {
        "tools_host": toolchain.needs(traces=False),
        "tools_tracing": toolchain.PROFILER,
    }.items():
        assert {getattr(need, of) for need in needs} - {""} <= set(listed[key])


def test_debians_packages_are_those_that_the_images_are_built_with() -> None:
    bases = tomllib.loads((ROOT / "variants/bases.toml").read_text(encoding="utf-8"))
    names = read(PLAYBOOKS / "roles/tools/vars/Debian.yml")
    listed = {name for group in names.values() for name in group}
    assert {name for base in bases.values() for name in base["build_packages"]} <= listed


@pytest.mark.parametrize("path", TASKS, ids=lambda path: str(path.relative_to(PLAYBOOKS)))
def test_root_is_asked_for_by_the_tasks_that_need_it_and_no_others(path: Path) -> None:
    for task in tasks_of(path):
        modules = {key.rpartition(".")[2] for key in task if key.startswith("ansible.builtin.")}
        if modules & set(PRIVILEGED):
            assert task.get("become") is True, task["name"]
        if path.parts[-3] in {"project", "images", "experiment"}:
            assert "become" not in task, task["name"]


def test_no_playbook_asks_for_root_as_a_whole() -> None:
    assert all(
        "become" not in play for path in PLAYBOOKS.glob("*.yml") for play in read(path) if isinstance(play, dict)
    )
