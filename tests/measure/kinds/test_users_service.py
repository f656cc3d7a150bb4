"""A user's service, started in a new container by each run: what is a figure, and what is a failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from interlock.analysis.comparison import details_of
from interlock.catalog.services import Probed, ServiceAddress, UserWork
from interlock.catalog.workloads import Workload
from interlock.engine.protocol import Answer, CpuUsed, LoadRun, OwnStart
from interlock.errors import WorkloadError
from interlock.measure.cells import Cell
from interlock.measure.kinds import users_service
from interlock.measure.kinds.choosing import kind_of
from interlock.measure.kinds.users_service import (
    MOST_SLICES,
    Loaded,
    Ready,
    UserService,
    is_wrk,
    probed,
    service_run,
)
from interlock.measure.pyperf_runs import estimator_of, in_block
from interlock.measure.rounds import Course, watched_rounds
from interlock.measure.services import parse_wrk
from interlock.measure.sessions import Session
from interlock.results import store
from interlock.results.experiments import Outcome, State, Subject
from interlock.trial.workloads import UNKNOWN, Checks, workload_of
from tests.builders import ScriptedNetwork, ScriptedSandbox, make_ended, make_network, make_resources
from tests.measure.test_services import BAD, GOOD

SERVICE = Checks(address=ServiceAddress(port=8000, path="/health"), load=["wrk", "--latency", "{url}/"])


@dataclass
class Container:
    """A user's container that uses a tenth of a second of CPU for each load, and without one what it is told."""

    start: OwnStart
    net: ServiceNetwork
    ends: str = ""  # when it has ended
    id: str = "c"
    looks: int = 0

    def require_running(self, when: str) -> None:
        if when == self.ends:
            raise WorkloadError(found=f"it ended {when}", todo="")

    def address(self) -> str:
        return "10.0.0.2"

    def cpu_used(self) -> CpuUsed:
        self.looks += 1
        busy = sum(self.net.idle[: self.looks])
        return CpuUsed(busy + 0.1 * len(self.net.loads), 0.0)

    def memory_bytes(self) -> int:
        return 50_000_000

    def log(self) -> str:
        return "starting"

    def listening(self) -> list[str]:
        return ["127.0.0.1:9000"]


@dataclass
class ServiceNetwork(ScriptedNetwork):
    """A network in which services answer, and a load prints the same each time, or one text after the other."""

    says: str = GOOD
    then: list[str] = field(default_factory=list)  # after the first load
    idle: list[float] = field(default_factory=list)  # CPU seconds that a service uses until each look
    ends: str = ""
    status: int = 200
    started_as: list[OwnStart] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    loads: list[Sequence[str]] = field(default_factory=list)
    up: int = 0
    most_up: int = 0

    @contextmanager
    def started(self, start: OwnStart) -> Iterator[Any]:
        self.started_as.append(start)
        self.up += 1
        self.most_up = max(self.up, self.most_up)
        yield Container(start, self, ends=self.ends)
        self.up -= 1

    def ask(self, url: str, *, any_answer: bool = False, body: bool = True) -> Answer:
        self.asked.append(url)
        return Answer("", self.status)

    def put_load(self, words: Sequence[str], limit_s: float) -> LoadRun:
        said = self.then[min(len(self.loads), len(self.then)) - 1] if self.then and self.loads else self.says
        self.loads.append(words)
        return LoadRun(said, 1.5)

    def load_cpu_used(self) -> CpuUsed:
        return CpuUsed(0.3 * len(self.loads), 0.0)


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users_service, "LOOK_S", 0.001)


def network(**changes: Any) -> ServiceNetwork:
    return ServiceNetwork(make_network().answer, **changes)


def workload(checks: Checks = SERVICE, probed: Probed = UNKNOWN) -> Workload:
    return workload_of(Path("site"), checks, probed=probed)


def service(net: ServiceNetwork, work: Workload | None = None) -> UserService:
    container: Any = Container(START, net, ends=net.ends)
    return UserService(net, work or workload(), container)


def at(rate: float) -> str:
    """What wrk prints of so many requests per second."""
    return GOOD.replace("91.93", str(rate)).replace("92 requests", "400 requests")


START = OwnStart("sha256:1", {"MODE": "1"})


def test_a_slice_of_load_tells_rate_latencies_and_the_cpu_time_of_both() -> None:
    net = network()
    loaded = service(net, workload(probed=Probed(slice_s=2))).load()
    assert net.loads == [["wrk", "-d2s", "--latency", "http://10.0.0.2:8000/"]]
    assert loaded.unit_s == pytest.approx(1 / parse_wrk(GOOD).per_second)
    assert (loaded.units, loaded.duration_s) == (parse_wrk(GOOD).requests, 1.5)
    assert [loaded.service_s, loaded.load_s] == pytest.approx([0.1, 0.3])
    assert loaded.latencies["latency_p50_s"] == parse_wrk(GOOD).latency_s["50"]


