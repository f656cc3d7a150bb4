"""Processes in cells: their command lines, and what they print -> outcomes and pyperf runs. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from interlock.catalog.types import DISK, MOUNT, PREFIX, SCRATCH, Data
from interlock.catalog.variants import Gil
from interlock.catalog.workloads import Benchmark, Limit, Repetition, Workload
from interlock.engine.agent import MOST_OUTPUT_BYTES
from interlock.engine.protocol import MEMORY_BYTES, Ended
from interlock.errors import LazyModule, WorkloadError
from interlock.measure import adapters
from interlock.results.experiments import (
    BLOCK,
    ESTIMATOR,
    GROUP,
    BenchmarkValues,
    Estimator,
    Outcome,
    ProcessCost,
    ProgramOutput,
    State,
)

if TYPE_CHECKING:
    import pyperf

    from interlock.measure.user_services import UserServiceRun
else:
    pyperf = LazyModule("pyperf", "measure")

LAUNCH = f"{MOUNT}/launch"
# How each line of the launcher begins.
PROCESS_LINE = '{"interlock_process"'
WORKLOADS = f"{MOUNT}/workloads"
# strace travels with its own loader and libraries, so that it runs in any image.
STRACE = [
    f"{MOUNT}/strace/ld.so", "--library-path", f"{MOUNT}/strace", f"{MOUNT}/strace/strace",
    "-f", "-c", "-U", "calls,errors,name",
]  # fmt: skip
STRACE_FUTEX = [*STRACE, "--seccomp-bpf", "-e", "trace=futex"]


def interpreter_argv(
    workload: Workload, benchmark: Benchmark, known: Mapping[str, str], loops: str, take: Repetition | None
) -> list[str]:
    """Return the interpreter's command line: the benchmark's command, or the program with the protocol's options.

    `take` is None for a process that takes no values (calibration, profile): it runs the loops once, without warm-up.
    `known` are the values of placeholders in arguments.
    """
    if workload.is_adapted:
        return adapters.argv(workload, benchmark, loops, take)
    if benchmark.command is not None:
        command = [_filled_in(word, known) for word in benchmark.command]
        return command if workload.kind == "command" else ["python", *command]
    arguments = [_filled_in(argument, known) for argument in benchmark.arguments]
    warmups, values = (take.warmups, take.values) if take else (0, 0 if loops == "auto" else 1)
    return [
        "python", f"{WORKLOADS}/{workload.program_of(benchmark)}", *arguments,
        "--loops", loops, "--warmups", str(warmups), "--values", str(values),
    ]  # fmt: skip


def placeholders(server: str | None = None, packages: str = "") -> dict[str, str]:
    """Return the values of the placeholders in arguments, which only a cell knows."""
    return {
        "{server}": server or "",
        "{scratch}": SCRATCH,
        "{disk}": DISK,
        "{packages}": packages,
        "{workloads}": WORKLOADS,
    }


def set_up_argv(benchmark: Benchmark, values: Mapping[str, str]) -> list[str]:
    """Return the interpreter's command line of a benchmark's set-up."""
    return ["python", *(_filled_in(word, values) for word in benchmark.set_up)]


def limit_argv(limit: Limit, server: str | None) -> list[str]:
    """Return the command line of a limit; placeholders may be parts of its words."""
    values = {"{server}": server or "", "{scratch}": SCRATCH, "{disk}": DISK}
    return [_filled_in(word, values) for word in limit.command]


def _filled_in(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


def with_options(argv: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the interpreter's command line with a mode's options, which must come before its arguments.

    A command line that does not start with the interpreter is returned unchanged.
    """
    program, *arguments = argv
    return [program, *options, *arguments] if program == "python" else list(argv)


def takes_options(workload: Workload, benchmark: Benchmark) -> bool:
    """Return whether a benchmark's command line starts with the interpreter, so that a mode's options reach it."""
    return workload.kind != "command" or (benchmark.command or [""])[0] == "python"


