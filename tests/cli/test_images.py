"""Which build of a variant a command takes, and the line that builds it."""

from __future__ import annotations

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import by_profile
from interlock.cli.images import build_line
from tests.builders import ROOT, make_built


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, [("release", ["cpython-3.14", "cpython-3.14t"]), ("standard", ["debian-3.13"])]),
        ("standard", [("standard", ["cpython-3.14", "debian-3.13", "cpython-3.14t"])]),
    ],
)
def test_without_a_wish_a_variant_has_its_build_for_production(wanted: str | None, expected: object) -> None:
    assert by_profile(catalogs.load(ROOT), ["cpython-3.14", "debian-3.13", "cpython-3.14t"], wanted) == expected


@pytest.mark.parametrize(("profile", "words"), [("release", " --release"), ("standard", "")])
def test_what_is_missing_is_built_in_its_own_profile(profile: str, words: str) -> None:
    image = make_built("cpython-3.14").model_copy(update={"profile": profile})
    assert build_line(image) == f"interlock build cpython-3.14{words}"
