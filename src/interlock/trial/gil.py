"""What a service's processes and its log say of the GIL. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from interlock.model import Candidate, Gil, GilWitness
from interlock.runs import GIL_SWITCHED_ON


def switchers(log: str) -> list[str]:
    """The modules that a log names as having switched the GIL on, each once."""
    return list(dict.fromkeys(GIL_SWITCHED_ON.findall(log)))


def heard(lines: Iterable[str], logs: Iterable[str]) -> GilWitness | None:
    """What inside/gil_witness.py wrote, a line for each process, and the interpreter said; None if nobody did."""
    said = [line.split(None, 3) for line in lines if line.strip()]
    named = [module for log in logs for module in switchers(log)]
    off = [words for words in said if words[1] == "0"]
    back = [words for words in off if words[2] == "1"]
    seen = [words[3].strip() for words in back if len(words) > 3]
    if not said and not named:
        return None
    return GilWitness(
        processes=len(said),
        off_at_start=len(off),
        came_back=len(back),
        modules=list(dict.fromkeys(named or seen)),
    )


def joined(before: GilWitness | None, after: GilWitness | None) -> GilWitness | None:
    """Both together: of the service and of the tests, or of several rounds."""
    if before is None or after is None:
        return before or after
    return GilWitness(
        processes=before.processes + after.processes,
        off_at_start=before.off_at_start + after.off_at_start,
        came_back=before.came_back + after.came_back,
        modules=list(dict.fromkeys(before.modules + after.modules)),
    )


def trouble(candidate: Candidate) -> str:
    """Why a variant that promises to run without the GIL does not; empty if it does, promises nothing or nobody saw."""
    gil = candidate.gil
    if gil is None or candidate.declared_gil is not Gil.OFF:
        return ""
    if gil.came_back or gil.modules:
        who = f"module {' and '.join(repr(one) for one in gil.modules)}" if gil.modules else "a module without a name"
        return f"the GIL came back: {who} switched it on"
    if gil.processes and not gil.off_at_start:
        return (
            "the GIL was on from the start: PYTHON_GIL or -X gil is set in the Dockerfile, "
            "or another interpreter than the image's runs the service"
        )
    return ""


def shown(candidate: Candidate) -> str:
    """The state after import, in a word or two for a table."""
    gil = candidate.gil
    if gil is None:
        return "-"
    if gil.came_back or gil.modules:
        return "came back"
    if gil.off_at_start == gil.processes:
        return "off"
    return "on" if not gil.off_at_start else f"off in {gil.off_at_start} of {gil.processes}"


def python_path(environment: Mapping[str, str], folder: str) -> str:
    """PYTHONPATH with the witness's folder before what the image has."""
    return ":".join(part for part in (folder, environment.get("PYTHONPATH", "")) if part)
