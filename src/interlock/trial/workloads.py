"""What a trial does with each image, and that as the workload of an experiment. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from interlock.catalog.services import ServiceAddress, UserWork
from interlock.catalog.types import slug
from interlock.catalog.workloads import Benchmark, Detail, Metric, Repetition, Workload
from interlock.measure.kinds.users_service import HEALTHY_AFTER, MEMORY, is_wrk

ONCE = Repetition(warmups=0, values=1)


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


def workload_of(folder: Path, checks: Checks) -> Workload:
    """Return the workload: of a service its load, else its start; without one the tests."""
    benchmark, unit = _benchmark(checks)
    return Workload(
        name=f"trial-{slug(folder.resolve().name).lower() or 'service'}",
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
        ),
    )


def _benchmark(checks: Checks) -> tuple[Benchmark, str]:
    """Return the benchmark and its unit of work; its command tells experiments of another load apart."""
    if checks.address is None:
        metric = Metric(label="s per run of the tests", scale=1)
        return _of("tests", checks.test_argv or [], metric, [], profiled="run"), "run"
    if checks.load is None:
        metric = Metric(label="s until healthy", scale=1)
        return _of("start", ["GET", checks.address.path], metric, [_memory()], profiled=""), "start"
    rate = is_wrk(checks.load)
    metric = Metric(label="requests/s", scale=1, inverse=True) if rate else Metric(label="s per load", scale=1)
    unit = "request" if rate else "load"
    latencies = [
        Detail(label=f"p{percentile} ms", of=f"latency_p{percentile}_s", scale=1e3) for percentile in (50, 99) if rate
    ]
    cpu = Detail(label=f"CPU ms per {unit}", of="work_cpu_s", per="unit", scale=1e3)
    details = [*latencies, cpu, _memory(), Detail(label="healthy after s", of=HEALTHY_AFTER)]
    return _of("load", checks.load, metric, details, profiled=unit), unit


def _memory() -> Detail:
    return Detail(label="memory MB", of=MEMORY, scale=1e-6)


def _of(name: str, command: Sequence[str], metric: Metric, details: list[Detail], *, profiled: str) -> Benchmark:
    calls = Metric(label=f"lock cost per {profiled}", scale=1) if profiled else None
    return Benchmark(name=name, command=list(command), metric=metric, details=details, profile_metric=calls)
