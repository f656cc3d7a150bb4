"""How often verdicts of the core workloads are wrong, live: equal images told apart, true slowdowns missed. Prints.

Needs the engine, and `debian-3.13`, which is built in half a minute. An experiment has the twelve minutes that the core
set has, or what `INTERLOCK_BUDGET=30m` says; nothing else may run beside it. `INTERLOCK_ROUNDS=20` takes that many
rounds of each row, in place of as many as decide it. `INTERLOCK_EXPERIMENTS=5` repeats each five times,
`INTERLOCK_WORKLOADS=locks` measures a part. What all experiments so far come to is printed after each.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.analysis import comparison as compare
from interlock.analysis.pairing import compared_figures
from interlock.analysis.statistics import BlockFigure, fit_levels
from interlock.analysis.verdicts import Comparison, Verdict
from interlock.results import store
from interlock.results.experiments import Experiment, Profiles, Values
from tests.builders import ROOT, edit
from tests.integration.toys import copy_project, interlock

BASELINE = "debian-3.13"
WORKLOADS = os.environ.get("INTERLOCK_WORKLOADS", "import-loop,locks,startup,download").split(",")
BUDGET = os.environ.get("INTERLOCK_BUDGET", "16m")  # of the first command (QUICK_CORE_S in cli/matrix.py)
ROUNDS = os.environ.get("INTERLOCK_ROUNDS", "")
MOST_S = 6 * 3600
EXPERIMENTS = int(os.environ.get("INTERLOCK_EXPERIMENTS", "1"))
EQUALS = [f"same-{number}" for number in range(1, 9)]
SLOWER = {"slower-3": 0.03, "slower-5": 0.05, "slower-10": 0.10, "slower-20": 0.20, "slower-100": 1.0}
# Of commands, which are whole processes, nothing makes a known part slower.
INJECTED = ("import-loop", "locks", "download")
MODE = """
[[modes]]
name = "{name}"
summary = "{name}"
environment = {{ INTERLOCK_SLOWER = "{share}" }}
"""
# The program itself does nothing for so much longer, by its own clock, and counts it.
SLOW = """\
        share = float(os.environ.get("INTERLOCK_SLOWER", "0"))
        self.timed = timed
        if share:
            self.timed = lambda loops: _slowed(timed(loops), share)
"""
SLOWED = """
def _slowed(duration_s, share):
    start_s = timer()
    while timer() - start_s < share * duration_s:
        pass
    return duration_s + timer() - start_s


class Work(object):
"""
# Burns a core half of the time.
NEIGHBOUR = """
import time
while True:
    end_s = time.monotonic() + 0.5
    while time.monotonic() < end_s:
        pass
    time.sleep(0.5)
"""


@dataclass(frozen=True)
class Judged:
    """One ratio to the baseline, and the share by which its row is truly slower."""

    table: str
    share: float
    comparison: Comparison
    block_figures: Sequence[BlockFigure]  # what it is compared by: a figure of each block

    @property
    def covers(self) -> bool:
        return self.comparison.ratio.low <= 1 + self.share <= self.comparison.ratio.high


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project whose variant has modes that are equal, and modes whose programs are slower."""
    root = copy_project(ROOT, tmp_path / "project", [BASELINE], WORKLOADS)
    variant = root / f"variants/{BASELINE}.toml"
    modes = dict.fromkeys(EQUALS, 0.0) | SLOWER
    variant.write_text(
        variant.read_text() + "".join(MODE.format(name=name, share=share) for name, share in modes.items())
    )
    edit(root, "workloads/protocol.py", "        self.timed = timed\n", SLOW)
    edit(root, "workloads/protocol.py", "\nclass Work(object):\n", SLOWED)
    return root


@contextmanager
def neighbour() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def experiment(root: Path, number: int) -> list[Judged]:
    labels = ",".join([BASELINE, *(f"{BASELINE}+{mode}" for mode in [*EQUALS, *SLOWER])])
    results = root / f"results-{number}"
    rounds = ["--rounds", ROUNDS] if ROUNDS else []
    interlock(
        root, "matrix", "--variants", labels, "--workloads", ",".join(WORKLOADS), "--quick", "--no-profile",
        "--budget", BUDGET, *rounds, "--seed", str(number), "--results", str(results), timeout_s=MOST_S,
    )  # fmt: skip
    folder = store.latest_experiment(results)
    described = store.read_experiment(folder)
    return judged(described, *store.read_cells(folder, described), number)


