"""Ansible's programs: what is told of hosts that fail, that all ends when it must, and what is sent to hosts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from interlock.errors import FleetError, InventoryError, UsageError
from interlock.fleet import ansible
from tests.builders import ROOT

PLAYBOOK = """\
- name: Test
  hosts: all
  gather_facts: false
  tasks:
    - name: Run what the test asks for
      ansible.builtin.command: "{{ command }}"
      changed_when: false
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one playbook, which runs a command on this machine."""
    (tmp_path / "playbooks/callback_plugins").mkdir(parents=True)
    for name in ("ansible.cfg", "callback_plugins/failures.py"):
        (tmp_path / "playbooks" / name).write_text((ROOT / "playbooks" / name).read_text())
    (tmp_path / "playbooks/test.yml").write_text(PLAYBOOK)
    return tmp_path


def play(root: Path, hosts: dict[str, dict[str, Any]], playbook: str = "test.yml") -> dict[str, str]:
    path = root / "inventory.json"
    path.write_text(json.dumps({"all": {"hosts": hosts, "vars": {"ansible_connection": "local"}}}))
    return ansible.play(root, playbook, list(hosts), {}, {"ANSIBLE_INVENTORY": str(path)})


@pytest.mark.needs("ssh")
def test_what_failed_is_told_by_host_in_one_line(root: Path) -> None:
    (root / "script").write_text("echo progress; echo first >&2; echo error: the engine is gone >&2; exit 4")
    gone = {"command": "true", "ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    told = play(root, {"good": {"command": "true"}, "bad": {"command": f"sh {root}/script"}, "gone": gone})
    assert told.keys() == {"bad", "gone"}
    assert told["bad"] == "error: the engine is gone"
    assert "127.0.0.1" in told["gone"]


def test_a_playbook_that_ansible_cannot_run_is_an_error_and_no_hosts(root: Path) -> None:
    (root / "playbooks/wrong.yml").write_text("- hosts: all\n  tasks: [")
    with pytest.raises(FleetError, match=r"wrong\.yml"):
        play(root, {"here": {}}, "wrong.yml")


def test_what_ends_it_ends_all_that_was_started_here(root: Path) -> None:
    """A process that is interrupted while a host works."""
    mark = f"30.{os.getpid()}"
    (root / "inventory.json").write_text(json.dumps({"all": {"hosts": {"here": {"ansible_connection": "local"}}}}))
    settings = {"ANSIBLE_INVENTORY": str(root / "inventory.json")}
    script = "from interlock.fleet import ansible; from pathlib import Path\n"
    script += f"ansible.play(Path({str(root)!r}), 'test.yml', ['here'], {{'command': 'sleep {mark}'}}, {settings!r})"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as one:
        _wait(lambda: _is_at_work("sleep", mark))
        one.send_signal(signal.SIGINT)
        one.wait(30)
    _wait(lambda: not _is_at_work("sleep", mark))


def _wait(until: Any) -> None:
    limit = time.monotonic() + 30
    while not until():
        assert time.monotonic() < limit
        time.sleep(0.05)


def _is_at_work(*words: str) -> bool:
    return any(one.info["cmdline"] == [*words] for one in psutil.process_iter(["cmdline"]))


def test_without_ansible_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FleetError, match=r"pip install '\.\[fleet\]'"):
        ansible.program("ansible-playbook")


def test_the_archive_has_what_pip_and_the_matrix_need_and_no_caches(tmp_path: Path) -> None:
    path, _ = ansible.write_project_archive(ROOT, tmp_path)
    with tarfile.open(path) as tar:
        names = set(tar.getnames())
    assert {"pyproject.toml", "requirements/host.txt", "README.md"} <= names
    assert {"src/interlock/errors.py", "variants/bases.toml", "workloads/locks.py"} <= names
    assert "dockerfiles/instruments/Dockerfile" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith(("results", "tests", ".git"))]


def test_the_same_files_make_the_same_archive_whenever_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("a = 1\n")
    first = ansible.write_project_archive(tmp_path, tmp_path / "cache")
    os.utime(tmp_path / "src/a.py", (1, 1))
    assert ansible.write_project_archive(tmp_path, tmp_path / "cache") == first
    assert first[1] in first[0].name
    (tmp_path / "src/a.py").write_text("a = 2\n")
    assert ansible.write_project_archive(tmp_path, tmp_path / "cache")[1] != first[1]


def parse(*hosts: str) -> list[str]:
    groups = {"_meta": {"hostvars": {"a": {}}}, "all": {"children": ["some"]}, "some": {"hosts": list(hosts)}}
    return ansible.parse_inventory(Path("inventory.yml"), json.dumps(groups))


def test_the_example_names_its_hosts() -> None:
    found = ansible.read_inventory(ROOT / "playbooks/inventory.example.yml", ROOT)
    assert found == [f"bench{number}.example.org" for number in range(1, 4)]


def test_a_host_without_variables_counts() -> None:
    assert parse("b", "a") == ["a", "b"]


@pytest.mark.parametrize("name", ["../../x", "/x", "a/b", "é", ".", "a b", "", "a\n", "\x1b[2J"])
def test_a_host_whose_name_leaves_the_results_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(name)
    assert caught.value.key.startswith("inventory.yml")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", "{}", '{"_meta": []}', '{"a": 1}', '{"a": {"hosts": 1}}', '{"a": {"hosts": []}}'],
)
def test_a_list_that_is_no_inventory_is_refused(text: str) -> None:
    with pytest.raises(InventoryError) as caught:
        ansible.parse_inventory(Path("inventory.yml"), text)
    assert caught.value.file == "inventory.yml"


@pytest.mark.parametrize("content", [None, "all: ["])
def test_a_file_that_ansible_cannot_read_is_refused_by_its_name(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "inventory.yml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InventoryError) as caught:
        ansible.read_inventory(path, ROOT)
    assert caught.value.file == str(path)
