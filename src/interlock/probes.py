"""Which way to count system calls and instructions the engine's machine allows; none is assumed, each is tried."""

from __future__ import annotations

from typing import Any

from interlock.engine import cells
from interlock.engine.client import OWNER_LABEL
from interlock.engine.profiler import counting
from interlock.errors import EngineError
from interlock.instruments import IDLE, LAUNCH, STRACE, STRACE_FUTEX
from interlock.model import Method, Probe

TRIAL_S = 30


def best_probe(client: Any, image_id: str, owner: str) -> Probe:
    """The first method that works, and why each one before it does not; TracerError beside another tracer."""
    refused: dict[Method, str] = {}
    idle = _idle(client, image_id, owner, [])
    try:
        for method in (Method.BPF, Method.TRACEPOINTS):
            try:
                with counting(client, image_id, owner, idle, method):
                    return _probe(client, image_id, owner, method, refused)
            except EngineError as error:
                refused[method] = error.found
        return _probe(client, image_id, owner, _best_strace(client, idle, refused), refused)
    finally:
        cells.remove(idle)


def _idle(client: Any, image_id: str, owner: str, security: list[str]) -> Any:
    return client.containers.run(
        image_id,
        IDLE,
        detach=True,
        network_mode="none",
        security_opt=security,
        labels={OWNER_LABEL: owner},
    )


def _probe(client: Any, image_id: str, owner: str, method: Method, refused: dict[Method, str]) -> Probe:
    return Probe(method=method, refused=refused, no_instructions=_why_no_instructions(client, image_id, owner))


def _best_strace(client: Any, idle: Any, refused: dict[Method, str]) -> Method:
    """By seccomp-bpf strace stops a process at its futex calls alone; where that fails plain strace is left."""
    for method, strace in ((Method.STRACE_FUTEX, STRACE_FUTEX), (Method.STRACE, STRACE)):
        ended = cells.run_process(client, idle, [*strace, LAUNCH, "--", "true"], TRIAL_S)
        if ended.exit_code == 0:
            return method
        refused[method] = _last_line(ended.stderr)
    found = "; ".join(f"{method}: {reason}" for method, reason in refused.items())
    raise EngineError(
        found=f"no way to count system calls works here ({found})",
        todo="Measure without a profile (--no-profile).",
    )


def _why_no_instructions(client: Any, image_id: str, owner: str) -> str:
    """Empty where the processor's counters can be read.

    The engine's default seccomp profile has no perf_event_open: where counters are read, it is off.
    """
    idle = _idle(client, image_id, owner, ["seccomp=unconfined"])
    try:
        ended = cells.run_process(client, idle, [LAUNCH, "--count-instructions", "--", "true"], TRIAL_S)
    finally:
        cells.remove(idle)
    if ended.exit_code == 0:
        return ""
    return f"this machine shows no hardware counters ({_last_line(ended.stderr)})"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
