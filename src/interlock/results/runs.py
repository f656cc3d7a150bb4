"""Runs in pyperf's format: reads values from a file's text, and joins runs. Pure: results.store handles the files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from interlock.catalog.variants import Gil
from interlock.errors import LazyModule
from interlock.results.experiments import BLOCK, ESTIMATOR, GROUP, BenchmarkValues

if TYPE_CHECKING:
    import pyperf

    Runs = Mapping[str, Sequence[pyperf.Run]]
else:
    pyperf = LazyModule("pyperf", "measure")

# pyperf's own reader gives the same values (a test checks it) and takes four times as long.
PYPERF_VERSION = "1.0"
# Prefix of our own keys in metadata.
OWN = "interlock_"
# What every program reports of its timed work, and what claims judge.
OF_EVERY_WORK = "work_sys_s"


def parse_pyperf(text: bytes, reported: Mapping[str, Collection[str]]) -> dict[str, BenchmarkValues]:
    """Return the benchmarks of a cell by name (without the workload's).

    `reported` names further figures to read of each benchmark's processes. Any other file raises ValueError,
    LookupError, TypeError, AttributeError or ArithmeticError.
    """
    suite = from_json(text)
    if suite["version"] != PYPERF_VERSION:
        raise ValueError(f"version {suite['version']!r} of pyperf's format is not {PYPERF_VERSION}")
    if not suite["benchmarks"]:
        raise ValueError("it has no benchmark")
    shared = suite.get("metadata", {})
    return dict(
        _benchmark(benchmark, {**shared, **benchmark.get("metadata", {})}, reported)
        for benchmark in suite["benchmarks"]
    )


def _benchmark(
    benchmark: Mapping[str, Any], shared: Mapping[str, Any], reported: Mapping[str, Collection[str]]
) -> tuple[str, BenchmarkValues]:
    """Return a benchmark's name and values; metadata common to all runs is stored with the benchmark or the suite."""
    runs = [run for run in benchmark["runs"] if run.get("values")]
    figures = [{**shared, **run.get("metadata", {})} for run in runs]
    name = shared["name"].split(" ", 1)[1]
    # A block that was not split has the first group; if none was split there are no groups.
    groups = [data.get(GROUP) for data in figures]
    return name, BenchmarkValues(
        processes=[run["values"] for run in runs],
        user_s=[data["interlock_process_user_s"] for data in figures],
        sys_s=[data["interlock_process_sys_s"] for data in figures],
        reported=_reported(figures, reported.get(name, ())),
        # A text times a number would take as much memory as a stranger's file says.
        units=[index(data["loops"]) * index(data["inner_loops"]) for data in figures],
        blocks=[data[BLOCK] for data in figures],
        groups=[group or 0 for group in groups] if any(group is not None for group in groups) else [],
        estimator=figures[-1][ESTIMATOR],
        max_rss_bytes=max(data["mem_max_rss"] for data in figures),
        gil_after={"true": Gil.ON, "false": Gil.OFF}.get(str(figures[-1].get("interlock_gil_enabled"))),
    )


def _reported(figures: Sequence[Mapping[str, Any]], keys: Collection[str]) -> dict[str, list[float]]:
    """Return figures by key, one for each process; a key that a process did not report is left out."""
    columns: dict[str, list[Any]] = {key: [data.get(f"{OWN}{key}") for data in figures] for key in keys}
    return {key: column for key, column in columns.items() if {int, float}.issuperset(map(type, column))}


def suite_of(runs: Runs) -> pyperf.BenchmarkSuite | None:
    """Return a pyperf suite of the benchmarks that have values; None if none has."""
    benchmarks = [
        pyperf.Benchmark(of_benchmark) for of_benchmark in runs.values() if any(run.values for run in of_benchmark)
    ]
    return pyperf.BenchmarkSuite(benchmarks) if benchmarks else None


def added(before: Runs, more: Runs) -> dict[str, list[pyperf.Run]]:
    """Return the runs of both, by benchmark; a run that both have is added once."""
    both = {name: list(runs_of) for name, runs_of in before.items()}
    for name, runs_of in more.items():
        there = both.setdefault(name, [])
        known = {_identity(run) for run in there}
        there += [run for run in runs_of if _identity(run) not in known]
    return both


def _identity(run: pyperf.Run) -> tuple[object, ...]:
    return tuple(run.values), tuple(map(tuple, run.warmups or ())), run._metadata.get(BLOCK)
