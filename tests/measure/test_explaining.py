"""Why a benchmark waits is asked of variants that can run it."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.errors import WorkloadError
from interlock.measure import experiment
from interlock.measure.explaining import explain
from interlock.results.experiments import EngineName
from interlock.results.profiles import Method, Probe
from tests.builders import make_benchmark, make_built, make_network, make_workload
from tests.measure.assigned import assigned


def test_a_variant_that_cannot_run_the_benchmark_is_named_with_the_reason_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without its packages a service on 2.7 ended at once, and its program was to be mended."""
    given = assigned([make_built("cpython-2.7")], "cpython-2.7")
    program = next(each.program for each in given.catalog.workloads.values() if each.program)
    workload = make_workload(program=program, benchmarks=[make_benchmark("serve", requires_python=">=3.9")])
    known = given.catalog.model_copy(update={"workloads": {"locks": workload}})
    asked = given.settings.model_copy(update={"benchmarks": {"locks": ["serve"]}})
    removed: list[str] = []
    engine: Any = SimpleNamespace(
        name=EngineName.DOCKER,
        facts=dict,
        set_up=lambda *_: make_network(),
        installer=lambda known, *_: SimpleNamespace(catalog=known),
        clean_up=removed.append,
    )
    monkeypatch.setattr(experiment, "best_probe", lambda _: Probe(method=Method.BPF))
    with pytest.raises(WorkloadError) as caught:
        explain(engine, dataclasses.replace(given, catalog=known, settings=asked), lambda _: None)
    assert all(word in caught.value.found for word in ("cpython-2.7", "locks/serve", ">=3.9"))
    assert len(removed) == 1
