"""Settings that come from the environment."""

from __future__ import annotations

import pytest

from interlock.catalog import project as catalogs
from interlock.cli.options import VERSIONS, given_versions
from interlock.errors import UsageError
from tests.builders import ROOT


@pytest.mark.parametrize("word", ["cpython-3.13=9.9.9", "cpython-9.9=3.13.5", "cpython-3.13"])
def test_versions_that_no_variant_may_have_are_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = catalogs.load(ROOT)
    monkeypatch.setenv(VERSIONS, f"cpython-3.13={known.variants['cpython-3.13'].versions[-1]} {word}")
    with pytest.raises(UsageError) as caught:
        given_versions(known)
    assert caught.value.key == VERSIONS


def test_versions_are_given_by_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    known = catalogs.load(ROOT)
    version = known.variants["cpython-3.13"].versions[-1]
    monkeypatch.setenv(VERSIONS, f"cpython-3.13={version} debian-3.13={known.variants['debian-3.13'].version}")
    assert known.at(given_versions(known)).variants["cpython-3.13"].versions == [version]
