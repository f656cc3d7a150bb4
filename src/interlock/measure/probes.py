"""Which probe this machine allows for system calls: found out by trying."""

from __future__ import annotations

from contextlib import closing

from interlock.engine.agent import LAUNCH
from interlock.engine.protocol import Workspace
from interlock.errors import EngineError, UnsupportedHereError, last_line
from interlock.measure.processes import STRACE
from interlock.results.profiles import Method, Probe

ATTEMPT = [LAUNCH, "--", "true"]
ATTEMPT_S = 30


def best_probe(workspace: Workspace) -> Probe:
    """Return BPF, or strace and why BPF does not work; TracerError if another tracer runs, EngineError without both."""
    with closing(workspace.open_tools_sandbox()) as idle:
        try:
            with idle.count():
                return Probe(method=Method.BPF)
        except (EngineError, UnsupportedHereError) as error:
            refused = error.found
        ended = idle.run([*STRACE, *ATTEMPT], ATTEMPT_S)
    if ended.ok:
        return Probe(method=Method.STRACE_FUTEX, refused={Method.BPF: refused})
    raise EngineError(
        found=f"no probe can count system calls here (bpf: {refused}; strace: {last_line(ended.stderr)})",
        todo="Measure without a profile: --no-profile.",
    )
