"""How the engine's machine can count system calls and instructions: each way is tried, none is assumed."""

from __future__ import annotations

from interlock.engine.protocol import Sandbox, Workspace
from interlock.errors import EngineError, UnsupportedHereError
from interlock.measure.processes import LAUNCH, STRACE, STRACE_FUTEX, parse_costs
from interlock.results.profiles import Method, Probe

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
        refused[method] = _last_line(ended.stderr)
    found = "; ".join(f"{method}: {reason}" for method, reason in refused.items())
    raise EngineError(
        found=f"no probe can count system calls here ({found})",
        todo="Measure without a profile: --no-profile.",
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
        return "" if counted else "the machine's counter of instructions does not count"
    last_line = _last_line(ended.stderr)
    if last_line.endswith(FORBIDDEN):
        return f"the kernel forbids it: sysctl kernel.perf_event_paranoid must be 2 or less ({last_line})"
    return f"this machine has no hardware counters ({last_line})"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
