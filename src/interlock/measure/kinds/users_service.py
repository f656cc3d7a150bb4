"""A user's own service: each round starts one of each row, makes it ready, and puts load on them in turns."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from interlock.analysis.trials import BUSY_CPUS, BUSY_SHARE
from interlock.catalog.services import Probed, ServiceAddress, UserWork
from interlock.catalog.workloads import Benchmark, Repetition, Workload
from interlock.engine.ended import last_lines
from interlock.engine.protocol import CpuUsed, LoadRun, Network, OwnStart, UserContainer
from interlock.errors import LazyModule, WorkloadError
from interlock.measure.kinds.kind import COMMAND_PHASE, Kind, Working
from interlock.measure.processes import NOTHING_RUN, OK
from interlock.measure.pyperf_runs import run_metadata
from interlock.measure.services import HealthCheck, duration_of, in_turns, parse_wrk, with_duration
from interlock.measure.tracks import OnStart, Result, Track
from interlock.results.experiments import ProgramOutput

if TYPE_CHECKING:
    import pyperf
else:
    pyperf = LazyModule("pyperf", "measure")

URL = "{url}"
WRK = "wrk"
# Keys of the metadata of a run, and wrk's names of its percentiles.
PERCENTILES = {"latency_p50_s": "50", "latency_p99_s": "99"}
HEALTHY_AFTER, QUIET_AFTER, STEADY_AFTER = "healthy_after_s", "quiet_after_s", "steady_after_s"
MEMORY, RATE, UNIT_CPU = "memory_bytes", "units_per_s", "unit_cpu_s"
SERVICE_CPUS, LOAD_CPUS = "service_cpus", "load_cpus"
# A service is quiet once it uses less of a CPU than this between two looks, or little more than it ever used.
QUIET_CPUS, QUIET_FACTOR, LOOK_S = 0.1, 1.5, 0.25
# It is steady once two slices of load in a row differ by less than this, or by no more than so few requests vary.
STEADY, MOST_SLICES = 0.1, 12
# The least requests of a slice, and the least and most turns of a round: an expensive start has more turns.
SLICE_REQUESTS, LEAST_TURNS, MOST_TURNS, TURNS_SHARE, OTHER_LOADS_S = 50, 3, 10, 0.25, 6.0


@dataclass(frozen=True)
class Loaded:
    """What a load did: units of work, the seconds of one, latencies, and the CPU seconds of service and load."""

    unit_s: float
    units: int
    duration_s: float
    latencies: Mapping[str, float] = field(default_factory=dict)
    service_s: float = 0.0
    load_s: float = 0.0


@dataclass(frozen=True)
class Ready:
    """Seconds until a service was healthy, quiet after that and steady under load after that; None: it never was."""

    healthy_s: float
    quiet_s: float | None = None
    steady_s: float | None = None
    idle_cpus: float = 0.0  # what it used when it was last looked at without load
    last: Sequence[Loaded] = ()  # two slices of load

    @property
    def figures(self) -> dict[str, float]:
        """Return them by key of a run's metadata."""
        known = {HEALTHY_AFTER: self.healthy_s, QUIET_AFTER: self.quiet_s, STEADY_AFTER: self.steady_s}
        return {key: seconds for key, seconds in known.items() if seconds is not None}


