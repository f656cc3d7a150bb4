"""The main job with the real engine: from variants to the report, and what is kept of one that is cut off."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.cli.options import VERSIONS
from interlock.results import store
from interlock.results.experiments import State
from tests.apart import command
from tests.integration.images import NO_THREADS, QUICK
from tests.integration.shared import OWN, Measured
from tests.integration.toys import GOOD, add_mode, add_workload, copy_project, interlock

# It has an older release that can be had where its newest cannot.
RELEASED = "cpython-3.9"

pytestmark = pytest.mark.usefixtures("nothing_left", "quick")


# In two threads, with -I, with packages, or for newer versions, nothing runs here.
UNSUPPORTED = {
    ("import-loop", "threads"): r"No module named thread",
    ("locks", "queue"): r"No module named thread",
    ("startup", "I"): r"-I\b",
    ("imap", "bench_thread_pool"): r">=3\.8\b.*\b2\.7\.18\b",
    ("perf-startup", "python_startup_no_site"): rf"{re.escape(NO_THREADS)}.*\bpip\b",
}


@pytest.mark.slow
def test_every_benchmark_ends_ok_or_says_why_not(without_threads: Measured) -> None:
    for variant in (QUICK, NO_THREADS):
        outcomes = {
            (workload, name): outcome
            for workload in without_threads.described.workloads
            for name, outcome in without_threads.cell(variant, workload).benchmarks.items()
        }
        unsupported = UNSUPPORTED if variant == NO_THREADS else {}
        assert {which for which, outcome in outcomes.items() if outcome.state is not State.OK} == {*unsupported}
        for which, words in unsupported.items():
            assert outcomes[which].state is State.UNSUPPORTED
            assert re.search(words, outcomes[which].reason), outcomes[which]
    assert without_threads.described.facts[NO_THREADS].thread_flavour == "none"


def test_what_can_be_measured_is(measured: Measured) -> None:
    assert {measured.cell(QUICK, workload).outcome.state for workload in OWN} == {State.OK}


def test_the_twin_of_the_baseline_is_measured_as_a_variant_of_its_own(measured: Measured) -> None:
    host = measured.folder / measured.described.host["folder"]
    assert (host / f"{QUICK}+twin" / "import-loop.json").is_file()
    assert {f"{QUICK}+twin" in visit for visit in measured.described.order["import-loop"]} == {True}


def test_an_import_makes_no_futex_call_and_a_contended_queue_does(measured: Measured) -> None:
    _, profiles = store.read_cells(measured.folder, measured.described)
    assert profiles[QUICK, "import-loop"]["function"].futex_per_unit < 1e-4
    assert profiles[QUICK, "locks"]["queue"].futex_per_unit > 0.1
    assert measured.described.probe is not None
    counted = [profile for one in profiles.values() for profile in one.values()]
    assert {profile.method for profile in counted} == {measured.described.probe.method}


def test_no_process_compiles_its_program_anew_because_it_cannot_store_the_byte_code(measured: Measured) -> None:
    _, profiles = store.read_cells(measured.folder, measured.described)
    phases = profiles[QUICK, "import-loop"]["function"].phases
    calls = [call for phase in phases.values() for call in phase.syscalls.values()]
    assert calls
    assert not any("EROFS" in call.errors for call in calls)


def test_experiment_json_has_what_repeats_and_explains_it(measured: Measured) -> None:
    described = measured.described
    chosen = ",".join(f"{workload}/{name}" for workload, names in OWN.items() for name in names)
    assert described.command.startswith(f"interlock matrix --variants debian-3.13 --workloads {chosen},")
    assert described.settings.benchmarks == OWN
    assert f"--seed {described.settings.seed}" in described.command
    assert described.facts[QUICK].thread_flavour == "pthread"
    assert all(image.base and image.base.origin in {"registry", "mmdebstrap"} for image in described.images)
    assert described.host["cores"] == os.cpu_count()
    assert 0 < described.in_processes_s < described.measuring_s < described.duration_s
    assert {warning.split(":")[0] for warning in described.warnings} <= set(described.settings.workloads)


@pytest.mark.slow
def test_the_report_shows_every_variant_in_every_table(without_threads: Measured) -> None:
    text = (without_threads.folder / "report.md").read_text()
    sections = {section.splitlines()[0]: section for section in text.split("\n## ")[1:-1]}
    assert "Summary" in sections
    assert any("system calls" in title for title in sections)
    for title, section in sections.items():
        # A summary's ratios are to the baseline; only what was profiled has calls, and only what ran has details.
        if (
            title.startswith(("import-loop", "network-client"))
            and ", system calls" not in title
            and ", details" not in title
        ):
            assert all(f"| {variant} |" in section for variant in (QUICK, NO_THREADS)), title
    skipped = text.split("## Skipped, and why")[1].split("\n## ")[0]
    assert re.search(rf"\blocks\b.* on {NO_THREADS}: unsupported", skipped)
    assert str(without_threads.folder / "report.html") in without_threads.printed
    assert "measure " in without_threads.printed


def test_a_mode_is_measured_beside_the_plain_baseline(root: Path, tmp_path: Path) -> None:
    small = copy_project(root, tmp_path / "project", [QUICK, RELEASED], [])
    add_workload(small, "good", GOOD)
    add_mode(small, QUICK)
    older = catalogs.load(small).variants[RELEASED].versions[-1]
    words = ("--variants", f"{QUICK}+waking", "--workloads", "all", "--quick", "--rounds", "2", "--no-profile")
    interlock(small, "matrix", *words, environment={VERSIONS: f"{RELEASED}={older}"})
    # The releases of one run are not what the project's files are generated from.
    assert "ARG SOURCE=" in (small / f"dockerfiles/{RELEASED}/Dockerfile").read_text(encoding="utf-8")
    described = store.read_experiment(store.latest_experiment(small / "results"))
    plain, mode, twin = QUICK, f"{QUICK}+waking", f"{QUICK}+twin"
    measured = [mode, plain]
    assert [(cell.label, cell.outcome.state) for cell in described.cells] == [
        (label, State.OK) for label in (*measured, twin)
    ]
    assert {tuple(sorted(visit)) for visit in described.order["good"]} == {tuple(sorted([*measured, twin]))}
    assert set(described.facts) == set(measured)
    assert "waking_sem_post.so" in described.facts[mode].loaded_libraries
    assert f"--variants {mode},{plain} --workloads all --quick" in described.command


def test_an_experiment_that_was_ended_goes_on_with_what_it_has(root: Path, tmp_path: Path) -> None:
    small = copy_project(root, tmp_path / "project", [QUICK], [])
    add_workload(small, "a-good", GOOD)
    slow = "import time\ntime.sleep(0.5)\n"
    add_workload(small, "b-slow", slow + GOOD)
    code, said = _interrupt_when(small, lambda line: "round 2" in line and "b-slow" in line)
    assert code == 130
    (folder,) = (small / "results").iterdir()
    assert f"--resume {folder.name}" in said
    before = store.read_experiment(folder)
    assert (before.unfinished, before.ended_by) == (["b-slow"], "Ctrl-C")
    assert {cell.outcome.state for cell in before.cells if cell.workload == "a-good"} == {State.OK}
    for path in folder.rglob("*.json"):
        json.loads(path.read_text())
    assert (folder / "report.md").is_file()
    (done,) = folder.glob(f"*/{QUICK}/a-good.json")
    complete, when = done.read_bytes(), done.stat().st_mtime_ns
    interlock(small, "matrix", "--resume", folder.name)
    after = store.read_experiment(folder)
    assert (after.unfinished, after.ended_by) == ([], "")
    assert after.started == before.started
    assert (done.read_bytes(), done.stat().st_mtime_ns) == (complete, when)
    values, _ = store.read_cells(folder, after)
    # What was measured before is there once, and the rounds went on to the last one; GOOD has values in round 0 too.
    blocks = values[QUICK, "b-slow"]["only"].blocks
    assert (blocks.count(1), blocks[-1]) == (1, 3)


def _interrupt_when(project: Path, reached: Any) -> tuple[int, str]:
    """Send Ctrl-C once a line is reached; return the exit code, and what was said afterwards."""
    with subprocess.Popen(
        command("matrix", "--variants", "all", "--workloads", "all", "--quick", "--rounds", "3", "--no-profile"),
        cwd=project,
        env={**os.environ, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any(reached(line) for line in process.stdout)
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        return process.wait(timeout=60), said