def judged(described: Experiment, values: Values, profiles: Profiles, number: int) -> list[Judged]:
    """Every ratio to the baseline whose true value is known."""
    shares = {f"{BASELINE}+{mode}": share for mode, share in (dict.fromkeys(EQUALS, 0.0) | SLOWER).items()}
    return [
        Judged(f"{number} {' '.join(key)}", shares[row.label], row.to_baseline, turns[row.label])
        for table in compare.tables(described, values, profiles)
        for key in [(table.workload.name, table.benchmark.name)]
        for turns in [compared_figures(compare.fitted_rows(values, *key))]
        for row in table.rows
        if row.label in shares and row.to_baseline
        if shares[row.label] == 0 or table.workload.name in INJECTED
    ]


def lines(found: list[Judged]) -> Iterator[str]:
    equals = [one for one in found if one.share == 0]
    wrong = [one for one in equals if one.comparison.verdict.differs]
    yield f"| equals called different | {len(wrong)} of {len(equals)} |"
    yield f"| tables with any | {len(tables_of(wrong))} of {len(tables_of(equals))} |"
    yield f"| equals whose interval covers 1 | {sum(one.covers for one in equals) / len(equals):.1%} |"
    yield f"| equals called the same | {share_of(equals, Verdict.SAME)} |"
    for share in SLOWER.values():
        some = [one for one in found if one.share == share]
        early = sum(one.comparison.verdict is Verdict.SLOWER and one.comparison.ratio.rounds <= 4 for one in some)
        covered = sum(one.covers for one in some)
        slower, same = (share_of(some, verdict) for verdict in (Verdict.SLOWER, Verdict.SAME))
        yield f"| {share:.0%} slower | found in {slower}, by block 4 in {early}, same in {same}, covered in {covered} |"
    ratios = [one.comparison.ratio for one in equals]
    widths = sorted((one.high - one.low) / 2 / one.estimate for one in ratios)
    most = widths[len(widths) * 9 // 10]
    yield f"| half width of an interval, median and 9 of 10 | {statistics.median(widths):.1%}, {most:.1%} |"
    yield f"| blocks, median | {statistics.median(one.rounds for one in ratios):g} |"


def share_of(some: list[Judged], verdict: Verdict) -> str:
    return f"{sum(one.comparison.verdict is verdict for one in some)} of {len(some)}"


@pytest.mark.parametrize("noise", ["quiet", "another program burns a core half of the time"])
def test_verdicts_of_equal_images_and_of_programs_that_are_slower_by_a_known_share(
    project: Path, noise: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found: list[Judged] = []
    start_s = time.monotonic()
    for number in range(EXPERIMENTS):
        experiment_s = time.monotonic()
        with nullcontext() if noise == "quiet" else neighbour():
            found += experiment(project, number)
        with capsys.disabled():
            took = f"{minutes(time.monotonic() - start_s)}, the last in {minutes(time.monotonic() - experiment_s)}"
            print(f"\n{noise}: {number + 1} of {EXPERIMENTS} experiments of {BUDGET}{of_rounds()} in {took}")
            print(*lines(found), *by_table(found), sep="\n", flush=True)


def of_rounds() -> str:
    return f" and {ROUNDS} rounds" if ROUNDS else ""


def minutes(duration_s: float) -> str:
    return "{}:{:02} min".format(*divmod(round(duration_s), 60))


def tables_of(some: list[Judged]) -> set[str]:
    return {one.table for one in some}


def spread(found: list[Judged], table: str) -> float:
    logs = [one.comparison.ratio.log for one in found if one.table == table and one.share == 0]
    return statistics.stdev(logs) if len(logs) > 1 else math.inf


def by_table(found: list[Judged]) -> Iterator[str]:
    for table in dict.fromkeys(one.table for one in found if one.share == 0):
        equals = [one for one in found if one.table == table and one.share == 0]
        here = [one.comparison.ratio for one in equals]
        width = statistics.median((one.high - one.low) / 2 / one.estimate for one in here)
        together = math.exp(statistics.mean(one.log for one in here))
        differ = (
            f"equals differ by {spread(found, table):.1%}, chi2/df {beyond_blocks(equals):.1f}, mean {together:.3f}x"
        )
        yield f"| {table} | {here[0].rounds} blocks | ±{width:.1%} | {differ} |"


def beyond_blocks(equals: list[Judged]) -> float:
    """Return the variance of equal rows divided by what the differences between their blocks explain: 1 if all of it.

    What it says of a single table is uncertain: with eight rows it is between 0.24 and 2.3 in 19 of 20.
    """
    levels = fit_levels({place: one.block_figures for place, one in enumerate(equals)})
    explained = statistics.mean(
        variance / levels.rounds_of(place) for place, variance in enumerate(map(float, levels.variance))
    )
    return statistics.variance(map(float, levels.level)) / explained
