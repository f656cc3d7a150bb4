"""Which probe this machine allows for system calls: found out by trying."""

from __future__ import annotations

from interlock.engine.agent import LAUNCH
from interlock.engine.protocol import Sandbox, Workspace
from interlock.errors import EngineError, UnsupportedHereError, last_line
from interlock.measure.processes import STRACE
from interlock.results.profiles import Method, Probe

ATTEMPT = [LAUNCH, "--", "true"]
ATTEMPT_S = 30


def best_probe(workspace: Workspace) -> Probe:
    """Return BPF, or strace and why BPF does not work; TracerError if another tracer runs, EngineError without both."""
    refused: dict[Method, str] = {}
    idle = workspace.open_tools_sandbox()
    try:
        method = _best_method(idle, refused)
    finally:
        idle.close()
    return Probe(method=method, refused=refused)


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
