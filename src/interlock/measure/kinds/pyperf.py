"""pyperf scripts: each process is the script's worker (https://pyperf.readthedocs.io/en/latest/runner.html)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.catalog.workloads import Repetition
from interlock.errors import LazyModule, WorkloadError
from interlock.measure.kinds.adapted import Adapted
from interlock.measure.tracks import Track
from interlock.results.experiments import ProgramOutput

if TYPE_CHECKING:
    import pyperf
else:
    pyperf = LazyModule("pyperf", "measure")

# pyperf closes the descriptor that it reports to: it must not be the script's standard output.
WITH_REPORT_DESCRIPTOR = ["sh", "-c", 'exec 3>&1; exec "$@"', "sh"]
PIPE = ["--pipe", "3"]
ONCE = Repetition(warmups=0, values=1)
MOST_BENCHMARKS = 1000


class PyperfScript(Adapted):
    """A script with pyperf's Runner."""

    def words(self, loops: str, take: Repetition | None) -> list[str]:
        return self.worker(self.benchmark.asked_by, loops, take)

    def worker(self, asked_by: Sequence[str], loops: str, take: Repetition | None) -> list[str]:
        """Return the command line of a worker that does what these arguments select; without `take` it calibrates."""
        options = (
            ["--loops", loops, "--warmups", str(take.warmups), "--values", str(take.values)]
            if take
            else ["--calibrate-loops", "--warmups", "0", "--values", "1"]
        )
        return ["python", self.path, *self.workload.arguments, *asked_by, "--worker", *options, *PIPE]

    def finished(self, words: Sequence[str], options: Sequence[str]) -> list[str]:
        return [*WITH_REPORT_DESCRIPTOR, *super().finished(words, options)]

    def task_words(self, number: int) -> list[str]:
        """Return the command line that runs the benchmark of this number once, to hear its name."""
        return self.worker(["--worker-task", str(number)], "1", ONCE)

    def names(self, track: Track) -> dict[str, list[str]]:
        """Run the benchmarks by number until one does nothing: that number does not exist."""
        selecting: dict[str, list[str]] = {}
        for number in range(MOST_BENCHMARKS):
            ended = self.listing(track, self.task_words(number))
            if ended.exit_code != 0:
                raise self.not_listed(track, ended)
            names = list(self.outputs_of(ended.stdout))
            if not names:
                return selecting
            selecting[names[0]] = ["--worker-task", str(number)]
        raise WorkloadError(
            found=f"{self.workload.program} has more than {MOST_BENCHMARKS} benchmarks",
            todo="Split it into several.",
        )

    def reports(self, stdout: str) -> dict[str, ProgramOutput]:
        """Read pyperf's line; a process without that benchmark prints none."""
        lines = [line for line in stdout.splitlines() if line.startswith("{") and '"benchmarks"' in line]
        if not lines:
            return {}
        benchmark = pyperf.Benchmark.loads(lines[-1])
        (run,) = benchmark.get_runs()
        metadata = run.get_metadata()
        loops, inner_loops = metadata.get("loops", 1), metadata.get("inner_loops", 1)
        if benchmark.get_unit() != "second":
            raise ValueError(f"'{benchmark.get_name()}' is measured in {benchmark.get_unit()}, not in seconds")
        units = loops * inner_loops
        warmups = [(count, count * inner_loops * value) for count, value in run.warmups or ()]
        calibrates = "calibrate_loops" in metadata
        return {
            benchmark.get_name(): ProgramOutput(
                interlock=1,
                loops=metadata["calibrate_loops"] if calibrates else loops,
                inner_loops=inner_loops,
                calibration=warmups if calibrates else [],
                warmups=[] if calibrates else [raw for _, raw in warmups],
                values=[value * units for value in run.values],
            )
        }
