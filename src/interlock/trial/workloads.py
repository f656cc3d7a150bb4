"""What a trial does with each image, as the workload of an experiment. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from interlock.catalog.services import Probed, ServiceAddress, UserWork
from interlock.catalog.types import slug
from interlock.catalog.workloads import Benchmark, Detail, Metric, Repetition, Workload
from interlock.measure.kinds.users_service import (
    HEALTHY_AFTER,
    LOAD_CPUS,
    MEMORY,
    QUIET_AFTER,
    RATE,
    SERVICE_CPUS,
    STEADY_AFTER,
    UNIT_CPU,
    is_wrk,
)

ONCE, UNKNOWN = Repetition(warmups=0, values=1), Probed()


@dataclass(frozen=True)
class ServicePlace:
    """The CPUs of a service: in the engine's syntax (empty for all), how many, and the name that tells them apart."""

    cpus: str = ""
    count: int = 1
    suffix: str = ""


ANYWHERE = ServicePlace()


@dataclass(frozen=True)
class Checks:
    """What each image must do: be healthy at an address, answer a load, pass tests."""

    address: ServiceAddress | None = None  # None: the service is not started
    load: Sequence[str] | None = None
    test: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    healthy_within_s: float = 60
    deadline_s: float = 600

    @property
    def test_argv(self) -> list[str] | None:
        return None if self.test is None else ["sh", "-c", self.test]


def workload_of(folder: Path, checks: Checks, place: ServicePlace = ANYWHERE, probed: Probed = UNKNOWN) -> Workload:
    """Return the workload: a service's load, or else its start; without a service the command.

    `probed` says how the user's own service is loaded and decided, once that is known.
    """
    benchmark, unit = _benchmark(checks, probed)
    name = slug(folder.resolve().name).lower() or "service"
    return Workload(
        name=f"trial-{name}{place.suffix}",
        summary="A user's own Dockerfile on several variants.",
        kind="command",
        unit=unit,
        deadline_s=checks.deadline_s,
        quick=ONCE,
        full=ONCE,
        benchmarks=[benchmark],
        user=UserWork(
            address=checks.address,
            load=list(checks.load) if checks.load else None,
            healthy_within_s=checks.healthy_within_s,
            cpus=place.cpus,
            probed=probed,
        ),
    )


def _benchmark(checks: Checks, probed: Probed) -> tuple[Benchmark, str]:
    """Return the benchmark and its unit of work; its command distinguishes experiments with other loads."""
    if checks.address is None:
        metric = Metric(label="s per run", scale=1)
        cpu = Detail(label="CPU s per run", of="work_cpu_s", per="unit")
        memory = _memory("process_max_rss_bytes")
        return _of("tests", checks.test_argv or [], metric, [cpu, memory], profiled="run"), "run"
    if checks.load is None:
        metric = Metric(label="s until healthy", scale=1)
        return _of("start", ["GET", checks.address.path], metric, [_memory()], profiled=""), "start"
    is_rate, by_cpu = is_wrk(checks.load), probed.decides == "cpu"
    unit = "request" if is_rate else "load"
    time = Metric(label="requests/s", scale=1, inverse=True) if is_rate else Metric(label="s per load", scale=1)
    cpu_label = f"CPU ms per {unit}"
    rate = Detail(label="requests/s" if is_rate else "loads/s", of=RATE)
    latencies = [
        Detail(label=f"p{percentile} ms", of=f"latency_p{percentile}_s", scale=1e3)
        for percentile in (50, 99)
        if is_rate
    ]
    seconds = {"healthy": HEALTHY_AFTER, "quiet": QUIET_AFTER, "steady": STEADY_AFTER}
    cpus = {"CPUs used": SERVICE_CPUS, "CPUs of the load": LOAD_CPUS}
    details = [
        *([rate] if by_cpu else []),
        *latencies,
        *([] if by_cpu else [Detail(label=cpu_label, of=UNIT_CPU, scale=1e3)]),
        _memory(),
        *(Detail(label=f"{word} after s", of=key) for word, key in seconds.items()),
        *(Detail(label=label, of=key) for label, key in cpus.items()),
    ]
    metric = Metric(label=cpu_label, scale=1e3) if by_cpu else time
    return _of("load-by-cpu" if by_cpu else "load", checks.load, metric, details, profiled=unit), unit


def _memory(key: str = MEMORY) -> Detail:
    return Detail(label="memory MB", of=key, scale=1e-6)


def _of(name: str, command: Sequence[str], metric: Metric, details: list[Detail], *, profiled: str) -> Benchmark:
    calls = Metric(label=f"lock cost per {profiled}", scale=1) if profiled else None
    return Benchmark(name=name, command=list(command), metric=metric, details=details, profile_metric=calls)
