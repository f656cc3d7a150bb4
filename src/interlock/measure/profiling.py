"""Profiles, after all timing of a workload: system calls under the best probe, then the processor's instructions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from interlock.catalog.types import TWIN
from interlock.catalog.workloads import Benchmark
from interlock.engine.protocol import Counting, OwnStart, Sandbox, StackOptions, Workspace
from interlock.errors import EngineError, InterlockError, UnsupportedHereError, WorkloadError, last_line
from interlock.measure import processes, stacks
from interlock.measure.cells import (
    NO_WORK,
    Cell,
    Phase,
    ProgressUpdate,
    Session,
    Start,
    environment_of,
    profiled_argv,
    replace_sandbox,
    run_in,
)
from interlock.measure.instructions import count_instructions
from interlock.measure.processes import LAUNCH, STRACE, STRACE_FUTEX, parse_costs
from interlock.measure.services import NoAnswerError, load_fully, make_ready, running_service
from interlock.measure.stacks import Interpreter
from interlock.measure.user_services import UserService
from interlock.results.experiments import ProgramOutput, State
from interlock.results.profiles import Acquisitions, BenchmarkProfile, CallCounts, LockSites, Method, PhaseCounts, Probe
from interlock.untrusted import parse_json

NO_CALLS = PhaseCounts(total=0, syscalls={})
STRACES = {Method.STRACE: processes.STRACE, Method.STRACE_FUTEX: processes.STRACE_FUTEX}

Counted = tuple[PhaseCounts, ProgramOutput | None]


def profile_pass(session: Session, open_cells: list[Cell], on_profile: Callable[[], None] = lambda: None) -> None:
    """Profile each benchmark that works, and call `on_profile` after each; not the twin, the baseline's image."""
    profiled = [cell for cell in open_cells if cell.subject.mode != TWIN]
    ending = session.resources.ending
    ending.begin_profile()
    for index, cell in enumerate(profiled):
        if ending.stops_profile():
            return
        session.resources.on_progress(
            ProgressUpdate("profile", session.workload.name, cell.subject.label, index, len(profiled))
        )
        for benchmark in session.workload.benchmarks:
            if benchmark.profile_metric and cell.goes_on(benchmark) and benchmark.name not in cell.profiles:
                try:
                    with cell.clock.during(Phase.PROFILING):
                        cell.profiles[benchmark.name] = _profile(session, benchmark, cell)
                    on_profile()
                except (InterlockError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
                    cell.profile_problem = str(error)


def _profile(session: Session, benchmark: Benchmark, cell: Cell) -> BenchmarkProfile:
    probe = session.resources.require_probe()
    if session.workload.is_users_service:
        return _profile_users_service(session, cell, probe)
    if session.workload.load is not None:
        return profile_service(session, benchmark, cell, probe.method)
    if session.workload.user is not None:
        replace_sandbox(session, cell)
    by = _by_phases if probe.method is Method.BPF else _by_difference
    found = by(session, benchmark, cell, probe.method)
    # A counter that fails is no reason to lose the system calls; nor are stacks.
    try:
        found = found.model_copy(update={"instructions": count_instructions(session, benchmark, cell, probe)})
    except InterlockError as error:
        found = found.model_copy(update={"no_instructions": error.found})
    if not (benchmark.why or session.resources.settings.why):
        return found
    try:
        return found.model_copy(update={"why": lock_sites_in(session, benchmark, cell, probe)})
    except InterlockError as error:
        return found.model_copy(update={"no_why": error.found})


def _profile_users_service(session: Session, cell: Cell, probe: Probe) -> BenchmarkProfile:
    """Count the system calls of a user's warm service under its load; its stacks are of a start of its own."""
    service = UserService(session.network, session.workload)
    start = OwnStart(cell.subject.image_id or "", cell.subject.environment)
    require_watching(probe.method)
    with service.working(start) as (container, work):
        found = profile_while(container.count(probe.method), container.mark_work(LAUNCH), work, probe.method)
    found = found.model_copy(update={"no_instructions": NO_INSTRUCTIONS})
    if not session.resources.settings.why:
        return found
    try:
        require_stacks(probe)
        with service.working(start) as (container, work):
            sites = lock_sites_while(Interpreter(container), lambda: container.mark_work(LAUNCH), work)
            return found.model_copy(update={"why": sites})
    except InterlockError as error:
        return found.model_copy(update={"no_why": error.found})


def lock_sites_in(
    session: Session, benchmark: Benchmark, cell: Cell, probe: Probe, *, acquires: bool = False
) -> LockSites:
    """Return where a benchmark's work waits and wakes, from a run of its own; UnsupportedHereError without BPF.

    `acquires` adds where it takes locks, from one more run.
    """
    require_stacks(probe)
    asked = Interpreter(cell.sandbox, cell.subject.options, environment_of(session, cell, benchmark))
    if session.workload.load is not None:
        return _lock_sites_of_service(session, benchmark, cell, asked, acquires=acquires)
    phase = COMMAND_PHASE if benchmark.command is not None else PROGRAM_PHASE

    def watched(options: StackOptions) -> tuple[str, int]:
        text, output = _watched(session, benchmark, cell, probe.method, benchmark.profile_loops, asked=options)
        return text, _units(benchmark, output)

    return _lock_sites(asked, phase, watched, acquires=acquires)


# Of a service that does not answer: how long it is watched while it is asked.
STANDS_STILL_S = 5


def _lock_sites_of_service(
    session: Session, benchmark: Benchmark, cell: Cell, asked: Interpreter, *, acquires: bool
) -> LockSites:
    """Watch a service under full load; one that does not answer while it is asked, to see where it stands still."""
    stands_still = ""
    with running_service(session, benchmark, cell) as service:

        def load() -> int:
            return load_fully(session, service).requests

        def ask() -> int:
            end_s = time.monotonic() + STANDS_STILL_S
            while time.monotonic() < end_s:
                session.network.ask(service.url)
            return 1

        try:
            make_ready(session, benchmark, service)
        except NoAnswerError as error:
            stands_still = error.found
        found = lock_sites_while(
            replace(asked, sandbox=service.sandbox),
            lambda: service.sandbox.mark_work(LAUNCH),
            ask if stands_still else load,
            acquires=acquires,
        )
        return found.model_copy(update={"stands_still": stands_still})


def lock_sites_while(
    asked: Interpreter,
    marked: Callable[[], AbstractContextManager[None]],
    work: Callable[[], int],
    *,
    acquires: bool = False,
) -> LockSites:
    """Return where a container waits and wakes while `work` runs, which returns its units."""

    def watched(options: StackOptions) -> tuple[str, int]:
        return watched_work(asked.sandbox.count(Method.BPF, options), marked(), work)

    return _lock_sites(asked, COMMAND_PHASE, watched, acquires=acquires)


def _lock_sites(
    asked: Interpreter, phase: str, watched: Callable[[StackOptions], tuple[str, int]], *, acquires: bool
) -> LockSites:
    options = asked.frames()
    text, units = watched(options)
    found = lock_sites_from(text, phase, units, asked, options)
    if not acquires:
        return found
    text, units = watched(options.with_acquires())
    return found.model_copy(update={"acquisitions": acquisitions_from(text, phase, units, asked, options)})


def require_stacks(probe: Probe) -> None:
    """Raise UnsupportedHereError unless the probe can take stacks."""
    if probe.method is not Method.BPF:
        reason = probe.refused.get(Method.BPF, "another probe was chosen")
        raise UnsupportedHereError(
            found=f"stacks are taken by BPF, which does not work here: {reason}",
            todo="Run `interlock doctor`: it says how to allow it.",
        )


def lock_sites_from(text: str, phase: str, units: int, asked: Interpreter, options: StackOptions) -> LockSites:
    """Return the lock sites; WorkloadError if events were lost or the sums are not the exact counts."""
    return stacks.lock_sites_of(_json(text), _work(text, phase, units), asked.lines, options.no_frames)


def acquisitions_from(text: str, phase: str, units: int, asked: Interpreter, options: StackOptions) -> Acquisitions:
    """Return the acquires; WorkloadError if events were lost."""
    found = _work(text, phase, units)
    return stacks.acquisitions_of(_json(text), found, asked.lines, ends_seen=not options.switches_threads)


def _work(text: str, phase: str, units: int) -> stacks.Work:
    with stacks.readable():
        return stacks.Work(phase, parse_bpf(text)[phase], units)


def _units(benchmark: Benchmark, output: ProgramOutput | None) -> int:
    return 1 if output is None else benchmark.profile_loops * output.inner_loops


def _by_phases(session: Session, benchmark: Benchmark, cell: Cell, method: Method) -> BenchmarkProfile:
    """Profile one process: the probe itself separates start and warm-up from work."""
    text, output = _watched(session, benchmark, cell, method, benchmark.profile_loops)
    command = benchmark.command is not None
    return profile_by_phases(parse_bpf(text), _units(benchmark, output), command=command)


def _by_difference(session: Session, benchmark: Benchmark, cell: Cell, method: Method) -> BenchmarkProfile:
    """Profile a process with units of work and, for a program, one without, whose calls are subtracted.

    For a command perf also counts how the engine starts the process: the calls of one that does nothing are subtracted.
    """
    count = _traced if method.perturbs else _by_tracepoints
    whole, output = count(session, benchmark, cell, method, benchmark.profile_loops)
    if output is not None:
        setup = count(session, benchmark, cell, method, NO_WORK)[0]
    else:
        setup = NO_CALLS if method.perturbs else _start_alone(session, cell, method)
    return profile_by_difference(method, whole, setup, _units(benchmark, output))


def _by_tracepoints(session: Session, benchmark: Benchmark, cell: Cell, method: Method, loops: int) -> Counted:
    text, output = _watched(session, benchmark, cell, method, loops)
    return parse_tracepoints(text), output


def _start_alone(session: Session, cell: Cell, method: Method) -> PhaseCounts:
    with cell.sandbox.count(method) as profiler:
        cell.sandbox.run([LAUNCH, "--", "true"], session.workload.deadline_s)
        profiler.stop()
    return parse_tracepoints(profiler.text)


def _watched(  # noqa: PLR0913  the last one is for stacks alone
    session: Session,
    benchmark: Benchmark,
    cell: Cell,
    method: Method,
    loops: int,
    *,
    asked: StackOptions | None = None,
) -> tuple[str, ProgramOutput | None]:
    """Return what the profiler printed about one process, and the process's own report."""
    argv = profiled_argv(session, cell, benchmark, loops)
    with cell.sandbox.count(method, asked) as profiler:
        start = Start(argv, cell.subject.environment, may_idle=loops == NO_WORK)
        outcome, output, _ = run_in(session, cell, benchmark, start)
        profiler.stop()
    if outcome.state is not State.OK:
        raise WorkloadError(found=f"while it was profiled: {outcome.reason}", todo="Run `interlock doctor`.")
    return profiler.text, output


def _traced(session: Session, benchmark: Benchmark, cell: Cell, method: Method, loops: int) -> Counted:
    argv = processes.traced_argv(
        STRACES[method], profiled_argv(session, cell, benchmark, loops), cell.subject.environment
    )
    outcome, output, ended = run_in(session, cell, benchmark, Start(argv, {}, may_idle=loops == NO_WORK))
    if outcome.state is not State.OK:
        raise WorkloadError(found=f"under strace: {outcome.reason}", todo="Run `interlock doctor`.")
    return parse_strace(ended.stderr, may_be_none=method is Method.STRACE_FUTEX), output


# The phase of a program that has its units of work; a command is one phase, from its exec to its end.
PROGRAM_PHASE, COMMAND_PHASE = "work", "startup"
# Probes without phases count a whole process, and another one without work.
WHOLE, SETUP = "whole", "setup"


def parse_bpf(text: str) -> dict[str, PhaseCounts]:
    """Parse the phases of the BPF profiler's JSON; WorkloadError if it lost events or its sums disagree."""
    data = _json(text)
    with stacks.readable():
        lost = {what: count for what, count in data["lost"].items() if count}
        phases = {name: PhaseCounts.model_validate(phase) for name, phase in data["phases"].items()}
        has_tasks = data["tasks_counted"]
    if lost:
        found = ", ".join(f"{what} {count}" for what, count in lost.items())
        raise WorkloadError(
            found=f"the profile is not exact, events were lost: {found}", todo="Lower the workload's profile_loops."
        )
    for phase in phases.values():
        check_total(phase)
    if has_tasks:
        return phases
    # A kernel without type information (BTF) cannot count context switches, which is not 0.
    return {name: phase.model_copy(update={"tasks": None}) for name, phase in phases.items()}


def parse_tracepoints(text: str) -> PhaseCounts:
    """Parse the counts of perf's tracepoints: calls by name, including the engine's start of the process."""
    data = _json(text)
    with stacks.readable():
        syscalls = {name: CallCounts(calls=calls) for name, calls in data["syscalls"].items()}
        return check_total(PhaseCounts(total=data["total"], syscalls=syscalls))


def parse_strace(stderr: str, *, may_be_none: bool = False) -> PhaseCounts:
    """Parse the last table of `strace -c -U calls,errors,name`: a program may have printed one before.

    `may_be_none` allows no table, which is what strace prints if none of the calls was made.
    """
    lines = stderr.splitlines()
    starts = [index for index, line in enumerate(lines) if line.split() == ["calls", "errors", "syscall"]]
    if not starts and may_be_none:
        return PhaseCounts(total=0, syscalls={})
    if not starts:
        raise WorkloadError(
            found=f"strace printed no table: {' / '.join(lines[-2:])}",
            todo="Run `interlock doctor`: the container must allow ptrace.",
        )
    rows = [row for line in lines[starts[-1] + 1 :] if len(row := line.split()) in {2, 3} and row[0].isdigit()]
    with stacks.readable():
        # strace counts failed calls, but not by error.
        syscalls = {
            row[-1]: CallCounts(calls=int(row[0]), errors={"any": int(row[1])} if len(row) == 3 else {}) for row in rows
        }
    total = syscalls.pop("total", CallCounts(calls=0))
    return check_total(PhaseCounts(total=total.calls, syscalls=syscalls))


def check_total(phase: PhaseCounts) -> PhaseCounts:
    """Raise WorkloadError unless the calls by name add up to the total, which is counted separately."""
    added = sum(counts.calls for counts in phase.syscalls.values())
    if added != phase.total:
        raise WorkloadError(
            found=f"the calls by name add up to {added}, the probe's own total says {phase.total}",
            todo="Repeat; if it stays, look for another tracer (`ps -e | grep -E 'strace|perf'`).",
        )
    return phase


def profile_by_phases(phases: dict[str, PhaseCounts], units: int, *, command: bool) -> BenchmarkProfile:
    """Return the profile of a probe with phases; WorkloadError if it saw no call of the process."""
    counted = COMMAND_PHASE if command else PROGRAM_PHASE
    if any(name not in phases for name in (COMMAND_PHASE, counted)) or not (
        phases[COMMAND_PHASE].total and phases[counted].ns
    ):
        raise WorkloadError(
            found=f"the profiler saw no call of the process in its phase '{counted}'",
            todo="Run `interlock doctor`; a program must mark its phases, as workloads/protocol.py does.",
        )
    return BenchmarkProfile(method=Method.BPF, perturbed=False, units=units, phases=phases, counted=counted)


def profile_by_difference(method: Method, whole: PhaseCounts, setup: PhaseCounts, units: int) -> BenchmarkProfile:
    """Return the profile of a probe without phases, from a process with units of work and one without."""
    return BenchmarkProfile(
        method=method,
        perturbed=method.perturbs,
        units=units,
        phases={WHOLE: whole, SETUP: setup},
        counted=WHOLE,
        deducted=SETUP,
    )


def _json(text: str) -> Any:
    lines = text.strip().splitlines()
    try:
        return parse_json(lines[-1])
    except (ValueError, IndexError):
        raise stacks.unreadable(lines[-1][:80] if lines else "nothing") from None


COUNTABLE = (Method.BPF, Method.TRACEPOINTS)
NO_INSTRUCTIONS = "instructions are not counted of services: how many requests there will be is not known before"


def profile_service(session: Session, benchmark: Benchmark, cell: Cell, method: Method) -> BenchmarkProfile:
    """Count the system calls of a service per request under full load, once it is warm."""
    require_watching(method)
    with running_service(session, benchmark, cell) as service:
        make_ready(session, benchmark, service)
        found = profile_while(
            service.sandbox.count(method),
            service.sandbox.mark_work(LAUNCH),
            lambda: load_fully(session, service).requests,
            method,
        )
    return found.model_copy(update={"no_instructions": NO_INSTRUCTIONS})


def require_watching(method: Method) -> None:
    """Raise WorkloadError if the probe can only start a process, not watch one that runs."""
    if method not in COUNTABLE:
        raise WorkloadError(
            found=f"the probe {method} cannot watch a service that runs; {' and '.join(COUNTABLE)} can",
            todo="Run `interlock doctor`: it says how to allow them.",
        )


def profile_while(
    counting_calls: AbstractContextManager[Counting],
    marked: AbstractContextManager[None],
    work: Callable[[], int],
    method: Method,
) -> BenchmarkProfile:
    """Return the profile of a container while `work` runs, divided by the units of work that it returns.

    Entering and leaving `marked` marks the beginning and the end of what is counted.
    """
    text, units = watched_work(counting_calls, marked, work)
    if method is Method.BPF:
        return profile_by_phases(parse_bpf(text), units, command=True)
    return profile_by_difference(method, parse_tracepoints(text), NO_CALLS, units)


def watched_work(
    counting_calls: AbstractContextManager[Counting], marked: AbstractContextManager[None], work: Callable[[], int]
) -> tuple[str, int]:
    """Return what the profiler printed about a container while `work` ran, and the units of work."""
    with counting_calls as profiler:
        with marked:
            units = work()
        profiler.stop()
    return profiler.text, units


ATTEMPT = [LAUNCH, "--", "true"]
ATTEMPT_S = 30
# How strace reports that it goes on without seccomp-bpf.
NO_SECCOMP = "seccomp filter is requested but"
FORBIDDEN = ("Permission denied", "Operation not permitted")


def best_probe(workspace: Workspace) -> Probe:
    """Return the first method that works, and why those before it do not; TracerError if another tracer runs."""
    refused: dict[Method, str] = {}
    idle = workspace.open_tools_sandbox()
    try:
        method = _best_method(idle, refused)
    finally:
        idle.close()
    return Probe(method=method, refused=refused, no_instructions=_why_no_instructions(workspace))


def _best_method(idle: Sandbox, refused: dict[Method, str]) -> Method:
    for method in (Method.BPF, Method.TRACEPOINTS):
        try:
            with idle.count(method):
                return method
        except (EngineError, UnsupportedHereError) as error:
            refused[method] = error.found
    return _best_strace(idle, refused)


def _best_strace(idle: Sandbox, refused: dict[Method, str]) -> Method:
    """Return strace with seccomp-bpf, which stops a process at its futex calls only, or plain strace if that fails."""
    for method, strace in ((Method.STRACE_FUTEX, STRACE_FUTEX), (Method.STRACE, STRACE)):
        ended = idle.run([*strace, *ATTEMPT], ATTEMPT_S)
        if ended.exit_code == 0 and NO_SECCOMP not in ended.stderr:
            return method
        refused[method] = last_line(ended.stderr)
    found = "; ".join(f"{method}: {reason}" for method, reason in refused.items())
    raise EngineError(
        found=f"no probe can count system calls here ({found})", todo="Measure without a profile: --no-profile."
    )


def _why_no_instructions(workspace: Workspace) -> str:
    """Return why instructions cannot be counted; empty if they can.

    The engine's default seccomp profile blocks perf_event_open: it is off where counters are read.
    """
    try:
        idle = workspace.open_tools_sandbox(unconfined=True)
    except (EngineError, UnsupportedHereError) as error:
        return error.found
    try:
        ended = idle.run([LAUNCH, "--count-instructions", "--", "true"], ATTEMPT_S)
    except EngineError as error:
        return error.found
    finally:
        idle.close()
    if ended.exit_code == 0:
        # Some virtual machines have a counter that does not count.
        counted = parse_costs(ended.stdout)[-1].instructions
        return "" if counted else "the hardware instruction counter does not work"
    said = last_line(ended.stderr)
    if said.endswith(FORBIDDEN):
        return f"the kernel forbids it: sysctl kernel.perf_event_paranoid must be 2 or less ({said})"
    return f"this machine has no hardware counters ({said})"
