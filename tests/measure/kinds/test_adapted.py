"""A user's pyperf script and pytest suite: asked as a cell asks them, with the tools' own answers."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyperf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.catalog.workloads import Benchmark, Repetition, Workload
from interlock.engine.ended import Ended
from interlock.errors import WorkloadError
from interlock.measure.kinds import adapted
from interlock.measure.kinds import pytest as suites
from interlock.measure.kinds.choosing import ANY, kind_of
from interlock.measure.kinds.pyperf import PyperfScript
from interlock.measure.kinds.pytest import PytestSuite
from interlock.results.experiments import ProgramOutput
from tests.builders import METRIC, make_workload

TAKE = Repetition(warmups=1, values=2)
SCRIPT = """\
import pyperf

def add(loops):
    started = pyperf.perf_counter()
    for _ in range(loops):
        sum(range(100))
    return pyperf.perf_counter() - started

if __name__ == "__main__":
    runner = pyperf.Runner()
    runner.bench_time_func("add", add)
    runner.bench_func("sort", sorted, list(range(1000)), inner_loops=2)
"""
SUITE = """\
import pytest

@pytest.mark.parametrize("count", [10, 20])
def test_sort(benchmark, count):
    benchmark(sorted, list(range(count)))

def test_wrong(benchmark):
    assert benchmark(sum, [1]) == 2, "no - really"

def test_plain():
    assert True
