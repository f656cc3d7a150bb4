"""The passes after all timing of a workload: system calls under a probe, then instructions by the processor."""

from __future__ import annotations

import statistics

from interlock import instruments, profile, service_profile
from interlock.engine import cells
from interlock.engine.profiler import counting
from interlock.errors import InterlockError, WorkloadError
from interlock.model import (
    TWIN,
    Benchmark,
    BenchmarkProfile,
    Instructions,
    Method,
    PhaseCounts,
    ProgramOutput,
    State,
    Subject,
    Surroundings,
)
from interlock.stage import Cell, Stage, Start, Step, interpreter_argv, open_container, run_in

NO_WORK = 0
NOTHING = PhaseCounts(total=0, syscalls={})
COUNTER_RUNS = 3
# Strings hash alike in every process: with another order of a dict's items an interpreter does other work.
FIXED_HASHES = {"PYTHONHASHSEED": "0"}
STRACES = {Method.STRACE: instruments.STRACE, Method.STRACE_FUTEX: instruments.STRACE_FUTEX}

Counted = tuple[PhaseCounts, ProgramOutput | None]


def profile_pass(stage: Stage, open_cells: list[Cell]) -> None:
    """Each benchmark that works, once more. The twin is the baseline's image: once is enough."""
    profiled = [cell for cell in open_cells if cell.subject.mode != TWIN]
    for index, cell in enumerate(profiled):
        stage.stand.on_step(Step("profile", stage.workload.name, cell.subject.label, index, len(profiled)))
        for benchmark in stage.workload.benchmarks:
            if benchmark.profile_metric and cell.goes_on(benchmark):
                try:
                    cell.profiles[benchmark.name] = _profile(stage, benchmark, cell)
                except InterlockError as error:
                    cell.profile_problem = str(error)


def _profile(stage: Stage, benchmark: Benchmark, cell: Cell) -> BenchmarkProfile:
    probe = stage.stand.probe
    if probe is None:
        raise WorkloadError(found="no probe was chosen", todo="Run without --no-profile.")
    if stage.workload.load is not None:
        return service_profile.counted(stage, benchmark, cell, probe.method)
    by = _by_phases if probe.method is Method.BPF else _by_difference
    found = by(stage, benchmark, cell, probe.method)
    if probe.no_instructions:
        return found.model_copy(update={"no_instructions": probe.no_instructions})
    # What the counter lacks is no reason to lose the system calls.
    try:
        return found.model_copy(update={"instructions": _instructions(stage, benchmark, cell, found.units)})
    except InterlockError as error:
        return found.model_copy(update={"no_instructions": str(error)})


def _units(benchmark: Benchmark, output: ProgramOutput | None) -> int:
    return 1 if output is None else benchmark.profile_loops * output.inner_loops


def _by_phases(stage: Stage, benchmark: Benchmark, cell: Cell, method: Method) -> BenchmarkProfile:
    """One process: the probe itself tells its start and warm-up from its work."""
    text, output = _watched(stage, benchmark, cell, method, benchmark.profile_loops)
    command = benchmark.command is not None
    return profile.by_phases(profile.parse_bpf(text), _units(benchmark, output), command=command)


def _by_difference(stage: Stage, benchmark: Benchmark, cell: Cell, method: Method) -> BenchmarkProfile:
    """With units of work and, for a program, once more without, to tell the set-up from the work.

    Of a command perf counts the engine's start of the process as well: that of one which does nothing is taken off.
    """
    count = _traced if method.perturbs else _by_tracepoints
    whole, output = count(stage, benchmark, cell, method, benchmark.profile_loops)
    if output is not None:
        setup = count(stage, benchmark, cell, method, NO_WORK)[0]
    else:
        setup = NOTHING if method.perturbs else _start_alone(stage, cell, method)
    return profile.by_difference(method, whole, setup, _units(benchmark, output))


