"""A user's service, started in a new container by each run: what is a figure, and what is a failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from interlock.analysis.comparison import details_of
from interlock.catalog.services import ServiceAddress
from interlock.catalog.workloads import Workload
from interlock.engine.protocol import Answer, CpuUsed, LoadRun, OwnStart
from interlock.errors import WorkloadError
from interlock.measure.cells import Cell, Session
from interlock.measure.kinds.choosing import kind_of
from interlock.measure.kinds.users_service import UserService, is_wrk, service_run
from interlock.measure.pyperf_runs import estimator_of, in_block
from interlock.measure.rounds import RoundOrder, TimeUsed, watched_rounds
from interlock.measure.services import parse_wrk
from interlock.results import store
from interlock.results.experiments import Outcome, State, Subject
from interlock.trial.workloads import Checks, workload_of
from tests.builders import ScriptedNetwork, ScriptedSandbox, make_ended, make_network, make_resources
from tests.measure.test_services import BAD, GOOD

SERVICE = Checks(address=ServiceAddress(port=8000, path="/health"), load=["wrk", "--latency", "{url}/"])


@dataclass
class Container:
    """A user's container that uses a tenth of a second of CPU each time it is asked."""

    start: OwnStart
    used_s: float = 0.0
    ends: str = ""  # when it has ended
    id: str = "c"

    def require_running(self, when: str) -> None:
        if when == self.ends:
            raise WorkloadError(found=f"it ended {when}", todo="")

    def address(self) -> str:
        return "10.0.0.2"

    def cpu_used(self) -> CpuUsed:
        self.used_s += 0.1
        return CpuUsed(self.used_s, 0.0)

    def memory_bytes(self) -> int:
        return 50_000_000

    def log(self) -> str:
        return "listening"


@dataclass
class ServiceNetwork(ScriptedNetwork):
    """A network in which services answer, and a load prints the same each time."""

    says: str = GOOD
    ends: str = ""
    status: int = 200
    started_as: list[OwnStart] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    loads: list[Sequence[str]] = field(default_factory=list)

    @contextmanager
    def started(self, start: OwnStart) -> Iterator[Any]:
        self.started_as.append(start)
        yield Container(start, ends=self.ends)

    def ask(self, url: str, *, any_answer: bool = False, body: bool = True) -> Answer:
        self.asked.append(url)
        return Answer("", self.status)

    def put_load(self, words: Sequence[str], limit_s: float) -> LoadRun:
        self.loads.append(words)
        return LoadRun(self.says, 1.5)


def network(**changes: Any) -> ServiceNetwork:
    return ServiceNetwork(make_network().answer, **changes)


def workload(checks: Checks = SERVICE) -> Workload:
    return workload_of(Path("site"), checks)


START = OwnStart("sha256:1", {"MODE": "1"})


def test_a_run_loads_a_warm_service_and_its_second_load_is_the_figure() -> None:
    net = network()
    loaded, _ = UserService(net, workload()).run(START)
    assert net.started_as == [START]
    assert net.loads == [["wrk", "--latency", "http://10.0.0.2:8000/"]] * 2
    assert set(net.asked) == {"http://10.0.0.2:8000/health"}
    assert loaded.unit_s == pytest.approx(1 / parse_wrk(GOOD).per_second)
    assert loaded.units == parse_wrk(GOOD).requests
    assert loaded.figures["work_cpu_s"] == pytest.approx(0.1)
    assert loaded.figures["memory_bytes"] == 50_000_000
    assert loaded.figures["latency_p50_s"] == parse_wrk(GOOD).latency_s["50"]


def test_another_programs_load_is_its_time() -> None:
    checks = Checks(address=ServiceAddress(port=80), load=["sh", "-c", "curl {url}"])
    loaded, _ = UserService(network(), workload(checks)).run(START)
    assert (loaded.unit_s, loaded.units) == (1.5, 1)
    assert not is_wrk(checks.load or [])


def test_without_a_load_the_start_is_the_figure() -> None:
    net = network()
    loaded, _ = UserService(net, workload(Checks(address=ServiceAddress(port=80)))).run(START)
    assert net.loads == []
    assert loaded.unit_s == loaded.figures["healthy_after_s"]
    assert "work_cpu_s" not in loaded.figures


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
        UserService(network(**changes), workload(impatient)).run(START)


def test_its_run_has_the_details_of_its_workload(tmp_path: Path) -> None:
    work = workload()
    (benchmark,) = work.benchmarks
    loaded, used = UserService(network(), work).run(START)
    run = in_block(service_run(work, benchmark, loaded, used), 1, estimator_of(benchmark))
    store.write_runs(tmp_path / "cell.json", {benchmark.name: [run]})
    keys = {one.of for one in benchmark.details}
    found = store.read_values(tmp_path / "cell.json", {benchmark.name: keys})[benchmark.name]
    assert found.processes == [[pytest.approx(loaded.unit_s)]]
    assert found.max_rss_bytes == 50_000_000
    shown = {one.detail.label: one.value for one in details_of(work, benchmark, found) if one}
    assert shown.keys() == {"p50 ms", "p99 ms", "CPU ms per request", "memory MB", "healthy after s"}
    assert shown["CPU ms per request"] == pytest.approx(100 / loaded.units)
    assert shown["memory MB"] == pytest.approx(50)


def rows_of(network: ScriptedNetwork, checks: Checks, rows: Sequence[tuple[str, str | None]]) -> list[Cell]:
    session = Session(make_resources(workspace=network), workload(checks), network)
    return [Cell(session, Subject(variant=name, image_id=name, mode=mode)) for name, mode in rows]


def test_rounds_start_each_row_once_and_a_row_that_fails_is_not_started_again() -> None:
    net = network()
    cells = rows_of(net, SERVICE, ROWS)
    (*_, failed) = tracks = [track for cell in cells for track in cell.tracks.values()]
    failed.outcome = Outcome(state=State.FAILED, reason="gone")
    order, spent = RoundOrder(), TimeUsed()
    watched_rounds(cells[0].session, cells, spent, order)
    assert [track.values.blocks for track in tracks] == [[1, 2, 3], [1, 2, 3], [1, 2, 3], []]
    assert len(net.started_as) == 9
    assert len(order.rounds) == 3
    assert spent.cpu_s == pytest.approx(9 * 0.2)


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
    watched_rounds(cells[0].session, cells, TimeUsed(), RoundOrder())
    assert sorted(opened) == ["base"] * 6 + ["fast"] * 3
    assert [[len(run.values) for run in cell.tracks["tests"].runs] for cell in cells] == [[1, 1, 1]] * 3


def test_a_container_without_memory_is_told_of_its_own_limit() -> None:
    work = workload(Checks(test="true"))
    outcome, _ = kind_of(work, work.benchmarks[0]).judge(replace(make_ended(exit_code=137), out_of_memory=True))
    assert "--memory" in outcome.reason
