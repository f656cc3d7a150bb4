"""What a command line asks of a pick."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.analysis.pick.criteria import (
    WorkloadWeight,
    parse_month,
    parse_phases,
    parse_size,
    parse_version,
    parse_weights,
)
from interlock.catalog.variants import SupportPhase
from interlock.errors import UsageError


def refused(parse: Callable[[Any], object], given: object) -> UsageError:
    with pytest.raises(UsageError) as error:
        parse(given)
    return error.value


def test_a_weight_is_of_a_workload_or_of_one_benchmark_and_is_1_if_nothing_is_said() -> None:
    assert parse_weights(["download=3", "download/many=0.5", "startup", "ours/round trip=2"]) == (
        WorkloadWeight("download", None, 3.0),
        WorkloadWeight("download", "many", 0.5),
        WorkloadWeight("startup", None, 1.0),
        WorkloadWeight("ours", "round trip", 2.0),
    )


@pytest.mark.parametrize("text", ["", "=3", "download/=3", "/many=3", "a/b/c=1", "two words=1"])
def test_what_is_no_workload_with_a_weight_is_refused_with_an_example(text: str) -> None:
    assert refused(parse_weights, [text]).key == "--workload"


@pytest.mark.parametrize("weight", ["x", "0", "-1", "nan", "inf", "1e308", "1.1e9", "1e999", "", "3=4"])
def test_a_weight_that_is_no_number_above_0_or_too_large_to_be_added_is_refused(weight: str) -> None:
    error = refused(parse_weights, [f"download={weight}"])
    assert error.key == "--workload"
    assert f"'download={weight}'" in error.found


def test_two_weights_of_one_workload_are_refused() -> None:
    assert "'download'" in refused(parse_weights, ["download=3", "startup", "download=1"]).found


@given(st.text(max_size=20))
def test_any_text_is_a_weight_above_0_or_one_clear_error(text: str) -> None:
    with suppress(UsageError):
        (weight,) = parse_weights([text])
        assert weight.weight > 0
        assert weight.workload


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("200MB", 200_000_000), ("200MiB", 209_715_200), ("1.5 GB", 1_500_000_000), ("64kB", 64_000), ("64KiB", 65_536)],
)
def test_a_size_has_a_unit_of_1000s_or_of_1024s(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["200", "MB", "-1MB", "0MB", "0.0001kB", "200 mb", "1e3MB", "200MBs", f"{'9' * 400}GB", "٣MB", ""]
)
def test_a_size_without_a_unit_or_of_nothing_is_refused(text: str) -> None:
    error = refused(parse_size, text)
    assert (error.key, f"'{text}'" in error.found) == ("--max-rss", True)


def test_a_version_has_one_to_three_parts() -> None:
    assert [parse_version(text) for text in ("3", "3.11", "3.11.4")] == [(3,), (3, 11), (3, 11, 4)]


def test_a_month_may_be_a_day_or_a_year() -> None:
    assert [parse_month(text) for text in ("2027-06", "2027-06-30", " 2027 ")] == ["2027-06", "2027-06-30", "2027"]


@pytest.mark.parametrize(
    ("parse", "text", "key", "example"),
    [
        (parse_version, "three", "--min-python", "3.11"),
        (parse_version, "3.11.", "--min-python", "3.11"),
        (parse_version, "3.15rc1", "--min-python", "3.11"),
        (parse_version, "9" * 5000, "--min-python", "3.11"),
        (parse_month, "soon", "--supported-until", "2027-06"),
        (parse_month, "2027-13", "--supported-until", "2027-06"),
        (parse_month, "06/2027", "--supported-until", "2027-06"),
    ],
)
def test_what_is_no_version_or_month_is_refused_with_an_example(
    parse: Callable[[str], object], text: str, key: str, example: str
) -> None:
    error = refused(parse, text)
    assert (error.key, f"'{text}'" in error.found, example in error.todo) == (key, True, True)


def test_leave_is_given_by_the_name_of_a_phase() -> None:
    assert parse_phases(["end-of-life"]) == {SupportPhase.END_OF_LIFE}
    error = refused(parse_phases, ["bugfix"])
    assert (error.key, "'bugfix'" in error.found) == ("--allow", True)
    assert "end-of-life or prerelease" in error.todo
