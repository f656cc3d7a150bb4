"""A cell's runs as pyperf's file: written, read again, and put together."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.errors import StoreError
from interlock.extras import LazyModule
from interlock.results import store
from interlock.results.experiments import BLOCK

if TYPE_CHECKING:
    import pyperf

    Runs = Mapping[str, Sequence[pyperf.Run]]
else:
    pyperf = LazyModule("pyperf", "measure")


def suite_of(runs: Runs) -> pyperf.BenchmarkSuite | None:
    """Return a pyperf suite of the benchmarks that have values; None if none has."""
    benchmarks = [pyperf.Benchmark(one) for one in runs.values() if any(run.values for run in one)]
    return pyperf.BenchmarkSuite(benchmarks) if benchmarks else None


def write_runs(path: Path, runs: Runs) -> None:
    """Write a cell's file, at once; none if no run has values."""
    suite = suite_of(runs)
    if suite is not None:
        text = io.StringIO()
        suite.dump(text)
        store.write_atomically(path, text.getvalue())


def read_runs(path: Path) -> dict[str, list[pyperf.Run]]:
    """Return the runs of a cell's file by benchmark, as they were added; empty if it has none."""
    if not path.is_file():
        return {}
    try:
        suite = pyperf.BenchmarkSuite.load(str(path))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(file=str(path), found=f"cannot be read: {error}", todo="Begin a new experiment.") from None
    return {one.get_name().split(" ", 1)[1]: one.get_runs() for one in suite}


def added(before: Runs, more: Runs) -> dict[str, list[pyperf.Run]]:
    """Return the runs of both, by benchmark; one that is there already is not added again."""
    found = {name: list(some) for name, some in before.items()}
    for name, some in more.items():
        there = found.setdefault(name, [])
        known = {_identity(run) for run in there}
        there += [run for run in some if _identity(run) not in known]
    return found


def _identity(run: pyperf.Run) -> tuple[object, ...]:
    return tuple(run.values), tuple(map(tuple, run.warmups or ())), run._metadata.get(BLOCK)
