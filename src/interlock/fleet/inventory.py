"""The hosts of an inventory, as Ansible itself reads it, and the kind that each is said to be of."""

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

EXAMPLE = "playbooks/inventory.example.yml shows one"


@dataclass(frozen=True)
class Inventory:
    """The file, the kind of each host by its name, and the registry to pull from if there is one."""

    path: Path
    kinds: Mapping[str, Kind]
    registry: str | None


def read(path: Path, root: Path) -> Inventory:
    """InventoryError for a file that Ansible cannot read, without hosts, or with a host of no kind."""
    return parse(path, ansible.list_inventory(path, root))


def parse(path: Path, listing: str) -> Inventory:
    """Of what `ansible-inventory --list` says of this file."""
    variables: dict[str, dict[str, Any]] = json.loads(listing).get("_meta", {}).get("hostvars", {})
    if not variables:
        raise InventoryError(
            file=str(path), found="it names no host with variables", todo=f"Give each a kind: {EXAMPLE}."
        )
    kinds = {name: _kind(path, name, of_host.get("kind")) for name, of_host in sorted(variables.items())}
    _check_same(path, kinds)
    registries = {of_host.get("registry") for of_host in variables.values()}
    if len(registries) > 1:
        raise InventoryError(
            file=str(path),
            key="registry",
            found="is not the same for all hosts",
            todo="Set it once, for the group 'all'.",
        )
    return Inventory(path, kinds, registries.pop())


def _kind(path: Path, host: str, said: object) -> Kind:
    try:
        return Kind.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(("kind", *(str(part) for part in first["loc"])))
        found = "is missing" if said is None else f"of {host}: {first['msg']}"
        raise InventoryError(
            file=str(path),
            key=f"{host}: {where}",
            found=found,
            todo=f"A kind has a name, cpu, cores and kernel: {EXAMPLE}.",
        ) from None


def _check_same(path: Path, kinds: Mapping[str, Kind]) -> None:
    """A kind's name means the same facts for all of its hosts."""
    by_name: dict[str, Kind] = {}
    for host, kind in kinds.items():
        if by_name.setdefault(kind.name, kind) != kind:
            raise InventoryError(
                file=str(path),
                key=f"{host}: kind",
                found=f"says other facts of '{kind.name}' than another host does",
                todo="Declare each kind once, as a variable of a group.",
            )
