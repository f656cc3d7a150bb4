"""Which probe this machine allows for system calls, and whether it counts instructions: found out by trying."""

from __future__ import annotations

from interlock.engine.agent import LAUNCH
from interlock.engine.protocol import Sandbox, Workspace
from interlock.errors import EngineError, UnsupportedHereError, last_line
from interlock.measure.processes import STRACE, parse_costs
from interlock.results.profiles import Method, Probe

ATTEMPT = [LAUNCH, "--", "true"]
ATTEMPT_S = 30
FORBIDDEN = ("Permission denied", "Operation not permitted")


def best_probe(workspace: Workspace) -> Probe:
    """Return BPF, or strace and why BPF does not work; TracerError if another tracer runs, EngineError without both."""
    refused: dict[Method, str] = {}
    idle = workspace.open_tools_sandbox()
    try:
        method = _best_method(idle, refused)
    finally:
        idle.close()
    return Probe(method=method, refused=refused, no_instructions=_why_no_instructions(workspace))


def _best_method(idle: Sandbox, refused: dict[Method, str]) -> Method:
    try:
        with idle.count():
            return Method.BPF
    except (EngineError, UnsupportedHereError) as error:
        refused[Method.BPF] = error.found
    ended = idle.run([*STRACE, *ATTEMPT], ATTEMPT_S)
    if ended.ok:
        return Method.STRACE_FUTEX
    raise EngineError(
        found=f"no probe can count system calls here (bpf: {refused[Method.BPF]}; strace: {last_line(ended.stderr)})",
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
    if ended.ok:
        # Some virtual machines have a counter that does not count.
        counted = parse_costs(ended.stdout)[-1].instructions
        return "" if counted else "the hardware instruction counter does not work"
    said = last_line(ended.stderr)
    if said.endswith(FORBIDDEN):
        return f"the kernel forbids it: sysctl kernel.perf_event_paranoid must be 2 or less ({said})"
    return f"this machine has no hardware counters ({said})"
