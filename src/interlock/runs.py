"""What a process printed -> the outcome of its benchmark, and its timings as a pyperf run. Pure."""

from __future__ import annotations

import re
import signal
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyperf

from interlock import bring, instruments
from interlock.engine.cells import MEMORY_BYTES, Ended
from interlock.errors import WorkloadError
from interlock.model import Benchmark, Gil, Outcome, ProcessCost, ProgramOutput, Repetition, State, Workload

OK = Outcome(state=State.OK)
# `python -I` or `-X ...` in a version that lacks the option: the interpreter's own words, exit code 2.
NO_SUCH_OPTION = ("Unknown option", "-X is reserved")
SIGNALLED = 128
# The launcher's words, if the page cache cannot be rid of an interpreter or nobody could tell.
NOT_EVICTED = "launch: cannot evict "
# What a free-threaded CPython says of an extension module without Py_mod_gil (PEP 703), from 3.13 on.
GIL_SWITCHED_ON = re.compile(r"\(GIL\) has been enabled to load module '([^']+)', which has not declared")


def judge(
    workload: Workload, benchmark: Benchmark, ended: Ended, *, may_idle: bool = False
) -> tuple[Outcome, ProgramOutput | None]:
    """The outcome of a process, and what a program printed. Only one that was asked for none may have done no work."""
    if ended.timed_out:
        reason = f"'{benchmark.name}' had not ended after {workload.deadline_of(benchmark):g} s"
        return Outcome(state=State.TIMED_OUT, reason=reason), None
    if ended.out_of_memory:
        reason = f"'{benchmark.name}' had no memory left: a cell has {MEMORY_BYTES / 2**30:g} GiB"
        return Outcome(state=State.FAILED, reason=reason), None
    if ended.exit_code != 0:
        return _judge_exit(workload, benchmark, ended), None
    if benchmark.command is not None:
        return OK, None
    try:
        output = (
            bring.parse(workload, benchmark, ended.stdout)
            if workload.is_brought
            else instruments.parse_program(ended.stdout, workload, may_idle=may_idle)
        )
    except WorkloadError as error:
        return Outcome(state=State.FAILED, reason=str(error)), None
    supported = output.unsupported is None
    return OK if supported else Outcome(state=State.UNSUPPORTED, reason=output.unsupported or ""), output


def _judge_exit(workload: Workload, benchmark: Benchmark, ended: Ended) -> Outcome:
    if workload.is_brought:
        said = [bring.last_words(ended.stdout, ended.stderr)]
    else:
        said = ended.stderr.strip().splitlines() or [f"exit code {ended.exit_code}"]
    if benchmark.command is not None and said[0].startswith(NO_SUCH_OPTION):
        return Outcome(state=State.UNSUPPORTED, reason=said[0])
    if said[-1].startswith(NOT_EVICTED):
        return Outcome(state=State.UNSUPPORTED, reason=f"no cold start: {said[-1].removeprefix('launch: ')}")
    return Outcome(state=State.FAILED, reason=f"'{benchmark.name}' {_how_it_ended(ended.exit_code)}: {said[-1]}")


def _how_it_ended(code: int | None) -> str:
    """The launcher's exit code of a process that a signal has ended is 128 and the signal's number, as a shell's."""
    names = {SIGNALLED + one: one.name for one in signal.Signals}
    return f"was ended by {names[code]}" if code in names else f"ended with exit code {code}"


def judge_set_up(workload: Workload, benchmark: Benchmark, ended: Ended) -> Outcome:
    """Of what is run before a benchmark, once."""
    command = benchmark.model_copy(update={"command": benchmark.set_up})
    outcome, _ = judge(workload, command, ended)
    return outcome if outcome.state is State.OK else outcome.model_copy(update={"reason": f"set-up: {outcome.reason}"})


def as_expected(benchmark: Benchmark, ended: Ended) -> Outcome:
    """Failed, if the output of a command has not all that it must have."""
    missing = [text for text in benchmark.expected if text not in ended.stdout]
    if not missing:
        return OK
    said = instruments.printed(ended.stdout)
    found = f"its last line is {said[-1][:80]!r}" if said else "it printed nothing"
    reason = f"'{benchmark.name}' did not print {missing[0]!r}: {found}"
    return Outcome(state=State.FAILED, reason=reason)


def told_of_all(benchmark: Benchmark, ended: Ended, started: int) -> Outcome:
    """Failed, if the launcher's output lacks a process (or a batch of them): it was cut short on its way."""
    told = len(instruments.parse_costs(ended.stdout))
    if told == started:
        return OK
    reason = f"'{benchmark.name}': its output was cut short: the launcher told of {told} of {started} processes"
    return Outcome(state=State.FAILED, reason=reason)


def gil_outcome(benchmark: Benchmark, declared: Gil | None, output: ProgramOutput | None) -> Outcome:
    """Failed, if a program found the GIL in another state at its start than the variant or its mode declares."""
    at_start = _gil(output, "gil_enabled_at_start")
    if declared is None or at_start in {None, declared}:
        return OK
    reason = f"'{benchmark.name}' started with the GIL {at_start}, but it is declared {declared}"
    return Outcome(state=State.FAILED, reason=reason)


