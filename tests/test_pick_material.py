"""What a pick is made from, and the questions asked of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.model import Condition, Gil
from tests.picks import SIX, Figures, make_material

FREE = {"thread_flavour": "free-threaded", "gil": "off", "thread_library": "libc.so.6"}
MODES = [
    {"name": "gil-on", "summary": "a mode", "environment": {"PYTHON_GIL": "1"}, "gil": "on"},
    {"name": "own-context", "summary": "a mode", "options": ["-X", "thread_inherit_context=0"]},
]


def test_neither_the_twin_nor_the_baseline_under_a_condition_is_a_contender() -> None:
    labels = ["base", "base+twin", "base+seccomp-unconfined", "base+fast", "x"]
    figures: Figures = {label: {"locks/queue": SIX} for label in labels}
    conditions = {"seccomp-unconfined": Condition(name="seccomp-unconfined", summary="a condition")}
    material = make_material(figures, experiment={"conditions": conditions})
    assert material.labels == ["base", "base+fast", "x"]
    assert material.twin == "base+twin"


def test_the_memory_of_a_contender_is_the_most_of_the_benchmarks_that_count() -> None:
    material = make_material({"base": {"locks/queue": SIX, "locks/alone": SIX, "startup/pass": SIX}}, ["locks"])
    sizes = {("locks", "queue"): 20, ("locks", "alone"): 30, ("startup", "pass"): 40}
    values = {
        (label, workload): {
            name: one.model_copy(update={"max_rss_bytes": sizes[workload, name]}) for name, one in cell.items()
        }
        for (label, workload), cell in material.values.items()
    }
    assert replace(material, values=values).max_rss_bytes("base") == 30
    assert material.max_rss_bytes("x") == 0


@pytest.mark.parametrize(("label", "gil"), [("x", Gil.OFF), ("x+gil-on", Gil.ON), ("x+own-context", Gil.OFF)])
def test_a_mode_has_its_variants_gil_unless_it_declares_another(label: str, gil: Gil) -> None:
    figures: Figures = {"base": {"locks/queue": SIX}, label: {"locks/queue": SIX}}
    assert make_material(figures, variants={"x": {"proof": FREE, "modes": MODES}}).gil(label) is gil


def test_what_was_not_measured_has_no_medians() -> None:
    material = make_material({"base": {"locks/queue": SIX}})
    assert material.medians("base", ("locks", "queue")) == list(SIX)
    assert material.medians("base", ("startup", "pass")) == []
    assert material.medians("x", ("locks", "queue")) == []
