"""Reads files of pyperf's format that Interlock wrote: values by benchmark. Pure.

pyperf's own reader gives the same values (a test holds it) and takes four times as long: docs/decisions/0016.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from interlock.catalog.variants import Gil
from interlock.results.experiments import BenchmarkValues

VERSION = "1.0"
# Prefix of our own keys in metadata.
OWN = "interlock_"


def parse(text: bytes, reported: Mapping[str, Collection[str]]) -> dict[str, BenchmarkValues]:
    """Return the benchmarks of a cell by name (without the workload's).

    `reported` names further figures to read of each benchmark's processes. Any other file raises ValueError, KeyError,
    TypeError, AttributeError or IndexError.
    """
    suite = from_json(text)
    if suite["version"] != VERSION:
        raise ValueError(f"version {suite['version']!r} of pyperf's format is not {VERSION}")
    if not suite["benchmarks"]:
        raise ValueError("it has no benchmark")
    shared = suite.get("metadata", {})
    return dict(_benchmark(one, {**shared, **one.get("metadata", {})}, reported) for one in suite["benchmarks"])


def _benchmark(
    benchmark: Mapping[str, Any], shared: Mapping[str, Any], reported: Mapping[str, Collection[str]]
) -> tuple[str, BenchmarkValues]:
    """Return a benchmark's name and values; metadata that all runs share is stored with the benchmark or the suite."""
    runs = [run for run in benchmark["runs"] if run.get("values")]
    figures = [run.get("metadata", shared) for run in runs]
    name = shared["name"].split(" ", 1)[1]
    loops, inner_loops = (_column(figures, shared, key) for key in ("loops", "inner_loops"))
    gil = figures[-1].get("interlock_gil_enabled", shared.get("interlock_gil_enabled"))
    return name, BenchmarkValues(
        processes=[run["values"] for run in runs],
        user_s=_column(figures, shared, "interlock_process_user_s"),
        sys_s=_column(figures, shared, "interlock_process_sys_s"),
        reported=_reported(figures, shared, reported.get(name, ())),
        units=[one * other for one, other in zip(loops, inner_loops, strict=True)],
        max_rss_bytes=max(_column(figures, shared, "mem_max_rss")),
        gil_after={"true": Gil.ON, "false": Gil.OFF}.get(str(gil)),
    )


def _column(figures: Sequence[Mapping[str, Any]], shared: Mapping[str, Any], key: str) -> list[Any]:
    """Return one figure of each run."""
    if key in shared:
        return [data.get(key, shared[key]) for data in figures]
    return [data[key] for data in figures]


def _reported(
    figures: Sequence[Mapping[str, Any]], shared: Mapping[str, Any], keys: Collection[str]
) -> dict[str, list[float]]:
    """Return figures by key, one for each process; a key that a process did not report is left out."""
    found = {}
    for key in keys:
        own = f"{OWN}{key}"
        column = [data.get(own, shared.get(own)) for data in figures]
        if {int, float}.issuperset(map(type, column)):
            found[key] = column
    return found