def test_a_slice_without_an_answer_is_followed_by_the_whole_load() -> None:
    silent = at(0).replace("400 requests", "0 requests")
    net = network(says=silent, then=[GOOD, silent])
    subject = service(net, workload(probed=Probed(slice_s=1)))
    assert subject.load().units == parse_wrk(GOOD).requests
    assert ["-d1s" in words for words in net.loads] == [True, False]
    with pytest.raises(WorkloadError, match="no request"):
        subject.load()


def test_a_service_that_fails_is_ended_before_others_are_loaded() -> None:
    net = network(says=BAD, then=[GOOD])
    cells = rows_of(net, SERVICE, ROWS[:2])
    watched_rounds(cells[0].session, cells, Course())
    assert sorted(track.goes_on for cell in cells for track in cell.tracks.values()) == [False, True]
    assert net.most_up == 1


def test_another_programs_load_is_its_time() -> None:
    checks = Checks(address=ServiceAddress(port=80), load=["sh", "-c", "curl {url}"])
    loaded = service(network(), workload(checks)).load()
    assert (loaded.unit_s, loaded.units) == (1.5, 1)
    assert not is_wrk(checks.load or [])


def test_a_service_is_ready_once_it_is_quiet_and_slices_of_load_agree() -> None:
    net = network(says=at(2.5), then=[at(20), at(30), at(33), at(99)], idle=[0.0, 9.0, 9.0])
    ready = service(net).ready()
    assert ready.quiet_s is not None
    assert ready.steady_s is not None
    # 30 and 33 are apart by less than a tenth; the two looks before were busy.
    assert [round(1 / loaded.unit_s) for loaded in ready.last] == [30, 33]
    assert ready.figures.keys() == {"healthy_after_s", "quiet_after_s", "steady_after_s"}


def test_a_service_that_never_gets_quiet_or_steady_says_so_within_its_bounds() -> None:
    impatient = Checks(address=SERVICE.address, load=SERVICE.load, healthy_within_s=0.01)
    net = network(says=at(2), then=[at(2), at(4)] * MOST_SLICES, idle=[9.0] * 1000)
    cells = rows_of(net, impatient, ROWS[:1])
    watched_rounds(cells[0].session, cells, Course())
    (track,) = cells[0].tracks.values()
    assert "'quiet_after_s'" not in str(track.runs[0].get_metadata().keys())
    assert [("quiet" in note, "settle" in note) for note in cells[0].notes] == [(True, False), (False, True)]


@pytest.mark.parametrize(
    ("cpu_s", "cpus", "decides"),
    [(0.9, 1, "time"), (0.5, 1, "cpu"), (0.9, 2, "time"), (0.7, 2, "cpu"), (1.5, 2, "time")],
)
def test_cpu_time_decides_where_the_load_does_not_fill_the_service(cpu_s: float, cpus: int, decides: str) -> None:
    last = [Loaded(0.001, 1000, 1.0, {}, service_s=cpu_s)] * 2
    user = UserWork(load=SERVICE.load)
    assert probed(user, Ready(0.5, 0.5, 2.0, last=last), cpus).decides == decides


@pytest.mark.parametrize(
    ("load", "unit_s", "start_s", "slice_s", "turns"),
    [
        (["wrk", "-d3s", "{url}"], 0.001, 1, 1, 3),
        (["wrk", "-d9s", "{url}"], 0.001, 1, 1, 9),
        (["wrk", "-d", "1s", "{url}"], 0.4, 1, 1, 3),
        (["wrk", "{url}"], 0.1, 1, 6, 3),
        (["wrk", "-d3s", "{url}"], 0.001, 20, 1, 5),
        (["hey", "{url}"], 2.0, 1, None, 3),
        (["hey", "{url}"], 60.0, 1, None, 1),
    ],
)
def test_a_slice_has_enough_requests_and_a_dear_start_more_slices(
    load: list[str], unit_s: float, start_s: float, slice_s: int | None, turns: int
) -> None:
    duration_s = 1.0 if slice_s else unit_s
    last = [Loaded(unit_s, max(1, round(1 / unit_s)), duration_s)] * 2
    found = probed(UserWork(load=load), Ready(start_s, 0.5, 2.0, last=last), 1)
    assert (found.slice_s, found.turns) == (slice_s, turns)


def test_without_a_load_the_start_is_the_figure() -> None:
    net = network()
    cells = rows_of(net, Checks(address=ServiceAddress(port=80)), ROWS[:1])
    watched_rounds(cells[0].session, cells, Course())
    assert net.loads == []
    assert len(net.started_as) == 3


def test_a_service_that_does_not_answer_says_where_it_listens() -> None:
    impatient = Checks(address=SERVICE.address, load=SERVICE.load, healthy_within_s=0)
    with pytest.raises(WorkloadError, match=r"port 8000 .* it listens at 127\.0\.0\.1:9000; .*starting"):
        service(network(status=0), workload(impatient)).ready()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"says": BAD}, "neither 2xx nor 3xx"),
        ({"says": "no figures"}, "no figures"),
        ({"ends": "under the load"}, "under the load"),
        ({"ends": "before it was healthy"}, "before it was healthy"),
        ({"status": 503}, "503"),
    ],
)
def test_what_does_not_work_is_an_error(changes: dict[str, Any], said: str) -> None:
    impatient = Checks(address=SERVICE.address, load=SERVICE.load, healthy_within_s=0)
    with pytest.raises(WorkloadError, match=said):
        service(network(**changes), workload(impatient)).ready()


