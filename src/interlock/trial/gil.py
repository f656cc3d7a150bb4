"""What the GIL probe and the interpreter's own warnings say of a service's processes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.measure.processes import GIL_SWITCHED_ON
from interlock.results.trials import GilStates


def gil_states(lines: Iterable[str], logs: Iterable[str]) -> GilStates | None:
    """Return what the GIL probe (a line for each process) and the interpreter's logs say; None if they say nothing."""
    # The lines are not trusted: a process of the service may write anything there.
    reports = [words for words in (line.split(None, 3) for line in lines) if len(words) >= 3]
    named = [module for log in logs for module in GIL_SWITCHED_ON.findall(log)]
    off = [words for words in reports if words[1] == "0"]
    back = [words for words in off if words[2] == "1"]
    seen = [words[3].strip() for words in back if len(words) > 3]
    if not reports and not named:
        return None
    return GilStates(
        processes=len(reports),
        off_at_start=len(off),
        came_back=len(back),
        modules=list(dict.fromkeys(named or seen)),
    )


def joined_gil_states(before: GilStates | None, after: GilStates | None) -> GilStates | None:
    """Return the sum of two reports, such as those of the service and of the tests."""
    if before is None or after is None:
        return before or after
    return GilStates(
        processes=before.processes + after.processes,
        off_at_start=before.off_at_start + after.off_at_start,
        came_back=before.came_back + after.came_back,
        modules=list(dict.fromkeys(before.modules + after.modules)),
    )
