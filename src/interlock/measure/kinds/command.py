"""Commands: what is timed is a whole process, from its start to its end. Limits of the machine are commands too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from interlock.catalog.workloads import Repetition
from interlock.engine.ended import Ended
from interlock.measure.kinds.kind import COMMAND_PHASE, Kind
from interlock.measure.kinds.program import Program
from interlock.measure.processes import NOTHING_RUN, OK, printed_lines
from interlock.measure.pyperf_runs import command_run
from interlock.measure.tracks import OnStart, Result, Track
from interlock.results.experiments import Outcome, ProgramOutput, State

if TYPE_CHECKING:
    import pyperf


@dataclass(frozen=True)
class Command(Kind):
    """A whole command line, of the interpreter or of another program of the image."""

    phase = COMMAND_PHASE

    @property
    def command(self) -> list[str]:
        return self.benchmark.command or []

    @property
    def units(self) -> int:
        """Return the units of work of one value."""
        return self.benchmark.parallel

    @property
    def takes_options(self) -> bool:
        return self.command[:1] == ["python"]

    def words(self, loops: str, take: Repetition | None) -> list[str]:
        return self.command

    def launcher_options(self, parallel: int = 1, *, keeps_output: bool = False) -> list[str]:
        discard = [] if keeps_output else ["--discard-stdout"]
        return [*super().launcher_options(parallel), *discard]

    def is_in_order(self, track: Track) -> bool:
        return True

    def block(self, tracks: Sequence[Track], number: int, on_start: OnStart) -> Iterator[Result]:
        """Yield how each row of starts ended, of which the first ones are warm-ups."""
        rng, take = tracks[0].order(number), tracks[0].take
        going_on = {track.label: track for track in tracks}
        printed = dict.fromkeys(going_on, NOTHING_RUN)
        failed: list[Result] = []
        try:
            for _ in range(take.warmups + take.values):
                for label in rng.sample(sorted(going_on), len(going_on)):
                    track = going_on[label]
                    on_start(track)
                    result = self._start_once(track)
                    ended = result.ended
                    if result.outcome.state is not State.OK:
                        del going_on[label]
                        failed.append(result)
                    printed[label] = Ended(ended.exit_code, printed[label].stdout + ended.stdout, ended.stderr)
        finally:
            # Also if somebody ends the rounds: the starts that were timed are kept.
            yield from failed
            for label, track in going_on.items():
                row = Result(track, OK, printed[label])
                if len(row.costs) > take.warmups:
                    yield replace(row, busy_s=sum(cost.wall_s for cost in row.costs))

    def _start_once(self, track: Track) -> Result:
        """Start it and wait for its end. One that was disturbed is not repeated: a start waits for its files too."""
        slot, limit_s = track.cell.slot(), track.deadline_s
        if self.wants_fresh_slot:
            slot.replace()
        outcome, ended = self.set_up(track, slot)
        if outcome.state is not State.OK:
            return Result(track, outcome, ended, busy_s=0.0)
        options = self.launcher_options(self.benchmark.parallel)
        process = slot.start(options, self.argv(track), track.environment)
        _, late = slot.answer_of(process, lambda: process.wait(limit_s))
        ended = late or slot.end_of(process)
        if ended.took_sandbox:
            slot.replace()
        outcome, _ = self.judge(ended, limit_s)
        return Result(track, outcome, ended, busy_s=0.0).with_all_of(1)

    def alone(self, track: Track, number: int) -> Result:
        """Show that it works and prints what it must, and fill the page cache: it is not calibrated."""
        result = self.run(track, self.argv(track), self.launcher_options(self.benchmark.parallel, keeps_output=True))
        return replace(result, outcome=self.output_outcome(result.ended)) if result.outcome == OK else result

    def run_of(self, result: Result) -> pyperf.Run | None:
        return command_run(self.workload, self.benchmark, result.costs, result.track.take, self.units)

    def judge(self, ended: Ended, deadline_s: float, *, may_idle: bool = False) -> tuple[Outcome, ProgramOutput | None]:
        return self._judge_command(ended, deadline_s), None

    def read(self, stdout: str) -> ProgramOutput | None:
        return None

    def output_outcome(self, ended: Ended) -> Outcome:
        """Return failed if the output lacks an expected text."""
        missing = [text for text in self.benchmark.expected if text not in ended.stdout]
        if not missing:
            return OK
        lines = printed_lines(ended.stdout)
        printed = f"its last line is {lines[-1][:80]!r}" if lines else "it printed nothing"
        reason = f"'{self.benchmark.name}' did not print {missing[0]!r}: {printed}"
        return Outcome(state=State.FAILED, reason=reason)


class PythonCommand(Command):
    """Arguments of the interpreter, in a workload of programs."""

    leaves_traces = Program.leaves_traces
    takes_options = Kind.takes_options

    @property
    def command(self) -> list[str]:
        return ["python", *super().command]


class UsersCommand(Command):
    """A command in a user's own image."""

    is_proved = wants_fresh_slot = True
    memory = "--memory is its limit"


@dataclass(frozen=True)
class LimitCommand(Command):
    """What the machine can do without an interpreter, with so many units of work in one run of it."""

    unit_count: int

    @property
    def units(self) -> int:
        return self.unit_count

    def is_in_order(self, track: Track) -> bool:
        return False

    def alone(self, track: Track, number: int) -> Result:
        """Run it as often as it gives values; in round 0 once, to show that it runs."""
        return self.run(track, self.argv(track), repeat=1 if number == 0 else track.take.warmups + track.take.values)
