"""Which variants come first: what people ask about, where the others would make them wait."""

from __future__ import annotations

from functools import cache

import pytest

from interlock.catalog import project
from interlock.catalog.project import Catalog
from interlock.measure import stages
from interlock.results.experiments import Outcome, State
from tests.builders import ROOT, make_built

FIRST = {"cpython-3.13", "cpython-3.14", "cpython-3.14t", "debian-3.13", "official-3.13"}


@cache
def known() -> Catalog:
    return project.load(ROOT)


def core() -> list[str]:
    return [name for name, one in known().variants.items() if one.core]


def test_of_the_core_set_the_baseline_what_is_mended_and_what_is_not_compiled_comes_first() -> None:
    found = stages.first_variants(known().variants, core(), core(), "")
    assert set(found) == FIRST
    assert found == [name for name in core() if name in FIRST]
    everything = list(known().variants)
    assert set(stages.first_variants(known().variants, everything, everything, "")) == FIRST


def test_what_is_built_already_is_first_too_and_where_little_is_missing_all_is_at_once() -> None:
    variants, later = known().variants, [name for name in core() if name not in FIRST]
    found = stages.first_variants(variants, core(), [one for one in core() if one != "cpython-3.9"], "")
    assert set(found) == {*FIRST, "cpython-3.9"}
    assert stages.first_variants(variants, core(), [], "") == []
    assert stages.first_variants(variants, core(), [*FIRST, later[0]], "") == []


@pytest.mark.parametrize(("baseline", "expected"), [("cpython-2.7", "cpython-2.7"), ("cpython-3.12", None)])
def test_the_wanted_baseline_is_first_and_without_one_that_is_asked_for_nothing_is(
    baseline: str, expected: str | None
) -> None:
    found = stages.first_variants(known().variants, core(), core(), baseline)
    assert (expected in found) if expected else not found
    names = [name for name in core() if name != "cpython-3.13"]
    assert stages.first_variants(known().variants, names, names, "") == []


def test_there_is_something_to_look_at_if_the_baseline_and_another_are_there() -> None:
    failed = Outcome(state=State.FAILED, reason="it does not compile")
    base, other = make_built("cpython-3.13"), make_built("cpython-3.14")
    assert stages.are_enough([base, other, make_built("cpython-3.14t", failed)], "")
    assert not stages.are_enough([base, make_built("cpython-3.14", failed)], "")
    assert not stages.are_enough([base, other], "cpython-2.7")
