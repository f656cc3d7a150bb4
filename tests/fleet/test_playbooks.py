"""What the playbooks run on a host, for each engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.client import Address
from interlock.fleet import ansible
from interlock.fleet.ansible import Call, PlaybookResult
from interlock.fleet.record import Ending
from tests.builders import ROOT

QUICKEST = "cpython-2.7-nothreads"

# What changes a host only says that it was there, by a shell: a module would start a Python for each.
STUBBED = ("python", "tools", "engine", "podman", "account", "tuning", "project")
STUB_TASK = """\
---
- name: Say that this role was run
  ansible.builtin.raw: echo "role %s" >>"{{ interlock_folder }}/said"
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
REGISTRY = {"registry": "example.org/team", "images_options": [QUICKEST], "experiment_options": []}
# What differs between the hosts; the engine of the last one is none that there is.
HOSTS: dict[str, dict[str, Any]] = {
    "prefixes": {
        "interlock_engine": "host",
        "prefixes_options": [QUICKEST, "--release"],
        "prefixes_deadline_s": 60,
        "experiment_options": ["--engine", "host"],
    },
    "podman": {"interlock_engine": "podman", **REGISTRY},
    "signed": {"interlock_engine": "", **REGISTRY},
    "misspelt": {"interlock_engine": "dokcer"},
}
KEY = "a key"
CLEANED = "clean --end fleet-abc.ash. by"


@dataclass
class Run:
    """What was run on each host, in order, and what Ansible said of it."""

    root: Path
    played: PlaybookResult
    log: str

    def said(self, host: str) -> list[str]:
        path = self.root / host / "said"
        return path.read_text().splitlines() if path.exists() else []


def stub(root: Path, host: str) -> dict[str, Any]:
    """Make a host's folder with a stub in the place of Interlock, and return the host's variables."""
    folder = root / host
    folder.mkdir()
    (folder / "interlock").write_text(STUB.format(python=sys.executable, said=str(folder / "said")))
    (folder / "interlock").chmod(stat.S_IRWXU)
    places = {"home": "home", "folder": "", "command": "interlock"}
    of_host = {f"interlock_{name}": str(folder / path) for name, path in places.items()}
    if host == "signed":
        of_host["images_key"] = str(root / "team.pub")
        (root / "team.pub").write_text(KEY)
    return {**of_host, **HOSTS[host]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All steps of the playbooks on all hosts, once; nothing that needs root is left in the playbooks."""
    root = tmp_path_factory.mktemp("fleet")
    shutil.copytree(ROOT / "playbooks", root / "playbooks")
    for role in STUBBED:
        for path in (root / "playbooks/roles" / role / "tasks").glob("*.yml"):
            path.write_text(STUB_TASK % f"{role}{'' if path.stem == 'main' else f' {path.stem}'}")
    (root / "inventory.json").write_text(json.dumps({"all": {"hosts": {host: stub(root, host) for host in HOSTS}}}))
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "interlock_version": "1",
        "experiment_fleet": "fleet-abc.ash.",
        "experiment_name": "fleet-abc.ash.locks",
        "experiment_deadline_s": 60,
        "experiment_fetched": "none",
    }
    one = Call(
        root=root,
        inventory=str(root / "inventory.json"),
        host="all",
        playbook="matrix.yml",
        variables=common,
        log=root / "log",
        tag="ready,measure,restore",
        deadline_s=240,
    )
    played = ansible.play(one, threading.Event())
    return Run(root, played, (root / "log").read_text())


def steps(said: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Return what made the host ready, what measured and what restored it."""
    measured = next(place for place, line in enumerate(said) if line.startswith("matrix "))
    return said[:measured], said[measured : measured + 1], said[measured + 1 :]


def test_a_host_without_containers_is_made_ready_by_building_for_itself(run: Run) -> None:
    ready, _, _ = steps(run.said("prefixes"))
    build = f"build {QUICKEST} --release by host for fleet-abc.ash.build"
    assert [line for line in ready if line.startswith("role ")] == [
        "role python",
        "role tools",
        "role account",
        "role tuning",
        "role project",
    ]
    assert ready[-2:] == [f"{CLEANED} host", build]
    assert "changed: [prefixes]" in run.log.rpartition("TASK [prefixes : ")[2].partition("TASK [")[0]


def test_a_host_with_podman_gets_podman_and_the_images_by_it(run: Run) -> None:
    ready, _, _ = steps(run.said("podman"))
    assert "role podman" in ready
    assert "role engine" not in ready
    assert ready[-2:] == [f"{CLEANED} podman", f"pull --registry example.org/team {QUICKEST} by podman"]


def test_a_host_that_pulls_what_a_key_has_signed_gets_the_key_first(run: Run) -> None:
    ready, _, _ = steps(run.said("signed"))
    key = run.root / "signed/images.pub"
    assert key.read_text() == KEY
    assert ready[-1] == f"pull --registry example.org/team --key {key} {QUICKEST} by "
    assert not (run.root / "podman/images.pub").exists()


def test_a_host_of_which_no_engine_is_said_gets_docker(run: Run) -> None:
    ready, _, _ = steps(run.said("signed"))
    assert "role engine" in ready
    assert "role podman" not in ready
    assert ready[-2] == f"{CLEANED} "


@pytest.mark.parametrize("host", ["prefixes", "podman", "signed"])
def test_measuring_and_restoring_are_by_the_same_engine(run: Run, host: str) -> None:
    engine = HOSTS[host]["interlock_engine"]
    options = "".join(f" {word}" for word in HOSTS[host]["experiment_options"])
    results = run.root / host / "home/results"
    _, measured, restored = steps(run.said(host))
    assert measured == [f"matrix --name fleet-abc.ash.locks --results {results}{options} by {engine}"]
    assert restored == ["role tuning restore", f"{CLEANED} {engine}"]
    assert re.search(rf"^{host} .* unreachable=0 +failed=0 ", run.log, re.M)


def test_an_engine_that_there_is_none_of_is_refused_by_name(run: Run) -> None:
    assert run.played.ending is Ending.FAILED
    assert "interlock_engine is 'dokcer'" in run.played.reason
    assert run.said("misspelt") == ["role python"]


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
    ansible.play_here(tmp_path, "engine.yml", {})