@dataclass
class UserService:
    """A user's service that runs, as its workload says; each method raises WorkloadError if it does not work."""

    network: Network
    workload: Workload
    container: UserContainer

    @property
    def user(self) -> UserWork:
        return self.workload.of_user

    @property
    def address(self) -> ServiceAddress:
        return self.user.address or ServiceAddress(port=0)

    def healthy(self) -> float:
        """Wait until it is healthy, and return the seconds that it took."""

        def require_running() -> None:
            self.container.require_running("before it was healthy")

        require_running()
        check = HealthCheck(
            self.address.url(self.container.address()),
            self.user.healthy_within_s,
            lambda url: self.network.ask(url, any_answer=self.address.any_answer, body=False),
            require_running,
            self.address.any_answer,
            lambda: f"; {self._listening()}; {last_lines(self.container.log())}",
            "Correct the service or the port of --http, or give it longer (--healthy-within).",
        )
        return check.wait()[1]

    def _listening(self) -> str:
        """Return where something in its container listens: who gave a wrong port sees the right one."""
        try:
            places = self.container.listening()
        except WorkloadError:  # the image has no `cat`
            return "where it listens cannot be read"
        return f"it listens at {', '.join(places)}" if places else "it listens at no port"

    def ready(self) -> Ready:
        """Wait until it is healthy, quiet without load, and steady under it: others may start behind a healthy one."""
        healthy_s = self.healthy()
        start_s = time.monotonic()
        idle_cpus, is_quiet = self._quiet(start_s + self.user.healthy_within_s)
        quiet_s = time.monotonic() - start_s if is_quiet else None
        start_s, slices = time.monotonic(), [self.load()]
        while len(slices) < 2 or (len(slices) < MOST_SLICES and not are_steady(*slices[-2:])):
            slices.append(self.load())
        steady_s = time.monotonic() - start_s if are_steady(*slices[-2:]) else None
        return Ready(healthy_s, quiet_s, steady_s, idle_cpus, slices[-2:])

    def _quiet(self, limit_s: float) -> tuple[float, bool]:
        """Wait until it is quiet; return how many CPUs it used when it was looked at last, and whether it was."""
        quiet_cpus = max(QUIET_CPUS, QUIET_FACTOR * self.user.probed.idle_cpus)
        quiet_looks, before = 0, self.container.cpu_used()
        while True:
            before_s = time.monotonic()
            time.sleep(LOOK_S)
            now = self.container.cpu_used()
            used, before = now.since(before).total_s / (time.monotonic() - before_s), now
            quiet_looks = quiet_looks + 1 if used < quiet_cpus else 0
            if time.monotonic() > limit_s:
                return used, False
            self.container.require_running("before it was quiet")
            if quiet_looks == 2:
                return used, True

    def load(self) -> Loaded:
        """Put one slice of load on it; the whole load if a slice gets no answer: a machine may stall for a second."""
        words, slice_s = self.user.load or [], self.user.probed.slice_s
        if not is_wrk(words):
            ran, service_s, load_s = self._put(words)
            return Loaded(ran.duration_s, 1, ran.duration_s, {}, service_s, load_s)
        ran, service_s, load_s = self._put(with_duration(words, slice_s) if slice_s else words)
        done = parse_wrk(ran.stdout)
        if slice_s and done.is_silent:
            ran, service_s, load_s = self._put(words)
            done = parse_wrk(ran.stdout)
        if done.problem:
            raise WorkloadError(key="--load", found=done.problem, todo="Correct the service, or the load.")
        latencies = {key: done.latency_s[name] for key, name in PERCENTILES.items() if name in done.latency_s}
        return Loaded(1 / done.per_second, done.requests, ran.duration_s, latencies, service_s, load_s)

    def _put(self, words: Sequence[str]) -> tuple[LoadRun, float, float]:
        """Put a load on it; return how that ended, and the CPU seconds of the service and of the load."""
        base = self.address.base(self.container.address())
        service, loader = self.container.cpu_used(), self.network.load_cpu_used()
        ran = self.network.put_load([word.replace(URL, base) for word in words], self.workload.deadline_s)
        self.container.require_running("under the load")
        service_s = self.container.cpu_used().since(service).total_s
        return ran, service_s, self.network.load_cpu_used().since(loader).total_s


def are_steady(before: Loaded, after: Loaded) -> bool:
    """Return whether two slices of load are alike."""
    scatter = max(STEADY, (2 / min(before.units, after.units)) ** 0.5 if before.units > 1 else 0.0)
    return abs(before.unit_s / after.unit_s - 1) < scatter


def is_wrk(words: Sequence[str]) -> bool:
    """Return whether the command prints what `services.parse_wrk` reads."""
    return PurePosixPath(words[0]).name == WRK if words else False


