"""Rounds that interleave the variants in random order, until the intervals are narrow; and what disturbed them."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Mapping, Sequence

from interlock import stability
from interlock.model import Benchmark
from interlock.runs import process_figures
from interlock.stage import Cell, Stage, Step
from interlock.statistics import TRIMMED, narrow, ratio_of
from interlock.visits import Spent, visit

# Of a process's cell; neighbours that share a core make it 1.3 to 1.8.
SLOW = 1.2
# So many of them a warning names: where the machine was unsteady, it is nearly all.
NAMED = 5


def watched_rounds(stage: Stage, open_cells: list[Cell], spent: Spent) -> tuple[list[list[str]], list[str]]:
    """The order of each round, and what disturbed them, the workload named."""
    before = None if stability.engine_is_elsewhere() else stability.sample()
    start_s = time.monotonic()
    order = _rounds(stage, open_cells, spent)
    spent.wall_s = time.monotonic() - start_s
    found = []
    if before is not None:
        used = [container for cell in open_cells for container in cell.containers]
        used += [container for container in (stage.server, stage.loader) if container is not None]
        found = stability.disturbances(before, stability.sample(), [one.id for one in used], spent.cpu_s)
    for benchmark in stage.workload.benchmarks:
        found += unsteady(benchmark.name, _figures(open_cells, benchmark))
    return order, [f"{stage.workload.name}: {sentence}" for sentence in found]


def _figures(open_cells: list[Cell], benchmark: Benchmark) -> dict[str, list[float]]:
    """By label, one for each process, of the cells that still go on in this benchmark."""
    return {
        cell.subject.label: process_figures(cell.runs.get(benchmark.name, []))
        for cell in open_cells
        if cell.goes_on(benchmark)
    }


def unsteady(benchmark: str, figures: Mapping[str, Sequence[float]]) -> list[str]:
    """A warning of the cells with more slow processes than trimming takes out of their rounds, by name if few."""
    disturbed = [label for label, one in figures.items() if one and _slow(one) > TRIMMED * len(one)]
    if not disturbed:
        return []
    return [
        f"in '{benchmark}' more processes than trimming takes out were {SLOW:g} times as slow as their cell's median "
        f"({len(disturbed)} of {len(figures)} cells: {_named(disturbed)}): a neighbour that no counter shows, or "
        "unsteady work; repeat at another time, or with more rounds."
    ]


def _named(labels: Sequence[str]) -> str:
    more = len(labels) - NAMED
    return ", ".join(labels[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _slow(figures: Sequence[float]) -> int:
    return sum(figure > SLOW * statistics.median(figures) for figure in figures)


def _rounds(stage: Stage, open_cells: list[Cell], spent: Spent) -> list[list[str]]:
    """Round 0 calibrates; every round visits all cells in a random order of its own, from the recorded seed.

    The seed alone decides a round's order, whatever number of rounds the intervals ask for.
    """
    stand, workload = stage.stand, stage.workload
    rng = random.Random(f"{stand.settings.seed}/{workload.name}")  # noqa: S311  an order, not a secret
    least = stand.settings.rounds
    limit = _limit(stage)
    total = (limit + 1) * len(workload.benchmarks) * len(open_cells)
    order = []
    done = 0
    unsettled = workload.benchmarks
    for number in range(limit + 1):
        if number > least:
            unsettled = [benchmark for benchmark in unsettled if not _settled(stage, open_cells, benchmark)]
        if not unsettled:
            break
        visited = rng.sample(open_cells, len(open_cells))
        order.append([cell.subject.label for cell in visited])
        title = f"round {number} of {least}" + (f" to {limit}" if limit > least else "")
        # One benchmark after the other: what is compared runs as close together in time as it can.
        for benchmark, cell in itertools.product(unsettled, visited):
            stand.on_step(Step(title, workload.name, cell.subject.label, done, total))
            done += 1
            if cell.goes_on(benchmark):
                visit(stage, benchmark, cell, spent, calibrate=number == 0)
    return order


def _limit(stage: Stage) -> int:
    """The experiment's, unless the workload has a lower one; exactly as many rounds as were asked for without one."""
    settings = stage.stand.settings
    if settings.rounds_limit is None:
        return settings.rounds
    return max(settings.rounds, min(settings.rounds_limit, stage.take().rounds_limit or settings.rounds_limit))


def _settled(stage: Stage, open_cells: list[Cell], benchmark: Benchmark) -> bool:
    """Whether the rounds so far are enough for all that still goes on; what timed out or failed is not waited for."""
    settings = stage.stand.settings
    if settings.half_width is None:
        return False
    figures = _figures([cell for cell in open_cells if cell.limit is None], benchmark)
    return settled(figures, settings.baseline, settings.half_width)


def settled(figures: Mapping[str, Sequence[float]], baseline: str, half_width: float) -> bool:
    """Whether every ratio to the baseline has an interval of this half width (a share of it) or less.

    Figures are by label, one for each round. Without the baseline there is no ratio to wait for.
    """
    if baseline not in figures:
        return True
    ratios = [ratio_of(figures[label], figures[baseline]) for label in figures if label != baseline]
    return all(ratio is not None and narrow(ratio, half_width) for ratio in ratios)
