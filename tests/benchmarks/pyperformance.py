"""Programs of pyperformance in containers, a process at a time: pyperf's worker, with loops that are decided once.

Of pyperformance this takes the programs and their options alone: its own command wants an environment and the network
for each interpreter. pyperf and the programs are copied into a volume that every container mounts read-only.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyperf
import pytest

from interlock.catalog.types import MOUNT
from interlock.engine.run import containers, execution
from tests.benchmarks.cell import start_idle

PROGRAMS_AT = f"{MOUNT}/workloads"
PYTHON = "python3"
DEADLINE_S = 120
WARMUPS, VALUES = 1, 3
# A value takes about this long, so that a process takes about a second.
VALUE_S = 0.1
# pyperf writes its result into file descriptor 3; what the program prints must not come between.
ASIDE = ["sh", "-c", 'exec "$@" 3>&1 1>&2', "aside"]


@dataclass(frozen=True)
class Program:
    """One timing of a program of pyperformance: `folder/name:number`, as `parse` reads it."""

    folder: str
    name: str
    number: int = 0  # among those that the program takes in turn

    @staticmethod
    def parse(text: str) -> Program:
        """The name is that of pyperformance's list and may be left out where it is the folder's, the number if 0."""
        path, _, number = text.partition(":")
        folder, _, name = path.partition("/")
        return Program(folder, name or folder, int(number or 0))


@dataclass(frozen=True)
class Task:
    """What each image is asked to run: the same command line with the same loops."""

    program: Program
    title: str
    argv: tuple[str, ...]
    loops: int


def _folder(program: Program) -> Path:
    return Path(str(importlib.resources.files("pyperformance"))) / "data-files/benchmarks" / f"bm_{program.folder}"


def _options(program: Program) -> list[str]:
    """What pyperformance gives to the program for the benchmark of this name."""
    own = _folder(program) / f"bm_{program.name}.toml"
    text = (own if own.is_file() else _folder(program) / "pyproject.toml").read_text()
    return list(tomllib.loads(text).get("tool", {}).get("pyperformance", {}).get("extra_opts", []))


def _files(programs: Sequence[Program]) -> dict[str, bytes]:
    package = Path(pyperf.__file__).parent
    files = {f"pyperf/{path.name}": path.read_bytes() for path in package.glob("*.py")}
    for folder in {_folder(program) for program in programs}:
        paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        files |= {f"{folder.name}/{path.relative_to(folder)}": path.read_bytes() for path in paths}
    return files


def start_containers(client: Any, owner: str, images: dict[str, str], programs: Sequence[Program]) -> dict[str, Any]:
    """A container of each image (an id or a tag) by its name, on the last CPU alone; `engine_of` removes them."""
    if importlib.util.find_spec("pyperformance") is None:
        pytest.skip("pyperformance is not installed: pip install '.[test]'")
    first = next(iter(images.values()))
    volume = containers.create_instruments_volume(client, owner, first, _files(programs))
    compile_all = [PYTHON, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", PROGRAMS_AT]
    for image in images.values():  # a version's byte code has the version in its name
        client.containers.run(image, compile_all, volumes={volume: {"bind": MOUNT, "mode": "rw"}}, remove=True)
    return {name: _start(client, owner, image, volume) for name, image in images.items()}


def _start(client: Any, owner: str, image: str, volume: str) -> Any:
    last_cpu = str(client.info()["NCPU"] - 1)
    volumes = {volume: {"bind": MOUNT, "mode": "ro"}}
    return start_idle(client, owner, image, cpuset_cpus=last_cpu, volumes=volumes, tmpfs={"/tmp": ""})


def calibrate(client: Any, container: Any, program: Program) -> Task:
    """As many loops as this container's interpreter takes about VALUE_S for."""
    argv = (
        PYTHON, f"{PROGRAMS_AT}/bm_{program.folder}/run_benchmark.py", *_options(program),
        "--worker", "--pipe", "3", "--worker-task", str(program.number),
    )  # fmt: skip
    asked = ["--calibrate-loops", "--min-time", str(VALUE_S)]
    found = _run(client, container, [*argv, *asked], seed=0)
    return Task(program, str(found.get_name()), argv, found.get_runs()[-1].get_metadata()["calibrate_loops"])


def run(client: Any, container: Any, task: Task, seed: int) -> float:
    """The median of one process's values: seconds per loop. `seed` is that of the hashes of strings."""
    asked = ["--loops", str(task.loops), "--warmups", str(WARMUPS), "--values", str(VALUES)]
    return float(statistics.median(_run(client, container, [*task.argv, *asked], seed).get_values()))


def _run(client: Any, container: Any, argv: Sequence[str], seed: int) -> pyperf.Benchmark:
    environment = {"PYTHONPATH": PROGRAMS_AT, "PYTHONHASHSEED": str(seed), "PYTHONDONTWRITEBYTECODE": ""}
    ended = execution.run_process(container, [*ASIDE, *argv], DEADLINE_S, environment)
    assert ended.exit_code == 0, f"{' '.join(argv)}\n{ended.stderr}"
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    return pyperf.Benchmark.loads(line)
