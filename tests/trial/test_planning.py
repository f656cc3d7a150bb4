"""Which variants a trial tries."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.catalog.project import Catalog, ProjectPaths
from interlock.errors import UsageError
from interlock.results.experiments import Outcome, State
from interlock.trial.planning import Variants
from tests.builders import make_built, make_variant

BUILT, MISSING = "cpython-3.14", "cpython-3.13"


def variants() -> Variants:
    known = {name: make_variant(name) for name in (MISSING, BUILT)}
    catalog = Catalog(bases={}, families={}, differences={}, variants=known, workloads={})
    there = [make_built(BUILT), make_built(MISSING, Outcome(state=State.UNAVAILABLE, reason="not built"))]
    engine: Any = SimpleNamespace(look_up=lambda *_: there)
    return Variants(engine, ProjectPaths(Path(), Path()), catalog)


@pytest.mark.parametrize(("chosen", "labels"), [(None, [BUILT]), ([], [BUILT]), ([MISSING], [MISSING])])
def test_without_a_name_those_that_are_built_are_tried_and_nothing_else_is_built(
    chosen: list[str] | None, labels: list[str]
) -> None:
    assert variants().labels(chosen) == labels


@pytest.mark.parametrize("name", ["no-such", f"{BUILT}+no-such"])
def test_a_name_of_nothing_is_that_of_the_option(name: str) -> None:
    with pytest.raises(UsageError, match="no-such") as caught:
        variants().labels([name])
    assert caught.value.key == "--variants"
