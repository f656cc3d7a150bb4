"""Profiles, after all timing of a workload: system calls under the best probe, then the processor's instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from interlock.catalog.types import TWIN
from interlock.engine.protocol import Counting, Sandbox, StackOptions, Workspace
from interlock.errors import EngineError, InterlockError, UnsupportedHereError, WorkloadError, last_line
from interlock.measure import processes, stacks
from interlock.measure.cells import Cell, Session
from interlock.measure.instructions import NO_WORK, count_instructions
from interlock.measure.kinds.kind import COMMAND_PHASE, Working
from interlock.measure.processes import LAUNCH, STRACE, STRACE_FUTEX, parse_costs
from interlock.measure.stacks import Interpreter
from interlock.measure.stopwatch import Phase
from interlock.measure.tracks import Start, Track
from interlock.measure.watching import ProgressUpdate
from interlock.results.experiments import ProgramOutput, State
from interlock.results.profiles import Acquisitions, BenchmarkProfile, CallCounts, LockSites, Method, PhaseCounts, Probe
from interlock.untrusted import parse_json

NO_CALLS = PhaseCounts(total=0, syscalls={})
STRACES = {Method.STRACE: STRACE, Method.STRACE_FUTEX: STRACE_FUTEX}

Counted = tuple[PhaseCounts, ProgramOutput | None]


def profile_cells(session: Session, cells: Sequence[Cell], on_profile: Callable[[], None] = lambda: None) -> None:
    """Profile each benchmark that works, and call `on_profile` after each; not the twin, the baseline's image."""
    profiled = [cell for cell in cells if cell.subject.mode != TWIN]
    ending = session.resources.watching.ending
    ending.begin_profile()
    for index, cell in enumerate(profiled):
        if ending.stops_profile():
            return
        session.resources.watching.on_progress(
            ProgressUpdate("profile", session.workload.name, cell.subject.label, index, len(profiled))
        )
        for track in cell.tracks.values():
            if track.benchmark.profile_metric and track.goes_on and track.profile is None:
                try:
                    with cell.clock.during(Phase.PROFILING):
                        track.profile = profile_of(track, session.resources.require_probe())
                    on_profile()
                except (InterlockError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
                    cell.profile_problem = str(error)


def profile_of(track: Track, probe: Probe) -> BenchmarkProfile:
    """Count the system calls of a track's work; a counter that fails is no reason to lose them, nor are stacks."""
    if track.kind.wants_fresh_slot:
        track.cell.slot().replace()
    working = track.kind.working(track)
    if working is not None:
        profile = _profile_working(working, probe.method)
    else:
        profile = (_by_phases if probe.method is Method.BPF else _by_difference)(track, probe.method)
    try:
        profile = profile.model_copy(update={"instructions": count_instructions(track, probe)})
    except InterlockError as error:
        profile = profile.model_copy(update={"no_instructions": error.found})
    if not (track.benchmark.why or track.session.resources.settings.why):
        return profile
    try:
        return profile.model_copy(update={"why": lock_sites_in(track, probe)})
    except InterlockError as error:
        return profile.model_copy(update={"no_why": error.found})


def lock_sites_in(track: Track, probe: Probe, *, acquires: bool = False) -> LockSites:
    """Return where a benchmark's work waits and wakes, from a run of its own; UnsupportedHereError without BPF.

    `acquires` adds where it takes locks, from one more run.
    """
    require_stacks(probe)
    subject = track.cell.subject
    service = track.kind.working(track, even_silent=True)
    if service is not None:
        with service as working:
            return lock_sites_while(
                Interpreter(working.sandbox, subject.options, track.environment), working, acquires=acquires
            )
    asked = Interpreter(track.cell.slot().sandbox, subject.options, track.environment)

    def watched(options: StackOptions) -> tuple[str, int]:
        text, output = _watched(track, probe.method, track.benchmark.profile_loops, asked=options)
        return text, _units(track, output)

    return _lock_sites(asked, track.kind.phase, watched, acquires=acquires)


def lock_sites_while(asked: Interpreter, working: Working, *, acquires: bool = False) -> LockSites:
    """Return where a service waits and wakes while it works."""

    def watched(options: StackOptions) -> tuple[str, int]:
        return _watched_work(working.sandbox.count(Method.BPF, options), working)

    sites = _lock_sites(asked, COMMAND_PHASE, watched, acquires=acquires)
    return sites.model_copy(update={"stands_still": working.stands_still})


def _lock_sites(
    asked: Interpreter, phase: str, watched: Callable[[StackOptions], tuple[str, int]], *, acquires: bool
) -> LockSites:
    options = asked.frames()
    text, units = watched(options)
    sites = lock_sites_from(text, phase, units, asked, options)
    if not acquires:
        return sites
    text, units = watched(options.with_acquires())
    return sites.model_copy(update={"acquisitions": acquisitions_from(text, phase, units, asked, options)})


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
    work = _work(text, phase, units)
    return stacks.acquisitions_of(_json(text), work, asked.lines, ends_seen=not options.switches_threads)


def _work(text: str, phase: str, units: int) -> stacks.Work:
    with stacks.readable():
        return stacks.Work(phase, parse_bpf(text)[phase], units)


def _units(track: Track, output: ProgramOutput | None) -> int:
    return 1 if output is None else track.benchmark.profile_loops * output.inner_loops


def _by_phases(track: Track, method: Method) -> BenchmarkProfile:
    """Profile one process: the probe itself separates start and warm-up from work."""
    text, output = _watched(track, method, track.benchmark.profile_loops)
    return profile_by_phases(parse_bpf(text), _units(track, output), track.kind.phase)


def _by_difference(track: Track, method: Method) -> BenchmarkProfile:
    """Profile a process with units of work and, for a program, one without, whose calls are subtracted.

    For a command perf also counts how the engine starts the process: the calls of one that does nothing are subtracted.
    """
    count = _traced if method.perturbs else _by_tracepoints
    whole, output = count(track, method, track.benchmark.profile_loops)
    if output is not None:
        setup = count(track, method, NO_WORK)[0]
    else:
        setup = NO_CALLS if method.perturbs else _start_alone(track, method)
    return profile_by_difference(method, whole, setup, _units(track, output))


def _by_tracepoints(track: Track, method: Method, loops: int) -> Counted:
    text, output = _watched(track, method, loops)
    return parse_tracepoints(text), output


def _start_alone(track: Track, method: Method) -> PhaseCounts:
    sandbox = track.cell.slot().sandbox
    with sandbox.count(method) as profiler:
        sandbox.run([LAUNCH, "--", "true"], track.kind.workload.deadline_s)
        profiler.stop()
    return parse_tracepoints(profiler.text)


def _watched(
    track: Track, method: Method, loops: int, *, asked: StackOptions | None = None
) -> tuple[str, ProgramOutput | None]:
    """Return what the profiler printed about one process, and the process's own report."""
    start = Start(track.profiled_argv(loops), track.cell.subject.environment, may_idle=loops == NO_WORK)
    with track.cell.slot().sandbox.count(method, asked) as profiler:
        result = track.run(start)
        profiler.stop()
    if result.outcome.state is not State.OK:
        raise WorkloadError(found=f"while it was profiled: {result.outcome.reason}", todo="Run `interlock doctor`.")
    return profiler.text, result.output


def _traced(track: Track, method: Method, loops: int) -> Counted:
    argv = processes.traced_argv(STRACES[method], track.profiled_argv(loops), track.cell.subject.environment)
    result = track.run(Start(argv, {}, may_idle=loops == NO_WORK))
    if result.outcome.state is not State.OK:
        raise WorkloadError(found=f"under strace: {result.outcome.reason}", todo="Run `interlock doctor`.")
    return parse_strace(result.ended.stderr, may_be_none=method is Method.STRACE_FUTEX), result.output


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


def profile_by_phases(phases: dict[str, PhaseCounts], units: int, counted: str) -> BenchmarkProfile:
    """Return the profile of a probe with phases, of which one is counted; WorkloadError if it saw no call in it."""
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


def _profile_working(service: AbstractContextManager[Working], method: Method) -> BenchmarkProfile:
    """Count the system calls of a service per request under full load, once it is warm."""
    if method not in COUNTABLE:
        raise WorkloadError(
            found=f"the probe {method} cannot watch a service that runs; {' and '.join(COUNTABLE)} can",
            todo="Run `interlock doctor`: it says how to allow them.",
        )
    with service as working:
        text, units = _watched_work(working.sandbox.count(method), working)
    if method is Method.BPF:
        return profile_by_phases(parse_bpf(text), units, COMMAND_PHASE)
    return profile_by_difference(method, parse_tracepoints(text), NO_CALLS, units)


def _watched_work(counting: AbstractContextManager[Counting], working: Working) -> tuple[str, int]:
    """Return what the profiler printed about a sandbox while a service worked in it, and the units of work."""
    with counting as profiler:
        with working.sandbox.mark_work(LAUNCH):
            units = working.work()
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
