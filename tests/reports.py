"""Experiments for tests of reports: a small one with something of every kind, and committed ones, whole or in part."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import Any

from rich.console import Console, RenderableType

from interlock.analysis import comparison
from interlock.analysis.comparison import Table
from interlock.catalog import project as catalogs
from interlock.catalog.types import split_label
from interlock.catalog.workloads import Metric
from interlock.report.opening import Opening, opening_of
from interlock.results import store
from interlock.results.experiments import BenchmarkValues, Experiment, Outcome, Profiles, State, Values
from interlock.results.profiles import BenchmarkProfile, CallCounts, FutexCounts, PhaseCounts
from tests.builders import (
    ROOT,
    make_benchmark,
    make_built,
    make_cell,
    make_experiment,
    make_settings,
    make_values,
    make_workload,
)

# What a report is made of: the experiment and its tables.
ReportInput = tuple[Experiment, list[Table]]
AnsweredInput = tuple[Experiment, list[Table], Opening]
VARIANTS = ["cpython-3.13", "cpython-2.7-pth", "cpython-3.14", "cpython-2.7-nothreads", "nogil-3.9"]
CANNOT = Outcome(state=State.UNSUPPORTED, reason="cannot start <b>threads</b> & so on</script>")
MISSING = Outcome(state=State.UNAVAILABLE, reason="example.org: no such host")
PROFILED = Metric(label="futex per 1M locks", scale=1e6)
ROUNDS = [1, 0.99, 1, 1.01, 1, 1.005, 0.995, 1]


def printed(shown: RenderableType, width: int = 160, *, crop: bool = True) -> str:
    """What a terminal of this width shows, without colours."""
    stream = io.StringIO()
    Console(file=stream, width=width).print(shown, crop=crop)
    return stream.getvalue()


def _values(seconds: float, turn: int = 0, rss: int = 10_000_000) -> BenchmarkValues:
    """Eight rounds around a time; those of another turn meet them in another order."""
    return make_values(*([seconds * factor] for factor in ROUNDS[turn:] + ROUNDS[:turn]), rss=rss)


def waiting_profile(**changes: Any) -> BenchmarkProfile:
    """Of 1,000 units of work with 500 futex calls, 20 of which failed, in two bins of waits; 100 reads; 4 to start."""
    work = PhaseCounts(
        total=600,
        syscalls={
            "futex": CallCounts(calls=500, errors={"EAGAIN": 20}, ns=5_000_000, max_ns=2_000_000),
            "read": CallCounts(calls=100, ns=1_000_000, max_ns=9_000),
        },
        futex={"wait": FutexCounts(calls=40, ns=4_000_000, max_ns=2_000_000, errors=20, woke_nobody=0)},
    )
    start = PhaseCounts(total=4, syscalls={"mmap": CallCounts(calls=4)})
    data = {"method": "bpf", "units": 1000, "counted": "work"}
    return BenchmarkProfile.model_validate({**data, "phases": {"startup": start, "work": work}, **changes})


@cache
def example() -> ReportInput:
    """Two benchmarks: slower, faster and equal variants, one that cannot run the first, one without an image."""
    workload = make_workload(
        benchmarks=[make_benchmark(name, profile_metric=PROFILED) for name in ("uncontended", "queue")]
    )
    cannot = {"uncontended": CANNOT, "queue": Outcome(state=State.OK)}
    experiment = make_experiment(
        VARIANTS,
        workloads={"locks": workload},
        images=[*map(make_built, VARIANTS[:4]), make_built(VARIANTS[4], MISSING)],
        controls={"cpython-2.7-pth": "cpython-3.14"},
        cells=[
            *map(make_cell, VARIANTS[:3]),
            make_cell(VARIANTS[3], outcome=CANNOT, benchmarks=cannot),
            make_cell(VARIANTS[4], outcome=MISSING),
            make_cell(VARIANTS[0], mode="twin"),
        ],
        warnings=[
            "startup: a short one.",
            f"startup: {', '.join(f'variant-{number}' for number in range(40))} (a, b, c).",
        ],
    )
    factors = {"cpython-3.13": 1.0, "cpython-3.13+twin": 1.002, "cpython-2.7-pth": 7.5, "cpython-3.14": 0.7}
    values: dict[tuple[str, str], dict[str, BenchmarkValues]] = {
        (label, "locks"): {
            "uncontended": _values(1e-7 * factor, turn),
            "queue": _values(1e-5, turn, rss=round(12e6 * factor)),
        }
        for turn, (label, factor) in enumerate(factors.items())
    }
    values["cpython-2.7-nothreads", "locks"] = {"queue": _values(1.001e-5, turn=5)}
    profiles = {("cpython-2.7-pth", "locks"): {"uncontended": waiting_profile()}}
    return experiment, comparison.tables(experiment, values, profiles)


@cache
def many_columns() -> ReportInput:
    """Three variants on 18 benchmarks."""
    names = [f"benchmark-{number}" for number in range(18)]
    variants = VARIANTS[:3]
    workload = make_workload(benchmarks=[make_benchmark(name) for name in names])
    experiment = make_experiment(variants, workloads={"locks": workload})
    values = {
        (label, "locks"): {name: _values(1e-7, (turn + column) % 8) for column, name in enumerate(names)}
        for turn, label in enumerate([*variants, f"{variants[0]}+twin"])
    }
    return experiment, comparison.tables(experiment, values, {})


@cache
def scaled(variants: int = 3, cores: int = 2) -> ReportInput:
    """As a report reads it."""
    experiment, values = scaling(variants, cores)
    return experiment, comparison.tables(experiment, values, {})


def scaling(variants: int = 3, cores: int = 2) -> tuple[Experiment, Values]:
    """1 to 8 workers that compute: the first variant's get in each other's way, the others' less so; with a limit."""
    labels = [f"cpython-3.{13 + number}" for number in range(variants)]
    counts = (1, 2, 4, 8)
    workload = make_workload(
        "threads",
        unit="task",
        details=[{"label": "switches per task", "of": "work_voluntary_switches", "per": "unit"}],
        limits=[
            {"name": name, "command": ["true"], "benchmarks": ["pure-{workers}"], "unit_count": 1}
            for name in ("better", "worse")
        ],
        benchmarks=[
            {
                "name": "pure-{workers}",
                "workers": list(counts),
                "metric": {"label": "tasks/s", "scale": 1, "inverse": True},
            }
        ],
    )
    limits = {"limit+better": 400.0, "limit+worse": 300.0}
    experiment = make_experiment(
        labels,
        workloads={"threads": workload},
        settings=make_settings(labels, workloads=["threads"]),
        host={**make_experiment().host, "cores": cores},
        cells=[make_cell(label, "threads") for label in labels] + [make_cell(labels[0], "threads", mode="twin")],
        limits=[make_cell("limit", "threads", mode=label.removeprefix("limit+")) for label in limits],
    )
    rates = {label: _usl(100.0, 1.1 / (1 + number)) for number, label in enumerate(labels)}
    rates |= {f"{labels[0]}+twin": rates[labels[0]]}
    rates |= {label: dict.fromkeys(counts, rate) for label, rate in limits.items()}
    values = {
        (label, "threads"): {f"pure-{count}": _reporting(1 / rate[count], turn + count) for count in counts}
        for turn, (label, rate) in enumerate(rates.items())
    }
    return experiment, values