def traced_argv(strace: Sequence[str], argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command line under strace, with the environment for the interpreter only.

    With LD_PRELOAD in strace's own environment its loader would load the library into strace.
    """
    settings = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]
    return [*strace, *settings, *argv]


def launch_argv(  # noqa: PLR0913  each is an option of the launcher
    argv: list[str],
    benchmark: Benchmark,
    repeat: int = 1,
    *,
    parallel: int = 1,
    count: bool = False,
    keep_output: bool = False,
) -> list[str]:
    """Return the command line under the launcher; with `count` it counts instructions."""
    counting = ["--count-instructions"] if count else []
    options = launch_options(benchmark, parallel, keep_output=keep_output)
    return [LAUNCH, "--repeat", str(repeat), *options, *counting, "--", *argv]


def launch_options(benchmark: Benchmark, parallel: int = 1, *, keep_output: bool = False) -> list[str]:
    """Return the launcher's options for a benchmark.

    A command's output is discarded unless `keep_output`: reading it would be part of its time.
    """
    at_once = ["--parallel", str(parallel)] if parallel > 1 else []
    pin = ["--cpu", "last"] if benchmark.cpus == "one" else []
    evicted = ["--evict", PREFIX] if benchmark.cold else []
    discard = ["--discard-stdout"] if benchmark.command is not None and not keep_output else []
    return [*at_once, *pin, *evicted, *discard]


def parse_costs(stdout: str) -> list[ProcessCost]:
    """Return what the launcher read of each process: wall and CPU time in seconds, memory, context switches."""
    found = (_parse_cost(line) for line in _lines(stdout) if line.startswith(PROCESS_LINE))
    return [cost for cost in found if cost is not None]


class _CostLine(Data):
    interlock_process: ProcessCost


def _parse_cost(line: str) -> ProcessCost | None:
    """Return what a line of the launcher says; None for one that a program has printed in its place."""
    try:
        return _CostLine.model_validate_json(line).interlock_process
    except ValidationError:
        return None


def printed_lines(stdout: str) -> list[str]:
    """Return the lines that are not the launcher's."""
    return [line for line in _lines(stdout) if line and not line.startswith(PROCESS_LINE)]


def _lines(stdout: str) -> list[str]:
    """Split into lines, also where the launcher's line follows output without a newline."""
    return stdout.replace(PROCESS_LINE, f"\n{PROCESS_LINE}").splitlines()


def parse_program(stdout: str, workload: Workload, *, may_idle: bool = False) -> ProgramOutput:
    """Parse the protocol's line of a workload program; WorkloadError shows what was printed instead.

    `may_idle` allows a report of no loops: the run without work that is subtracted from a profile.
    """
    lines = printed_lines(stdout)
    last = lines[-1] if lines else ""
    try:
        output = ProgramOutput.model_validate_json(last)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        detail = f"its key '{key}': {problem['msg']}" if key else problem["msg"]
        raise _no_protocol_line(workload, last, detail) from None
    if output.loops == 0 and output.unsupported is None and not may_idle:
        raise _no_protocol_line(workload, last, "its key 'loops': no work was done")
    return output


def _no_protocol_line(workload: Workload, last: str, detail: str) -> WorkloadError:
    return WorkloadError(
        file=workload.file,
        key="program",
        found=f"{workload.program} printed no protocol line: its last line is {last[:80]!r} ({detail})",
        todo="Print a line as docs/workloads.md shows it, as the last one; workloads/protocol.py does.",
    )


OK = Outcome(state=State.OK)
# How an interpreter reports an option (-I, -X ...) that its version lacks; its exit code is 2.
NO_SUCH_OPTION = ("Unknown option", "-X is reserved")
SIGNALLED = 128
# How the launcher reports that it cannot drop an interpreter from the page cache, or cannot prove that it did.
NOT_EVICTED = "launch: cannot evict "
# How a free-threaded CPython from 3.13 on reports an extension module without Py_mod_gil (PEP 703).
GIL_SWITCHED_ON = re.compile(r"\(GIL\) has been enabled to load module '([^']+)', which has not declared")


def judge_process(
    workload: Workload, benchmark: Benchmark, ended: Ended, *, may_idle: bool = False, deadline_s: float | None = None
) -> tuple[Outcome, ProgramOutput | None]:
    """Return the outcome of a process and a program's report; with `may_idle` the program may have done no work.

    `deadline_s`: what it had instead of the benchmark's deadline.
    """
    if ended.took_sandbox:
        return _judge_kill(workload, benchmark, ended, deadline_s or workload.deadline_of(benchmark)), None
    if ended.exit_code != 0:
        return _judge_exit(workload, benchmark, ended), None
    if benchmark.command is not None:
        return OK, None
    try:
        output = (
            adapters.parse(workload, benchmark, ended.stdout)
            if workload.is_adapted
            else parse_program(ended.stdout, workload, may_idle=may_idle)
        )
    except WorkloadError as error:
        return Outcome(state=State.FAILED, reason=str(error)), None
    supported = output.unsupported is None
    return OK if supported else Outcome(state=State.UNSUPPORTED, reason=output.unsupported or ""), output


def _judge_kill(workload: Workload, benchmark: Benchmark, ended: Ended, deadline_s: float) -> Outcome:
    if ended.timed_out:
        reason = f"'{benchmark.name}' did not end within {deadline_s:g} s"
        return Outcome(state=State.TIMED_OUT, reason=reason)
    what = f"printed more than {MOST_OUTPUT_BYTES // 2**20} MiB"
    if ended.out_of_memory:
        limit = f"a cell has {MEMORY_BYTES / 2**30:g} GiB" if workload.user is None else "--memory is its limit"
        what = f"ran out of memory: {limit}"
    return Outcome(state=State.FAILED, reason=f"'{benchmark.name}' {what}")


def _judge_exit(workload: Workload, benchmark: Benchmark, ended: Ended) -> Outcome:
    if workload.is_adapted:
        lines = [adapters.failure_line(ended.stdout, ended.stderr)]
    else:
        lines = ended.stderr.strip().splitlines() or [f"exit code {ended.exit_code}"]
    if benchmark.command is not None and lines[0].startswith(NO_SUCH_OPTION):
        return Outcome(state=State.UNSUPPORTED, reason=lines[0])
    if lines[-1].startswith(NOT_EVICTED):
        return Outcome(state=State.UNSUPPORTED, reason=f"no cold start: {lines[-1].removeprefix('launch: ')}")
    return Outcome(state=State.FAILED, reason=f"'{benchmark.name}' {_how_it_ended(ended.exit_code)}: {lines[-1]}")


def _how_it_ended(code: int | None) -> str:
    """Return words for an exit code; as a shell's, the launcher's is 128 plus the number of the signal."""
    names = {SIGNALLED + one: one.name for one in signal.Signals}
    return f"was ended by {names[code]}" if code in names else f"ended with exit code {code}"


def judge_set_up(workload: Workload, benchmark: Benchmark, ended: Ended, *, deadline_s: float | None = None) -> Outcome:
    """Return the outcome of a benchmark's set-up, which may have had another deadline, as in `judge_process`."""
    command = benchmark.model_copy(update={"command": benchmark.set_up})
    outcome, _ = judge_process(workload, command, ended, deadline_s=deadline_s)
    return outcome if outcome.state is State.OK else outcome.model_copy(update={"reason": f"set-up: {outcome.reason}"})


def output_outcome(benchmark: Benchmark, ended: Ended) -> Outcome:
    """Return failed if the output of a command lacks an expected text."""
    missing = [text for text in benchmark.expected if text not in ended.stdout]
    if not missing:
        return OK
    lines = printed_lines(ended.stdout)
    found = f"its last line is {lines[-1][:80]!r}" if lines else "it printed nothing"
    reason = f"'{benchmark.name}' did not print {missing[0]!r}: {found}"
    return Outcome(state=State.FAILED, reason=reason)


def all_reported(benchmark: Benchmark, ended: Ended, started: int) -> Outcome:
    """Return failed if the launcher's output lacks a process (or a batch): it was cut short on its way."""
    reported = len(parse_costs(ended.stdout))
    if reported == started:
        return OK
    reason = f"'{benchmark.name}': its output was cut short: the launcher reported {reported} of {started} processes"
    return Outcome(state=State.FAILED, reason=reason)


def gil_outcome(benchmark: Benchmark, declared: Gil | None, output: ProgramOutput | None) -> Outcome:
    """Return failed if a program started with the GIL in another state than its variant or mode declares."""
    at_start = _gil(output, "gil_enabled_at_start")
    if declared is None or at_start in {None, declared}:
        return OK
    reason = f"'{benchmark.name}' started with the GIL {at_start}, but it is declared {declared}"
    return Outcome(state=State.FAILED, reason=reason)


def gil_note(output: ProgramOutput | None, stderr: str) -> str:
    """Return a note about a GIL that came back during the work, with the module; empty if it did not."""
    named = GIL_SWITCHED_ON.search(stderr)
    states = (_gil(output, "gil_enabled_at_start"), _gil(output, "gil_enabled"))
    if named is None and states != (Gil.OFF, Gil.ON):
        return ""
    who = f"module '{named[1][:100]}' switched it on" if named else "switched on by a module that was not named"
    return f"GIL off at start, on after the work: {who}"


def _gil(output: ProgramOutput | None, key: str) -> Gil | None:
    """Return the GIL's state from a report; None for a command and for interpreters that cannot tell."""
    enabled = output.metadata.get(key) if output else None
    return None if enabled is None else Gil.ON if enabled else Gil.OFF


def command_run(
    workload: Workload, benchmark: Benchmark, costs: list[ProcessCost], take: Repetition, units: int = 1
) -> pyperf.Run:
    """Return a pyperf run of a command: one value per process in seconds per unit of work, the first ones warm-ups."""
    walls = [cost.wall_s / units for cost in costs]
    measured = costs[take.warmups :]
    metadata = (
        _metadata(workload, benchmark, loops=1, inner_loops=units) | _cost_metadata(measured) | _work_metadata(measured)
    )
    return pyperf.Run(
        walls[take.warmups :],
        warmups=[(1, wall) for wall in walls[: take.warmups]],
        metadata=metadata,
        collect_metadata=False,
    )


def service_run(workload: Workload, benchmark: Benchmark, ran: UserServiceRun) -> pyperf.Run:
    """Return a pyperf run of a user's own service; time and memory are those of all processes of its container."""
    loaded, used = ran.loaded, ran.used
    metadata = {f"interlock_{key}": value for key, value in ran.figures.items()}
    # Of each run they are as many as were answered: pyperf wants inner loops to be the same in all.
    metadata |= _metadata(workload, benchmark, loops=loaded.units, inner_loops=1)
    metadata |= {
        "mem_max_rss": ran.memory_bytes,
        "interlock_process_user_s": used.user_s,
        "interlock_process_sys_s": used.sys_s,
    }
    return pyperf.Run([loaded.unit_s], metadata=metadata, collect_metadata=False)


def program_run(workload: Workload, benchmark: Benchmark, output: ProgramOutput, cost: ProcessCost) -> pyperf.Run:
    """Return a pyperf run of a program: seconds per unit of work, as pyperf stores them."""
    # The program's own words first: none of them replaces a figure that was measured around it.
    metadata = {f"interlock_{key}": _plain(value) for key, value in output.metadata.items()}
    metadata = {key: value for key, value in metadata.items() if key not in {BLOCK, GROUP, ESTIMATOR}}
    metadata |= _metadata(workload, benchmark, output.loops, output.inner_loops) | _cost_metadata([cost])
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
    """Return what all values took by the other clock too, in seconds; each value by it, of loops, as one text."""
    if not output.values or len(output.cpu) != len(output.values):
        return {}
    other, raw = ("wall", output.values) if benchmark.clock == "cpu" else ("cpu", output.cpu)
    sums = {"interlock_work_wall_s": sum(output.values), "interlock_work_cpu_s": sum(output.cpu)}
    return {**sums, f"interlock_{other}_values_s": " ".join(f"{one:.9f}" for one in raw)}


def _per_unit(raw_s: float, loops: int, output: ProgramOutput) -> float:
    return raw_s / (loops * output.inner_loops)


def _plain(value: float | str | bool) -> float | str:
    """Return the value as pyperf's metadata takes it, which has no booleans."""
    return str(value).lower() if isinstance(value, bool) else value


def _metadata(workload: Workload, benchmark: Benchmark, loops: int, inner_loops: int) -> dict[str, Any]:
    return {"name": f"{workload.name} {benchmark.name}", "unit": "second", "loops": loops, "inner_loops": inner_loops}


def _cost_metadata(costs: Sequence[ProcessCost]) -> dict[str, Any]:
    """Return means over the processes of a run; the launcher's figures include a process's start and exit."""

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


def _work_metadata(costs: Sequence[ProcessCost]) -> dict[str, Any]:
    """Return sums over all values, as in a program's report: each value of a command is a whole process."""
    keys = ("user_s", "sys_s", "voluntary_switches", "involuntary_switches")
    return {f"interlock_work_{key}": sum(getattr(cost, key) for cost in costs) for key in keys}


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


def in_block(run: pyperf.Run, number: int, estimator: Estimator, group: int | None = None) -> pyperf.Run:
    """Return the run with the number of its block, and of its group if there are some, and how its figure is found."""
    run._metadata |= {BLOCK: number, ESTIMATOR: str(estimator)} | ({} if group is None else {GROUP: group})
    return run


def worst_outcome(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst outcome of a cell's benchmarks, which is the cell's."""
    rank = [State.OK, State.UNSUPPORTED, State.UNAVAILABLE, State.NOT_MEASURED, State.TIMED_OUT, State.FAILED]
    return max(outcomes, key=lambda outcome: rank.index(outcome.state), default=OK)
