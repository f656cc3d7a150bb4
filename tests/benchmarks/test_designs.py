"""The design of today beside that of before it, on the same images at the same time: how much each decides. Prints.

Needs the engine, git's history, and nothing else running. Both run `matrix --quick` in turns of a minute, each with its
own programs, instruments and rule, so that both see the same machine. `INTERLOCK_VARIANTS` names the rows (the first
variant is the baseline), `INTERLOCK_OPTIONS=--release` which builds, `INTERLOCK_BUDGET_S` how long each measures.
"""

from __future__ import annotations

import io
import json
import os
import select
import statistics
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.analysis import comparison as compare
from interlock.measure import lock
from interlock.results import store
from tests.benchmarks.design import PAUSED, READY

ROOT = Path(__file__).parents[2]
# The last commit with one process per row after the other, medians, Holm's p and 'no difference'.
OLD = "9b6102d717d0fe8918dbdc944786a79e3caaadc0^"
TODAYS = "cpython-3.13,cpython-3.13+mimalloc,cpython-3.13+frozen-modules-off,cpython-3.14,cpython-3.14+mimalloc"
VARIANTS = os.environ.get("INTERLOCK_VARIANTS", f"{TODAYS},cpython-3.14t,cpython-3.14t+gil-on,debian-3.13").split(",")
OPTIONS = os.environ.get("INTERLOCK_OPTIONS", "").split()
WORKLOADS = os.environ.get("INTERLOCK_WORKLOADS", "import-loop,locks,startup,download").split(",")
BUDGET_S = float(os.environ.get("INTERLOCK_BUDGET_S", "600"))
TURN_S = min(60.0, BUDGET_S / 10)
DECIDED = ("slower", "faster", "same")


@dataclass(frozen=True)
class Judged:
    """One ratio to the baseline; `verdict` in the words of the design that judged it."""

    benchmark: str
    label: str
    verdict: str
    low: float
    estimate: float
    high: float
    rounds: int

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2 / self.estimate

    @property
    def excludes_one(self) -> bool:
        return not self.low <= 1 <= self.high


class Design:
    """A running `matrix` that waits for its turns."""

    def __init__(self, name: str, tree: Path, folder: Path, built: Path, benchmarks: dict[str, list[str]]) -> None:
        self.results, self._judged = folder / name, folder / f"{name}.json"
        (told, self._tell), (self._hear, tells) = os.pipe(), os.pipe()
        asked = {
            "is_old": name == "old", "from": told, "to": tells, "turn_s": TURN_S, "budget_s": BUDGET_S,
            "workloads": WORKLOADS, "variants": VARIANTS, "baseline": VARIANTS[0].partition("+")[0], "options": OPTIONS,
            "benchmarks": benchmarks, "results": str(self.results), "built": str(built), "judged": str(self._judged),
        }  # fmt: skip
        with (folder / f"{name}.txt").open("w") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(ROOT / "tests/benchmarks/design.py"), json.dumps(asked)],
                cwd=tree,
                env={**os.environ, "PYTHONPATH": str(tree / "src"), "COLUMNS": "200"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[told, tells],
            )
        os.close(told)
        os.close(tells)

    def wait(self, *said: bytes) -> bool:
        """Wait until it says one of these; False if it has ended."""
        select.select([self._hear], [], [])
        heard = os.read(self._hear, 1)
        assert heard in {*said, b""}
        return bool(heard)

    def turn(self) -> bool:
        """Let it measure for a turn; False if it has ended."""
        os.write(self._tell, b"g")
        return self.wait(PAUSED)

    @property
    def own(self) -> list[Judged]:
        return [Judged(**one) for one in json.loads(self._judged.read_text())]

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


def checked_out(folder: Path) -> Path:
    archive = subprocess.run(["git", "archive", OLD], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    # The one thing that it needs and this design does not.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder / "src"), "threadpoolctl~=3.5"]
    subprocess.run(pip, check=True)
    return folder


def quick_benchmarks(tree: Path, workload: str) -> list[str]:
    described: dict[str, Any] = tomllib.loads((tree / f"workloads/{workload}.toml").read_text())
    quick = [one for one in described["benchmarks"] if not one.get("full_only") and not one.get("requirements")]
    return [one["name"] for one in quick]


def by_rule_of_today(results: Path) -> list[Judged]:
    """The same values, judged by the rule of this commit."""
    folder = store.latest_experiment(results)
    experiment = store.read_experiment(folder)
    return [
        Judged(
            f"{table.workload.name}/{table.benchmark.name}", row.label, one.verdict.value, one.ratio.low,
            one.ratio.estimate, one.ratio.high, table.rounds,
        )
        for table in compare.tables(experiment, *store.read_cells(folder, experiment))
        for row in table.rows
        if (one := row.to_baseline)
    ]  # fmt: skip


def lines(name: str, found: list[Judged]) -> Iterator[str]:
    differ = sum(one.verdict in {"slower", "faster"} for one in found)
    decided = sum(one.verdict in DECIDED for one in found)
    halves = sorted(one.half for one in found)
    open_ = [one for one in found if one.verdict not in DECIDED]
    most = max((max(one.estimate, 1 / one.estimate) for one in open_), default=1.0)
    outside = sum(one.excludes_one for one in open_)
    share = f"{differ} + {decided - differ} of {len(found)} ({decided / len(found):.0%})"
    widths = f"{statistics.mean(halves):.1%} | {statistics.median(halves):.1%}"
    yield f"| {name} | {share} | {widths} | {most:.2f}x | {outside} |"


def by_benchmark(designs: dict[str, list[Judged]]) -> Iterator[str]:
    for benchmark in dict.fromkeys(one.benchmark for found in designs.values() for one in found):
        here = [[one for one in found if one.benchmark == benchmark] for found in designs.values()]
        cells = [
            f"{sum(one.verdict in DECIDED for one in some)} of {len(some)}, "
            f"±{statistics.mean(one.half for one in some):.1%}, {some[0].rounds} rounds"
            for some in here
            if some
        ]
        yield f"| {benchmark} | {' | '.join(cells)} |"


def test_how_much_each_design_decides_of_the_same_rows_in_the_same_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old_tree, built, start_s = checked_out(tmp_path / "tree"), tmp_path / "built.json", time.monotonic()
    names = {
        name: [one for one in quick_benchmarks(ROOT, name) if one in quick_benchmarks(old_tree, name)]
        for name in WORKLOADS
    }
    designs: list[Design] = []
    try:
        with lock.hold("two designs beside each other", print):
            for name, tree in (("new", ROOT), ("old", old_tree)):
                designs.append(Design(name, tree, tmp_path, built, names))
                assert designs[-1].wait(READY), (tmp_path / f"{name}.txt").read_text()
            new, old = designs
            going_on = [old, new]
            while going_on:
                going_on = [one for one in going_on if one.turn()]
    finally:
        for one in designs:
            one.end()
    found = {
        "old values, old rule": old.own,
        "old values, today's rule": by_rule_of_today(old.results),
        "today's values and rule": new.own,
    }
    took = f"{len(VARIANTS)} rows, {BUDGET_S / 60:g} minutes each, in {(time.monotonic() - start_s) / 60:.0f} minutes"
    with capsys.disabled():
        print(f"\n{took}\n| design | different + same | half width, mean | median | largest open | open, outside 1 |")
        for name, some in found.items():
            print(*lines(name, some), sep="\n")
        print(*by_benchmark(found), sep="\n", flush=True)
