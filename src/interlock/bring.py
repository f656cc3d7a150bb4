"""What users bring: how a pyperf script or a pytest suite is asked for one benchmark, and what it answers. Pure.

A process does one benchmark, as with every other workload, so that the rounds interleave. pyperf has that as its
worker; of a suite pytest runs one test. Both are told how many values to take, and neither how long to go on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyperf
from pydantic import ValidationError

from interlock.errors import WorkloadError, meant
from interlock.model import MOUNT, Benchmark, Metric, ProgramOutput, Repetition, Workload

WORKLOADS = f"{MOUNT}/workloads"
PYPERF, PYTEST = "pyperf", "pytest-benchmark"
# pyperf closes the descriptor that it reports to: it must not be the script's standard output.
REPORT_APART = ["sh", "-c", 'exec 3>&1; exec "$@"', "sh"]
PIPE = ["--pipe", "3"]
# A round is a value: with no time to fill there are as many as are asked for.
NO_TIME_S = "0.000001"
# Its calibration may end at ten times as much.
VALUE_S = "0.05"
# Nothing captured: the report goes to standard output, and what CPython warns of (PEP 703) to the other one.
PYTEST_OPTIONS = ["-q", "-s", "-rfE", "--tb=short", "-p", "no:cacheprovider", "-p", "no:warnings", "--benchmark-only"]
PYTEST_REPORT = ["--benchmark-json", "/dev/stdout", "--benchmark-max-time", NO_TIME_S]


EXPLANATION = "E   "  # pytest's, of a failure or of a file that it cannot import
PYTEST_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)


def argv(workload: Workload, benchmark: Benchmark, loops: str, take: Repetition | None) -> list[str]:
    """The interpreter's command line; `take` is None for the process that calibrates."""
    kinds = {PYPERF: _pyperf_argv, PYTEST: _pytest_argv}
    return kinds[workload.kind](workload, benchmark, loops, take)


def _pyperf_argv(workload: Workload, benchmark: Benchmark, loops: str, take: Repetition | None) -> list[str]:
    asked = (
        ["--loops", loops, "--warmups", str(take.warmups), "--values", str(take.values)]
        if take
        else ["--calibrate-loops", "--warmups", "0", "--values", "1"]
    )
    program = f"{WORKLOADS}/{workload.program}"
    return ["python", program, *workload.arguments, *benchmark.asked_by, "--worker", *asked, *PIPE]


def _pytest_argv(workload: Workload, benchmark: Benchmark, _: str, take: Repetition | None) -> list[str]:
    """pytest-benchmark finds the number of loops by itself, in every process."""
    values = take.values if take else 1
    warm = ["--benchmark-warmup", "on", "--benchmark-warmup-iterations", "1"] if take and take.warmups else []
    asked = ["--benchmark-min-rounds", str(values), "--benchmark-min-time", VALUE_S, *warm]
    words = [*PYTEST_OPTIONS, "--rootdir", _suite(workload), *PYTEST_REPORT, *asked]
    return ["python", "-m", "pytest", *words, *workload.arguments, *benchmark.asked_by]


def _suite(workload: Workload) -> str:
    """The folder that pytest's names of tests are relative to."""
    program = workload.program or ""
    folder = program.rpartition("/")[0] if program.endswith(".py") else program
    return f"{WORKLOADS}/{folder}".rstrip("/")


def task_argv(workload: Workload, number: int) -> list[str]:
    """The interpreter's command line that does a pyperf script's benchmark of this number once, to learn its name."""
    once = Repetition(warmups=0, values=1)
    return _pyperf_argv(workload, _asked_by(["--worker-task", str(number)]), "1", once)


def suite_argv(workload: Workload) -> list[str]:
    """The interpreter's command line that runs a whole suite, each test as short as can be, to learn their names."""
    asked = ["--benchmark-min-rounds", "1", "--benchmark-min-time", NO_TIME_S]
    words = [*PYTEST_OPTIONS, "--rootdir", _suite(workload), *PYTEST_REPORT, *asked]
    return ["python", "-m", "pytest", *words, *workload.arguments, f"{WORKLOADS}/{workload.program}"]


