"""Real experiments that are ended, and what is left of them: measured again, reported and resumed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from interlock.results import store
from tests.apart import command
from tests.builders import ROOT
from tests.integration.images import QUICK

Record = Callable[[str, object], None]
ENDS = "a completed block survives any end"
INTERLOCK = command()
# Long enough to be ended anywhere, short enough to be begun often.
MATRIX = ["matrix", "--variants", QUICK, "--workloads", "startup", "--rounds", "4", "--no-profile", "--quick"]
LIMIT_S = 300


def count(record: Record, promise: str, tried: int, lost: int) -> None:
    for name, value in (("promise", promise), ("tried", tried), ("survived", tried - lost), ("lost", lost)):
        record(name, value)


def sentences(said: str) -> list[str]:
    """The errors in what a command said."""
    return [line for line in said.splitlines() if line.startswith("error: ")]


def interlock(*words: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*INTERLOCK, *words],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def usual_duration_s(results: Path) -> float:
    """How long an experiment takes that nothing ends, once its image is built."""
    durations = []
    for name in ("first", "second"):
        start_s = time.monotonic()
        done = interlock(*MATRIX, "--name", name, "--results", str(results))
        assert done.returncode == 0, done.stderr
        durations.append(time.monotonic() - start_s)
    return durations[-1]


def complete_blocks(folder: Path) -> int:
    """How many blocks the journal has that a killed process has left."""
    path = folder / store.JOURNAL_FILE
    return max(path.read_bytes().count(b"\n") - 1, 0) if path.is_file() else 0


def values_of(folder: Path) -> set[float]:
    if not (folder / store.EXPERIMENT_FILE).is_file():
        return set()
    found = store.read_cell_values(folder, store.read_experiment(folder))
    return {value for cell in found.values() for one in cell.values() for some in one.processes for value in some}


def kept_and_resumed(folder: Path, name: str) -> str:
    """What is wrong with an experiment after its end; empty if nothing is."""
    if not (folder / store.EXPERIMENT_FILE).is_file():
        # Nothing was measured: the name is free.
        done = interlock(*MATRIX, "--name", name, "--results", str(folder.parent))
        return "" if done.returncode == 0 else f"begun again: {done.stderr}"
    blocks = complete_blocks(folder)
    described = store.read_experiment(folder)
    before = values_of(folder)
    # Blocks of round 0 have no values.
    benchmarks = len(described.workloads["startup"].benchmarks)
    if blocks > benchmarks and not before:
        return f"{blocks} blocks and no value"
    reported = interlock("report", str(folder))
    if reported.returncode != 0:
        return f"report: {reported.stderr}"
    if described.ended_by:
        resumed = interlock("matrix", "--resume", name, "--results", str(folder.parent))
        if resumed.returncode != 0:
            return f"resume: {resumed.stderr}"
    now = store.read_experiment(folder)
    if now.ended_by or now.unfinished or not before <= values_of(folder):
        return f"resumed: {now.ended_by} {now.unfinished}, values lost: {len(before - values_of(folder))}"
    return ""
