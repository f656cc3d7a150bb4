"""Programs that speak Interlock's protocol: each lives for a block, and takes a value whenever it is asked for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import ValidationError

from interlock.catalog.workloads import Repetition
from interlock.errors import WorkloadError
from interlock.measure.blocks import OnStart, run_fed
from interlock.measure.kinds.kind import Kind
from interlock.measure.processes import WORKLOADS, printed_lines
from interlock.measure.tracks import Result, Track
from interlock.results.experiments import ProgramOutput


class Program(Kind):
    """A program of ours, or of somebody who followed docs/workloads.md."""

    @property
    def leaves_traces(self) -> bool:
        benchmark = self.benchmark
        words = (*benchmark.arguments, *(benchmark.command or []))
        return bool(benchmark.set_up or benchmark.cold or any("{scratch}" in word for word in words))

    def words(self, loops: str, take: Repetition | None) -> list[str]:
        """Return the program with the protocol's options."""
        warmups, values = (take.warmups, take.values) if take else (0, 0 if loops == "auto" else 1)
        return [
            "python", f"{WORKLOADS}/{self.workload.program_of(self.benchmark)}",
            *self.benchmark.arguments,
            "--loops", loops, "--warmups", str(warmups), "--values", str(values),
        ]  # fmt: skip

    def is_in_order(self, track: Track) -> bool:
        """Return whether it is fed: somebody else's may not know how, and one whose files must be cold starts anew."""
        return track.is_fed and not self.benchmark.cold

    def block(self, tracks: Sequence[Track], number: int, on_start: OnStart) -> Iterator[Result]:
        return run_fed(tracks, number, on_start)

    def read(self, stdout: str, *, may_idle: bool = False) -> ProgramOutput:
        """Parse the protocol's line; WorkloadError shows what was printed instead.

        `may_idle` allows a report of no loops: the run without work that is subtracted from a profile.
        """
        lines = printed_lines(stdout)
        last = lines[-1] if lines else ""
        try:
            output = ProgramOutput.model_validate_json(last)
        except ValidationError as error:
            problem = error.errors()[0]
            key = ".".join(str(part) for part in problem["loc"])
            detail = f"its key '{key}': {problem['msg']}" if key else problem["msg"]
            raise self._no_line(last, detail) from None
        if output.loops == 0 and output.unsupported is None and not may_idle:
            raise self._no_line(last, "its key 'loops': no work was done")
        return output

    def _no_line(self, last: str, detail: str) -> WorkloadError:
        return WorkloadError(
            file=self.workload.file,
            key="program",
            found=f"{self.workload.program} printed no protocol line: its last line is {last[:80]!r} ({detail})",
            todo="Print a line as docs/workloads.md shows it, as the last one; workloads/protocol.py does.",
        )
