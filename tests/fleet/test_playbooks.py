"""What the playbooks run on a host, for each engine."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.client import Address
from interlock.fleet import ansible
from tests.builders import ROOT

# What changes a host only says that it was there, by a shell: a module would start a Python for each.
STUBBED = ("python", "tools", "engine", "podman", "account", "tuning", "project")
STUB_TASK = """\
---
- name: Say that this role was run
  ansible.builtin.raw: echo "role %s" >>"{{ interlock_folder }}/said"
"""
INTERLOCK = """\
#!/bin/sh
echo "$* by $INTERLOCK_ENGINE for $INTERLOCK_EXPERIMENT" >>"{said}"
[ "$1" != clean ] || exit 2
"""
# An engine has an image of the name `same` everywhere; each time that it is asked for `other`, it has another one.
# It is killed while it saves `half`.
ENGINE = """\
#!/bin/sh
echo "$*" >>"{said}"
case "$*" in
    *inspect*same) echo sha256:0 ;;
    *inspect*other) echo sha256:$$ ;;
    save*half*) echo half >"$3"; exit 1 ;;
    save*) touch "$3" ;;
    load*) test -f "$3" ;;
esac
"""
HOSTS: dict[str, dict[str, Any]] = {
    "builds": {"interlock_engine": "host"},
    "has": {"interlock_engine": "docker", "images_tags": ["same"]},
    "lacks": {"interlock_engine": "docker", "images_tags": ["same", "other"]},
    "podman": {"interlock_engine": "podman", "images_tags": ["same", "other"]},
    "interrupted": {"interlock_engine": "docker", "images_tags": ["half", "other"]},
    "misspelt": {"interlock_engine": "dokcer"},
}


@dataclass
class Run:
    """What was run on each host, in order, by each engine, and which hosts failed."""

    root: Path
    failed: dict[str, str]

    def said(self, name: str) -> list[str]:
        path = self.root / name / "said"
        return path.read_text().splitlines() if path.exists() else []


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.format(said=path.parent / "said"))
    path.chmod(stat.S_IRWXU)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Both playbooks on all hosts, once; nothing that needs root is left in them."""
    root = tmp_path_factory.mktemp("fleet")
    shutil.copytree(ROOT / "playbooks", root / "playbooks")
    for role in STUBBED:
        for path in (root / "playbooks/roles" / role / "tasks").glob("*.yml"):
            path.write_text(STUB_TASK % f"{role}{'' if path.stem == 'main' else f' {path.stem}'}")
    hosts: dict[str, dict[str, Any]] = {}
    for host, of_host in HOSTS.items():
        write_program(root / host / "interlock", INTERLOCK)
        (root / host / "home").mkdir()  # as the role `project` does, in which the version's folder is
        places = {"home": f"{host}/home", "folder": host, "command": f"{host}/interlock"}
        hosts[host] = {f"interlock_{name}": str(root / path) for name, path in places.items()}
        hosts[host] |= {"images_archive": str(root / f"images.{host}.tar"), **of_host}
    common = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (root / "inventory.json").write_text(json.dumps({"all": {"hosts": hosts, "vars": common}}))
    for name in ("docker", "podman"):
        write_program(root / f"bin-{name}" / name, ENGINE)
    variables = {
        "interlock_version": "1",
        "experiment_fleet": "fleet-abc",
        "experiment_options": ["--quick"],
        "experiment_deadline_s": 60,
        "experiment_fetched": str(root),
    }
    settings = {
        "ANSIBLE_INVENTORY": str(root / "inventory.json"),
        "PATH": f"{root}/bin-docker:{root}/bin-podman:{os.environ['PATH']}",
    }
    failed = ansible.play(root, "matrix.yml", list(HOSTS), variables, settings)
    ansible.play(root, "restore.yml", [name for name in HOSTS if name != "misspelt"], variables, settings)
    return Run(root, failed)


def roles(run: Run, host: str) -> list[str]:
    return [line.removeprefix("role ") for line in run.said(host) if line.startswith("role ")]


@pytest.mark.parametrize(
    ("host", "engines"), [("builds", []), ("has", ["engine"]), ("lacks", ["engine"]), ("podman", ["podman"])]
)
def test_a_host_gets_the_engine_that_is_asked_for_and_is_restored(run: Run, host: str, engines: list[str]) -> None:
    assert roles(run, host) == ["python", "tools", *engines, "account", "tuning", "project", "tuning restore"]


@pytest.mark.parametrize("host", ["builds", "has", "lacks", "podman"])
def test_it_measures_by_that_engine_between_two_looks_for_what_is_left(run: Run, host: str) -> None:
    name, engine = f"fleet-abc.{host}", HOSTS[host]["interlock_engine"]
    clean = f"clean --end {name} by {engine} for "
    measured = f"matrix --results {run.root}/{host}/home/results --name {name} --quick by {engine} for {name}"
    assert [line for line in run.said(host) if not line.startswith("role ")] == [clean, measured, clean]


def test_images_are_saved_once_and_loaded_where_one_is_another(run: Run) -> None:
    saved = [line.split()[-2:] for line in run.said("bin-docker") if line.startswith("save")]
    assert sorted(saved) == [["half", "other"], ["same", "other"]]  # Ansible starts several hosts at once
    assert f"save --output {run.root}/images.lacks.tar.part same other" in run.said("bin-docker")
    assert [line for line in run.said("bin-docker") if line.startswith("load")] == [
        f"load --input {run.root}/lacks/home/images.tar"
    ]
    assert not (run.root / "lacks/home/images.tar").exists()


def test_half_an_archive_has_not_the_name_that_the_next_start_looks_for(run: Run) -> None:
    assert "code" in run.failed["interrupted"]
    assert (run.root / "images.interrupted.tar.part").exists()
    assert not (run.root / "images.interrupted.tar").exists()


def test_podman_saves_several_images_in_one_archive(run: Run) -> None:
    assert f"save --output {run.root}/images.podman.tar.part --multi-image-archive same other" in run.said("bin-podman")


def test_an_engine_that_there_is_none_of_is_refused_by_name(run: Run) -> None:
    assert run.failed.keys() == {"interrupted", "misspelt"}
    assert "interlock_engine is 'dokcer'" in run.failed["misspelt"]
    assert roles(run, "misspelt") == ["python"]


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
