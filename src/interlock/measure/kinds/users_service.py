"""A user's own service: each run starts it in a new container, waits until it is healthy, and puts load on it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from interlock.catalog.services import ServiceAddress
from interlock.catalog.workloads import Benchmark, Repetition, Workload
from interlock.engine.ended import last_lines
from interlock.engine.protocol import CpuUsed, Network, OwnStart, UserContainer
from interlock.errors import LazyModule, WorkloadError
from interlock.measure.kinds.kind import COMMAND_PHASE, Kind, Working
from interlock.measure.processes import NOTHING_RUN, OK
from interlock.measure.pyperf_runs import run_metadata
from interlock.measure.services import HealthCheck, parse_wrk, wait_until_healthy
from interlock.measure.tracks import Result, Track
from interlock.results.experiments import ProgramOutput

if TYPE_CHECKING:
    import pyperf
else:
    pyperf = LazyModule("pyperf", "measure")

URL = "{url}"
WRK = "wrk"
# Keys of the metadata of a run, and wrk's names of its percentiles.
PERCENTILES = {"latency_p50_s": "50", "latency_p99_s": "99"}
HEALTHY_AFTER, MEMORY = "healthy_after_s", "memory_bytes"


@dataclass(frozen=True)
class Loaded:
    """What a load did: units of work, the seconds of one, and further figures by key of the metadata."""

    unit_s: float
    units: int = 1
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class UserService:
    """A user's service as its workload says; each method raises WorkloadError if it does not work."""

    network: Network
    workload: Workload

    def run(self, start: OwnStart) -> tuple[Loaded, CpuUsed]:
        """Start it once, load it twice, of which the first warms it up; return the second load and all CPU time."""
        with self.network.started(start) as service:
            base, healthy_s = self.healthy(service)
            if not self.has_load:
                loaded, before = Loaded(healthy_s), service.cpu_used()
            else:
                self.warm(service, base)
                before = service.cpu_used()
                loaded = self.load(base)
                service.require_running("under the load")
            used, memory_bytes = service.cpu_used(), service.memory_bytes()
        work = {"work_cpu_s": used.since(before).total_s} if self.has_load else {}
        figures = {**loaded.figures, **work, HEALTHY_AFTER: healthy_s, MEMORY: float(memory_bytes)}
        return replace(loaded, figures=figures), used

    @contextmanager
    def working(self, start: OwnStart) -> Iterator[Working]:
        """Yield the service once it is warm."""
        with self.network.started(start) as service:
            base, _ = self.healthy(service)
            self.warm(service, base)

            def work() -> int:
                with service.mark_work():
                    return self.load(base).units

            yield Working(service, work)

    @property
    def has_load(self) -> bool:
        return self.workload.user is not None and self.workload.user.load is not None

    def warm(self, service: UserContainer, base: str) -> None:
        """Load it once, untimed, and wait until it has answered what is left over."""
        self.load(base)
        self.healthy(service)

    def load(self, base: str) -> Loaded:
        """Load it; without a load nothing is done."""
        words = self.workload.user.load if self.workload.user else None
        if words is None:
            return Loaded(0.0)
        ran = self.network.put_load([word.replace(URL, base) for word in words], self.workload.deadline_s)
        if not is_wrk(words):
            return Loaded(ran.duration_s)
        done = parse_wrk(ran.stdout)
        if done.problem:
            raise WorkloadError(key="--load", found=done.problem, todo="Correct the service, or the load.")
        latencies = {key: done.latency_s[name] for key, name in PERCENTILES.items() if name in done.latency_s}
        return Loaded(1 / done.per_second, done.requests, latencies)

    def healthy(self, service: UserContainer) -> tuple[str, float]:
        """Wait until it is healthy; return the URL that stands for {url}, and the seconds that it took."""
        user = self.workload.user
        address = user.address if user and user.address else ServiceAddress(port=0)

        def require_running() -> None:
            service.require_running("before it was healthy")

        require_running()
        where = service.address()
        check = HealthCheck(
            address.url(where),
            user.healthy_within_s if user else 0.0,
            lambda url: self.network.ask(url, any_answer=address.any_answer, body=False),
            require_running,
            address.any_answer,
            lambda: last_lines(service.log()),
            "Correct the service, or give it longer (--healthy-within).",
        )
        _, healthy_s = wait_until_healthy(check)
        return address.base(where), healthy_s


def is_wrk(words: Sequence[str]) -> bool:
    """Return whether the command prints what `services.parse_wrk` reads."""
    return PurePosixPath(words[0]).name == WRK if words else False


class UsersService(Kind):
    """The service of a user's image, which each run starts in a container of its own."""

    is_proved = True
    needs_load = True
    phase = COMMAND_PHASE
    memory = "--memory is its limit"

    def words(self, loops: str, take: Repetition | None) -> list[str]:
        return []

    def read(self, stdout: str, *, may_idle: bool = False) -> ProgramOutput | None:
        return None

    def alone(self, track: Track, number: int) -> Result:
        """Run it once; WorkloadError if it does not work."""
        start_s = time.monotonic()
        try:
            loaded, used = _service_of(track).run(_start_of(track))
        except WorkloadError:
            track.session.resources.require_answer()
            raise
        run = service_run(self.workload, self.benchmark, loaded, used)
        busy_s = time.monotonic() - start_s
        return Result(track, OK, NOTHING_RUN, run=run, busy_s=busy_s, cpu_s=used.total_s)

    @contextmanager
    def working(self, track: Track, *, even_silent: bool = False) -> Iterator[Working]:
        with _service_of(track).working(_start_of(track)) as working:
            yield working


def _service_of(track: Track) -> UserService:
    return UserService(track.session.network, track.kind.workload)


def _start_of(track: Track) -> OwnStart:
    return OwnStart(track.cell.subject.image_id or "", track.cell.subject.environment)


def service_run(workload: Workload, benchmark: Benchmark, loaded: Loaded, used: CpuUsed) -> pyperf.Run:
    """Return a pyperf run of a user's own service; time and memory are those of all processes of its container."""
    metadata: dict[str, Any] = {f"interlock_{key}": value for key, value in loaded.figures.items()}
    # Of each run they are as many as were answered: pyperf wants inner loops to be the same in all.
    metadata |= run_metadata(workload, benchmark, loops=loaded.units, inner_loops=1)
    metadata |= {
        "mem_max_rss": int(loaded.figures[MEMORY]),
        "interlock_process_user_s": used.user_s,
        "interlock_process_sys_s": used.sys_s,
    }
    return pyperf.Run([loaded.unit_s], metadata=metadata, collect_metadata=False)
