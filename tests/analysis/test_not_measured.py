"""What has no figures is named with its reason: variants first, then workloads, and the rows that lack them."""

from __future__ import annotations

from interlock.analysis.not_measured import MOST_REASONS, by_reason, in_one_line
from interlock.results.experiments import Experiment, Outcome, State
from tests.builders import OK, make_built, make_cell, make_experiment, make_workload

NO_IMAGE = Outcome(state=State.UNAVAILABLE, reason="needs a container engine.")
NO_SERVER = Outcome(state=State.UNSUPPORTED, reason="no nginx")
NO_OPTION = Outcome(state=State.FAILED, reason="unknown option")
LATER = Outcome(state=State.NOT_MEASURED, reason="the budget came first")


def lacking() -> Experiment:
    """Two rows and one without an image; `startup` lacks one benchmark of one row, `download` all, `locks` time."""
    found = make_experiment(["a", "b"])
    cells = [
        *(make_cell(name, "download", outcome=NO_SERVER) for name in ("a", "b", "c")),
        make_cell("a", "startup", outcome=OK, benchmarks={"pass": OK, "cold": OK}),
        make_cell("b", "startup", outcome=NO_OPTION, benchmarks={"pass": OK, "cold": NO_OPTION}),
        make_cell("a", "startup", outcome=NO_OPTION, mode="twin"),
        make_cell("b", "locks", outcome=LATER),
        make_cell("b", "queue", outcome=NO_SERVER),
    ]
    images = [*found.images, make_built("c", outcome=NO_IMAGE)]
    workloads = {name: make_workload(name=name) for name in ("download", "startup", "locks", "queue")}
    return found.model_copy(update={"images": images, "cells": cells, "workloads": workloads})


def test_variants_come_first_then_workloads_and_the_rows_without_figures() -> None:
    assert by_reason(lacking()) == {
        "needs a container engine": ["c"],
        "no nginx": ["download", "queue on b"],
        "unknown option": ["startup/cold on b"],
    }


def test_of_other_variants_and_workloads_nothing_is_said() -> None:
    assert by_reason(lacking(), {"a"}, {"download", "startup"}) == {"no nginx": ["download"]}


def test_all_of_it_is_one_line_that_counts_what_it_leaves_out() -> None:
    few = {"no nginx": ["download"], "x" * 500: ["a", "b", "c", "d", "e", "f"]}
    assert in_one_line(few).startswith("not measured: download (no nginx); a, b, c, d and 2 more (xxx")
    assert len(in_one_line(few)) < 250
    many = {str(number): ["a"] for number in range(MOST_REASONS + 2)}
    assert in_one_line(many).endswith("; 2 more reasons")
    assert in_one_line({}) == ""