"""


def brought(kind: str, program: str, **changes: Any) -> Workload:
    defaults: dict[str, Any] = {"kind": kind, "program": program, "metric": METRIC, "benchmarks": []}
    return make_workload("mine", **{**defaults, **changes})


def as_script(workload: Workload) -> PyperfScript:
    return PyperfScript(workload, ANY)


def as_suite(workload: Workload) -> PytestSuite:
    return PytestSuite(workload, ANY)


def asked(name: str, arguments: list[str]) -> Benchmark:
    return Benchmark(name=name, asked_by=arguments, metric=METRIC)


def run(workload: Workload, argv: list[str]) -> subprocess.CompletedProcess[str]:
    """As in a cell: `python` is found by PATH, and the current folder is the root."""
    # A cell knows nothing of the worker that runs this test, by which pytest-benchmark would refuse to measure.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**ours, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = kind_of(workload).finished(argv, [])
    return subprocess.run(words, cwd="/", env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (adapted, suites):
        monkeypatch.setattr(module, "WORKLOADS", str(tmp_path))
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/test_sorting.py").write_text(SUITE)
    return tmp_path


@pytest.fixture
def script() -> Workload:
    return brought("pyperf", "script.py")


@pytest.fixture
def suite() -> Workload:
    return brought("pytest-benchmark", "suite")


def test_a_script_is_asked_for_one_benchmark_after_the_other_until_there_is_none(
    folder: Path, script: Workload
) -> None:
    answers = [run(script, as_script(script).task_words(number)) for number in range(3)]
    assert [done.returncode for done in answers] == [0, 0, 0]
    assert [list(as_script(script).outputs_of(done.stdout)) for done in answers] == [["add"], ["sort"], []]


def test_a_script_calibrates_and_then_takes_as_many_values_of_so_many_loops(folder: Path, script: Workload) -> None:
    sort = asked("sort", ["--worker-task", "1"])
    kind = kind_of(script, sort)
    first = kind.read(run(script, kind.words("auto", None)).stdout)
    assert first is not None
    assert [loops for loops, _ in first.calibration] == [2**power for power in range(len(first.calibration))]
    assert first.loops == first.calibration[-1][0]
    assert (first.values, first.inner_loops) == ([], 2)
    second = kind.read(run(script, kind.words("64", TAKE)).stdout)
    assert second is not None
    assert (second.loops, second.inner_loops, len(second.warmups), len(second.values)) == (64, 2, 1, 2)


def test_values_are_the_seconds_of_all_loops_as_pyperf_measured_them(folder: Path, script: Workload) -> None:
    done = run(script, kind_of(script, asked("sort", ["--worker-task", "1"])).words("64", TAKE))
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    per_unit = json.loads(line)["benchmarks"][0]["runs"][0]["values"]
    assert as_script(script).outputs_of(done.stdout)["sort"].values == pytest.approx([one * 64 * 2 for one in per_unit])


def test_what_a_script_prints_besides_does_not_matter(folder: Path, script: Workload) -> None:
    (folder / "script.py").write_text(
        SCRIPT.replace("import pyperf", "import pyperf\nprint('{not this}')") + "print(1)\n"
    )
    done = run(script, as_script(script).task_words(0))
    assert done.returncode == 0, done.stderr
    assert list(as_script(script).outputs_of(done.stdout)) == ["add"]


def test_a_suite_has_its_benchmarks_and_not_its_other_tests(folder: Path, suite: Workload) -> None:
    done = run(suite, as_suite(suite).suite_words())
    found = as_suite(suite).tests_of(done.stdout)
    assert list(found) == ["test_sort[10]", "test_sort[20]", "test_wrong"]
    assert found["test_sort[10]"] == [f"{folder}/suite/test_sorting.py::test_sort[10]"]
    # A report that is cut short is an error that says so.
    start = done.stdout.index("{\n")
    with pytest.raises(WorkloadError) as refused:
        as_suite(suite).tests_of(done.stdout[: start + 500])
    assert (refused.value.file, refused.value.key) == ("workloads/mine.toml", "program")


def test_a_test_is_asked_for_by_its_name_and_takes_as_many_values_as_it_is_told(folder: Path, suite: Workload) -> None:
    one = asked("test_sort[20]", [f"{folder}/suite/test_sorting.py::test_sort[20]"])
    done = run(suite, kind_of(suite, one).words("1", TAKE))
    assert done.returncode == 0, done.stdout
    output = kind_of(suite, one).read(done.stdout)
    assert output is not None
    assert len(output.values) == 2
    assert output.loops > 1  # a microsecond's work is repeated until a value is long enough


def test_a_test_that_fails_says_why(folder: Path, suite: Workload) -> None:
    wrong = asked("test_wrong", [f"{folder}/suite/test_sorting.py::test_wrong"])
    done = run(suite, kind_of(suite, wrong).words("1", TAKE))
    assert done.returncode == 1
    assert as_suite(suite).last_words(Ended(1, done.stdout, done.stderr, False)) == "AssertionError: no - really"


def test_tests_of_two_files_with_one_name_are_told_apart(folder: Path, suite: Workload) -> None:
    (folder / "suite/test_other.py").write_text(SUITE.replace("test_wrong", "test_alone"))
    done = run(suite, as_suite(suite).suite_words())
    assert {"test_sorting.py::test_sort[10]", "test_other.py::test_sort[10]", "test_alone", "test_wrong"} <= set(
        as_suite(suite).tests_of(done.stdout)
    )


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (Ended(None, timed_out=True), r"\b7 s"),
        (Ended(None, flooded=True), "16 MiB"),
        (Ended(137, out_of_memory=True), "out of memory"),  # it was 'ended with exit code 137', and of the last words
        (Ended(2, stderr="a\nb\n"), "2: b"),
    ],
)
def test_a_program_that_lists_nothing_is_named_with_how_it_ended(ended: Ended, said: str) -> None:
    track: Any = SimpleNamespace(deadline_s=7)
    error = as_script(brought("pyperf", "script.py")).not_listed(track, ended)
    assert re.search(f"'script.py' .*{said}", error.found)


def test_a_report_that_is_cut_short_is_an_error_that_says_so(folder: Path, script: Workload) -> None:
    add = asked("add", ["--worker-task", "0"])
    whole = run(script, kind_of(script, add).words("8", TAKE)).stdout
    for cut in (20, 60, 100):
        with pytest.raises(WorkloadError) as refused:
            kind_of(script, add).read(whole[:cut])
        assert (refused.value.file, refused.value.key) == ("workloads/mine.toml", "program")


def test_another_benchmark_than_was_asked_for_is_an_error_with_both_names(folder: Path, script: Workload) -> None:
    stdout = run(script, as_script(script).task_words(1)).stdout
    with pytest.raises(WorkloadError, match="'sort', not of 'add'"):
        kind_of(script, asked("add", ["--worker-task", "1"])).read(stdout)


def test_a_figure_that_is_no_time_is_refused(folder: Path, script: Workload) -> None:
    (folder / "script.py").write_text(SCRIPT.replace('"add", add)', '"add", add, metadata={"unit": "byte"})'))
    stdout = run(script, as_script(script).task_words(0)).stdout
    with pytest.raises(WorkloadError, match=r"'add'.* byte"):
        as_script(script).outputs_of(stdout)


def test_all_that_was_found_is_measured_unless_the_file_names_some() -> None:
    found = {"a": ["--worker-task", "0"], "b": ["--worker-task", "1"]}
    every = as_script(brought("pyperf", "x.py")).with_names(found)
    assert [(one.name, one.asked_by, one.metric) for one in every.benchmarks] == [
        ("a", ["--worker-task", "0"], METRIC),
        ("b", ["--worker-task", "1"], METRIC),
    ]
    assert Workload.model_validate(every.model_dump()) == every  # as experiment.json is read
    unfound = as_script(brought("pyperf", "x.py")).unlisted()
    assert Workload.model_validate(unfound.model_dump()) == unfound
    named = brought("pyperf", "x.py", metric=None, benchmarks=[{"name": "b", "metric": METRIC, "cpus": "one"}])
    (kept,) = as_script(named).with_names(found).benchmarks
    assert (kept.name, kept.cpus, kept.asked_by) == ("b", "one", ["--worker-task", "1"])


def test_a_benchmark_that_is_not_there_is_answered_with_the_nearest() -> None:
    named = brought("pyperf", "x.py", metric=None, benchmarks=[{"name": "sorted", "metric": METRIC}])
    with pytest.raises(WorkloadError) as refused:
        as_script(named).with_names({"add": [], "sort": []})
    assert refused.value.key == "benchmarks"
    assert "'sort'" in refused.value.todo


@given(st.integers(1, 10**6), st.integers(1, 100), st.lists(st.floats(1e-9, 0.1), min_size=1, max_size=5))
def test_what_was_read_is_what_pyperf_wrote(loops: int, inner_loops: int, values: list[float]) -> None:
    metadata = {"name": "any", "loops": loops, "inner_loops": inner_loops, "unit": "second"}
    text = io.StringIO()
    pyperf.Benchmark([pyperf.Run(values, metadata=metadata, collect_metadata=False)]).dump(text)
    line = json.dumps(json.loads(text.getvalue()))
    read = as_script(brought("pyperf", "x.py")).outputs_of(line)["any"]
    assert read == ProgramOutput(
        interlock=1, loops=loops, inner_loops=inner_loops, values=[one * (loops * inner_loops) for one in values]
    )
