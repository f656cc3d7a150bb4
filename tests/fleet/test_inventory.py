"""An inventory as Ansible reads it, and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import InventoryError
from interlock.fleet import inventory
from tests.builders import ROOT

KIND = {"name": "epyc-2", "cpu": "AMD EPYC", "cores": 2, "kernel": "6.18.0"}


def listing(**hosts: dict[str, Any]) -> str:
    return json.dumps({"_meta": {"hostvars": hosts}})


def parse(**hosts: dict[str, Any]) -> inventory.Inventory:
    return inventory.parse(Path("inventory.yml"), listing(**hosts))


def test_the_example_names_four_hosts_of_two_kinds_and_a_registry() -> None:
    found = inventory.read(ROOT / "playbooks/inventory.example.yml", ROOT)
    assert sorted(found.kinds) == [f"bench{number}.example.org" for number in range(1, 5)]
    assert {kind.name: kind.cores for kind in found.kinds.values()} == {"epyc-2": 2, "arm-4": 4}
    assert found.registry == "registry.example.org:5000/team"


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
        ({}, ""),
    ],
)
def test_what_is_wrong_is_said_with_its_key(hosts: dict[str, dict[str, Any]], key: str) -> None:
    with pytest.raises(InventoryError) as caught:
        parse(**hosts)
    assert (caught.value.file, caught.value.key) == ("inventory.yml", key)


@pytest.mark.parametrize("content", [None, "all: ["])
def test_a_file_that_ansible_cannot_read_is_refused_by_its_name(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "inventory.yml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InventoryError) as caught:
        inventory.read(path, ROOT)
    assert caught.value.file == str(path)
