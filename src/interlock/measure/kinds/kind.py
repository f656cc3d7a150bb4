"""What is asked of every kind of workload; a kind says only where it differs from a program that prints a report."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from interlock.catalog.types import PREFIX
from interlock.catalog.workloads import Benchmark, Repetition, Workload
from interlock.engine.agent import LAUNCH, MOST_OUTPUT_BYTES
from interlock.engine.ended import Ended
from interlock.engine.protocol import MEMORY_BYTES, Sandbox, StackOptions
from interlock.errors import WorkloadError
from interlock.measure import processes
from interlock.measure.processes import NOTHING_RUN, OK, filled_in, with_options
from interlock.measure.pyperf_runs import estimator_of, in_block, program_run
from interlock.measure.slots import Slot
from interlock.measure.stopwatch import Phase
from interlock.measure.tracks import OnStart, Result, Track
from interlock.results.experiments import Outcome, ProgramOutput, State

if TYPE_CHECKING:
    import pyperf

# How an interpreter reports an option (-I, -X ...) that its version lacks; its exit code is 2.
NO_SUCH_OPTION = ("Unknown option", "-X is reserved")
# The last words of a command that cannot do its work, before the reason (workloads/import_stdlib.py).
CANNOT = "unsupported: "
SIGNALLED = 128
# How the launcher reports that it cannot drop an interpreter from the page cache, or cannot prove that it did.
NOT_EVICTED = "launch: cannot evict "
# Loops of a process whose calls are those of a program's set-up alone.
NO_WORK = 0
# The phase of a program that has its units of work; a command is one phase, from its exec to its end.
PROGRAM_PHASE, COMMAND_PHASE = "work", "startup"


@dataclass(frozen=True)
class Working:
    """What is watched: where it runs, and what does some of its work and returns how many units that was."""

    sandbox: Sandbox
    work: Callable[[], int]
    stands_still: str = ""  # why a service is watched although it does not answer

    def counted(self, stacks: StackOptions | None = None) -> tuple[str, int]:
        """Return what the profiler printed while some work was done, and its units."""
        with self.sandbox.count(stacks) as profiler:
            units = self.work()
            profiler.stop()
        return profiler.text, units


@dataclass(frozen=True)
class Kind(ABC):
    """How the processes of one benchmark are started, fed and read."""

    workload: Workload
    benchmark: Benchmark

    # Of a user's image it has been proved that it works: no round tries it, and it may start any interpreter.
    is_proved: ClassVar[bool] = False
    # Whether round 0 has a process of it, which calibrates or shows that it works.
    is_tried: ClassVar[bool] = True
    # Whether each process has a new sandbox: what it leaves there the next one must not meet.
    wants_fresh_slot: ClassVar[bool] = False
    # Whether its processes run in sandboxes that a cell keeps.
    opens_slots: ClassVar[bool] = True
    # Whether its benchmarks are not in its workload's file alone, but asked of the program.
    is_listed: ClassVar[bool] = False
    needs_load: ClassVar[bool] = False
    phase: ClassVar[str] = PROGRAM_PHASE
    memory: ClassVar[str] = f"a cell has {MEMORY_BYTES / 2**30:g} GiB"

    @property
    def leaves_traces(self) -> bool:
        """Return whether its sandboxes are no others' after it."""
        return True

    @property
    def takes_options(self) -> bool:
        """Return whether its command line starts with the interpreter, so that a mode's options reach it."""
        return True

    @abstractmethod
    def words(self, loops: str, take: Repetition | None) -> list[str]:
        """Return the interpreter's command line, with placeholders.

        Without `take` the process takes no values (calibration, profile): it runs the loops once, without warm-up.
        """

    def finished(self, words: Sequence[str], options: Sequence[str]) -> list[str]:
        """Return a command line of its own with a mode's options."""
        return with_options(words, options)

    def launcher_options(self, parallel: int = 1, *, keeps_output: bool = False) -> list[str]:
        """Return the launcher's options for so many processes at once.

        A command's output is discarded unless `keeps_output`: reading it would be part of its time.
        """
        at_once = ["--parallel", str(parallel)] if parallel > 1 else []
        pin = ["--cpu", "last"] if self.benchmark.cpus == "one" else []
        evicted = ["--evict", PREFIX] if self.benchmark.cold else []
        return [*at_once, *pin, *evicted]

    # How one process is run.

    def argv(self, track: Track, loops: str = "1", take: Repetition | None = None) -> list[str]:
        """Return the command line of a process; without `take` it takes no values, and runs its loops once."""
        words = filled_in(self.words(loops, take), track.places)
        return self.finished(words, track.cell.subject.options)

    def run(
        self,
        track: Track,
        argv: Sequence[str],
        options: Sequence[str] | None = None,
        *,
        repeat: int = 1,
        deadline_s: float | None = None,
    ) -> Result:
        """Run a process under the launcher, after the benchmark's set-up if that has not run in its sandbox yet.

        `deadline_s`: what it has instead of the track's deadline.
        """
        options = self.launcher_options() if options is None else options
        words = [LAUNCH, "--repeat", str(repeat), *options, "--", *argv]
        return self._run(track, words, track.environment, deadline_s or track.deadline_s).with_all_of(repeat)

    def _run(
        self,
        track: Track,
        words: list[str],
        environment: Mapping[str, str],
        deadline_s: float,
        *,
        may_idle: bool = False,
    ) -> Result:
        slot = track.cell.slot()
        outcome, ended = self.set_up(track, slot)
        if outcome.state is not State.OK:
            return Result(track, outcome, ended)
        ended = slot.run(words, deadline_s, environment)
        outcome, output = self.judge(ended, deadline_s, may_idle=may_idle)
        return Result(track, outcome, ended, output)

    def set_up(self, track: Track, slot: Slot) -> tuple[Outcome, Ended]:
        """Run the benchmark's set-up, once in each sandbox; it is not measured."""
        if not self.benchmark.set_up or track.name in slot.ready:
            return OK, NOTHING_RUN
        slot.ready.add(track.name)
        argv = with_options(["python", *filled_in(self.benchmark.set_up, track.places)], track.cell.subject.options)
        with track.session.clock.during(Phase.PREPARING), track.cell.clock.during(Phase.PREPARING):
            ended = slot.run(argv, track.deadline_s, track.environment)
        return self.judge_set_up(ended, track.deadline_s), ended

    def run_counted(self, track: Track, loops: int, *, strace: bool = False) -> Result:
        """Run a process whose calls are counted: so many loops of the work, or NO_WORK, which a profile subtracts.

        WorkloadError if it does not work.
        """
        argv, environment = self.argv(track, str(loops)) + self.benchmark.profile_arguments, track.environment
        if strace:
            argv, environment = processes.traced_argv(argv, environment), {}
        words = [LAUNCH, "--repeat", "1", *self.launcher_options(), "--", *argv]
        done = self._run(track, words, environment, track.deadline_s, may_idle=loops == NO_WORK)
        result = done.with_all_of(1)
        if result.outcome.state is not State.OK:
            failure = f"while it was counted: {result.outcome.reason}"
            raise WorkloadError(found=failure, todo="Run `interlock doctor`.")
        return result

    # How it is measured: alone, or with the processes of other rows in order.

    def is_in_order(self, track: Track) -> bool:
        """Return whether the processes of a block take their values in order; otherwise one runs after the other."""
        return False

    def shares_loops(self, track: Track) -> bool:
        """Return whether a track's values have the loops that one process calibrated for all rows.

        One that is to do its work once calibrates by itself.
        """
        return track.is_fed and self.is_in_order(track) and track.take.warmups + track.take.values > 1

    def block(self, tracks: Sequence[Track], number: int, on_start: OnStart) -> Iterator[Result]:
        """Measure tracks of this benchmark in order, in the block of this number."""
        raise NotImplementedError

    def alone(self, track: Track, number: int) -> Result:
        """Run one process; that of round 0 calibrates."""
        argv = self.argv(track, "auto") if number == 0 else self.argv(track, str(track.loops), track.take)
        return self.run(track, argv)

    def run_of(self, result: Result) -> pyperf.Run | None:
        """Return the run that a process has yielded; None for one that yields none."""
        if result.output is None:
            return None
        return program_run(self.workload, self.benchmark, result.output, result.costs[-1])

    def keep(self, result: Result, number: int) -> None:
        """Add what a process of this block has yielded to its track, as a run or as an outcome; one not ok stays."""
        track, output, outcome = result.track, result.output, result.outcome
        track.cell.note(processes.gil_note(output, result.ended.stderr))
        if outcome.state is State.OK:
            outcome = processes.gil_outcome(track.name, track.cell.gil, output)
        if track.goes_on:
            track.outcome = outcome
        if outcome.state is not State.OK or (number == 0 and output is None):
            return
        if output is not None and number == 0:
            track.take_loops(output)
        elif output is not None and self.is_in_order(track):
            track.fit_loops(output)
        run = result.run or self.run_of(result)
        if run is not None:
            track.runs.append(in_block(run, number, estimator_of(self.benchmark), result.part))

    @contextmanager
    def working(self, track: Track, *, even_silent: bool = False) -> Iterator[Working]:
        """Yield what is watched: a process from its start to its end, or a service that is warm.

        With `even_silent` a service that does not answer is at work while it is asked.
        """
        if self.wants_fresh_slot:
            track.cell.slot().replace()
        loops = self.benchmark.profile_loops
        yield Working(track.cell.slot().sandbox, lambda: track.profiled_units(self.run_counted(track, loops)))

    def listed(self, track: Track) -> Workload:
        """Return the workload with the benchmarks that its program lists; WorkloadError says why there are none."""
        raise NotImplementedError

    def unlisted(self) -> Workload:
        """Return the workload with something to carry the reason if none of its benchmarks is known."""
        return self.workload

    # What its processes say.

    def judge(self, ended: Ended, deadline_s: float, *, may_idle: bool = False) -> tuple[Outcome, ProgramOutput | None]:
        """Return the outcome of a process and a program's report; with `may_idle` it may have done no work."""
        outcome = self._judge_end(ended, deadline_s)
        if outcome.state is not State.OK:
            return outcome, None
        try:
            output = self.read(ended.stdout)
        except WorkloadError as error:
            return Outcome(state=State.FAILED, reason=str(error)), None
        if output is not None and output.unsupported is not None:
            return Outcome(state=State.UNSUPPORTED, reason=output.unsupported), output
        if output is not None and output.loops == 0 and not may_idle:
            reason = f"'{self.benchmark.name}' reports 0 loops: no work was done"
            return Outcome(state=State.FAILED, reason=reason), None
        return OK, output

    @abstractmethod
    def read(self, stdout: str) -> ProgramOutput | None:
        """Return what a process reports, None of one that has nothing to report; WorkloadError if it should have."""

    def judge_set_up(self, ended: Ended, deadline_s: float) -> Outcome:
        """Return the outcome of the benchmark's set-up."""
        outcome = self._judge_command(ended, deadline_s)
        if outcome.state is State.OK:
            return outcome
        return outcome.model_copy(update={"reason": f"set-up: {outcome.reason}"})

    def _judge_command(self, ended: Ended, deadline_s: float) -> Outcome:
        """Return the outcome of what is run as it stands, with options of the interpreter that it may lack."""
        if ended.exit_code != 0 and not ended.took_sandbox:
            first, last = ended.stderr.strip().partition("\n")[0], self.last_words(ended)
            if first.startswith(NO_SUCH_OPTION):
                return Outcome(state=State.UNSUPPORTED, reason=first)
            if last.startswith(CANNOT):
                return Outcome(state=State.UNSUPPORTED, reason=last.removeprefix(CANNOT))
        return self._judge_end(ended, deadline_s)

    def _judge_end(self, ended: Ended, deadline_s: float) -> Outcome:
        name = self.benchmark.name or self.workload.program  # which is asked for its benchmarks
        if ended.timed_out:
            return Outcome(state=State.TIMED_OUT, reason=f"'{name}' did not end within {deadline_s:g} s")
        if ended.out_of_memory:
            return Outcome(state=State.FAILED, reason=f"'{name}' ran out of memory: {self.memory}")
        if ended.flooded:
            return Outcome(state=State.FAILED, reason=f"'{name}' printed more than {MOST_OUTPUT_BYTES // 2**20} MiB")
        if ended.exit_code == 0:
            return OK
        said = self.last_words(ended)
        if said.startswith(NOT_EVICTED):
            return Outcome(state=State.UNSUPPORTED, reason=f"no cold start: {said.removeprefix('launch: ')}")
        return Outcome(state=State.FAILED, reason=f"'{name}' {_how_it_ended(ended.exit_code)}: {said}")

    def last_words(self, ended: Ended) -> str:
        """Return the line that says why a process failed."""
        return (ended.stderr.strip().splitlines() or [f"exit code {ended.exit_code}"])[-1]


def _how_it_ended(code: int | None) -> str:
    """Return words for an exit code; as a shell's, the launcher's is 128 plus the number of the signal."""
    names = {SIGNALLED + number: number.name for number in signal.Signals}
    return f"was ended by {names[code]}" if code in names else f"ended with exit code {code}"
