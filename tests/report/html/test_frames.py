"""Tables and findings as flat records."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from interlock.analysis import comparison
from interlock.report.html import frames as figures
from interlock.report.html.frames import SHADES, Frame, Record
from tests.builders import make_experiment, make_profile, make_values
from tests.reports import VARIANTS, example, waiting_profile


@cache
def example_frames() -> dict[str, Frame]:
    return dict(figures.frames(*example()))


def one(frame: str, **where: Any) -> Record:
    (found,) = [record for record in example_frames()[frame] if where.items() <= record.items()]
    return found


@pytest.mark.parametrize(
    ("variant", "shade", "code"),
    [
        ("cpython-3.13", "baseline", "1"),
        ("cpython-2.7-pth", "slower, over 5x", "7.50"),
        ("cpython-3.14", "faster, 0.5x to 0.8x", "0.70"),
        ("cpython-2.7-nothreads", "no figure", "x"),
        ("nogil-3.9", "no figure", "-"),
    ],
)
def test_a_field_of_the_heat_map_is_a_class_and_a_text(variant: str, shade: str, code: str) -> None:
    record = one("ratios", variant=variant, benchmark="locks uncontended")
    assert (record["shade"], record["code"]) == (shade, code)


def test_what_is_the_same_or_undecided_is_not_shaded_by_its_ratio() -> None:
    record = one("ratios", variant="cpython-3.14", benchmark="locks queue")
    assert (record["verdict"], record["shade"]) == ("same", SHADES["same"])


def test_a_field_without_a_figure_says_its_state() -> None:
    assert one("ratios", variant="nogil-3.9", benchmark="locks queue")["word"] == "unavailable"
    assert one("ratios", variant="cpython-2.7-nothreads", benchmark="locks uncontended")["word"] == "unsupported"


def test_a_ratio_has_its_interval_its_value_and_its_control() -> None:
    record = one("ratios", variant="cpython-2.7-pth", benchmark="locks uncontended")
    assert record["low"] < record["ratio"] < record["high"]
    assert record["ratio"] == pytest.approx(7.5, rel=0.01)
    assert record["value_text"] == "750 ±1%"
    assert record["control_text"].endswith("slower than cpython-3.14")


def test_the_ends_of_one_round_are_open() -> None:
    experiment = make_experiment(["cpython-3.13", "cpython-3.14t"])
    values = {("cpython-3.13", "locks"): {"uncontended": make_values([1.0])}}
    values |= {("cpython-3.14t", "locks"): {"uncontended": make_values([2.0])}}
    frames = figures.frames(experiment, comparison.tables(experiment, values, {}), [])
    record = frames["ratios"][1]
    assert (record["ratio"], record["low"], record["high"]) == (2.0, None, None)
    assert record["text"] == "2.000x [one round]"


@pytest.mark.parametrize(
    ("variant", "side"), [("cpython-2.7-pth", "more time"), ("cpython-3.14", "less time"), ("nogil-3.9", None)]
)
def test_a_mean_is_on_one_side_of_1_if_all_its_interval_is(variant: str, side: str | None) -> None:
    assert one("summary", variant=variant)["side"] == side


def test_a_mean_says_over_how_many_benchmarks_it_is() -> None:
    record = one("summary", variant="cpython-2.7-nothreads")
    assert (record["counted"], record["of"]) == (1, 2)


def test_calls_are_per_unit_of_work_with_their_share_their_failures_and_their_time() -> None:
    record = one("calls", call="futex")
    assert record["calls"] == pytest.approx(500 / 1000 * 1e6)
    assert record["share"] == pytest.approx(500 / 600)
    assert record["failed"] == pytest.approx(20 / 1000 * 1e6)
    assert record["ms"] == pytest.approx(5_000_000 / 1000 * 1e6 / 1e6)


def test_calls_of_other_phases_than_the_work_are_not_among_them() -> None:
    assert {record["call"] for record in example_frames()["calls"]} == {"futex", "read"}


def test_waits_are_a_histogram_whose_tallest_bin_is_1() -> None:
    bins = [(record["bin"], record["waits"], record["share"], record["height"]) for record in example_frames()["waits"]]
    assert bins == [("1 us to 2 us", 30, 0.75, 1), ("66 us to 131 us", 10, 0.25, pytest.approx(1 / 3))]


def test_the_base_is_part_of_an_image_only_if_it_is_smaller() -> None:
    experiment, _, _ = example()
    image = experiment.images[0]
    small, large = (image.base.model_copy(update={"size_bytes": size}) for size in (80_000_000, 400_000_000))  # type: ignore[union-attr]
    images = [image.model_copy(update={"base": base}) for base in (small, large)]
    frame = figures.frames(experiment.model_copy(update={"images": images}), [], [])["images"]
    assert [(one["base_mb"], one["own_mb"], one["size_mb"]) for one in frame] == [(80, 70, 150), (0, 150, 150)]


def test_an_image_that_was_not_built_has_no_size() -> None:
    assert one("images", variant="nogil-3.9")["size_mb"] is None


def test_only_ratios_of_claims_are_drawn() -> None:
    assert [record["claim"] for record in example_frames()["claims"]] == ["pth-is-slow", "pth-is-fast"]


def calls_of(**counts: dict[str, float]) -> Frame:
    return [
        {"benchmark": benchmark, "variant": "v", "call": call, "calls": count}
        for benchmark, calls in counts.items()
        for call, count in calls.items()
    ]


def test_calls_have_a_colour_by_the_room_that_they_take_in_any_chart() -> None:
    many = {f"call{number:02}": 10.0 for number in range(12)}
    named = figures.top_calls(calls_of(first={**many, "futex": 1.0, "big": 900.0}, second={"rare": 0.001}))
    assert named[:3] == ["futex", "rare", "big"]
    assert len(named) == 9


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (1, "1 ns"),
        (512, "512 ns"),
        (1024, "1 us"),
        (2**17, "131 us"),
        (2**20, "1 ms"),
        (2**31, "2.1 s"),
        (5e11, "500 s"),
    ],
)
def test_a_duration_is_in_the_unit_that_leaves_it_at_least_1(nanoseconds: float, text: str) -> None:
    assert figures.duration(nanoseconds) == text


def test_the_twin_is_no_row() -> None:
    assert figures.variant_names(example()[0]) == VARIANTS


def test_a_probe_without_times_leaves_them_out() -> None:
    experiment, _, _ = example()
    plain = make_profile(2.0, units=10, method="strace", phases=waiting_profile().phases, counted="startup")
    values = {("cpython-3.13", "locks"): {"uncontended": make_values([1e-7], [1e-7])}}
    profiles = {("cpython-3.13", "locks"): {"uncontended": plain}}
    frames = figures.frames(experiment, comparison.tables(experiment, values, profiles), [])
    assert [(record["call"], record["ms"]) for record in frames["calls"]] == [("mmap", None)]
    assert frames["waits"] == []
