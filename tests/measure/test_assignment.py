"""What is measured of what was built."""

from __future__ import annotations

import dataclasses

import pytest

from interlock.catalog.variants import Gil, Mode
from interlock.errors import BuildError, UsageError
from interlock.measure.assignment import choose_baseline, planned_rounds
from interlock.measure.workload import WorkloadResult
from interlock.results.experiments import Built, Outcome, State
from tests.builders import make_benchmark, make_cell, make_workload
from tests.builders import make_built as image
from tests.measure.assigned import assigned

NOT_REACHED = Outcome(state=State.NOT_MEASURED, reason="Ctrl-C came first")
GONE = Outcome(state=State.UNAVAILABLE, reason="example.org: no answer")


@pytest.mark.parametrize(
    ("wanted", "built", "chosen"),
    [
        ("", [image("cpython-2.7"), image("cpython-3.13")], "cpython-3.13"),
        ("", [image("nogil-3.9", GONE), image("cpython-2.7"), image("cpython-3.13", GONE)], "cpython-2.7"),
        ("cpython-2.7", [image("cpython-3.13"), image("cpython-2.7")], "cpython-2.7"),
    ],
)
def test_the_baseline_is_the_wanted_one_else_3_13_else_the_first_that_was_built(
    wanted: str, built: list[Built], chosen: str
) -> None:
    assert choose_baseline(wanted, built) == chosen


def test_a_wanted_baseline_that_was_not_built_is_an_error_with_the_reason_and_the_choice() -> None:
    """Who had named one that exists was asked whether another one was meant."""
    with pytest.raises(UsageError) as caught:
        choose_baseline("nogil-3.9", [image("cpython-2.7"), image("nogil-3.9", GONE)])
    assert caught.value.key == "--baseline"
    assert "nogil-3.9" in caught.value.found
    assert GONE.reason in caught.value.found
    assert "cpython-2.7" in caught.value.todo


def test_with_nothing_built_there_is_nothing_to_measure_and_the_reasons_are_named() -> None:
    with pytest.raises(BuildError, match=r"nogil-3.9: example.org: no answer"):
        choose_baseline("", [image("nogil-3.9", GONE)])


def test_a_wanted_number_of_rounds_is_exact_and_the_others_have_a_limit() -> None:
    assert planned_rounds(True, 4) == planned_rounds(False, 4) == (4, None)
    (least, quick), (least_of_all, full) = planned_rounds(True, None), planned_rounds(False, None)
    assert quick is not None
    assert full is not None
    assert least == least_of_all < quick < full


def test_every_image_and_the_baselines_twin_are_subjects() -> None:
    built = [image("cpython-2.7"), image("nogil-3.9", GONE), image("cpython-3.13")]
    subjects = assigned(built, "cpython-3.13").subjects()
    assert [(one.label, one.image_id) for one in subjects] == [
        ("cpython-2.7", "sha256:cpython-2.7"),
        ("cpython-3.13", "sha256:cpython-3.13"),
        ("cpython-3.13+twin", "sha256:cpython-3.13"),
    ]


def test_workloads_are_measured_in_the_order_given_and_those_with_a_server_or_a_load_last() -> None:
    given = assigned([image("cpython-3.13")], "cpython-3.13")
    chosen = ["download", "locks", "service", "startup", "write"]
    given = dataclasses.replace(given, settings=given.settings.model_copy(update={"workloads": chosen}))
    assert given.to_measure == ["locks", "startup", "write", "download", "service"]
    order = ["startup", "blocking", "service", "locks"]
    assert dataclasses.replace(given, order=order).to_measure == ["startup", "locks", "write", "service", "download"]


def test_a_mode_is_the_variants_image_with_what_its_interpreter_is_started_with() -> None:
    built = [image("cpython-2.7"), image("cpython-3.13")]
    given = assigned(built, "cpython-3.13", ["cpython-2.7+waking-sem-post", "cpython-3.13"])
    mode, plain, twin = given.subjects()
    assert (mode.label, mode.image_id) == ("cpython-2.7+waking-sem-post", "sha256:cpython-2.7")
    assert mode.environment == {"LD_PRELOAD": "/interlock/waking_sem_post.so"}
    assert (plain.label, plain.environment) == ("cpython-3.13", {})
    assert twin.label == "cpython-3.13+twin"


def test_options_and_gil_of_a_mode_reach_its_subject() -> None:
    given = assigned([image("cpython-3.13")], "cpython-3.13", ["cpython-3.13", "cpython-3.13+locked"])
    mode = Mode(name="locked", summary="with the GIL", options=["-X", "gil=1"], gil=Gil.ON)
    variant = given.catalog.variants["cpython-3.13"].model_copy(update={"modes": [mode]})
    known = given.catalog.model_copy(update={"variants": {variant.name: variant}})
    plain, locked, twin = dataclasses.replace(given, catalog=known).subjects()
    assert (locked.options, locked.gil) == (["-X", "gil=1"], Gil.ON)
    assert {(one.label, *one.options, one.gil) for one in (plain, twin)} == {
        ("cpython-3.13", None),
        ("cpython-3.13+twin", None),
    }


def test_what_was_never_reached_and_rows_of_a_variant_without_image_have_cells_with_the_reason() -> None:
    built = [image("cpython-2.7", GONE), image("cpython-3.13")]
    given = assigned(built, "cpython-3.13", ["cpython-2.7", "cpython-2.7+waking-sem-post", "cpython-3.13"])
    cells = given.cells_of("locks", None, NOT_REACHED)
    assert [(cell.variant, cell.mode, cell.outcome) for cell in cells] == [
        ("cpython-2.7", None, GONE),
        ("cpython-2.7", "waking-sem-post", GONE),
        ("cpython-3.13", None, NOT_REACHED),
    ]
    assert [one.label for one in given.subjects()] == ["cpython-3.13", "cpython-3.13+twin"]


def test_measured_cells_keep_the_order_of_the_choice_and_the_twin_comes_last() -> None:
    cells = [make_cell("b", mode="twin"), make_cell("b"), make_cell("a", mode="slow"), make_cell("a")]
    measured = WorkloadResult(make_workload(), cells)
    given = assigned([image("a"), image("b")], "b", ["a", "a+slow", "b"])
    assert [cell.label for cell in given.cells_of("locks", measured, NOT_REACHED)] == ["a", "a+slow", "b", "b+twin"]


def test_a_quick_experiment_names_what_it_leaves_out() -> None:
    given = assigned([image("base")], "base")
    workload = make_workload(benchmarks=[make_benchmark("quick"), make_benchmark("slow", full_only=True)])
    known = given.catalog.model_copy(update={"workloads": {"locks": workload}})
    quick = dataclasses.replace(given, catalog=known)
    assert [one.name for one in quick.workloads["locks"].benchmarks] == ["quick"]
    assert quick.left_out == {"locks": ["slow"]}
    full = dataclasses.replace(quick, settings=given.settings.model_copy(update={"quick": False}))
    assert [one.name for one in full.workloads["locks"].benchmarks] == ["quick", "slow"]
    assert full.left_out == {}
