"""Real experiments that are ended, and what is left of them: measured again, reported and resumed."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import docker

from interlock.engine.ownership import OWNER_LABEL
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE
from interlock.results.journal import JOURNAL_FILE
from tests.apart import command
from tests.builders import ROOT
from tests.integration import toys
from tests.integration.images import QUICK
from tests.integration.resources import owned
from tests.integration.toys import TOYS, toy_tarball, toy_variant

Record = Callable[[str, object], None]
INTERLOCK = command()
# Long enough to be ended anywhere, short enough to be begun often.
MATRIX = ["matrix", "--variants", QUICK, "--workloads", "startup", "--rounds", "4", "--no-profile", "--quick"]
LIMIT_S = 300
TRIES = max(1, int(os.environ.get("INTERLOCK_TORTURE_ENDS", "12")) // 4)


def count(record: Record, tried: int, wrong: Sequence[str]) -> None:
    """Record what was tried and lost, and fail if anything was; an empty text is nothing."""
    lost = [what for what in wrong if what]
    record("tried", tried)
    record("lost", len(lost))
    assert lost == []


def add_toy(project: Path, takes_s: int = 1) -> tuple[str, dict[str, str]]:
    """Add a variant that nobody has built; return its name and the environment in which its source is found."""
    name, mirror = f"toy-{uuid.uuid4().hex[:8]}", project.parent / "mirror"
    sha256 = toy_tarball(mirror, f"{name}.tgz", f"sleep {takes_s}; echo {name}")
    toy_variant(project, name, f"{name}.tgz", sha256, base=TOYS)
    return name, {"INTERLOCK_SOURCE_MIRROR": str(mirror)}


def images_of(toy: str) -> str:
    """What is wrong with the images of a toy that was built; empty if it is one."""
    images = docker.from_env().images.list(name=f"localhost/interlock/python:{toy}-{TOYS}")
    return "" if len(images) == 1 else f"{len(images)} images have the tag"


def forget(*names: str) -> None:
    client = docker.from_env()
    for name in names:
        for image in client.images.list(filters={"label": f"interlock.variant={name}"}):
            client.images.remove(image.id, force=True)


def sentences(said: str) -> list[str]:
    """The errors in what a command said."""
    return [line for line in said.splitlines() if line.startswith("error: ")]


def interlock(*words: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command that may end in any way."""
    return toys.interlock(cwd, *words, environment=environment, timeout_s=LIMIT_S, code=None)


def matrix(name: str, results: Path) -> list[str]:
    return [*MATRIX, "--name", name, "--results", str(results)]


def usual_duration_s(results: Path, **environment: str) -> float:
    """How long an experiment takes that nothing ends, once its image is built."""
    for name in ("first", "second"):
        start_s = time.monotonic()
        done = interlock(*matrix(name, results), cwd=ROOT, **environment)
        assert done.returncode == 0, done.stderr
    return time.monotonic() - start_s


def owners_of(what: str) -> list[str]:
    """The owners of what is in the engine: an experiment's name and more, or the part of it before any `-`."""
    owners = {labels[OWNER_LABEL] for labels in owned(docker.from_env()).values()}
    return sorted(owner for owner in owners if owner.startswith(f"{what}-"))


def wait_for(name: str, process: subprocess.Popen[Any]) -> None:
    """Wait until an experiment has something in the engine, or its process has ended."""
    end_s = time.monotonic() + LIMIT_S
    while not owners_of(name) and process.poll() is None and time.monotonic() < end_s:
        time.sleep(0.1)


def complete_blocks(folder: Path) -> int:
    """How many blocks the journal has that a killed process has left."""
    path = folder / JOURNAL_FILE
    return max(path.read_bytes().count(b"\n") - 1, 0) if path.is_file() else 0


def values_of(folder: Path) -> set[float]:
    if not (folder / EXPERIMENT_FILE).is_file():
        return set()
    found = store.read_cell_values(folder, store.read_experiment(folder))
    return {value for cell in found.values() for one in cell.values() for some in one.processes for value in some}


def kept_and_resumed(folder: Path, name: str) -> str:
    """What is wrong with an experiment after its end; empty if nothing is."""
    if not (folder / EXPERIMENT_FILE).is_file():
        # Nothing was measured: the name is free.
        done = interlock(*matrix(name, folder.parent))
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
