"""constraints.txt: every version that is installed is in it, as pyproject.toml asks for it, and no registry."""

from __future__ import annotations

import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.builders import ROOT

TEXT = (ROOT / "constraints.txt").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def pinned() -> dict[str, str]:
    """Return the version of each project for this interpreter."""
    lines = [Requirement(line) for line in TEXT.splitlines() if line and not line.startswith("#")]
    found: dict[str, str] = {}
    for one in filter(applies, lines):
        (version,) = one.specifier
        assert version.operator == "==", one
        found[canonicalize_name(one.name)] = version.version
    return found


def asked() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    found = [Requirement(line) for lines in (PROJECT["dependencies"], *extras) for line in lines]
    # An extra that has another one names this project, which is installed from its folder.
    return [one for one in found if one.name != PROJECT["name"]]


@pytest.mark.parametrize("requirement", asked(), ids=str)
def test_what_pyproject_asks_for_is_pinned_to_a_version_that_it_allows(requirement: Requirement) -> None:
    assert requirement.specifier.contains(pinned()[canonicalize_name(requirement.name)])


def test_what_is_installed_and_all_that_it_needs_has_the_pinned_version() -> None:
    """An environment of this project's nox sessions has these versions, and none that are not written down."""
    versions, found = pinned(), dict[str, str]()
    left = [(one, extra) for one in asked() for extra in ("", *one.extras)]
    seen = set()
    while left:
        one, extra = left.pop()
        name = canonicalize_name(one.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            there = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # an extra of another session
            continue
        found[name] = there.version
        needs = [Requirement(line) for line in there.requires or ()]
        left += [(need, more) for need in needs if applies(need, extra) for more in ("", *need.extras)]
    assert len(found) > 60
    assert found == {name: versions.get(name) for name in found}


def test_no_registry_is_named() -> None:
    assert "//" not in TEXT
    assert "--" not in TEXT.replace("--universal", "")
