"""Tracks: each is one cell's one benchmark, with what its processes have yielded, and why it goes on no further."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from interlock.catalog.workloads import Benchmark, Repetition
from interlock.engine.ended import Ended
from interlock.errors import UnsupportedHereError, WorkloadError
from interlock.measure import processes
from interlock.measure.bare_cells import BareCell
from interlock.measure.processes import OK
from interlock.measure.pyperf_runs import estimator_of, values_of
from interlock.measure.sessions import Session
from interlock.results.experiments import BenchmarkValues, Outcome, PackageSet, ProcessCost, ProgramOutput, State
from interlock.results.profiles import BenchmarkProfile

if TYPE_CHECKING:
    import pyperf

# An interpreter that hung when it was asked its facts most likely hangs again in each workload, so a process of it has
# these seconds: several times what any other one needs.
HUNG_S = 10
PYTHON_PATH = "PYTHONPATH"
# How many times as long, or as short, as the timing that decided the loops a row's values may be. What is so far off is
# decided whatever its loops are; with more, slow rows would have most of the time.
MOST_TIMES = 2


@dataclass(frozen=True)
class Result:
    """How a process of a track, or a row of them, ended, and what a program has reported.

    `busy_s` is what its start, its warm-ups and its values took: the rest of its life it waited. Without it the
    launcher's own figures tell.
    """

    track: Track
    outcome: Outcome
    ended: Ended
    output: ProgramOutput | None = None
    run: pyperf.Run | None = None  # where it is not made of what was printed
    busy_s: float | None = None
    cpu_s: float | None = None  # where the launcher did not start it
    part: int | None = None  # of its block, where the rows of that were split

    @cached_property
    def costs(self) -> list[ProcessCost]:
        """Return what the launcher read of each of its processes."""
        return processes.parse_costs(self.ended.stdout)

    def with_all_of(self, started: int) -> Result:
        """Return failed if the launcher's output lacks one of so many processes: it was cut short on its way."""
        reported = len(self.costs)
        if self.outcome.state is not State.OK or reported == started:
            return self
        said = f"its output was cut short: the launcher reported {reported} of {started} processes"
        return replace(self, outcome=Outcome(state=State.FAILED, reason=f"'{self.track.name}': {said}"))


@dataclass(eq=False)
class Track:
    """One benchmark in one cell while it is measured."""

    cell: BareCell
    benchmark: Benchmark
    runs: list[pyperf.Run] = field(default_factory=list)
    outcome: Outcome = OK
    loops: int = 1
    decisive_s: float | None = None  # what the timing took that decided the loops
    is_fitted: bool = False  # its loops were fitted to what its own values take
    is_fed: bool = False  # its program said that it takes values as it is asked for them
    profile: BenchmarkProfile | None = None
    kept: int = 0  # how many of the runs the journal has
    profile_kept: bool = False

    @property
    def name(self) -> str:
        return self.benchmark.name

    @property
    def label(self) -> str:
        return self.cell.subject.label

    @property
    def session(self) -> Session:
        return self.cell.session

    @property
    def goes_on(self) -> bool:
        """Return whether it has not failed."""
        return self.outcome.state is State.OK

    @property
    def has_values(self) -> bool:
        return any(run.values for run in self.runs)

    @property
    def values(self) -> BenchmarkValues:
        """Return the values so far."""
        return values_of(self.runs, estimator_of(self.benchmark))

    @property
    def take(self) -> Repetition:
        """Return how many warm-ups and values a process takes."""
        take, factor = self.session.repetition, self.benchmark.values_factor
        return take.model_copy(update={"warmups": factor * take.warmups, "values": factor * take.values})

    @property
    def packages(self) -> PackageSet:
        """Return the packages that the benchmark has here, or the outcome that says why not."""
        sets = self.session.resources.package_sets
        return sets.of(self.cell.subject.variant, self.session.workload, self.benchmark)

    @property
    def deadline_s(self) -> float:
        """Return how long a process may take, in seconds: an interpreter that hung once hangs again."""
        deadline_s = self.session.workload.deadline_of(self.benchmark)
        return min(HUNG_S, deadline_s) if self.label in self.session.resources.known.silent else deadline_s

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment of its processes, with the benchmark's packages on PYTHONPATH if it has any."""
        environment, packages = self.cell.subject.environment, self.packages
        return {**environment, PYTHON_PATH: packages.site} if packages.volume else environment

    @property
    def places(self) -> Mapping[str, str]:
        """Return the values of the placeholders in its arguments."""
        return processes.placeholders(self.session.network.url, self.packages.site)

    def profiled_units(self, result: Result) -> int:
        """Return the units of work that a counted process has done."""
        return 1 if result.output is None else self.benchmark.profile_loops * result.output.inner_loops

    def take_over(self, calibrated: Track) -> None:
        """Take the loops of the track that calibrated: values of another length are other work.

        Rows that calibrated by themselves often had twice the loops of equal rows.
        """
        self.is_fed, self.loops, self.decisive_s = calibrated.is_fed, calibrated.loops, calibrated.decisive_s

    def take_loops(self, calibrated: ProgramOutput) -> None:
        """Take the loops that its program has found for itself in round 0."""
        self.is_fed, self.loops = calibrated.fed, calibrated.loops
        if calibrated.calibration:
            self.decisive_s = calibrated.calibration[-1][1]

    def fit_loops(self, output: ProgramOutput) -> None:
        """Give a row that is far slower or faster than what calibrated loops of its own, after its first block."""
        if self.decisive_s is not None and output.values and not self.is_fitted:
            self.loops = fitting_loops(self.loops, sum(output.values) / len(output.values), self.decisive_s)
            self.is_fitted = True

    def order(self, number: int) -> random.Random:
        """Return what its benchmark's block of this number takes its orders from: the same with the same seed."""
        seed = f"{self.session.resources.settings.seed}/{self.session.workload.name}/{self.name}/{number}"
        return random.Random(seed)  # noqa: S311  an order, not a secret

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Turn an error about what a process printed into the failure of this track."""
        try:
            yield
        except (WorkloadError, ValueError, LookupError, TypeError, ArithmeticError) as error:
            state = State.UNSUPPORTED if isinstance(error, UnsupportedHereError) else State.FAILED
            what = getattr(error, "found", "") or f"its output is not a measurement ({' '.join(str(error).split())})"
            self.outcome = Outcome(state=state, reason=f"'{self.name}': {what}")


OnStart = Callable[[Track], None]


def fitting_loops(loops: int, value_s: float, decisive_s: float) -> int:
    """Return so many loops that a value takes up to `MOST_TIMES` times as long as what decided them, or as short."""
    while loops > 1 and value_s > MOST_TIMES * decisive_s:
        loops, value_s = loops // 2, value_s / 2
    while value_s < decisive_s / MOST_TIMES:
        loops, value_s = loops * 2, value_s * 2
    return loops
