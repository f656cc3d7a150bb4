"""What benchmarks ask for, and what stands in the way before anybody tries."""

from __future__ import annotations

import time
from typing import Any

import pyperf
import pytest

from interlock.catalog.variants import Gil, Surroundings
from interlock.catalog.workloads import Benchmark, Workload
from interlock.engine.protocol import Installed
from interlock.measure.cells import (
    NO_PACKAGES,
    PackageSets,
    Phase,
    Session,
    Stopwatch,
    agent_of,
    install_required,
    leave_cell,
    open_cell,
    open_sandbox,
    sibling_of,
)
from interlock.results.experiments import Outcome, PackageSet, State, Subject
from tests.builders import (
    METRIC,
    OK,
    make_benchmark,
    make_built,
    make_ended,
    make_network,
    make_resources,
    make_settings,
    make_variant,
    make_workload,
)

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
        self.took_s = 1.0

    def tidy(self) -> None:
        self.asked.clear()

    def ensure_all(self, wanted: Any) -> list[Installed]:
        self.asked += [(image.variant, [*lines]) for image, lines in wanted]
        return [
            Installed(PackageSet(volume=f"{image.variant} {' '.join(lines)}", mount_path="/packages/x"), self.took_s)
            for image, lines in wanted
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


def test_a_benchmark_that_asks_for_nothing_has_nothing() -> None:
    plain, other = make_benchmark("plain"), make_benchmark("other", requirements=["a"])
    asking = workload(plain, other)
    sets, _ = given(asking)
    assert sets.of("cpython-2.7", asking, plain) == NO_PACKAGES


def test_what_several_ask_for_is_installed_once_for_each_image() -> None:
    asking = workload(make_benchmark("one"), make_benchmark("other"), requirements=["a"])
    _, installer = given(asking)
    assert installer.asked == [("cpython-2.7", ["a"]), ("cpython-3.15", ["a"])]


def test_what_was_installed_side_by_side_shares_the_time_that_all_of_it_took() -> None:
    one, other = make_benchmark("one", requirements=["b"]), make_benchmark("other")
    asking = workload(one, other, requirements=["a"])
    start_s = time.monotonic()
    sets, _ = given(asking)
    wall_s = time.monotonic() - start_s
    # Four sets of a second each, at the same moment.
    assert 0 < sets.workload_s(asking) <= wall_s
    assert sets.variant_s("cpython-2.7", asking) == pytest.approx(sets.workload_s(asking) / 2)


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


@pytest.mark.parametrize(
    ("rows", "quick", "values"), [(15, True, [1, 2, 4, 24]), (16, True, [1, 2, 3, 12]), (16, False, [9, 9, 9, 9])]
)
def test_of_many_rows_a_quick_process_takes_half_of_its_values(rows: int, quick: bool, values: list[int]) -> None:
    settings = make_settings([f"v{number}" for number in range(rows)]).model_copy(update={"quick": quick})
    full = {"warmups": 1, "values": 9}
    found = [
        Session(
            make_resources(settings=settings),
            make_workload(quick={"warmups": 1, "values": given}, full=full),
            make_network(lambda *_: make_ended()),
        ).repetition
        for given in (1, 2, 4, 24)
    ]
    assert [take.values for take in found] == values


def test_a_benchmark_of_shorter_slices_takes_so_many_times_as_many_warm_ups_and_values() -> None:
    session = Session(
        make_resources(settings=make_settings(["v0", "v1"])),
        make_workload(quick={"warmups": 1, "values": 10, "rounds_limit": 8}, full={"warmups": 2, "values": 24}),
        make_network(lambda *_: make_ended()),
    )
    assert session.take(make_benchmark("long")) == session.repetition
    take = session.take(make_benchmark("short", values_factor=5))
    assert take.values == 5 * session.repetition.values
    assert take.warmups == 5 * session.repetition.warmups
    assert take.rounds_limit == session.repetition.rounds_limit


def test_benchmarks_that_are_found_out_later_have_what_the_workload_asks_for() -> None:
    asking = workload(kind="pyperf", program="x.py", requirements=["pyperf"], metric=METRIC)
    sets, _ = given(asking)
    found = make_benchmark("found", profile_metric=None)
    assert sets.of("cpython-2.7", asking, found).volume == "cpython-2.7 pyperf"
    assert [one.volume for one in sets.of_workload("cpython-2.7", asking)] == ["cpython-2.7 pyperf"]


@pytest.mark.parametrize(
    ("benchmarks", "condition", "expected"),
    [
        (["hot"], None, None),
        (["hot", "cold"], None, "volume"),
        (["hot", "cold"], "image", "image"),
        (["hot", "cold"], "tmpfs", "tmpfs"),
    ],
)
def test_hot_and_cold_read_the_interpreter_from_one_file_system_and_a_condition_has_it_elsewhere(
    benchmarks: list[str], condition: Any, expected: str | None
) -> None:
    network = make_network()
    measured = workload(*(make_benchmark(name, cold=name == "cold") for name in benchmarks))
    session = Session(make_resources(workspace=network), measured, network)
    open_sandbox(session, Subject(variant="a", image_id="i", surroundings=Surroundings(interpreter=condition)))
    assert [one.interpreter for one in network.surroundings] == [expected]


def test_a_phase_within_another_stops_the_outer_ones_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    clock = Stopwatch()
    with clock.during(Phase.MEASURING):
        now_s = 2.0
        with clock.during(Phase.PREPARING):
            now_s = 5.0
        now_s = 6.0
    now_s = 100.0
    with clock.during(Phase.PROFILING):
        now_s = 107.0
    clock.add(Phase.PREPARING, 0.5)
    times = clock.times
    assert (times.preparing_s, times.measuring_s, times.profiling_s) == (3.5, 3.0, 7.0)
    assert times.total_s == 13.5


def test_an_error_stops_the_clock_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    clock = Stopwatch()

    def fail() -> None:
        nonlocal now_s
        now_s = 2.0
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"), clock.during(Phase.MEASURING):
        fail()
    now_s = 50.0
    assert clock.times.measuring_s == 2.0


SUBJECT = Subject(variant="cpython-2.7", image_id="sha256:1")


def test_a_workload_goes_on_in_the_sandboxes_of_the_one_before_with_their_agents() -> None:
    resources = make_resources()
    first, second = (Session(resources, make_workload(name), make_network()) for name in ("locks", "startup"))
    one = open_cell(first, SUBJECT, Stopwatch())
    agent = agent_of(one)
    leave_cell(first, one)
    again = open_cell(second, SUBJECT, Stopwatch())
    assert again.sandbox is one.sandbox
    assert agent_of(again) is agent
    # The baseline and its twin are of one image, and each has a sandbox of its own.
    assert open_cell(second, SUBJECT, Stopwatch()).sandbox is not one.sandbox
    # Another image, or other surroundings, are other sandboxes.
    leave_cell(second, again)
    other = SUBJECT.model_copy(update={"image_id": "sha256:2"})
    condition = SUBJECT.model_copy(update={"surroundings": Surroundings(seccomp="unconfined")})
    assert not any(open_cell(second, found, Stopwatch()).sandbox is one.sandbox for found in (other, condition))


def test_siblings_have_all_but_the_sandbox_of_a_cell_and_are_left_with_it() -> None:
    session = Session(make_resources(), make_workload(), make_network())
    cell = open_cell(session, SUBJECT, Stopwatch())
    siblings = [sibling_of(session, cell, number) for number in range(3)]
    assert siblings == cell.family
    assert siblings[0] is cell
    assert len({id(one.sandbox) for one in siblings}) == 3
    siblings[2].add(session.workload.benchmarks[0], pyperf.Run([0.5], collect_metadata=False))
    assert [run.values for run in cell.runs[session.workload.benchmarks[0].name]] == [(0.5,)]
    assert sibling_of(session, cell, 2) is siblings[2]
    leave_cell(session, cell)
    again = [open_cell(session, SUBJECT, Stopwatch()).sandbox for _ in siblings]
    assert {id(one) for one in again} == {id(one.sandbox) for one in siblings}


@pytest.mark.parametrize(
    "changes",
    [
        {"benchmarks": [make_benchmark(arguments=["--into", "{scratch}/x"])]},
        {"benchmarks": [make_benchmark(set_up=["x.py"])]},
        {"benchmarks": [make_benchmark(cold=True)]},
        {"rights": ["root"]},
        {"kind": "pyperf", "benchmarks": [], "metric": METRIC},
        {"server": {"environment": {}}},
    ],
)
def test_what_a_workload_may_leave_in_a_sandbox_no_other_one_finds(changes: dict[str, Any]) -> None:
    resources = make_resources()
    own = Session(resources, make_workload("own", **changes), make_network())
    plain = Session(resources, make_workload("plain"), make_network())
    for before, after in ((own, plain), (plain, own)):
        cell = open_cell(before, SUBJECT, Stopwatch())
        leave_cell(before, cell)
        assert open_cell(after, SUBJECT, Stopwatch()).sandbox is not cell.sandbox