def probed(user: UserWork, ready: Ready, cpus: int) -> Probed:
    """Return how a service is loaded and decided, as the user's own shows once it is ready; `cpus` are all it has."""
    slice_s, turns, last = None, LEAST_TURNS, ready.last
    taken_s = sum(loaded.duration_s for loaded in last)
    if is_wrk(user.load or []):
        wanted_s = duration_of(user.load or [])
        slice_s = min(max(1, round(SLICE_REQUESTS * last[-1].unit_s + 0.5)), max(1, wanted_s))
        turns = min(max(LEAST_TURNS, round(wanted_s / slice_s)), MOST_TURNS)
    else:
        turns = max(1, min(LEAST_TURNS, round(OTHER_LOADS_S / last[-1].duration_s)))
    # An expensive start is worth more turns.
    start_s = ready.healthy_s + (ready.quiet_s or user.healthy_within_s)
    worth = round(TURNS_SHARE * start_s / (slice_s or last[-1].duration_s))
    used = sum(loaded.service_s for loaded in last) / taken_s
    is_busy = used >= min(BUSY_SHARE * cpus, BUSY_CPUS)
    return Probed(
        slice_s=slice_s,
        turns=max(turns, min(worth, MOST_TURNS)),
        idle_cpus=0.0 if ready.quiet_s is not None else round(ready.idle_cpus, 3),
        decides="time" if is_busy else "cpu",
    )


@dataclass
class Kept:
    """A row's service in a round: kept up while its and the others' are loaded in turns."""

    track: Track
    service: UserService
    ends: ExitStack  # which ends its service
    ready: Ready | None = None
    busy_s: float = 0.0  # what it was at work, and not another row
    slices: list[Loaded] = field(default_factory=list)

    def make_ready(self) -> None:
        """Wait until it is ready; record beside its figures what it never became."""
        with self._at_work():
            self.ready = self.service.ready()
        limits = {
            f"it did not get quiet without load within {self.service.user.healthy_within_s:g} s": self.ready.quiet_s,
            f"it did not settle: after {MOST_SLICES} slices of load the last two still differed": self.ready.steady_s,
        }
        for text in (text for text, seconds in limits.items() if seconds is None):
            self.track.cell.note(text)

    def take(self) -> None:
        """Take a slice of load that counts."""
        with self._at_work():
            self.slices.append(self.service.load())

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        start_s = time.monotonic()
        yield
        self.busy_s += time.monotonic() - start_s

    def result(self) -> Result:
        """Return what it has yielded."""
        container, track = self.service.container, self.track
        figures = {**(self.ready.figures if self.ready else {}), MEMORY: float(container.memory_bytes())}
        used = container.cpu_used()
        run = service_run(track.session.workload, track.benchmark, self.slices, used, figures)
        return Result(track, OK, NOTHING_RUN, run=run, busy_s=self.busy_s, cpu_s=used.total_s)


class UsersService(Kind):
    """The service of a user's image, which each round starts anew: what a start changes averages out over rounds."""

    is_proved = True
    opens_slots = False
    needs_load = True
    phase = COMMAND_PHASE
    memory = "--memory is its limit"

    def words(self, loops: str, take: Repetition | None) -> list[str]:
        return []

    def read(self, stdout: str) -> ProgramOutput | None:
        return None

    def is_in_order(self, track: Track) -> bool:
        return bool(self.workload.of_user.load)

    def block(self, tracks: Sequence[Track], number: int, on_start: OnStart) -> Iterator[Result]:
        rng, user = tracks[0].order(number), self.workload.of_user
        rows = rng.sample(list(tracks), len(tracks))
        # A host name can be that of one service at a time.
        has_name = user.address and user.address.host
        for group in [[track] for track in rows] if has_name else [rows]:
            yield from loaded_in_turns(group, user.probed.turns, rng, on_start)

    def alone(self, track: Track, number: int) -> Result:
        """Start it once, where its start is what is timed; WorkloadError if it does not work."""
        begun_s = time.monotonic()
        with _asked(track), _started(track) as service:
            healthy_s = service.healthy()
            used, figures = service.container.cpu_used(), {MEMORY: float(service.container.memory_bytes())}
        run = service_run(self.workload, self.benchmark, [Loaded(healthy_s, 1, healthy_s)], used, figures)
        busy_s = time.monotonic() - begun_s
        return Result(track, OK, NOTHING_RUN, run=run, busy_s=busy_s, cpu_s=used.total_s)

    @contextmanager
    def working(self, track: Track, *, even_silent: bool = False) -> Iterator[Working]:
        """Yield the service once it is warm."""
        with _started(track) as service:
            service.healthy()
            has_load = self.is_in_order(track)
            if has_load:
                service.load()

            def work() -> int:
                with service.container.mark_work():
                    return service.load().units if has_load else 1

            yield Working(service.container, work)


