"""Stacks at waits and wakes of a program whose sites are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.build.builds import ensure_helper
from interlock.engine.run import cells, leftovers
from interlock.engine.run.workspace import ContainerSandbox
from interlock.measure import processes, profiling
from interlock.measure.stacks import Interpreter
from interlock.results.lock_sites import LockSites
from interlock.results.profiles import Method
from tests.integration import lock_lines
from tests.integration.images import FREE_THREADED, QUICK, Images
from tests.integration.resources import remove_cells

OWNER = "test-why"

pytestmark = pytest.mark.usefixtures("alone_on_the_machine")


@pytest.fixture(scope="module")
def image_id(client: Any, root: Path, built: Images) -> str:
    base = built[QUICK].base
    assert base is not None
    return ensure_helper(client, root, "instruments", base)


@pytest.fixture(scope="module")
def volume(client: Any, image_id: str) -> Iterator[str]:
    program = lock_lines.PROGRAM.read_bytes()
    yield cells.create_instruments_volume(client, OWNER, image_id, {lock_lines.PROGRAM.name: program})
    remove_cells(client, OWNER)
    leftovers.clean_up(client, OWNER)


@pytest.mark.parametrize(("variant", "pairs"), [(QUICK, 1), (QUICK, 8), (FREE_THREADED, 8)])
def test_each_contended_acquire_comes_back_at_its_line_with_its_waits_and_its_waker(
    client: Any, built: Images, volume: str, image_id: str, variant: str, pairs: int
) -> None:
    cell = cells.start_cell(client, built[variant].image_id, cells.CellOptions(OWNER, volume, None))
    found = lock_sites(ContainerSandbox(client, cell, OWNER, image_id), pairs)
    lock_lines.assert_exact(found, pairs)


def lock_sites(sandbox: ContainerSandbox, pairs: int) -> LockSites:
    asked = Interpreter(sandbox)
    options = asked.frames()
    program = f"{processes.WORKLOADS}/{lock_lines.PROGRAM.name}"
    with sandbox.count(Method.BPF, options) as counting:
        ended = sandbox.run([processes.LAUNCH, "--", "python", program, str(pairs)], 60)
        counting.stop()
    assert ended.exit_code == 0, ended.stderr
    return profiling.lock_sites_from(counting.text, profiling.PROGRAM_PHASE, 1, asked, options)
