"""What benchmarks ask for, and what stands in the way before anybody tries."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.catalog.variants import Gil
from interlock.catalog.workloads import Benchmark, Workload
from interlock.measure.packages import NO_PACKAGES, PackageSets, install_required
from interlock.results.experiments import Outcome, PackageSet, State
from tests.builders import METRIC, OK, make_benchmark, make_built, make_variant, make_workload

VARIANTS = {
    "cpython-2.7": make_variant("cpython-2.7", version="2.7.18"),
    "cpython-3.15": make_variant("cpython-3.15", version="3.15.0a7"),
}


class Installer:
    """Stands for the engine: what would be installed is known by its lines."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.catalog = self
        self.variants = VARIANTS

    def tidy(self) -> None:
        self.asked.clear()

    def ensure_all(self, wanted: Any) -> list[PackageSet]:
        self.asked += [(image.variant, [*lines]) for image, lines in wanted]
        return [
            PackageSet(volume=f"{image.variant} {' '.join(lines)}", mount_path="/packages/x") for image, lines in wanted
        ]


def given(workload: Workload, *outcomes: Outcome) -> tuple[PackageSets, Installer]:
    installer: Any = Installer()
    built = [make_built(name, outcome) for name, outcome in zip(VARIANTS, outcomes or (OK, OK), strict=True)]
    return install_required(installer, built, [workload]), installer


def workload(*benchmarks: Benchmark, **changes: Any) -> Workload:
    return make_workload(benchmarks=list(benchmarks), **changes)


def test_a_benchmark_has_what_it_and_its_workload_ask_for() -> None:
    one, other = make_benchmark("one", requirements=["b"]), make_benchmark("other")
    asking = workload(one, other, requirements=["a"])
    sets, _ = given(asking)
    assert sets.of("cpython-2.7", asking, one).volume == "cpython-2.7 a b"
    assert sets.of("cpython-2.7", asking, other).volume == "cpython-2.7 a"
    assert [found.volume for found in sets.of_workload("cpython-2.7", asking)] == [
        "cpython-2.7 a b",
        "cpython-2.7 a",
    ]
    # Who asks for nothing has nothing.
    asking = workload(one, other)
    assert given(asking)[0].of("cpython-2.7", asking, other) == NO_PACKAGES


def test_what_several_ask_for_is_installed_once_for_each_image() -> None:
    asking = workload(make_benchmark("one"), make_benchmark("other"), requirements=["a"])
    _, installer = given(asking)
    assert installer.asked == [("cpython-2.7", ["a"]), ("cpython-3.15", ["a"])]


def test_a_variant_that_was_not_built_gets_nothing() -> None:
    asking = workload(make_benchmark(), requirements=["a"])
    _, installer = given(asking, OK, Outcome(state=State.FAILED, reason="no"))
    assert installer.asked == [("cpython-2.7", ["a"])]


@pytest.mark.parametrize(
    ("admitted", "refused"),
    [(">=3", ["cpython-2.7"]), ("<3", ["cpython-3.15"]), (">=3.15", ["cpython-2.7"]), (">=2.7", [])],
)
def test_a_version_that_is_not_admitted_is_unsupported_and_nothing_is_tried(admitted: str, refused: list[str]) -> None:
    asking = workload(make_benchmark(requires_python=admitted), requirements=["a"])
    sets, installer = given(asking)
    outcomes = {name: sets.of(name, asking, asking.benchmarks[0]).outcome for name in VARIANTS}
    assert [name for name, outcome in outcomes.items() if outcome.state is State.UNSUPPORTED] == refused
    assert [name for name, _ in installer.asked] == [name for name in VARIANTS if name not in refused]


def test_what_needs_the_gil_is_unsupported_without_it_for_the_reason_in_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proof = VARIANTS["cpython-3.15"].proof.model_copy(update={"gil": Gil.OFF})
    monkeypatch.setitem(VARIANTS, "cpython-3.15", VARIANTS["cpython-3.15"].model_copy(update={"proof": proof}))
    asking = workload(make_benchmark(needs_gil="it counts references itself"), requirements=["a"])
    sets, installer = given(asking)
    outcome = sets.of("cpython-3.15", asking, asking.benchmarks[0]).outcome
    assert outcome == Outcome(state=State.UNSUPPORTED, reason="it counts references itself")
    assert installer.asked == [("cpython-2.7", ["a"])]


def test_benchmarks_that_are_found_out_later_have_what_the_workload_asks_for() -> None:
    asking = workload(kind="pyperf", program="x.py", requirements=["pyperf"], metric=METRIC)
    sets, _ = given(asking)
    found = make_benchmark("found", profile_metric=None)
    assert sets.of("cpython-2.7", asking, found).volume == "cpython-2.7 pyperf"
    assert [one.volume for one in sets.of_workload("cpython-2.7", asking)] == ["cpython-2.7 pyperf"]
