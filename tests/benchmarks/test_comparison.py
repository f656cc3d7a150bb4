"""The smallest effect that a reference experiment can show, and one of 3 % in instructions. Prints; asserts no time."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from scipy import stats

from interlock.analysis import comparison as compare
from interlock.analysis.statistics import Ratio
from interlock.analysis.verdicts import DIFFERENT, Comparison
from interlock.results import store
from tests.builders import edit
from tests.integration.toys import copy_project, interlock

ROOT = Path(__file__).parents[2]
BASELINE = "cpython-3.13"
SLOWER = f"{BASELINE}+slower"
WORKLOAD = "locks"
BENCHMARKS = ("uncontended", "queue")  # of its many, and as many rounds as they ask for
INJECTIONS = 10
REFERENCE = "2026-11-21-a"  # of nine rounds
SHARE_FOUND = 0.8
MODES = """
[[modes]]
name = "slower"
summary = "5 % more work in each value, which is not told"
environment = { INTERLOCK_MORE_WORK = "1.05" }
"""
MORE_WORK = """\
        share = float(os.environ.get("INTERLOCK_MORE_WORK", "1"))
        self.timed = lambda loops: timed(int(round(loops * share)))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, whose 3.13 has two modes, and whose programs can be made to do more than they say."""
    root = copy_project(ROOT, tmp_path / "project", [BASELINE], [WORKLOAD])
    variant = root / f"variants/{BASELINE}.toml"
    variant.write_text(variant.read_text() + MODES)
    edit(root, "workloads/protocol.py", "        self.timed = timed\n", MORE_WORK)
    cut(root / f"workloads/{WORKLOAD}.toml")
    return root


def cut(workload: Path) -> None:
    head, *benchmarks = workload.read_text().split("[[benchmarks]]\n")
    kept = [one for one in benchmarks if one.startswith(tuple(f'name = "{name}"\n' for name in BENCHMARKS))]
    assert len(kept) == len(BENCHMARKS)
    head = re.sub(r"^rounds_limit = .*\n", "", head, flags=re.MULTILINE)
    workload.write_text("[[benchmarks]]\n".join([head, *kept]))


def smallest_effect(ratio: Ratio, comparisons_in_report: int) -> float:
    """The effect, as a share, that rounds as steady as these find in 80 % of experiments.

    Of the t-test where it is the only difference of its table (Cohen 1988, 'Statistical Power Analysis', chapter 2).
    """
    freedom, error = ratio.freedom, ratio.error
    level = DIFFERENT / 2 / comparisons_in_report
    return math.expm1((stats.t.ppf(1 - level, freedom) + stats.t.ppf(SHARE_FOUND, freedom)) * error)


def test_the_smallest_effect_that_each_benchmark_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """From the twins of a reference experiment: what equal images differ by is what an effect has to exceed."""
    folder = ROOT / "results" / "reference" / REFERENCE
    described = store.read_experiment(folder)
    tables = compare.tables(described, *store.read_cells(folder, described))
    with capsys.disabled():
        print(f"\nsmallest effect found in {SHARE_FOUND:.0%}: of one ratio, and among its table's, {folder.name}")
        for table in tables:
            if ratio := table.twin:
                number = len({(row.label, one.other) for row in table.rows for one in compared(row)})
                alone, among = (smallest_effect(ratio, count) for count in (1, number))
                name = f"{table.workload.name} {table.benchmark.name}"
                print(f"| {name} | {ratio.rounds} | {alone:.1%} | {number} | {among:.1%} |")


def compared(row: compare.Row) -> set[Comparison]:
    return {one for one in (row.to_baseline, row.to_control) if one}


def test_a_slowdown_of_3_percent_is_found_in_instructions(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the processor's counter, where the machine shows it; the reason if not is what doctor says."""
    edit(project, f"variants/{BASELINE}.toml", '"1.05"', '"1.03"')
    edit(project, "workloads/locks.toml", "profile_loops = 10", "profile_loops = 100")
    slower = []
    for number in range(INJECTIONS):
        results = project / f"results-instructions-{number}"
        done = interlock(
            project, "matrix", "--variants", f"{BASELINE},{SLOWER}", "--workloads", "locks", "--quick",
            "--rounds", "2", "--results", str(results),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        folder = store.latest_experiment(results)
        _, profiles = store.read_cells(folder, store.read_experiment(folder))
        plain, more = (profiles[label, "locks"]["uncontended"] for label in (BASELINE, SLOWER))
        if plain.instructions is None or more.instructions is None:
            pytest.skip(plain.no_instructions)
        ratio = more.instructions.per_unit / plain.instructions.per_unit
        slower.append((ratio, ratio - 1 > plain.instructions.spread + more.instructions.spread))
    with capsys.disabled():
        print(
            f"\n3 % injected, by instructions: found in {sum(found for _, found in slower)} of {INJECTIONS}: {slower}"
        )
