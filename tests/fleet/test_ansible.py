"""Ansible's programs: how they end, what they say last, and that they end when they must."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import FleetError, InventoryError
from interlock.fleet import ansible
from interlock.fleet.ansible import Call, PlaybookResult
from interlock.fleet.record import Ending
from tests.builders import ROOT

PLAYBOOK = """\
- name: Test
  hosts: all
  gather_facts: false
  tasks:
    - name: Run what the test asks for
      ansible.builtin.command: "{{ command }}"
      changed_when: false
      tags: run
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one playbook, which runs a command on this machine."""
    (tmp_path / "playbooks").mkdir()
    shutil.copy(ROOT / "playbooks/ansible.cfg", tmp_path / "playbooks")
    (tmp_path / "playbooks/test.yml").write_text(PLAYBOOK)
    return tmp_path


def call(root: Path, command: str, **changes: Any) -> Call:
    variables = {"command": command, "ansible_connection": "local"}
    plain: dict[str, Any] = {
        "inventory": "here,",
        "host": "here",
        "playbook": "test.yml",
        "tag": "run",
        "deadline_s": 120,
    }
    return Call(root=root, variables=variables, log=root / "here.log", **plain | changes)


def play(one: Call) -> PlaybookResult:
    return ansible.play(one, threading.Event())


def test_a_playbook_that_ends_well_is_done_and_what_it_said_is_in_the_log(root: Path) -> None:
    assert play(call(root, "true")) == PlaybookResult(Ending.DONE)
    assert "TASK [Run what the test asks for]" in (root / "here.log").read_text()


def test_the_last_line_of_a_command_that_failed_is_the_reason(root: Path) -> None:
    (root / "script").write_text("echo progress; echo first >&2; echo error: the engine is gone >&2; exit 4")
    assert play(call(root, f"sh {root}/script")) == PlaybookResult(Ending.FAILED, "error: the engine is gone")


def test_a_command_that_timeout_ended_was_too_long(root: Path) -> None:
    played = play(call(root, "timeout 0.1 sleep 5"))
    assert played.ending is Ending.FAILED
    assert "deadline" in played.reason


@pytest.mark.needs("ssh")
def test_a_host_that_does_not_answer_is_lost(root: Path) -> None:
    gone = call(root, "true", inventory="127.0.0.1,", host="127.0.0.1")
    variables = {"ansible_connection": "ssh", "ansible_port": 1, "command": "true"}
    played = play(Call(**{**vars(gone), "variables": variables}))
    assert played.ending is Ending.LOST
    assert "127.0.0.1" in played.reason


def test_at_the_deadline_everything_that_was_started_here_is_ended(root: Path) -> None:
    started = time.monotonic()
    mark = f"30.{os.getpid()}"
    # Long enough for the command to be started: Ansible takes a second to begin.
    played = play(call(root, f"sleep {mark}", deadline_s=3))
    assert played.ending is Ending.LOST
    assert "3 s" in played.reason
    while mark in _commands():  # what was signalled ends when the system comes to it
        assert time.monotonic() - started < 25
        time.sleep(0.05)


def test_an_interruption_ends_it_too(root: Path) -> None:
    stop = threading.Event()
    threading.Timer(1, stop.set).start()
    assert ansible.play(call(root, "sleep 60"), stop) == PlaybookResult(Ending.LOST, "interrupted")


def test_without_ansible_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FleetError, match=r"pip install 'interlock\[fleet\]'"):
        ansible.program("ansible-playbook")


def _commands() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(line for line in found if "pytest" not in line)


def test_the_archive_has_what_pip_and_the_matrix_need_and_no_caches() -> None:
    with tarfile.open(fileobj=io.BytesIO(ansible.pack_project(ROOT))) as tar:
        names = set(tar.getnames())
    assert {"pyproject.toml", "requirements/host.txt", "README.md"} <= names
    assert {"src/interlock/errors.py", "variants/bases.toml", "workloads/locks.py"} <= names
    assert "dockerfiles/instruments/Dockerfile" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith(("results", "tests", ".git"))]


def test_the_same_files_make_the_same_archive_whenever_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("a = 1\n")
    first = ansible.pack_project(tmp_path)
    assert first[4:8] == bytes(4), "gzip's own time"
    os.utime(tmp_path / "src/a.py", (1, 1))
    assert ansible.pack_project(tmp_path) == first
    (tmp_path / "src/a.py").write_text("a = 2\n")
    assert ansible.pack_project(tmp_path) != first


def test_it_is_written_once_under_its_sum(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("a = 1\n")
    path, sha256 = ansible.write_project_archive(tmp_path, tmp_path / "cache")
    assert path.name == f"interlock-{sha256}.tar.gz"
    assert ansible.write_project_archive(tmp_path, tmp_path / "cache") == (path, sha256)


KIND = {"name": "epyc-2", "cpu": "AMD EPYC", "cores": 2, "kernel": "6.18.0"}


def listing(**hosts: dict[str, Any]) -> str:
    return json.dumps({"_meta": {"hostvars": hosts}})


def parse(**hosts: dict[str, Any]) -> ansible.Inventory:
    return ansible.parse_inventory(Path("inventory.yml"), listing(**hosts))


def test_the_example_names_four_hosts_of_two_kinds_and_a_registry() -> None:
    found = ansible.read_inventory(ROOT / "playbooks/inventory.example.yml", ROOT)
    assert sorted(found.kinds) == [f"bench{number}.example.org" for number in range(1, 5)]
    assert {kind.name: kind.cores for kind in found.kinds.values()} == {"epyc-2": 2, "arm-4": 4}
    assert found.registry == "registry.example.org:5000/team"


@pytest.mark.parametrize("name", ["../../x", "/x", "a/b", "é", ".", "a b", "", "a\n", "\x1b[2J"])
def test_a_host_whose_name_leaves_the_results_is_refused(name: str) -> None:
    with pytest.raises(InventoryError, match="ansible_host"):
        parse(**{name: {"kind": KIND}})


def test_without_a_registry_there_is_none() -> None:
    assert parse(a={"kind": KIND}).registry is None


@pytest.mark.parametrize(
    ("hosts", "key"),
    [
        ({"a": {"x": 1}}, "a: kind"),
        ({"a": {"kind": KIND | {"cores": "many"}}}, "a: kind.cores"),
        ({"a": {"kind": KIND | {"turbo": True}}}, "a: kind.turbo"),
        ({"a": {"kind": KIND}, "b": {"kind": KIND | {"cores": 4}}}, "b: kind"),
        ({"a": {"kind": KIND, "registry": "x"}, "b": {"kind": KIND}}, "registry"),
        ({"a": {"kind": KIND, "registry": ["x"]}}, "a: registry"),
        ({"a": {"kind": KIND, "registry": 5}}, "a: registry"),
        ({}, ""),
    ],
)
def test_what_is_wrong_is_said_with_its_key(hosts: dict[str, dict[str, Any]], key: str) -> None:
    with pytest.raises(InventoryError) as caught:
        parse(**hosts)
    assert (caught.value.file, caught.value.key) == ("inventory.yml", key)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", '{"_meta": []}', '{"_meta": {"hostvars": [1]}}', '{"_meta": {"hostvars": {"a": 1}}}'],
)
def test_a_list_that_is_no_inventory_is_refused(text: str) -> None:
    with pytest.raises(InventoryError):
        ansible.parse_inventory(Path("inventory.yml"), text)


@pytest.mark.parametrize("content", [None, "all: ["])
def test_a_file_that_ansible_cannot_read_is_refused_by_its_name(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "inventory.yml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InventoryError) as caught:
        ansible.read_inventory(path, ROOT)
    assert caught.value.file == str(path)
