"""The hosts of an inventory, as Ansible reads it, and the kind that it declares for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from interlock.errors import InventoryError
from interlock.fleet import ansible
from interlock.fleet.record import Kind

EXAMPLE = "see playbooks/inventory.example.yml"


@dataclass(frozen=True)
class Inventory:
    """The file, the kind of each host by name, and the registry to pull from, if any."""

    path: Path
    kinds: Mapping[str, Kind]
    registry: str | None


def read(path: Path, root: Path) -> Inventory:
    """Read an inventory; InventoryError if Ansible cannot read it, it has no hosts, or a host has no kind."""
    return parse(path, ansible.list_inventory(path, root))


def parse(path: Path, listing: str) -> Inventory:
    """Return the inventory from the output of `ansible-inventory --list`."""
    variables: dict[str, dict[str, Any]] = json.loads(listing).get("_meta", {}).get("hostvars", {})
    if not variables:
        raise InventoryError(file=str(path), found="no host has variables", todo=f"Give each host a kind: {EXAMPLE}.")
    kinds = {name: _kind(path, name, of_host.get("kind")) for name, of_host in sorted(variables.items())}
    _check_same(path, kinds)
    registries = {of_host.get("registry") for of_host in variables.values()}
    if len(registries) > 1:
        raise InventoryError(
            file=str(path),
            key="registry",
            found="differs between hosts",
            todo="Set it once, in the group 'all'.",
        )
    return Inventory(path, kinds, registries.pop())


def _kind(path: Path, host: str, declared: object) -> Kind:
    """Return the kind that the inventory declares for a host; InventoryError if it is incomplete."""
    try:
        return Kind.model_validate(declared)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(("kind", *(str(part) for part in first["loc"])))
        found = "is missing" if declared is None else str(first["msg"])
        raise InventoryError(
            file=str(path),
            key=f"{host}: {where}",
            found=found,
            todo=f"Give it name, cpu, cores and kernel: {EXAMPLE}.",
        ) from None


def _check_same(path: Path, kinds: Mapping[str, Kind]) -> None:
    """Raise InventoryError if two hosts declare different facts for one kind."""
    by_name: dict[str, Kind] = {}
    for host, kind in kinds.items():
        if by_name.setdefault(kind.name, kind) != kind:
            raise InventoryError(
                file=str(path),
                key=f"{host}: kind",
                found=f"declares other facts for '{kind.name}' than another host",
                todo="Declare each kind once, as a variable of a group.",
            )
