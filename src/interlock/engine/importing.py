"""Installs wheels into a variant's own image, as production would, and imports what they brought."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from interlock import installed
from interlock.engine.pip_settings import AUDIT
from interlock.engine.wheels import Wheel
from interlock.engine.workbench import Workbench
from interlock.errors import EngineError
from interlock.pip_output import last_words

INSTALL_S, LIST_S = 900, 60
# Of one module's process; of all processes that look at a package's extension modules.
IMPORT_S, EXTENSIONS_S = 60.0, 120.0
JOBS = f"{AUDIT}/jobs.json"
NORMAL_USER = 1000
PROGRAMS = {name: f"{AUDIT}/{name}.py" for name in ("audit_distributions", "audit_imports")}


@dataclass(frozen=True)
class Job:
    """Modules to import one after the other, for a package; empty of those that only --import names."""

    package: str
    modules: list[str]
    deadline_s: float
    is_sweep: bool = False  # of extension modules: asked about the GIL alone


@dataclass(frozen=True)
class Answer:
    """What came of one module's import."""

    module: str
    error: str
    by: str


def install(bench: Workbench, wheels: Sequence[Wheel]) -> dict[str, str]:
    """Why a wheel could not be installed, by its package's canonical name."""
    if not wheels:
        return {}
    words = ["install", "--quiet", "--no-index", "--no-deps", "--no-cache-dir", *(wheel.path for wheel in wheels)]
    said = bench.pip(*words, deadline_s=INSTALL_S)
    if said.ok:
        return {}
    if len(wheels) > 1:
        return {key: reason for wheel in wheels for key, reason in install(bench, [wheel]).items()}
    reason = f"had not ended after {INSTALL_S} s" if said.late else last_words(said.output)
    return {wheels[0].package.key: f"cannot be installed: {reason}"}


def distributions(bench: Workbench) -> list[installed.Distribution]:
    """Everything that is installed now; the image's own pip included."""
    _put_programs(bench)
    return installed.parse(_must(bench, ["python", PROGRAMS["audit_distributions"]], LIST_S))


def run_jobs(bench: Workbench, jobs: Sequence[Job]) -> tuple[str | None, list[list[Answer]]]:
    """The bare interpreter's GIL (on, off, or None without such a question), and what came of each job."""
    asked = [{"modules": job.modules, "deadline_s": job.deadline_s} for job in jobs]
    bench.put({JOBS: json.dumps(asked).encode()})
    # A second each for what a deadline is not counted for: starting the process, and ending it.
    limit_s = LIST_S + sum(job.deadline_s + len(job.modules) for job in jobs)
    output = _must(bench, ["python", PROGRAMS["audit_imports"], JOBS, str(NORMAL_USER)], limit_s)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return lines[0]["bare"], _by_job(lines[1:], jobs)


def _by_job(lines: Sequence[Mapping[str, Any]], jobs: Sequence[Job]) -> list[list[Answer]]:
    """The program answers in the order of the jobs; it may have run out of time in the middle of a sweep."""
    found: list[list[Answer]] = []
    rest = list(lines)
    for job in jobs:
        answers = []
        for module in job.modules:
            if rest and rest[0]["module"] == module:
                line = rest.pop(0)
                answers.append(Answer(module, line["error"], line["by"]))
        found.append(answers)
    return found


def _put_programs(bench: Workbench) -> None:
    inside = files("interlock").joinpath("inside")
    bench.put({place: inside.joinpath(f"{name}.py").read_bytes() for name, place in PROGRAMS.items()})


def _must(bench: Workbench, argv: list[str], deadline_s: float) -> str:
    said = bench.run(argv, deadline_s)
    if not said.ok:
        found = f"had not ended after {deadline_s:g} s" if said.late else last_words(said.output)
        raise EngineError(key=argv[-1], found=found, todo="This is a fault of Interlock's: please report it.")
    return said.output
