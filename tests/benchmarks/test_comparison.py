"""How often a comparison is wrong: equal images told apart, and a slowdown of 5 % not found. Prints; asserts no time.

Needs the engine, cpython-3.13 built, and 40 minutes in which nothing else runs.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from scipy import stats

from interlock import compare, store
from interlock.model import Experiment
from interlock.statistics import _freedom, _trimmed
from tests.builders import edit
from tests.integration.toys import copy_project, interlock

ROOT = Path(__file__).parents[2]
BASELINE = "cpython-3.13"
EXPERIMENTS, INJECTIONS = 20, 10
WORKLOADS = "locks,startup"
SHARE_FOUND = 0.8
MODES = """
[[modes]]
name = "same"
summary = "no other than without a mode"

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
    root = copy_project(ROOT, tmp_path / "project", [BASELINE], WORKLOADS.split(","))
    variant = root / f"variants/{BASELINE}.toml"
    variant.write_text(variant.read_text() + MODES)
    edit(root, "workloads/protocol.py", "        self.timed = timed\n", MORE_WORK)
    return root


def experiments(root: Path, mode: str, workloads: str, count: int) -> Iterator[tuple[Experiment, list[compare.Table]]]:
    for number in range(count):
        results = root / f"results-{mode}-{number}"
        done = interlock(
            root, "matrix", "--variants", f"{BASELINE},{BASELINE}+{mode}", "--workloads", workloads, "--quick",
            "--no-profile", "--seed", str(number), "--results", str(results),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        described = store.read_experiment(store.latest_experiment(results))
        yield described, compare.tables(described, *store.read_cells(store.latest_experiment(results), described))


def comparisons(tables: list[compare.Table], label: str) -> Iterator[tuple[str, compare.Comparison]]:
    for table in tables:
        for row in table.rows:
            if row.label == label and row.to_baseline:
                yield f"{table.workload.name} {table.benchmark.name}", row.to_baseline


def smallest_effect(ratios: Sequence[float], comparisons_in_report: int) -> float:
    """The ratio that this many rounds with this spread find in 80 % of experiments, as a share.

    Of the trimmed t-test at Holm's first step (Cohen 1988, 'Statistical Power Analysis', chapter 2).
    """
    logs = _trimmed(ratios)
    freedom = _freedom(len(logs))
    needed = stats.t.ppf(1 - 0.05 / 2 / comparisons_in_report, freedom) + stats.t.ppf(SHARE_FOUND, freedom)
    return math.expm1(needed * statistics.stdev(logs) / math.sqrt(len(logs)))


def test_equal_images_are_not_told_apart(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty experiments in which the baseline is compared with itself under another name."""
    alarms: list[str] = []
    rounds, widths, alone, in_reference = (defaultdict[str, list[float]](list) for _ in range(4))
    for number, (_, tables) in enumerate(experiments(project, "same", WORKLOADS, EXPERIMENTS)):
        for name, found in comparisons(tables, f"{BASELINE}+same"):
            ratio = found.ratio
            rounds[name].append(ratio.rounds)
            widths[name].append((ratio.high - ratio.low) / 2 / ratio.estimate)
            alone[name].append(smallest_effect(found.by_round, 1))
            in_reference[name].append(smallest_effect(found.by_round, 100))
            if found.verdict != "no difference":
                alarms.append(f"{number}: {name} {ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")
    with capsys.disabled():
        print(
            f"\nA/A: {len({alarm.split(':')[0] for alarm in alarms})} of {EXPERIMENTS} experiments with a false alarm"
        )
        print("\n".join(alarms))
        print("medians: rounds | half width | smallest effect found in 80 %, alone | among 100 ratios")
        for name in rounds:
            print(
                f"{name:24} {statistics.median(rounds[name]):4.0f} {statistics.median(widths[name]):8.1%}"
                f" {statistics.median(alone[name]):8.1%} {statistics.median(in_reference[name]):8.1%}"
            )


def test_a_slowdown_of_5_percent_is_found(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten experiments in which one of two equal images does 5 % more work and reports as if it had not."""
    found = defaultdict[str, list[str]](list)
    ratios = defaultdict[str, list[float]](list)
    for _, tables in experiments(project, "slower", "locks", INJECTIONS):
        for name, comparison in comparisons(tables, f"{BASELINE}+slower"):
            found[name].append(comparison.verdict)
            ratios[name].append(comparison.ratio.estimate)
    with capsys.disabled():
        for name, verdicts in found.items():
            print(
                f"\n5 % injected into {name}: slower in {verdicts.count('slower')} of {INJECTIONS},"
                f" ratios {min(ratios[name]):.3f} to {max(ratios[name]):.3f}"
            )


def test_a_slowdown_of_3_percent_is_found_in_instructions(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the processor's counter, where the machine shows it; the reason if not is what doctor says."""
    edit(project, f"variants/{BASELINE}.toml", '"1.05"', '"1.03"')
    edit(project, "workloads/locks.toml", "profile_loops = 10", "profile_loops = 100")
    slower = []
    for number in range(INJECTIONS):
        results = project / f"results-instructions-{number}"
        done = interlock(
            project, "matrix", "--variants", f"{BASELINE},{BASELINE}+slower", "--workloads", "locks", "--quick",
            "--rounds", "2", "--results", str(results),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        folder = store.latest_experiment(results)
        _, profiles = store.read_cells(folder, store.read_experiment(folder))
        plain, more = (profiles[label, "locks"]["uncontended"] for label in (BASELINE, f"{BASELINE}+slower"))
        if plain.instructions is None or more.instructions is None:
            pytest.skip(plain.no_instructions)
        ratio = more.instructions.per_unit / plain.instructions.per_unit
        slower.append((ratio, ratio - 1 > plain.instructions.spread + more.instructions.spread))
    with capsys.disabled():
        print(
            f"\n3 % injected, by instructions: found in {sum(found for _, found in slower)} of {INJECTIONS}: {slower}"
        )