def _by_tracepoints(stage: Stage, benchmark: Benchmark, cell: Cell, method: Method, loops: int) -> Counted:
    text, output = _watched(stage, benchmark, cell, method, loops)
    return profile.parse_tracepoints(text), output


def _start_alone(stage: Stage, cell: Cell, method: Method) -> PhaseCounts:
    stand = stage.stand
    with counting(stand.client, stand.instruments_image_id, stand.experiment, cell.container, method) as profiler:
        cells.run_process(stand.client, cell.container, [instruments.LAUNCH, "--", "true"], stage.workload.deadline_s)
        profiler.stop()
    return profile.parse_tracepoints(profiler.text)


def _watched(
    stage: Stage, benchmark: Benchmark, cell: Cell, method: Method, loops: int
) -> tuple[str, ProgramOutput | None]:
    """What the profiler printed of one process, and what the process reported."""
    stand = stage.stand
    argv = _argv(stage, benchmark, cell, loops)
    with counting(stand.client, stand.instruments_image_id, stand.experiment, cell.container, method) as profiler:
        start = Start(argv, cell.subject.environment, may_idle=loops == NO_WORK)
        outcome, output, _ = run_in(stage, cell, benchmark, start)
        profiler.stop()
    if outcome.state is not State.OK:
        raise WorkloadError(found=f"while it was profiled: {outcome.reason}", todo="See `interlock doctor`.")
    return profiler.text, output


def _traced(stage: Stage, benchmark: Benchmark, cell: Cell, method: Method, loops: int) -> Counted:
    argv = instruments.traced_argv(STRACES[method], _argv(stage, benchmark, cell, loops), cell.subject.environment)
    outcome, output, ended = run_in(stage, cell, benchmark, Start(argv, {}, may_idle=loops == NO_WORK))
    if outcome.state is not State.OK:
        raise WorkloadError(found=f"under strace: {outcome.reason}", todo="See `interlock doctor`.")
    return profile.parse_strace(ended.stderr, may_be_none=method is Method.STRACE_FUTEX), output


def _argv(stage: Stage, benchmark: Benchmark, cell: Cell, loops: int) -> list[str]:
    return interpreter_argv(stage, cell, benchmark, str(loops), None) + benchmark.profile_arguments


def _instructions(stage: Stage, benchmark: Benchmark, cell: Cell, units: int) -> Instructions:
    """Instructions in user mode per unit of work, a program's set-up taken off.

    In a container without a seccomp profile, because the engine's default one blocks perf_event_open.
    """
    unconfined = cell.subject.model_copy(update={"surroundings": _without_seccomp(cell.subject)})
    counter = Cell(unconfined, open_container(stage, unconfined))
    try:
        runs = [_count(stage, benchmark, counter) / units for _ in range(COUNTER_RUNS)]
    finally:
        stage.stand.running.remove(counter.container)
    median = statistics.median(runs)
    if min(runs) <= 0:
        raise WorkloadError(found="the counter shows no instructions for the work", todo="See `interlock doctor`.")
    return Instructions(per_unit=median, spread=(max(runs) - min(runs)) / 2 / median, runs=COUNTER_RUNS)


def _without_seccomp(subject: Subject) -> Surroundings:
    return subject.surroundings.model_copy(update={"seccomp": "unconfined"})


def _count(stage: Stage, benchmark: Benchmark, cell: Cell) -> int:
    def counted(loops: int) -> int:
        environment = {**FIXED_HASHES, **cell.subject.environment}
        argv = _argv(stage, benchmark, cell, loops)
        start = Start(argv, environment, may_idle=loops == NO_WORK, count_instructions=True)
        outcome, _, ended = run_in(stage, cell, benchmark, start)
        if outcome.state is not State.OK:
            raise WorkloadError(found=f"while counting: {outcome.reason}", todo="See `interlock doctor`.")
        return instruments.parse_costs(ended.stdout)[-1].instructions or 0

    return counted(benchmark.profile_loops) - (0 if benchmark.command is not None else counted(NO_WORK))
