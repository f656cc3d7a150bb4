"""What users bring, in the real engine: other tools' programs, command lines, packages, and what is wrong with them."""

from __future__ import annotations

import re
import statistics

import pyperf

from interlock.results import store
from interlock.results.experiments import State
from tests.integration.images import QUICK
from tests.integration.shared import Measured


def values(measured: Measured, variant: str, workload: str) -> dict[str, list[list[float]]]:
    path = store.cell_path(measured.folder, measured.described.host["folder"], variant, None, workload)
    suite = pyperf.BenchmarkSuite.load(str(path))
    return {
        one.get_name(): [list(run.values) for run in one.get_runs() if run.values] for one in suite.get_benchmarks()
    }


def test_a_threaded_program_of_pyperformance_runs_where_it_can(measured: Measured) -> None:
    assert measured.cell(QUICK, "imap").outcome.state is State.OK
    (found,) = values(measured, QUICK, "imap").values()
    assert [len(process) for process in found] == [2, 2]


def test_pyperformance_s_start_up_is_found_out_and_runs_with_each_variant_s_pyperf(measured: Measured) -> None:
    assert [one.name for one in measured.described.workloads["perf-startup"].benchmarks] == ["python_startup_no_site"]
    found = measured.cell(QUICK, "perf-startup")
    assert found.outcome.state is State.OK, found
    assert found.packages["python_startup_no_site"]["pyperf"].startswith("2.")
    (starts,) = values(measured, QUICK, "perf-startup").values()
    assert 0.001 < statistics.median(one for process in starts for one in process) < 5


def test_a_suite_s_tests_are_benchmarks_and_the_one_that_fails_says_why(measured: Measured) -> None:
    found = measured.cell(QUICK, "suite")
    assert found.benchmarks["test_sum"].state is State.OK, found
    assert found.benchmarks["test_wrong"].state is State.FAILED
    assert re.search(r"'test_wrong'.*\b1: assert 1 == 2$", found.benchmarks["test_wrong"].reason)
    assert set(values(measured, QUICK, "suite")) == {"suite test_sum"}


def test_a_command_line_is_timed_after_its_set_up(measured: Measured) -> None:
    assert measured.cell(QUICK, "lines").benchmarks["both"].state is State.OK


def test_output_that_is_cut_short_fails_with_what_is_missing(measured: Measured) -> None:
    outcome = measured.cell(QUICK, "lines").benchmarks["cut-short"]
    assert outcome.state is State.FAILED
    assert re.search("'cut-short'.*'half of it'.*'half of'$", outcome.reason)


def test_a_requirement_that_does_not_resolve_fails_its_benchmark_alone(measured: Measured) -> None:
    found = measured.cell(QUICK, "unresolved").benchmarks
    assert found["needs"].state is State.FAILED
    assert "six==99" in found["needs"].reason
    assert found["needs-none"].state is State.OK