def _usl(rate: float, contention: float, coherence: float = 0.01) -> dict[int, float]:
    return {n: rate * n / (1 + contention * (n - 1) + coherence * n * (n - 1)) for n in (1, 2, 4, 8)}


def _reporting(seconds: float, turn: int) -> BenchmarkValues:
    """Eight processes of one value of 50 units, the switches of each its number."""
    reported = {"work_voluntary_switches": [50.0 * (1 + number) for number in range(8)]}
    return _values(seconds, turn % 8).model_copy(update={"units": [50] * 8, "reported": reported})


@cache
def read(name: str) -> tuple[Experiment, Values, Profiles]:
    """A committed experiment by its name."""
    folder = ROOT / "results/reference" / name
    experiment = store.read_experiment(folder)
    return (experiment, *store.read_cells(folder, experiment))


@cache
def reference(name: str, only: Sequence[str] | None = None) -> ReportInput:
    """A committed experiment, whole or as if `only` these variants and modes had been measured."""
    experiment, values, profiles = read(name)
    if only is not None:
        variants = {split_label(label)[0] for label in only}
        cells = [cell for cell in experiment.cells if cell.label in only or cell.mode == "twin"]
        images = [image for image in experiment.images if image.variant in variants]
        experiment = experiment.model_copy(update={"cells": cells, "images": images})
    return experiment, comparison.tables(experiment, values, profiles)


@cache
def answered(name: str) -> AnsweredInput:
    """A committed experiment with the beginning of its report."""
    experiment, tables = reference(name)
    return experiment, tables, opening_of(experiment, read(name)[1], catalogs.load(ROOT), tables)


FIVE = ("cpython-3.13", "cpython-3.13t", "cpython-3.14", "cpython-3.14t", "cpython-2.7")
