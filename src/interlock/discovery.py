"""Which benchmarks a program has that a user brings: asked once, before the rounds, of the first cell that answers."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from interlock import bring, instruments
from interlock.engine import cells
from interlock.errors import WorkloadError
from interlock.model import Benchmark, Metric, Outcome, State
from interlock.stage import Cell, Stage, packages_of, start_in

ANY = Benchmark(name="", metric=Metric(label="s", scale=1))


def discover(stage: Stage, open_cells: Sequence[Cell]) -> Stage:
    """The stage with what its program turned out to have; where no cell says, each fails with its reason."""
    if not stage.workload.is_brought:
        return stage
    reasons: dict[str, Outcome] = {}
    for cell in open_cells:
        outcome = packages_of(stage, cell.subject, ANY).outcome
        try:
            if outcome.state is State.OK:
                return dataclasses.replace(stage, workload=bring.with_found(stage.workload, _ask(stage, cell)))
        except WorkloadError as error:
            outcome = Outcome(state=State.FAILED, reason=error.found)
        reasons[cell.subject.label] = outcome
    unfound = bring.unfound(stage.workload)
    for cell in open_cells:
        cell.outcomes = {one.name: reasons[cell.subject.label] for one in unfound.benchmarks}
    return dataclasses.replace(stage, workload=unfound)


def _ask(stage: Stage, cell: Cell) -> dict[str, list[str]]:
    """By name the arguments that ask for each; WorkloadError if there is none."""
    found = _tasks(stage, cell) if stage.workload.kind == bring.PYPERF else _tests(stage, cell)
    if not found:
        raise WorkloadError(found=f"{stage.workload.program} has no benchmark", todo="See docs/workloads.md.")
    return found


def _tasks(stage: Stage, cell: Cell) -> dict[str, list[str]]:
    """A script does nothing when it is asked for a number that it has not."""
    found: dict[str, list[str]] = {}
    for number in itertools.count():
        ended = _run(stage, cell, bring.task_argv(stage.workload, number))
        if ended.exit_code != 0:
            raise WorkloadError(found=_why(stage, ended), todo="Run it by hand.")
        names = list(bring.outputs_of(stage.workload, ended.stdout))
        if not names:
            return found
        found[names[0]] = ["--worker-task", str(number)]
    return found


def _tests(stage: Stage, cell: Cell) -> dict[str, list[str]]:
    ended = _run(stage, cell, bring.suite_argv(stage.workload))
    found = {} if ended.took_container else bring.tests_of(stage.workload, ended.stdout)
    if ended.exit_code != 0 and not found:
        raise WorkloadError(found=_why(stage, ended), todo="Run it by hand.")
    return found


def _run(stage: Stage, cell: Cell, argv: list[str]) -> cells.Ended:
    argv = bring.apart(stage.workload, instruments.with_options(argv, cell.subject.options))
    return start_in(stage, cell, ANY, argv, cell.subject.environment)


def _why(stage: Stage, ended: cells.Ended) -> str:
    program, deadline_s = stage.workload.program, stage.workload.deadline_s
    if ended.timed_out:
        return f"{program} had not ended after {deadline_s:g} s when it was asked for its benchmarks"
    return f"{program} ended with exit code {ended.exit_code}: {bring.last_words(ended.stdout, ended.stderr)}"
