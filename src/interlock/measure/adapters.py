"""Adapters of other tools: command lines for a benchmark of a pyperf script or a pytest suite, and their reports. Pure.

A process runs one benchmark, as with every other workload, so that the rounds interleave: pyperf as its worker, pytest
one test of a suite. Both are given the number of values, not a duration.
pyperf's worker: https://pyperf.readthedocs.io/en/latest/runner.html
pytest-benchmark's options: https://pytest-benchmark.readthedocs.io/en/latest/usage.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interlock.catalog.types import MOUNT
from interlock.catalog.workloads import Benchmark, Metric, Repetition, Workload
from interlock.errors import LazyModule, WorkloadError, did_you_mean, last_line
from interlock.results.experiments import ProgramOutput

if TYPE_CHECKING:
    import pyperf
else:
    pyperf = LazyModule("pyperf", "measure")

WORKLOADS = f"{MOUNT}/workloads"
PYPERF, PYTEST = "pyperf", "pytest-benchmark"
# pyperf closes the descriptor that it reports to: it must not be the script's standard output.
WITH_REPORT_DESCRIPTOR = ["sh", "-c", 'exec 3>&1; exec "$@"', "sh"]
PIPE = ["--pipe", "3"]
# One of pytest-benchmark's rounds is a value. With no minimum duration it takes the number that the options give.
NO_TIME_S = "0.000001"
# What pytest-benchmark's calibration makes a value take; it may end at ten times as long.
VALUE_S = "0.05"
# Nothing is captured: the report goes to standard output, and CPython's warnings (PEP 703) to standard error.
PYTEST_OPTIONS = ["-q", "-s", "-rfE", "--tb=short", "-p", "no:cacheprovider", "-p", "no:warnings", "--benchmark-only"]
PYTEST_REPORT = ["--benchmark-json", "/dev/stdout", "--benchmark-max-time", NO_TIME_S]
# How pytest begins the line that explains a failure, or a file that it cannot import.
EXPLANATION = "E   "
PYTEST_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)


def argv(workload: Workload, benchmark: Benchmark, loops: str, take: Repetition | None) -> list[str]:
    """Return the interpreter's command line for one benchmark; `take` is None for the process that calibrates."""
    kinds = {PYPERF: _pyperf_argv, PYTEST: _pytest_argv}
    return kinds[workload.kind](workload, benchmark, loops, take)


def _pyperf_argv(workload: Workload, benchmark: Benchmark, loops: str, take: Repetition | None) -> list[str]:
    options = (
        ["--loops", loops, "--warmups", str(take.warmups), "--values", str(take.values)]
        if take
        else ["--calibrate-loops", "--warmups", "0", "--values", "1"]
    )
    program = f"{WORKLOADS}/{workload.program}"
    return ["python", program, *workload.arguments, *benchmark.asked_by, "--worker", *options, *PIPE]


def _pytest_argv(workload: Workload, benchmark: Benchmark, _: str, take: Repetition | None) -> list[str]:
    """Return pytest's command line. pytest-benchmark finds the number of loops itself, in every process."""
    values = take.values if take else 1
    warm = ["--benchmark-warmup", "on", "--benchmark-warmup-iterations", "1"] if take and take.warmups else []
    options = ["--benchmark-min-rounds", str(values), "--benchmark-min-time", VALUE_S, *warm]
    words = [*PYTEST_OPTIONS, "--rootdir", _suite(workload), *PYTEST_REPORT, *options]
    return ["python", "-m", "pytest", *words, *workload.arguments, *benchmark.asked_by]


def _suite(workload: Workload) -> str:
    """Return the folder that pytest's names of tests are relative to."""
    program = workload.program or ""
    folder = program.rpartition("/")[0] if program.endswith(".py") else program
    return f"{WORKLOADS}/{folder}".rstrip("/")


def task_argv(workload: Workload, number: int) -> list[str]:
    """Return the command line that runs the benchmark of this number of a pyperf script once, to find its name."""
    once = Repetition(warmups=0, values=1)
    return _pyperf_argv(workload, _asked_by(["--worker-task", str(number)]), "1", once)


def suite_argv(workload: Workload) -> list[str]:
    """Return the command line that runs a whole suite, each test as briefly as possible, to find their names."""
    options = ["--benchmark-min-rounds", "1", "--benchmark-min-time", NO_TIME_S]
    words = [*PYTEST_OPTIONS, "--rootdir", _suite(workload), *PYTEST_REPORT, *options]
    return ["python", "-m", "pytest", *words, *workload.arguments, f"{WORKLOADS}/{workload.program}"]