def gil_note(output: ProgramOutput | None, stderr: str) -> str:
    """What a reader must know of a GIL that came back during the work, and by which module; empty if it did not."""
    named = GIL_SWITCHED_ON.search(stderr)
    states = (_gil(output, "gil_enabled_at_start"), _gil(output, "gil_enabled"))
    if named is None and states != (Gil.OFF, Gil.ON):
        return ""
    who = f"module '{named[1]}' switched it on" if named else "switched on by a module that was not named"
    return f"GIL off at start, on after the work: {who}"


def _gil(output: ProgramOutput | None, key: str) -> Gil | None:
    """None of a command, and of an interpreter that has no such question."""
    enabled = output.metadata.get(key) if output else None
    return None if enabled is None else Gil.ON if enabled else Gil.OFF


def command_run(
    workload: Workload, benchmark: Benchmark, costs: list[ProcessCost], take: Repetition, units: int = 1
) -> Any:
    """A pyperf run of a command that does so many units of work: one value per process, the first ones warm-ups."""
    walls = [cost.wall_s / units for cost in costs]
    measured = costs[take.warmups :]
    metadata = _metadata(workload, benchmark, loops=1, inner_loops=units) | _cost_metadata(measured) | _used(measured)
    return pyperf.Run(
        walls[take.warmups :],
        warmups=[(1, wall) for wall in walls[: take.warmups]],
        metadata=metadata,
        collect_metadata=False,
    )


def program_run(workload: Workload, benchmark: Benchmark, output: ProgramOutput, cost: ProcessCost) -> Any:
    """A pyperf run of a program: raw times divided by the units of work, as pyperf stores them."""
    metadata = _metadata(workload, benchmark, output.loops, output.inner_loops) | _cost_metadata([cost])
    metadata |= {f"interlock_{key}": _plain(value) for key, value in output.metadata.items()}
    warmups = [(output.loops, _per_unit(raw, output.loops, output)) for raw in output.warmups]
    if output.calibration:
        metadata["calibrate_loops"] = output.loops
        warmups = [(loops, _per_unit(raw, loops, output)) for loops, raw in output.calibration] + warmups
    values = [_per_unit(raw, output.loops, output) for raw in output.values]
    return pyperf.Run(values, warmups=warmups, metadata=metadata, collect_metadata=False)


def _per_unit(raw_s: float, loops: int, output: ProgramOutput) -> float:
    return raw_s / (loops * output.inner_loops)


def _plain(value: float | str | bool) -> float | str:
    """pyperf's metadata knows no booleans."""
    return str(value).lower() if isinstance(value, bool) else value


def _metadata(workload: Workload, benchmark: Benchmark, loops: int, inner_loops: int) -> dict[str, Any]:
    return {
        "name": f"{workload.name} {benchmark.name}",
        "unit": "second",
        "loops": loops,
        "inner_loops": inner_loops,
    }


def _cost_metadata(costs: Sequence[ProcessCost]) -> dict[str, Any]:
    """Means over the processes of a run; the launcher's figures are of whole processes, start and exit included."""

    def mean(values: Iterable[float]) -> float:
        return sum(values) / len(costs)

    cpu_s = sum(cost.user_s + cost.sys_s for cost in costs)
    resident = [cost.resident_share for cost in costs if cost.resident_share is not None]
    return {
        "mem_max_rss": max(cost.max_rss_bytes for cost in costs),
        **({"interlock_process_kernel_share": sum(cost.sys_s for cost in costs) / cpu_s} if cpu_s else {}),
        **({"interlock_process_resident_share": max(resident)} if resident else {}),
        "interlock_process_wall_s": mean(cost.wall_s for cost in costs),
        "interlock_process_user_s": mean(cost.user_s for cost in costs),
        "interlock_process_sys_s": mean(cost.sys_s for cost in costs),
        "interlock_process_voluntary_switches": mean(cost.voluntary_switches for cost in costs),
        "interlock_process_involuntary_switches": mean(cost.involuntary_switches for cost in costs),
    }


def _used(costs: Sequence[ProcessCost]) -> dict[str, Any]:
    """What all values together took, as a program's own report has it: each value of a command is a whole process."""
    keys = ("user_s", "sys_s", "voluntary_switches", "involuntary_switches")
    return {f"interlock_work_{key}": sum(getattr(cost, key) for cost in costs) for key in keys}


def process_figures(runs: Sequence[Any]) -> list[float]:
    """Seconds per unit of work, one figure for each process that measured: the median of its values."""
    return [statistics.median(run.values) for run in runs if run.values]


def suite_of(runs: Mapping[str, Sequence[Any]]) -> Any:
    """A pyperf suite of the benchmarks that have values, or None."""
    benchmarks = [pyperf.Benchmark(one) for one in runs.values() if any(run.values for run in one)]
    return pyperf.BenchmarkSuite(benchmarks) if benchmarks else None


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The cell's outcome is that of its worst benchmark."""
    rank = [State.OK, State.UNSUPPORTED, State.UNAVAILABLE, State.TIMED_OUT, State.FAILED]
    return max(outcomes, key=lambda outcome: rank.index(outcome.state), default=OK)
