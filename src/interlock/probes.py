"""Which way to count system calls and instructions the engine's machine allows; none is assumed, each is tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docker.errors import DockerException

from interlock.engine import cells
from interlock.engine.cells import CellOptions
from interlock.engine.client import OWNER_LABEL
from interlock.engine.profiler import counting
from interlock.engine.running import OnHost
from interlock.errors import EngineError
from interlock.instruments import IDLE, LAUNCH, STRACE, STRACE_FUTEX, parse_costs
from interlock.model import Method, Probe

TRIAL = [LAUNCH, "--", "true"]
TRIAL_S = 30
# strace says so and goes on without.
NO_SECCOMP = "seccomp filter is requested but"
FORBIDDEN = ("Permission denied", "Operation not permitted")


def best_probe(client: Any, image_id: str, owner: str) -> Probe:
    """The first method that works, and why each one before it does not; TracerError beside another tracer."""
    refused: dict[Method, str] = {}
    idle = _idle(client, image_id, owner, [])
    try:
        method = _best_method(client, image_id, owner, idle, refused)
    finally:
        cells.remove(idle)
    return Probe(method=method, refused=refused, no_instructions=_why_no_instructions(client, image_id, owner))


def _best_method(client: Any, image_id: str, owner: str, idle: Any, refused: dict[Method, str]) -> Method:
    for method in (Method.BPF, Method.TRACEPOINTS):
        try:
            with counting(client, image_id, owner, idle, method):
                return method
        except EngineError as error:
            refused[method] = error.found
    return _best_strace(lambda argv: cells.run_process(client, idle, argv, TRIAL_S), refused)


def _idle(client: Any, image_id: str, owner: str, security: list[str]) -> Any:
    try:
        idle = client.containers.create(
            image_id, IDLE, network_mode="none", security_opt=security, labels={OWNER_LABEL: owner}
        )
        idle.start()
    except DockerException as error:
        raise EngineError(found=f"the engine cannot start a container: {error}", todo="See its log.") from None
    return idle


def best_probe_here(on_host: OnHost) -> Probe:
    """Without containers: strace, whose report reaches us beside the program's own; the rest wants a container."""
    why = "the profiler runs in a container"
    refused = dict.fromkeys((Method.BPF, Method.TRACEPOINTS), why)
    idle = on_host.open("", CellOptions("", [], "", None))
    try:
        method = _best_strace(lambda argv: on_host.run(idle, argv, TRIAL_S, {}), refused)
    finally:
        on_host.remove(idle)
    return Probe(method=method, refused=refused, no_instructions="they are counted in containers alone")


def _best_strace(run: Callable[[list[str]], cells.Ended], refused: dict[Method, str]) -> Method:
    """By seccomp-bpf strace stops a process at its futex calls alone; where that fails plain strace is left."""
    for method, strace in ((Method.STRACE_FUTEX, STRACE_FUTEX), (Method.STRACE, STRACE)):
        ended = run([*strace, *TRIAL])
        if ended.exit_code == 0 and NO_SECCOMP not in ended.stderr:
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
    try:
        idle = _idle(client, image_id, owner, ["seccomp=unconfined"])
    except EngineError as error:
        return error.found
    try:
        ended = cells.run_process(client, idle, [LAUNCH, "--count-instructions", "--", "true"], TRIAL_S)
    except EngineError as error:
        return error.found
    finally:
        cells.remove(idle)
    if ended.exit_code == 0:
        # Some virtual machines have a counter that stands still.
        counted = parse_costs(ended.stdout)[-1].instructions
        return "" if counted else "the machine's counter of instructions stands still"
    said = _last_line(ended.stderr)
    if said.endswith(FORBIDDEN):
        return f"the kernel forbids it: sysctl kernel.perf_event_paranoid must be 2 or less ({said})"
    return f"this machine shows no hardware counters ({said})"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