def loaded_in_turns(tracks: Sequence[Track], turns: int, rng: random.Random, on_start: OnStart) -> Iterator[Result]:
    """Keep the services of these rows up and put slices of load on them in turns; yield what each has shown."""
    with ExitStack() as ends:
        kept: list[Kept] = []
        for track in tracks:
            on_start(track)
            own = ends.enter_context(ExitStack())
            with _working(track, own):
                kept.append(Kept(track, own.enter_context(_started(track)), own))
                kept[-1].make_ready()
        for row in in_turns(kept, turns, rng):
            if row.track.goes_on:
                with _working(row.track, row.ends):
                    row.take()
        results: list[Result] = []
        for row in kept:
            if row.track.goes_on:
                with _working(row.track, row.ends):
                    results.append(row.result())
    yield from results


@contextmanager
def _working(track: Track, own: ExitStack) -> Iterator[None]:
    """Note why a row's service does not work, and end it then: one that spins would disturb the others."""
    with track.failing(), _asked(track):
        yield
    if not track.goes_on:
        own.close()


@contextmanager
def _started(track: Track) -> Iterator[UserService]:
    workload, subject = track.session.workload, track.cell.subject
    start = OwnStart(subject.image_id or "", subject.environment, cpus=workload.of_user.cpus)
    with track.session.network.started(start) as container:
        yield UserService(track.session.network, workload, container)


@contextmanager
def _asked(track: Track) -> Iterator[None]:
    """Ask the engine whether it is there where a service does not work: EngineError if it is gone."""
    try:
        yield
    except WorkloadError:
        track.session.resources.require_answer()
        raise


def service_run(
    workload: Workload, benchmark: Benchmark, slices: Sequence[Loaded], used: CpuUsed, figures: Mapping[str, float]
) -> pyperf.Run:
    """Return a pyperf run of a service: a value for each slice, in seconds, or in CPU seconds, per unit of work.

    CPU time and memory are those of all processes of its container.
    """
    units, duration_s = sum(loaded.units for loaded in slices), sum(loaded.duration_s for loaded in slices)
    service_s, load_s = sum(loaded.service_s for loaded in slices), sum(loaded.load_s for loaded in slices)
    keys = [key for key in PERCENTILES if all(key in loaded.latencies for loaded in slices)]
    further = {key: sum(loaded.latencies[key] for loaded in slices) / len(slices) for key in keys}
    if workload.of_user.load:
        further |= {
            RATE: units / sum(loaded.unit_s * loaded.units for loaded in slices),
            UNIT_CPU: service_s / units,
            SERVICE_CPUS: service_s / duration_s,
            LOAD_CPUS: load_s / duration_s,
        }
    metadata: dict[str, Any] = {f"interlock_{key}": value for key, value in {**figures, **further}.items()}
    metadata |= run_metadata(workload, benchmark, loops=max(1, round(units / len(slices))), inner_loops=1)
    metadata |= {
        "mem_max_rss": int(figures[MEMORY]),
        "interlock_process_user_s": used.user_s,
        "interlock_process_sys_s": used.sys_s,
    }
    by_cpu = workload.of_user.probed.decides == "cpu"
    values = [loaded.service_s / loaded.units if by_cpu else loaded.unit_s for loaded in slices]
    return pyperf.Run(values, metadata=metadata, collect_metadata=False)
