"""Threads of GNU pth and the pip of an old Python: that interpreter is compiled for proofs alone."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.engine.build.image import ask_facts, require_proof
from interlock.engine.run.workspace import ContainerSandbox
from interlock.errors import UnsupportedHereError
from interlock.measure.stacks import Interpreter
from interlock.results import store
from interlock.results.experiments import State
from tests.builders import Entry
from tests.integration import lock_lines, shared
from tests.integration.images import NO_THREADS, PTH, QUICK, Images
from tests.integration.shared import Measured
from tests.integration.test_adapters import values
from tests.integration.test_audit import auditing
from tests.integration.test_swap import output_of
from tests.integration.test_swap_breaks import placed, warned
from tests.integration.test_why import OWNER, acquisitions, programs, sandbox

__all__ = ["OWNER", "programs", "sandbox"]

MERCURIAL = ("hg", "hg-status", "hg-cmdserver")


@pytest.fixture(scope="module")
def measured(root: Path, built: Images, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """The experiment of the tests of the engine, on this interpreter, and Mercurial's commands."""
    for name in (QUICK, PTH):
        assert built[name]
    own = {**shared.MORE, "mercurial": list(MERCURIAL)}
    return shared.measure(root, tmp_path_factory.mktemp("measured"), [QUICK, PTH], own)


def test_it_is_what_its_file_declares(client: Any, catalog: Catalog, built: Images) -> None:
    facts = ask_facts(client, built[PTH].image_id)
    require_proof(catalog.variants[PTH], facts)
    assert "libpth.so.20" in facts.loaded_libraries


SIGNALLED = """
import os, signal, sys, threading, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
def later():
    time.sleep(0.2)
    os.spawnlp(os.P_NOWAIT, "sh", "sh", "-c", "sleep 0.3; kill -TERM %d" % os.getpid())
    time.sleep(30)
thread = threading.Thread(target=later)
thread.daemon = True
thread.start()
limit = time.time() + 10
while time.time() < limit:
    time.sleep(0.7)
os._exit(9)
"""


def test_a_signal_while_every_thread_waits_is_handled(client: Any, built: Images) -> None:
    """As a service is told to end: on GNU pth it is handled in pth's scheduler, where no thread runs."""
    container = client.containers.run(
        built[PTH].image_id, ["python", "-c", SIGNALLED], entrypoint=[], init=True, detach=True
    )
    try:
        ended = container.wait(timeout=60)
        assert ended["StatusCode"] == 3, container.logs().decode()
    finally:
        container.remove(force=True)


def test_its_cells_are_measured_with_the_packages_of_its_pip(measured: Measured) -> None:
    assert measured.described.facts[PTH].thread_flavour == "gnu-pth"
    for workload in ("import-loop", "locks", "network-client", "suite"):
        assert measured.cell(PTH, workload).benchmarks, workload
    assert measured.cell(PTH, "locks").benchmarks["queue"].state is State.OK
    assert measured.cell(PTH, "suite").benchmarks["test_sum"].state is State.OK
    started = measured.cell(PTH, "perf-startup")
    assert (started.outcome.state, started.packages["python_startup_no_site"]["pyperf"]) == (State.OK, "1.7.1")
    (starts,) = values(measured, PTH, "perf-startup").values()
    assert 0.001 < statistics.median(one for process in starts for one in process) < 5


def test_a_contended_queue_makes_no_futex_call(measured: Measured) -> None:
    _, profiles = store.read_cells(measured.folder, measured.described)
    assert profiles[QUICK, "locks"]["queue"].futex_per_unit > 0.1
    assert profiles[PTH, "locks"]["queue"].futex_per_unit < 0.01


def test_mercurial_does_its_work_with_a_process_for_each_command_and_with_one_for_all(measured: Measured) -> None:
    cell = measured.cell(PTH, "mercurial")
    assert {name: cell.benchmarks[name].state for name in MERCURIAL} == dict.fromkeys(MERCURIAL, State.OK)
    assert {cell.packages[name]["mercurial"] for name in MERCURIAL} == {"6.1.4"}
    refused = measured.cell(QUICK, "mercurial").benchmarks
    assert {refused[name].state for name in MERCURIAL} == {State.UNSUPPORTED}


def test_an_audit_says_that_its_pip_is_too_old(
    client: Any, catalog: Catalog, root: Path, built: Images, tmp_path: Path
) -> None:
    (tmp_path / "r.txt").write_text("six\n")
    (old,) = auditing(client, catalog, root, built[PTH])(tmp_path / "r.txt")
    assert old.outcome.state is State.UNSUPPORTED
    assert re.search(r"pip \d+\.\d+ .*22\.2", old.outcome.reason)


def test_gunicorn_needs_threads(swap: Entry, client: Any, built: Images, tmp_path: Path) -> None:
    """The real one, of an index; the last that runs on 2.7."""
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--python-version", "2.7"]
    wheels = ["--only-binary", ":all:", "-d", str(tmp_path / "wheels"), "gunicorn==19.10.0", "setuptools==44.1.1"]
    subprocess.run([*download, *wheels], check=True)
    assert built[NO_THREADS]
    assert built[PTH]
    file = placed(tmp_path, "gunicorn")
    (tmp_path / "app.py").write_text("def app(environ, start_response):\n    return []\n")
    _, _, err = swap(file, "--to", NO_THREADS, "--write", "--local")
    assert "needs threads" in warned(err, 6)
    assert "use cpython-2.7" in warned(err, 6)
    with pytest.raises(Exception, match="ImportError"):
        output_of(client, tmp_path)
    _, _, err = swap(file, "--to", PTH, "--write", "--local")
    assert "needs threads" not in err
    assert output_of(client, tmp_path) == ""


@pytest.mark.parametrize("pairs", [1, 8])
@pytest.mark.usefixtures("alone_on_the_machine")
@pytest.mark.parametrize("variant", [PTH])
def test_where_a_library_switches_threads_attempts_are_counted_without_their_ends(
    sandbox: ContainerSandbox, pairs: int
) -> None:
    found = acquisitions(sandbox, pairs)
    lock_lines.assert_attempted(found, pairs)
    assert not found.ends_seen


@pytest.mark.usefixtures("alone_on_the_machine")
@pytest.mark.parametrize("variant", [PTH])
def test_where_it_is_preloaded_onto_another_build_nothing_is_known_of_its_locks(sandbox: ContainerSandbox) -> None:
    preloaded = replace(Interpreter(sandbox).frames(), attempts=False)
    with pytest.raises(UnsupportedHereError):
        preloaded.with_acquires()
