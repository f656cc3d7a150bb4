"""The error of a profiler that does not start, wherever it runs."""

from __future__ import annotations

from interlock.engine.protocol import LEAVE_OUT
from interlock.errors import EngineError, InterlockError, TracerError, last_line

# The profiler's exit code if another program traces already.
EXIT_OTHER_TRACER = 3


def not_ready(limit_s: float) -> EngineError:
    late = f"the profiler was not ready within {limit_s:g} s"
    return EngineError(found=late, todo=f"Stop other programs on this machine, or {LEAVE_OUT}.")


def refusal(said: str, exit_code: int, options: str = "") -> InterlockError:
    """Return the error for a profiler that ended with these words; a TracerError names another tracer."""
    reason = last_line(said).removeprefix("profiler: ")
    if exit_code == EXIT_OTHER_TRACER:
        return TracerError(found=reason, todo=f"Stop it, or {LEAVE_OUT}.")
    return EngineError(found=reason, todo=f"Run `interlock doctor{options}`: it says how to allow it.")
