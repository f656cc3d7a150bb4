"""Programs that speak another tool's protocol: they are asked which benchmarks they have, and then for one at a time.

A process runs one benchmark, as with every other kind, so that the rounds interleave. It is given the number of values,
not a duration.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from interlock.catalog.workloads import Benchmark, Metric, Workload
from interlock.engine.ended import Ended
from interlock.errors import WorkloadError, did_you_mean, last_line
from interlock.measure.kinds.kind import Kind
from interlock.measure.processes import WORKLOADS
from interlock.measure.tracks import Track
from interlock.results.experiments import ProgramOutput

# How pytest begins the line that explains a failure, or a file that it cannot import.
EXPLANATION = "E   "


class Adapted(Kind):
    """A program that a tool runs."""

    is_listed = True

    @property
    def path(self) -> str:
        """Return where the program is in a cell."""
        return f"{WORKLOADS}/{self.workload.program}"

    @property
    def metric(self) -> Metric:
        return self.workload.metric or self.workload.benchmarks[0].metric

    @abstractmethod
    def reports(self, stdout: str) -> dict[str, ProgramOutput]:
        """Return the reports in a process's output, by the tool's names of the benchmarks; any error if unreadable."""

    @abstractmethod
    def names(self, track: Track) -> dict[str, list[str]]:
        """Return the arguments that select each benchmark, by its name."""

    def listed(self, track: Track) -> Workload:
        selecting = self.names(track)
        if not selecting:
            raise WorkloadError(
                key="program",
                found=f"{self.workload.program} has no benchmark",
                todo="Add one, as docs/workloads.md shows.",
            )
        return self.with_names(selecting)

    def with_names(self, selecting: Mapping[str, list[str]]) -> Workload:
        """Return the workload with the arguments that select each of its benchmarks; all of them if it names none.

        Raise WorkloadError for the first benchmark that it names and that is not there.
        """
        workload = self.workload
        wanted = workload.benchmarks or [Benchmark(name=name, metric=self.metric) for name in selecting]
        for benchmark in wanted:
            if benchmark.name not in selecting:
                raise WorkloadError(
                    file=workload.file,
                    key="benchmarks",
                    found=f"{workload.program} has no benchmark '{benchmark.name}'; it has {', '.join(selecting)}",
                    todo=did_you_mean(benchmark.name, selecting)
                    or f"Correct the name in workloads/{workload.name}.toml.",
                )
        benchmarks = [benchmark.model_copy(update={"asked_by": selecting[benchmark.name]}) for benchmark in wanted]
        return workload.model_copy(update={"benchmarks": benchmarks, "metric": None})

    def unlisted(self) -> Workload:
        if self.workload.benchmarks:
            return self.workload
        placeholder = Benchmark(name=self.workload.program or "", metric=self.metric)
        return self.workload.model_copy(update={"benchmarks": [placeholder], "metric": None})

    def listing(self, track: Track, argv: list[str]) -> Ended:
        """Run the program to hear what it has."""
        subject = track.cell.subject
        return track.cell.slot().run(self.finished(argv, subject.options), track.deadline_s, track.environment)

    def not_listed(self, track: Track, ended: Ended) -> WorkloadError:
        """Return the error of a program that did not say what it has."""
        failure = f"when it listed its benchmarks {self._judge_end(ended, track.deadline_s).reason}"
        return WorkloadError(found=failure, todo=f"Run workloads/{self.workload.program} by hand.")

    def read(self, stdout: str) -> ProgramOutput:
        """Return a process's report in Interlock's own form; WorkloadError if it is not of this benchmark."""
        outputs, name = self.outputs_of(stdout), self.benchmark.name
        if len(outputs) != 1:
            raise self._not_reported(f"the report is of {', '.join(outputs) or 'none'}, not of '{name}'", stdout)
        reported, output = next(iter(outputs.items()))
        if reported != name and not reported.endswith(f"::{name}"):
            raise self._not_reported(f"the report is of '{reported}', not of '{name}'", stdout)
        return output

    def outputs_of(self, stdout: str) -> dict[str, ProgramOutput]:
        """Return the reports by the tool's names; WorkloadError if they are unreadable."""
        try:
            outputs = self.reports(stdout)
            if not all(isinstance(name, str) for name in outputs):
                raise ValueError("a benchmark has no name")
            return outputs
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            why = str(error).splitlines()[0][:120] or type(error).__name__
            raise self._not_reported(f"the report of {self.workload.kind} cannot be read ({why})", stdout) from None

    def _not_reported(self, problem: str, stdout: str) -> WorkloadError:
        return WorkloadError(
            file=self.workload.file,
            key="program",
            found=f"{problem}; its output ends with {stdout.strip()[-80:]!r}",
            todo=f"Run workloads/{self.workload.program} by hand, as docs/workloads.md shows.",
        )

    def last_words(self, ended: Ended) -> str:
        """Return the line that says why: pytest explains on standard output, other programs on standard error."""
        explained = [line[1:].strip() for line in ended.stdout.splitlines() if line.startswith(EXPLANATION)]
        return explained[0] if explained else last_line(ended.stderr.strip() or ended.stdout).strip()