def test_its_run_has_the_details_of_its_workload(tmp_path: Path) -> None:
    work = workload()
    (benchmark,) = work.benchmarks
    slices = [Loaded(0.001, 1000, 1.0, LATENCIES, 0.8, 0.3), Loaded(0.002, 500, 1.0, LATENCIES, 0.7, 0.1)]
    figures = {"healthy_after_s": 0.5, "quiet_after_s": 0.5, "steady_after_s": 2.0, "memory_bytes": 5e7}
    run = in_block(service_run(work, benchmark, slices, CpuUsed(1.0, 0.5), figures), 1, estimator_of(benchmark))
    store.write_runs(tmp_path / "cell.json", {benchmark.name: [run]})
    keys = {one.of for one in benchmark.details}
    found = store.read_values(tmp_path / "cell.json", {benchmark.name: keys})[benchmark.name]
    assert found.processes == [[pytest.approx(1e-3), pytest.approx(2e-3)]]
    assert found.max_rss_bytes == 50_000_000
    shown = {one.detail.label: one.value for one in details_of(work, benchmark, found) if one}
    assert shown["CPU ms per request"] == pytest.approx(1)
    assert shown["memory MB"] == pytest.approx(50)
    assert [shown["CPUs used"], shown["CPUs of the load"]] == pytest.approx([0.75, 0.2])


def test_where_cpu_time_decides_it_is_the_value_and_the_rate_stands_beside() -> None:
    work = workload(probed=Probed(decides="cpu"))
    run = service_run(
        work, work.benchmarks[0], [Loaded(0.001, 1000, 1.0, {}, 0.4)], CpuUsed(1, 0), {"memory_bytes": 5e7}
    )
    assert run.values == (pytest.approx(0.0004),)
    assert run.get_metadata()["interlock_units_per_s"] == pytest.approx(1000)
    assert work.benchmarks[0].metric.shown(0.0004) == pytest.approx(0.4)


def rows_of(
    network: ScriptedNetwork, checks: Checks, rows: Sequence[tuple[str, str | None]], probed: Probed = UNKNOWN
) -> list[Cell]:
    session = Session(make_resources(workspace=network), workload(checks, probed), network)
    return [Cell(session, Subject(variant=name, image_id=name, mode=mode)) for name, mode in rows]


def test_a_round_starts_each_row_once_and_loads_all_in_turns_and_none_that_failed() -> None:
    net = network()
    cells = rows_of(net, SERVICE, ROWS, Probed(slice_s=1, turns=2))
    (*_, failed) = tracks = [track for cell in cells for track in cell.tracks.values()]
    failed.outcome = Outcome(state=State.FAILED, reason="gone")
    course = Course()
    watched_rounds(cells[0].session, cells, course)
    assert [track.values.blocks for track in tracks] == [[1, 2, 3], [1, 2, 3], [1, 2, 3], []]
    assert [len(run.values) for run in tracks[0].runs] == [2, 2, 2]
    assert (len(net.started_as), net.most_up, net.up) == (9, 3, 0)
    # Of each start two that must agree, and the turns.
    assert len(net.loads) == 9 * 4
    assert len(course.order) == 3


def test_services_with_one_name_in_their_network_are_up_one_at_a_time() -> None:
    named = replace(SERVICE, address=ServiceAddress(port=8000, host="site.example"))
    net = network()
    cells = rows_of(net, named, ROWS[:3])
    watched_rounds(cells[0].session, cells, Course())
    assert (len(net.started_as), net.most_up) == (9, 1)


LATENCIES = {"latency_p50_s": 0.01, "latency_p99_s": 0.05}
ROWS = [("base", None), ("base", "twin"), ("fast", None), ("slow", None)]


def test_tests_are_started_in_a_new_container_each_time_and_not_tried_before() -> None:
    opened: list[str] = []

    class Counted(ScriptedNetwork):
        def open_sandbox(self, image_id: str, *rest: Any) -> ScriptedSandbox:
            opened.append(image_id)
            return super().open_sandbox(image_id, *rest)

    cells = rows_of(Counted(lambda _sandbox, _argv: make_ended()), Checks(test="pytest -q"), ROWS[:3])
    for cell in cells:
        cell.slot()
    opened.clear()
    watched_rounds(cells[0].session, cells, Course())
    assert sorted(opened) == ["base"] * 6 + ["fast"] * 3
    assert [[len(run.values) for run in cell.tracks["tests"].runs] for cell in cells] == [[1, 1, 1]] * 3


def test_a_container_without_memory_is_told_of_its_own_limit() -> None:
    work = workload(Checks(test="true"))
    outcome, _ = kind_of(work, work.benchmarks[0]).judge(replace(make_ended(exit_code=137), out_of_memory=True), 1)
    assert "--memory" in outcome.reason
