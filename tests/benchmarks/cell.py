"""Containers that benchmarks start processes in: of any image, or a cell of 3.13 with files beside the workloads."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.catalog import project as catalogs
from interlock.catalog.project import ProjectPaths
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.docker import connect
from interlock.engine.ownership import OWNER_LABEL
from interlock.engine.protocol import BuildOptions
from interlock.engine.run import containers, execution, leftovers
from tests.builders import ROOT
from tests.integration.images import Images
from tests.integration.resources import start

OWNER = "benchmark-cell"


@dataclass(frozen=True)
class Cell:
    container: Any
    instruments_id: str

    def run(self, *argv: str) -> str:
        """What a process printed; `import pyperf` finds what lies beside the workloads."""
        environment = {"PYTHONPATH": "/interlock/workloads"}
        ended = execution.run_process(self.container, list(argv), 300, environment)
        assert ended.exit_code == 0, ended.stderr
        return ended.stdout


@contextmanager
def engine_of(owner: str) -> Iterator[Any]:
    """The engine's client; in the end what the owner made is removed."""
    client = connect().client
    try:
        yield client
    finally:
        leftovers.clean_up(client, owner)


def start_idle(client: Any, owner: str, image: str, **more: Any) -> Any:
    """A container that waits for processes, without a network."""
    labels = {OWNER_LABEL: owner}
    argv = ["sleep", "infinity"]
    return client.containers.run(
        image, argv, entrypoint=[], detach=True, init=True, network_mode="none", labels=labels, **more
    )


@contextmanager
def started_cell(files: Mapping[str, bytes]) -> Iterator[Cell]:
    with engine_of(OWNER) as client:
        built = Images(client, catalogs.load(ROOT), BuildOptions(ROOT, ProjectPaths.find().cache))["cpython-3.13"]
        assert built.base is not None
        programs = {path.name: path.read_bytes() for path in (ROOT / "workloads").glob("*.py")}
        image_id = ensure_helper(client, ROOT, "instruments", built.base)
        volume = containers.create_instruments_volume(client, OWNER, image_id, {**programs, **files})
        yield Cell(start(client, OWNER, built, volume), image_id)


def compiled(folder: Path, source: str, **constants: int) -> bytes:
    """The static executable of a C program, for which these names are defined."""
    (folder / "program.c").write_text(source)
    defined = [f"-D{name}={number}" for name, number in constants.items()]
    subprocess.run(["gcc", "-O2", "-static", *defined, "-o", "program", "program.c"], cwd=folder, check=True)
    return (folder / "program").read_bytes()
