"""What processes printed -> pyperf runs, in seconds per unit of work, as the files hold them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interlock.catalog.workloads import Benchmark, Repetition, Workload
from interlock.errors import LazyModule
from interlock.results.experiments import (
    BLOCK,
    ESTIMATOR,
    GROUP,
    BenchmarkValues,
    Estimator,
    ProcessCost,
    ProgramOutput,
)

if TYPE_CHECKING:
    import pyperf
else:
    pyperf = LazyModule("pyperf", "measure")


# What processes use, and adds up.
USED = ("user_s", "sys_s", "voluntary_switches", "involuntary_switches")


def command_run(
    workload: Workload, benchmark: Benchmark, costs: list[ProcessCost], take: Repetition, units: int = 1
) -> pyperf.Run:
    """Return a pyperf run of a command: one value per process in seconds per unit of work, the first ones warm-ups."""
    walls = [cost.wall_s / units for cost in costs]
    measured = costs[take.warmups :]
    metadata = run_metadata(workload, benchmark, loops=1, inner_loops=units)
    metadata |= _cost_metadata(measured) | _work_metadata(measured)
    return pyperf.Run(
        walls[take.warmups :],
        warmups=[(1, wall) for wall in walls[: take.warmups]],
        metadata=metadata,
        collect_metadata=False,
    )


def program_run(workload: Workload, benchmark: Benchmark, output: ProgramOutput, cost: ProcessCost) -> pyperf.Run:
    """Return a pyperf run of a program: seconds per unit of work, as pyperf stores them."""
    # The program's own words first: none of them replaces a figure that was measured around it.
    metadata = {f"interlock_{key}": _plain(value) for key, value in output.metadata.items()}
    metadata = {key: value for key, value in metadata.items() if key not in {BLOCK, GROUP, ESTIMATOR}}
    metadata |= run_metadata(workload, benchmark, output.loops, output.inner_loops) | _cost_metadata([cost])
    metadata |= _clock_metadata(benchmark, output)
    warmups = [(output.loops, _per_unit(raw, output.loops, output)) for raw in output.warmups]
    if output.calibration:
        if not output.values:
            metadata["calibrate_loops"] = output.loops
        warmups = [(loops, _per_unit(raw, loops, output)) for loops, raw in output.calibration] + warmups
    decisive = output.cpu if benchmark.clock == "cpu" else output.values
    values = [_per_unit(raw, output.loops, output) for raw in decisive]
    return pyperf.Run(values, warmups=warmups, metadata=metadata, collect_metadata=False)


def _clock_metadata(benchmark: Benchmark, output: ProgramOutput) -> dict[str, Any]:
    """Return the seconds of all values by both clocks, and of each value's loops by the other clock, as one text."""
    if not output.values or len(output.cpu) != len(output.values):
        return {}
    other, raw = ("wall", output.values) if benchmark.clock == "cpu" else ("cpu", output.cpu)
    sums = {"interlock_work_wall_s": sum(output.values), "interlock_work_cpu_s": sum(output.cpu)}
    return {**sums, f"interlock_{other}_values_s": " ".join(f"{value:.9f}" for value in raw)}


def _per_unit(raw_s: float, loops: int, output: ProgramOutput) -> float:
    return raw_s / (loops * output.inner_loops)


def _plain(value: float | str | bool) -> float | str:
    """Return the value as pyperf's metadata takes it, which has no booleans."""
    return str(value).lower() if isinstance(value, bool) else value


def run_metadata(workload: Workload, benchmark: Benchmark, loops: int, inner_loops: int) -> dict[str, Any]:
    return {"name": f"{workload.name} {benchmark.name}", "unit": "second", "loops": loops, "inner_loops": inner_loops}


def _cost_metadata(costs: Sequence[ProcessCost]) -> dict[str, Any]:
    """Return means over the processes of a run; the launcher's figures include a process's start and exit."""
    sums = {key: sum(getattr(cost, key) for cost in costs) for key in ("wall_s", *USED)}
    cpu_s = sums["user_s"] + sums["sys_s"]
    resident = [cost.resident_share for cost in costs if cost.resident_share is not None]
    max_rss_bytes = max(cost.max_rss_bytes for cost in costs)
    return {
        "mem_max_rss": max_rss_bytes,
        **({"interlock_process_kernel_share": sums["sys_s"] / cpu_s} if cpu_s else {}),
        **({"interlock_process_resident_share": max(resident)} if resident else {}),
        "interlock_process_max_rss_bytes": max_rss_bytes,
        **{f"interlock_process_{key}": total / len(costs) for key, total in sums.items()},
    }


def _work_metadata(costs: Sequence[ProcessCost]) -> dict[str, Any]:
    """Return sums over all values, as in a program's report: each value of a command is a whole process."""
    sums = {f"interlock_work_{key}": sum(getattr(cost, key) for cost in costs) for key in USED}
    return sums | {"interlock_work_cpu_s": sums["interlock_work_user_s"] + sums["interlock_work_sys_s"]}


def values_of(runs: Sequence[pyperf.Run], estimator: Estimator) -> BenchmarkValues:
    """Return what the files will hold of a benchmark's runs: seconds per unit of work."""
    taken = [run for run in runs if run.values]
    return BenchmarkValues(
        processes=[list(run.values) for run in taken],
        blocks=[run._metadata[BLOCK] for run in taken],
        groups=[run._metadata.get(GROUP, 0) for run in taken] if any(GROUP in run._metadata for run in taken) else [],
        estimator=estimator,
        max_rss_bytes=0,
    )


def estimator_of(benchmark: Benchmark) -> Estimator:
    """Return how the figure of a benchmark's process is found."""
    return Estimator.LOWER_DECILE if benchmark.threads == "one" else Estimator.MEAN


def in_block(run: pyperf.Run, number: int, estimator: Estimator, part: int | None = None) -> pyperf.Run:
    """Return the run with the number of its block, and of its part if it has several, and how its figure is found."""
    run._metadata |= {BLOCK: number, ESTIMATOR: str(estimator)} | ({} if part is None else {GROUP: part})
    return run
