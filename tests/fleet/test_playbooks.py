"""What the playbooks run on a host, for each engine."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.client import Address
from interlock.fleet import ansible
from interlock.fleet.ansible import Call, Played
from interlock.fleet.record import Ending
from tests.builders import ROOT

QUICKEST = "cpython-2.7-nothreads"

# What changes a host only says that it was there, by a shell: a module would start a Python for each.
STUBBED = ("python", "tools", "engine", "podman", "account", "tuning", "project")
STUB_TASK = """\
---
- name: Say that this role was run
  ansible.builtin.raw: echo "role %s" >>"{{ playbook_dir }}/../said"
"""
STUB = """\
#!{python}
import os, sys
with open({said!r}, "a") as file:
    mark = os.environ.get("INTERLOCK_EXPERIMENT")
    print(*sys.argv[1:], "by", os.environ.get("INTERLOCK_ENGINE"), *([f"for {{mark}}"] if mark else []), file=file)
if sys.argv[1] == "build":
    print("variant  image  MB  s  state\\nx  /prefix  70  60  ok ")
"""


@pytest.fixture
def stubbed(tmp_path: Path) -> Path:
    """The playbooks, with a stub in the place of Interlock and of what changes a host."""
    shutil.copytree(ROOT / "playbooks", tmp_path / "playbooks")
    for role in STUBBED:
        for path in (tmp_path / "playbooks/roles" / role / "tasks").glob("*.yml"):
            path.write_text(STUB_TASK % f"{role}{'' if path.stem == 'main' else f' {path.stem}'}")
    (tmp_path / "interlock").write_text(STUB.format(python=sys.executable, said=str(tmp_path / "said")))
    (tmp_path / "interlock").chmod(stat.S_IRWXU)
    return tmp_path


def played(root: Path, engine: str, tag: str, **variables: Any) -> list[str]:
    """What was run on the host, in order; nothing that needs root is left in the playbooks."""
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "interlock_engine": engine,
        "interlock_version": "1",
        "interlock_home": str(root / "home"),
        "interlock_folder": str(root),
        "interlock_command": str(root / "interlock"),
        "experiment_fleet": "fleet-abc.ash.",
    }
    one = Call(
        root=root,
        inventory="ash,",
        host="ash",
        playbook="matrix.yml",
        variables={**common, **variables},
        log=root / "log",
        tag=tag,
        deadline_s=120,
    )
    assert ansible.play(one, threading.Event()) == Played(Ending.DONE), (root / "log").read_text()
    return (root / "said").read_text().splitlines()


CLEANED = "clean fleet-abc.ash. by"


def test_a_host_without_containers_is_made_ready_by_building_for_itself(stubbed: Path) -> None:
    said = played(stubbed, "host", "ready", prefixes_options=[QUICKEST, "--release"], prefixes_deadline_s=60)
    build = f"build {QUICKEST} --release by host for fleet-abc.ash.build"
    assert [line for line in said if line.startswith("role ")] == [
        "role python",
        "role tools",
        "role account",
        "role tuning",
        "role project",
    ]
    assert said[-2:] == [f"{CLEANED} host", build]
    assert "changed: [ash]" in (stubbed / "log").read_text().rpartition("TASK [prefixes : ")[2]


def test_a_host_with_podman_gets_podman_and_the_images_by_it(stubbed: Path) -> None:
    said = played(stubbed, "podman", "ready", registry="example.org/team", images_options=[QUICKEST])
    assert "role podman" in said
    assert "role engine" not in said
    assert said[-2:] == [f"{CLEANED} podman", f"pull --registry example.org/team {QUICKEST} by podman"]


def test_a_host_of_which_no_engine_is_said_gets_docker(stubbed: Path) -> None:
    said = played(stubbed, "", "ready", registry="example.org/team", images_options=[QUICKEST])
    assert "role engine" in said
    assert "role podman" not in said
    assert said[-2:] == [f"{CLEANED} ", f"pull --registry example.org/team {QUICKEST} by "]


def test_measuring_and_restoring_are_by_the_same_engine(stubbed: Path) -> None:
    options = {"experiment_name": "fleet-abc.ash.locks", "experiment_deadline_s": 60, "experiment_fetched": "none"}
    said = played(stubbed, "host", "measure,restore", experiment_options=["--engine", "host"], **options)
    results = f"{stubbed}/home/results"
    assert said == [
        f"matrix --name fleet-abc.ash.locks --results {results} --engine host by host",
        "role tuning restore",
        f"{CLEANED} host",
    ]


def test_an_engine_that_there_is_none_of_is_refused_by_name(stubbed: Path) -> None:
    with pytest.raises(AssertionError, match="interlock_engine is 'dokcer': set it to docker, podman or host"):
        played(stubbed, "dokcer", "ready")


def test_an_engine_at_the_users_own_address_stays_although_root_would_not_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker").write_text('#!/bin/sh\n[ "$DOCKER_HOST" = unix:///run/user/docker.sock ]\n')
    (tmp_path / "docker").chmod(stat.S_IRWXU)
    shutil.copytree(ROOT / "playbooks", tmp_path / "playbooks")
    # Without the facts of the machine nothing can be installed: that would be an error.
    (tmp_path / "playbooks/engine.yml").write_text("- hosts: all\n  gather_facts: false\n  roles: [engine]\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(ansible, "docker_address", lambda: Address("unix:///run/user/docker.sock"))
    ansible.play_here(tmp_path, "engine.yml")