def tests_of(workload: Workload, stdout: str) -> dict[str, list[str]]:
    """Return the arguments that select each test, by name. Tests that failed are included: they say why when they run.

    A test has its short name, unless another file has a test of that name.
    """
    # pytest names the file of a failure from where it was started, which in a cell is the root.
    folder = _suite(workload).lstrip("/") + "/"
    failed = [one.removeprefix(folder) for one in PYTEST_FAILED.findall(stdout)]
    ids = list(dict.fromkeys([*outputs_of(workload, stdout), *failed]))
    short = [one.partition("::")[2] for one in ids]
    return {
        (name if short.count(name) == 1 else one): [f"{_suite(workload)}/{one}"]
        for one, name in zip(ids, short, strict=True)
    }


def _asked_by(arguments: list[str]) -> Benchmark:
    return Benchmark(name="", asked_by=arguments, metric=Metric(label="s", scale=1))


def with_found(workload: Workload, found: Mapping[str, list[str]]) -> Workload:
    """Return the workload with the arguments that select each of its benchmarks; all that were found if it names none.

    Raise WorkloadError for the first benchmark that it names and that was not found.
    """
    wanted = workload.benchmarks or [Benchmark(name=name, metric=_metric(workload)) for name in found]
    for benchmark in wanted:
        if benchmark.name not in found:
            raise WorkloadError(
                file=workload.file,
                key="benchmarks",
                found=f"{workload.program} has no benchmark '{benchmark.name}'; it has {', '.join(found)}",
                todo=did_you_mean(benchmark.name, found) or f"Correct the name in workloads/{workload.name}.toml.",
            )
    benchmarks = [one.model_copy(update={"asked_by": found[one.name]}) for one in wanted]
    return workload.model_copy(update={"benchmarks": benchmarks, "metric": None})


def unfound(workload: Workload) -> Workload:
    """Return the workload with one benchmark in place of those that were not found, to carry the reason."""
    if workload.benchmarks:
        return workload
    placeholder = Benchmark(name=workload.program or "", metric=_metric(workload))
    return workload.model_copy(update={"benchmarks": [placeholder], "metric": None})


def _metric(workload: Workload) -> Metric:
    return workload.metric or workload.benchmarks[0].metric


def with_report_descriptor(workload: Workload, interpreter_argv: Sequence[str]) -> list[str]:
    """Return the interpreter's command line with a descriptor of its own for the report, if the tool needs one."""
    return [*WITH_REPORT_DESCRIPTOR, *interpreter_argv] if workload.kind == PYPERF else list(interpreter_argv)


def parse(workload: Workload, benchmark: Benchmark, stdout: str) -> ProgramOutput:
    """Return a process's report in Interlock's own form; WorkloadError if it is not of this benchmark."""
    outputs = outputs_of(workload, stdout)
    if len(outputs) != 1:
        names = ", ".join(outputs) or "none"
        raise _not_reported(workload, f"the report is of {names}, not of '{benchmark.name}'", stdout)
    name, output = next(iter(outputs.items()))
    if name != benchmark.name and not name.endswith(f"::{benchmark.name}"):
        raise _not_reported(workload, f"the report is of '{name}', not of '{benchmark.name}'", stdout)
    return output


def outputs_of(workload: Workload, stdout: str) -> dict[str, ProgramOutput]:
    """Return the reports in a process's output, by the tool's name of the benchmark; WorkloadError if unreadable."""
    reads = {PYPERF: _read_pyperf, PYTEST: _read_pytest}
    try:
        found = reads[workload.kind](stdout)
        if not all(isinstance(name, str) for name in found):
            raise ValueError("a benchmark has no name")
        return found
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise _not_reported(
            workload, f"the report of {workload.kind} cannot be read ({_short(error)})", stdout
        ) from None


def _read_pyperf(stdout: str) -> dict[str, ProgramOutput]:
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


def _read_pytest(stdout: str) -> dict[str, ProgramOutput]:
    """Read the JSON object that pytest-benchmark writes over many lines, between what pytest prints."""
    start = stdout.find('{\n    "')
    if start < 0:
        return {}
    report, _ = json.JSONDecoder().raw_decode(stdout[start:])
    return {one["fullname"]: _of_test(one["stats"]) for one in report["benchmarks"]}


def _of_test(stats: Mapping[str, Any]) -> ProgramOutput:
    loops = stats["iterations"]
    return ProgramOutput(interlock=1, loops=loops, values=[value * loops for value in stats["data"]])


def failure_line(stdout: str, stderr: str) -> str:
    """Return the line that says why a process failed: pytest explains on standard output, other programs on stderr."""
    explained = [line[1:].strip() for line in stdout.splitlines() if line.startswith(EXPLANATION)]
    if explained:
        return explained[0]
    return last_line(stderr.strip() or stdout).strip()


def _not_reported(workload: Workload, found: str, stdout: str) -> WorkloadError:
    return WorkloadError(
        file=workload.file,
        key="program",
        found=f"{found}; its output ends with {stdout.strip()[-80:]!r}",
        todo=f"Run workloads/{workload.program} by hand, as docs/workloads.md shows.",
    )


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:120] or type(error).__name__