def tests_of(workload: Workload, stdout: str) -> dict[str, list[str]]:
    """By name the arguments that ask for a test; those that failed are tests as well, and say why when they are asked.

    A test is known by its own name where no other file has one of that name.
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
    """The workload with the arguments that ask for each of its benchmarks; with all that were found if it names none.

    WorkloadError for the first that it names and that was not found.
    """
    wanted = workload.benchmarks or [Benchmark(name=name, metric=_metric(workload)) for name in found]
    for benchmark in wanted:
        if benchmark.name not in found:
            raise WorkloadError(
                file=f"workloads/{workload.name}.toml",
                key="benchmarks",
                found=f"{workload.program} has no benchmark '{benchmark.name}'; it has {', '.join(found)}",
                todo=meant(benchmark.name, found) or "Correct the name.",
            )
    benchmarks = [one.model_copy(update={"asked_by": found[one.name]}) for one in wanted]
    return workload.model_copy(update={"benchmarks": benchmarks, "metric": None})


def unfound(workload: Workload) -> Workload:
    """The workload with a benchmark in the place of those that nobody could find out, to say so."""
    if workload.benchmarks:
        return workload
    stand_in = Benchmark(name=workload.program or "", metric=_metric(workload))
    return workload.model_copy(update={"benchmarks": [stand_in], "metric": None})


def _metric(workload: Workload) -> Metric:
    return workload.metric or workload.benchmarks[0].metric


def apart(workload: Workload, interpreter_argv: Sequence[str]) -> list[str]:
    """The interpreter's command line, a mode's options included, with the report's descriptor if it needs one."""
    return [*REPORT_APART, *interpreter_argv] if workload.kind == PYPERF else list(interpreter_argv)


def parse(workload: Workload, benchmark: Benchmark, stdout: str) -> ProgramOutput:
    """What a process measured, as if it had been a program of Interlock's; WorkloadError if its report is not whole."""
    outputs = outputs_of(workload, stdout)
    if len(outputs) != 1:
        names = ", ".join(outputs) or "none"
        raise _not_reported(workload, f"'{benchmark.name}' was asked for, and it reported {names}", stdout)
    name, output = next(iter(outputs.items()))
    if name != benchmark.name and not name.endswith(f"::{benchmark.name}"):
        raise _not_reported(workload, f"'{benchmark.name}' was asked for, and it did '{name}'", stdout)
    return output


def outputs_of(workload: Workload, stdout: str) -> dict[str, ProgramOutput]:
    """By the name that the tool has for it; WorkloadError if nothing can be read."""
    reads = {PYPERF: _read_pyperf, PYTEST: _read_pytest}
    try:
        return reads[workload.kind](stdout)
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise _not_reported(workload, f"no report of {workload.kind} can be read ({_short(error)})", stdout) from None


def _read_pyperf(stdout: str) -> dict[str, ProgramOutput]:
    """The line that is pyperf's; a process that had nothing to do has none."""
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
    """The object that pytest-benchmark writes over many lines, between what pytest prints."""
    start = stdout.find('{\n    "')
    if start < 0:
        return {}
    report, _ = json.JSONDecoder().raw_decode(stdout[start:])
    return {one["fullname"]: _of_test(one["stats"]) for one in report["benchmarks"]}


def _of_test(stats: Mapping[str, Any]) -> ProgramOutput:
    loops = stats["iterations"]
    return ProgramOutput(interlock=1, loops=loops, values=[value * loops for value in stats["data"]])


def last_words(stdout: str, stderr: str) -> str:
    """Why a process failed: pytest says it on standard output, everything else on the other one."""
    explained = [line[1:].strip() for line in stdout.splitlines() if line.startswith(EXPLANATION)]
    if explained:
        return explained[0]
    said = stderr.strip().splitlines() or stdout.strip().splitlines() or ["it printed nothing"]
    return said[-1].strip()


def _not_reported(workload: Workload, found: str, stdout: str) -> WorkloadError:
    return WorkloadError(
        file=f"workloads/{workload.name}.toml",
        key="program",
        found=f"{found}; its output ends with {stdout.strip()[-80:]!r}",
        todo=f"Run {workload.program} by hand, as docs/workloads.md shows.",
    )


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:120] or type(error).__name__
