"""Why pip failed in a container: its output is read, and its log where that alone says more."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.engine.pip_settings import AUDIT
from interlock.engine.workbench import Said, Workbench
from interlock.errors import EngineError
from interlock.pip_output import Blame, blame, blame_deadline

ASKED, LOG, NOWHERE = f"{AUDIT}/asked-again.txt", f"{AUDIT}/pip.log", f"{AUDIT}/nowhere"
READ_S = 60


def why(bench: Workbench, said: Said, deadline_s: float, options: Sequence[str]) -> Blame:
    """The package that stopped pip, which was given these options; EngineError if its index does not answer."""
    found = blame_deadline(said.output, deadline_s) if said.late else blame(said.output)
    if found.nowhere:
        found = blame(said.output, _log_of(bench, found.name, deadline_s, options))
    if found.unreachable:
        raise EngineError(
            key="pip",
            found=f"in a container it does not reach its index: {found.words}",
            todo="It has this machine's settings (`pip config list`): correct them, or make the index reachable.",
        )
    return found


def _log_of(bench: Workbench, name: str, deadline_s: float, options: Sequence[str]) -> str:
    """What pip's log has of a package that it finds nowhere. With a log it no longer prints why builds fail."""
    bench.put({ASKED: requirements_file([*options, name])})
    words = ["download", "--no-deps", "--dest", NOWHERE, "--log", LOG, "-r", ASKED]
    bench.run(["rm", "-f", LOG], READ_S)
    bench.pip(*words, deadline_s=deadline_s, PIP_REQUIRE_HASHES="")
    return bench.run(["cat", LOG], READ_S).output


def requirements_file(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
