"""pip's installation report: what it would install, and who asks for it. Pure.

The report: https://pip.pypa.io/en/stable/reference/installation-report/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


@dataclass(frozen=True)
class Resolved:
    """One package that pip would install."""

    name: str  # as the package spells it
    version: str
    spec: str  # what pip is given to get this very file again
    place: str  # a URL without credentials
    is_wheel: bool
    requested: bool
    needed_by: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return canonicalize_name(self.name)

    @property
    def lasting(self) -> bool:
        """Whether this place will have the same bytes tomorrow: what is pinned by a hash."""
        return "#sha256=" in self.spec


def parse_report(text: str) -> list[Resolved]:
    """pip's installation report, version 1: what it would install, in its order."""
    report = json.loads(text)
    items = report["install"]
    needed_by = _needed_by(items, report["environment"])
    return [_resolved(item, needed_by[canonicalize_name(item["metadata"]["name"])]) for item in items]


def _resolved(item: Mapping[str, Any], needed_by: list[str]) -> Resolved:
    info, metadata = item["download_info"], item["metadata"]
    return Resolved(
        name=metadata["name"],
        version=metadata["version"],
        spec=_spec(metadata["name"], info),
        place=info["url"],
        is_wheel=info["url"].endswith(".whl"),
        requested=bool(item.get("requested")),
        needed_by=needed_by,
    )


def _spec(name: str, info: Mapping[str, Any]) -> str:
    """A requirement line by which pip gets the same file (PEP 610 says what `info` has)."""
    fragments = []
    url = info["url"]
    if "vcs_info" in info:
        url = f"{info['vcs_info']['vcs']}+{url}@{info['vcs_info']['commit_id']}"
    hashes = info.get("archive_info", {}).get("hashes", {})
    if "sha256" in hashes:
        fragments.append(f"sha256={hashes['sha256']}")
    if info.get("subdirectory"):
        fragments.append(f"subdirectory={info['subdirectory']}")
    return f"{name} @ {url}{'#' if fragments else ''}{'&'.join(fragments)}"


def _needed_by(items: list[Mapping[str, Any]], environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Which packages ask for each, by canonical name; extras that others ask for included."""
    requires = {canonicalize_name(one["metadata"]["name"]): _requirements(one["metadata"]) for one in items}
    extras = {canonicalize_name(one["metadata"]["name"]): set(one.get("requested_extras", [])) for one in items}
    found: dict[str, set[str]] = {key: set() for key in requires}
    changed = True
    while changed:
        changed = False
        for key, wanted in requires.items():
            for requirement in wanted:
                target = canonicalize_name(requirement.name)
                if target not in found or not _applies(requirement, environment, extras[key]):
                    continue
                if key not in found[target] or not requirement.extras <= extras[target]:
                    found[target].add(key)
                    extras[target] |= requirement.extras
                    changed = True
    return {key: sorted(by - {key}) for key, by in found.items()}


def _requirements(metadata: Mapping[str, Any]) -> list[Requirement]:
    found = []
    for text in metadata.get("requires_dist") or []:
        try:
            found.append(Requirement(text))
        except InvalidRequirement:  # pip has complained about it already, and went on
            continue
    return found


def _applies(requirement: Requirement, environment: Mapping[str, str], extras: set[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({**environment, "extra": extra}) for extra in extras | {""})
