"""Stacks at waits and wakes of a program whose sites are known, and the acquires of its locks."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine.agent import LAUNCH
from interlock.engine.protocol import Sandbox, StackOptions
from interlock.engine.run.workspace import ContainerSandbox
from interlock.measure import processes
from interlock.measure.kinds.kind import PROGRAM_PHASE
from interlock.measure.stacks import Interpreter, acquisitions_of, lock_sites_of, work_from
from interlock.results.profiles import Acquisitions, LockSites
from tests.integration import lock_lines
from tests.integration.images import FREE_THREADED, QUICK, Images
from tests.integration.resources import start

OWNER = "test-why"

pytestmark = pytest.mark.usefixtures("alone_on_the_machine")


@pytest.fixture(scope="module")
def programs() -> dict[str, bytes]:
    return {lock_lines.PROGRAM.name: lock_lines.PROGRAM.read_bytes()}


@pytest.fixture
def sandbox(client: Any, built: Images, volume: str, instruments_image: str, variant: str) -> ContainerSandbox:
    cell = start(client, OWNER, built[variant], volume)
    return ContainerSandbox(cell, OWNER, instruments_image)


@pytest.mark.parametrize(
    ("variant", "pairs"), [(QUICK, 1), (QUICK, 8), pytest.param(FREE_THREADED, 8, marks=pytest.mark.slow)]
)
def test_each_contended_acquire_comes_back_at_its_line_with_its_waits_and_its_waker(
    sandbox: ContainerSandbox, pairs: int
) -> None:
    lock_lines.assert_exact(lock_sites(sandbox, pairs), pairs)


@pytest.mark.slow
@pytest.mark.parametrize("variant", [FREE_THREADED])
def test_each_acquire_and_each_pause_is_counted_by_names_that_the_image_does_not_export(
    sandbox: ContainerSandbox,
) -> None:
    found = acquisitions(sandbox, 1)
    lock_lines.assert_taken(found)
    lock_lines.assert_acquired(found, 1)
    lock_lines.assert_stopped(found)


@pytest.mark.parametrize(
    ("variant", "has_symbols"), [(QUICK, False), pytest.param(FREE_THREADED, True, marks=pytest.mark.slow)]
)
def test_functions_of_the_interpreter_have_names_where_its_symbols_are_here(
    sandbox: ContainerSandbox, has_symbols: bool
) -> None:
    found = lock_sites(sandbox, 1)
    without = [one for site in found.sites for one in site.c if one.startswith("python")]
    assert bool(found.no_symbols) is bool(without) is not has_symbols


def lock_sites(sandbox: Sandbox, pairs: int) -> LockSites:
    asked = Interpreter(sandbox)
    options = asked.frames()
    return lock_sites_of(work_from(_watched(sandbox, options, pairs), 1, PROGRAM_PHASE, asked.lines), options.no_frames)


def acquisitions(sandbox: Sandbox, pairs: int) -> Acquisitions:
    asked = Interpreter(sandbox)
    options = asked.frames().with_acquires()
    work = work_from(_watched(sandbox, options, pairs), 1, PROGRAM_PHASE, asked.lines)
    return acquisitions_of(work, ends_seen=not options.switches_threads)


def _watched(sandbox: Sandbox, options: StackOptions, pairs: int) -> str:
    program = f"{processes.WORKLOADS}/{lock_lines.PROGRAM.name}"
    with sandbox.count(options) as counting:
        ended = sandbox.run([LAUNCH, "--", "python", program, str(pairs)], 60)
        counting.stop()
    assert ended.exit_code == 0, ended.stderr
    return counting.text
