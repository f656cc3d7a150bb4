"""Run `matrix` as this commit or an older one has it, for as long as it is told to: the program of test_designs.py.

It gives its turn away where neither design has a comparison under way: before a block, and before a benchmark's row of
processes in a round. Its budget is of its own turns. Arguments: a JSON object, see `main`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

READY, PAUSED = b"r", b"p"


class Turns:
    """Waits for turns, on two pipes, and says how long those lasted that it had."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._from, self._to = asked["from"], asked["to"]
        self._turn_s, self.budget_s = asked["turn_s"], asked["budget_s"]
        self._left_s = self.budget_s / len(asked["workloads"])
        self._before_s = self._since_s = 0.0

    def begin(self, said: bytes = READY) -> None:
        os.write(self._to, said)
        if not os.read(self._from, 1):
            sys.exit(1)
        self._since_s = time.monotonic()

    def now(self) -> float:
        return self._before_s + time.monotonic() - self._since_s

    def offer(self) -> None:
        if time.monotonic() - self._since_s >= self._turn_s:
            self._before_s = self.now()
            self.begin(PAUSED)


def part(name: str) -> Any:
    """Return a module of the design that runs: what is in it is its own."""
    return importlib.import_module(f"interlock.{name}")


def use_new(turns: Turns, built: Path) -> None:
    """Let this commit's `matrix` take turns, and write down what it has built."""
    matrix, rounds, ending = part("cli.matrix"), part("measure.rounds"), part("measure.ending")
    build, planned_blocks = matrix.build_variants, rounds.planned_blocks

    def build_variants(machine: Any, known: Any, names: Any, options: Any) -> Any:
        images = build(machine, known, names, options)
        make_helpers(machine, options.root, images)
        built.write_text(json.dumps([one.model_dump(mode="json") for one in images]))
        turns.begin()
        return images

    def in_turns(*arguments: Any) -> Iterator[Any]:
        for block in planned_blocks(*arguments):
            turns.offer()
            yield block

    matrix.build_variants, rounds.planned_blocks = build_variants, in_turns
    ending.time = SimpleNamespace(monotonic=turns.now)


def use_old(turns: Turns, built: Path, workloads: list[str]) -> None:
    """Let the older `matrix` take turns on the same images, with whole rounds alone and an end."""
    matrix, rounds = part("cli.matrix"), part("measure.rounds")
    builds, experiments = part("engine.build.builds"), part("results.experiments")
    interleave, left = rounds.interleave, list(workloads)
    builds.helper_tag = lambda name: f"interlock/{name}:old-design"

    def build_variants(machine: Any, _known: Any, _names: Any, options: Any) -> Any:
        fields = experiments.Built.model_fields
        images = [
            experiments.Built.model_validate({key: value for key, value in one.items() if key in fields})
            for one in json.loads(built.read_text())
        ]
        make_helpers(machine, options.root, images)
        turns.begin()
        return images

    def in_turns(*arguments: Any) -> Iterator[Any]:
        ends_s = turns.now() + (turns.budget_s - turns.now()) / len(left)
        left.pop()
        round_s, began_s, number, task = 0.0, turns.now(), 0, None
        for planned in interleave(*arguments):
            if planned.round != number:
                round_s, began_s, number = turns.now() - began_s, turns.now(), planned.round
                # A round that is over half of it too late is not begun.
                if number > 1 and turns.now() + round_s / 2 > ends_s:
                    return
            if (planned.round, planned.task.name) != task:
                task = planned.round, planned.task.name
                turns.offer()
            yield planned

    matrix.build_variants, rounds.interleave = build_variants, in_turns


def make_helpers(machine: Any, root: Any, images: Any) -> None:
    """Have what is made once there before the budget begins."""
    for name in ("instruments", "server", "limits"):
        machine.ensure_helper(root, name, next(one.base for one in images if one.base))


def measure_only(names: dict[str, list[str]]) -> None:
    """Let experiments measure these benchmarks alone, by workload."""
    model = part("catalog.workloads").Workload
    for_experiment = model.for_experiment

    def chosen(self: Any, quick: bool) -> Any:
        kept = [one for one in self.benchmarks if one.name in names.get(self.name, [])]
        return for_experiment(self.model_copy(update={"benchmarks": kept}), quick)

    model.for_experiment = chosen


def judged(results: Path) -> list[dict[str, Any]]:
    """Every ratio to the baseline as this design's own rule has it."""
    comparison, store = part("analysis.comparison"), part("results.store")
    folder = store.latest_experiment(results)
    experiment = store.read_experiment(folder)
    return [
        {
            "benchmark": f"{table.workload.name}/{table.benchmark.name}",
            "label": row.label,
            "verdict": row.to_baseline.verdict.value,
            "low": row.to_baseline.ratio.low,
            "estimate": row.to_baseline.ratio.estimate,
            "high": row.to_baseline.ratio.high,
            "rounds": table.rounds,
        }
        for table in comparison.tables(experiment, *store.read_cells(folder, experiment))
        for row in table.rows
        if row.to_baseline
    ]


def main() -> None:
    asked = json.loads(sys.argv[1])
    results, built = Path(asked["results"]), Path(asked["built"])
    part("measure.lock").lock_path = lambda: results.with_suffix(".lock")
    turns = Turns(asked)
    measure_only(asked["benchmarks"])
    words = ["matrix", "--quick", "--no-profile", "--variants", ",".join(asked["variants"]), "--results", str(results)]
    words += ["--workloads", ",".join(asked["workloads"]), "--baseline", asked["baseline"], *asked["options"]]
    if asked["is_old"]:
        use_old(turns, built, asked["workloads"])
    else:
        use_new(turns, built)
        words += ["--budget", f"{asked['budget_s']:g}s"]
    sys.argv = ["interlock", *words]
    try:
        part("cli.main").main()
    except SystemExit as ended:
        print("ended with", ended.code)
    Path(asked["judged"]).write_text(json.dumps(judged(results)))


if __name__ == "__main__":
    main()
