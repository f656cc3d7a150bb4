"""What an option selects: names, labels with modes, and the words that stand for many."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.catalog import project as catalogs
from interlock.catalog import selection
from interlock.catalog.variants import Mode
from interlock.errors import UsageError
from tests.builders import METRIC, make_benchmark, make_variant, make_workload


def test_a_name_that_does_not_exist_is_shown_with_those_that_do() -> None:
    with pytest.raises(UsageError, match=r"workload 'z'.*a, b"):
        selection.select_names({name: make_workload(name) for name in "ab"}, ["a", "z"], "workload")


WORKLOADS = {name: make_workload(name, benchmarks=[make_benchmark("first"), make_benchmark("second")]) for name in "ab"}


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (["a"], {}),
        (["a/second"], {"a": ["second"]}),
        (["b/second", "a/first", "b/first"], {"b": ["first", "second"], "a": ["first"]}),
        (["a/first", "a"], {}),  # the whole workload has it too
        (["all"], {}),
    ],
)
def test_benchmarks_are_chosen_by_the_names_of_their_workloads(wanted: list[str], chosen: dict[str, list[str]]) -> None:
    assert selection.select_benchmarks(WORKLOADS, wanted) == chosen


def test_a_workload_without_its_benchmark_is_told_what_to_add() -> None:
    """It said that there is no benchmark ''."""
    with pytest.raises(UsageError, match=r"'a' names no benchmark.*: first, second") as caught:
        selection.named_benchmark(WORKLOADS, "a")
    assert "Write it as a/first." in caught.value.todo


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("a/third", ["benchmark of a 'third'", "first, second"]),
        ("a/", ["benchmark of a ''", "first, second"]),
        ("c/first", ["workload 'c'", "a, b"]),
        ("core/first", ["workload 'core'", "a, b"]),
    ],
)
def test_a_benchmark_that_does_not_exist_is_shown_with_those_that_do(wanted: str, said: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        selection.select_benchmarks(WORKLOADS, [wanted])
    assert [text for text in said if text not in str(caught.value)] == []


def test_a_benchmark_that_only_its_program_knows_is_refused_with_what_to_write() -> None:
    """It was 'there is no benchmark of ours 'dumps'. There are: none.', of one that had been measured by this name."""
    known = {"ours": make_workload("ours", kind="pyperf", program="bench.py", benchmarks=[], metric=METRIC)}
    with pytest.raises(UsageError, match=r"only the program of ours knows.* \[\[benchmarks\]\] in .*ours\.toml"):
        selection.select_benchmarks(known, ["ours/dumps"])


@given(st.lists(st.sampled_from("abc"), min_size=1))
def test_a_selection_has_each_wanted_name_once_in_its_order(wanted: list[str]) -> None:
    assert selection.select_names({name: make_variant(name) for name in "abc"}, wanted, "variant") == list(
        dict.fromkeys(wanted)
    )


VARIANTS = {
    "a": make_variant("a", modes=[Mode(name="slow", summary="slowly"), Mode(name="loud", summary="loudly")]),
    "b": make_variant("b"),
}


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        *((everything, ["a", "a+slow", "a+loud", "b"]) for everything in (None, [], ["all"])),
        (["a"], ["a"]),
        (["b", "a+loud", "b"], ["b", "a+loud"]),
    ],
)
def test_labels_are_taken_as_they_are_named_once_or_all_if_none_is(wanted: list[str] | None, chosen: list[str]) -> None:
    assert selection.select_labels(VARIANTS, wanted) == chosen


@pytest.mark.parametrize(
    ("wanted", "chosen"), [(["core"], ["b"]), (["all"], ["a", "b"]), (["a", "a"], ["a"]), (None, ["a", "b"])]
)
def test_variants_are_taken_as_they_are_named_or_by_a_word(wanted: list[str] | None, chosen: list[str]) -> None:
    variants = {"a": make_variant("a"), "b": make_variant("b", core=True)}
    assert selection.select_names(variants, wanted, "variant") == chosen


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("a+quick", ["a", "'quick'", "loud, slow"]),
        ("b+slow", ["b", "'slow'"]),
        ("a+", ["a", "''", "loud, slow"]),
        ("a+twin", ["'twin'", "loud, slow"]),
        ("c+slow", ["'c'", "a, b"]),
    ],
)
def test_a_label_of_nothing_is_answered_with_what_there_is(label: str, expected: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        selection.select_labels(VARIANTS, [label])
    assert [text for text in expected if text not in str(caught.value)] == []


def test_the_core_set_has_what_is_declared_so_and_no_mode_with_its_variant(project: Path) -> None:
    known = catalogs.load(project)
    core = selection.select_labels(known.variants, ["core"])
    assert {"cpython-2.7", "cpython-2.7+waking-sem-post", "cpython-3.13", "debian-3.13"} <= set(core)
    assert "cpython-2.7+pth-preload" not in core
    declared = {name for name, variant in known.variants.items() if variant.core}
    assert {label for label in core if "+" not in label} == declared
    assert selection.select_names(known.workloads, ["core"], "workload") == [
        "download",
        "import-loop",
        "locks",
        "service",
        "startup",
    ]
    quick = [
        known.workloads[name].for_experiment(quick=True) for name in ("download", "import-loop", "locks", "startup")
    ]
    # Nothing has to be built by pip before the first value.
    assert [benchmark.name for one in quick for benchmark in one.benchmarks if one.requirements_of(benchmark)] == []


def test_without_anything_declared_the_core_set_is_everything() -> None:
    assert selection.select_labels(VARIANTS, ["core"]) == ["a", "a+slow", "a+loud", "b"]
    workloads = {name: make_workload(name=name) for name in ("x", "y")}
    assert selection.select_names(workloads, ["core"], "workload") == ["x", "y"]


@pytest.mark.parametrize(("chosen", "word"), [(["a", "b"], "all"), (["b"], "core"), (["a"], ""), (["b", "a"], "")])
def test_a_word_stands_for_all_names_or_for_the_core_set(chosen: list[str], word: str) -> None:
    assert selection.word_for(chosen, lambda words: ["a", "b"] if words == ["all"] else ["b"]) == word


@given(st.lists(st.sampled_from(["a", "a+slow", "a+loud", "b"]), min_size=1))
def test_a_choice_of_labels_selects_itself_again(wanted: list[str]) -> None:
    chosen = selection.select_labels(VARIANTS, wanted)
    assert selection.select_labels(VARIANTS, chosen) == chosen
    assert set(chosen) == set(wanted)
