"""Programs that speak Interlock's protocol: each lives for a block, and takes a value whenever it is asked for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import ValidationError

from interlock.catalog.types import first_refusal
from interlock.catalog.workloads import Repetition
from interlock.errors import WorkloadError
from interlock.measure.kinds.fed import run_fed
from interlock.measure.kinds.kind import Kind
from interlock.measure.processes import WORKLOADS, printed_lines
from interlock.measure.tracks import OnStart, Result, Track
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
        return run_fed(self, tracks, number, on_start)

    def read(self, stdout: str) -> ProgramOutput:
        """Parse the protocol's line; WorkloadError shows what was printed instead."""
        last = (printed_lines(stdout) or [""])[-1]
        try:
            return ProgramOutput.model_validate_json(last)
        except ValidationError as error:
            key, problem, _ = first_refusal(error)
            detail = f"its key '{key}': {problem}" if key else problem
            raise WorkloadError(
                file=self.workload.file,
                key="program",
                found=f"{self.workload.program} printed no protocol line: its last line is {last[:80]!r} ({detail})",
                todo="Print a line as docs/workloads.md shows it, as the last one; workloads/protocol.py does.",
            ) from None
