"""What users bring, in the real engine: other tools' programs, command lines, packages, and what is wrong with them."""

from __future__ import annotations

import importlib.resources
import shutil
import statistics
from pathlib import Path

import pyperf
import pytest

from interlock import store
from interlock.engine import build as building
from interlock.engine.image import Options
from interlock.model import Built, Catalog, CellResult, Experiment, State
from tests.integration.toys import copy_project, interlock

VARIANTS = ["cpython-2.7", "cpython-2.7-nothreads", "cpython-3.13t"]
# Of one of them: a project without it does not load.
CONTROL = "cpython-3.13"
REST = """\
unit = "call"
deadline_s = 300
quick = { warmups = 1, values = 2 }
full = { warmups = 1, values = 2 }
"""
SUITE = """\
def test_sum(benchmark):
    assert benchmark(sum, range(100)) == 4950


def test_wrong(benchmark):
    assert benchmark(sum, [1]) == 2
"""
WORKLOADS = {
    # pyperformance's own: a threaded one, and start-up.
    "imap": 'kind = "pyperf"\nprogram = "bm_concurrent_imap/run_benchmark.py"\nrequirements = ["pyperf"]\n'
    'requires_python = ">=3.8"\n'
    '[[benchmarks]]\nname = "bench_thread_pool"\nmetric = { label = "ms", scale = 1e3 }\n',
    "perf-startup": 'kind = "pyperf"\nprogram = "bm_python_startup/run_benchmark.py"\narguments = ["--no-site"]\n'
    """requirements = ["pyperf; python_version >= '3'", "pyperf==1.7.1; python_version < '3'"]\n"""
    'metric = { label = "ms", scale = 1e3 }\n',
    "suite": 'kind = "pytest-benchmark"\nprogram = "suite"\n'
    """requirements = ["pytest-benchmark", "py-cpuinfo==8.0.0; python_version < '3'"]\n"""
    'metric = { label = "us", scale = 1e6 }\n',
    "lines": 'kind = "command"\n'
    "[[benchmarks]]\nname = \"both\"\nset_up = [\"-c\", \"open('/scratch/x', 'w').write('made before')\"]\n"
    'command = ["sh", "-c", "cat {scratch}/x && python -c pass"]\nexpected = ["made before"]\n'
    'metric = { label = "ms", scale = 1e3 }\n'
    '[[benchmarks]]\nname = "cut-short"\ncommand = ["echo", "half of"]\nexpected = ["half of it"]\n'
    'metric = { label = "ms", scale = 1e3 }\n',
    "absent": 'program = "absent.py"\n[[benchmarks]]\nname = "any"\nmetric = { label = "ms", scale = 1e3 }\n',
    "unresolved": '[[benchmarks]]\nname = "needs"\ncommand = ["-c", "pass"]\nrequirements = ["six==99"]\n'
    'metric = { label = "ms", scale = 1e3 }\n'
    '[[benchmarks]]\nname = "needs-none"\ncommand = ["-c", "import os; assert \'PYTHONPATH\' not in os.environ"]\n'
    'metric = { label = "ms", scale = 1e3 }\n',
}

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def results(
    client: object, catalog: Catalog, options: Options, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """One experiment on all that a user brought."""
    images: list[Built] = building.build(client, catalog, VARIANTS, options, lambda *_: None)
    assert all(image.outcome.state is State.OK for image in images)
    project = copy_project(root, tmp_path_factory.mktemp("brought") / "project", [*VARIANTS, CONTROL], [])
    programs = importlib.resources.files("pyperformance") / "data-files/benchmarks"
    for name in ("bm_concurrent_imap", "bm_python_startup"):
        shutil.copytree(Path(str(programs / name)), project / "workloads" / name)
    (project / "workloads/suite").mkdir()
    (project / "workloads/suite/test_sums.py").write_text(SUITE)
    for name, text in WORKLOADS.items():
        head, _, benchmarks = text.partition("[[benchmarks]]")
        rest = f"[[benchmarks]]{benchmarks}" if benchmarks else ""
        (project / f"workloads/{name}.toml").write_text(f'summary = "a test\'s"\n{head}{REST}{rest}')
    done = interlock(
        project, "matrix", "--variants", ",".join(VARIANTS), "--baseline", "cpython-3.13t", "--quick", "--rounds", "2",
        "--no-profile", "--results", str(project / "results"),
    )  # fmt: skip
    # Some of it is meant to fail, and says so by the exit code of failed cells.
    assert done.returncode == 6, done.stdout + done.stderr
    return store.latest_experiment(project / "results")


@pytest.fixture(scope="module")
def described(results: Path) -> Experiment:
    return store.read_experiment(results)


def cell(described: Experiment, variant: str, workload: str) -> CellResult:
    (found,) = [one for one in described.cells if (one.variant, one.mode, one.workload) == (variant, None, workload)]
    return found


def values(results: Path, described: Experiment, variant: str, workload: str) -> dict[str, list[list[float]]]:
    path = store.cell_path(results, described.host["folder"], variant, None, workload)
    suite = pyperf.BenchmarkSuite.load(str(path))
    return {
        one.get_name(): [list(run.values) for run in one.get_runs() if run.values] for one in suite.get_benchmarks()
    }


def test_a_threaded_program_of_pyperformance_runs_where_it_can(results: Path, described: Experiment) -> None:
    assert cell(described, "cpython-3.13t", "imap").outcome.state is State.OK
    (found,) = values(results, described, "cpython-3.13t", "imap").values()
    assert [len(process) for process in found] == [2, 2]
    refused = cell(described, "cpython-2.7", "imap").outcome
    assert (refused.state, refused.reason) == (State.UNSUPPORTED, "it is for Python >=3.8, and this is 2.7.18")


def test_pyperformance_s_start_up_is_found_out_and_runs_with_each_variant_s_pyperf(
    results: Path, described: Experiment
) -> None:
    assert [one.name for one in described.workloads["perf-startup"].benchmarks] == ["python_startup_no_site"]
    old, new = (cell(described, variant, "perf-startup") for variant in ("cpython-2.7", "cpython-3.13t"))
    assert (old.outcome.state, new.outcome.state) == (State.OK, State.OK), (old, new)
    assert old.packages["python_startup_no_site"]["pyperf"] == "1.7.1"
    assert new.packages["python_startup_no_site"]["pyperf"].startswith("2.")
    (starts,) = values(results, described, "cpython-2.7", "perf-startup").values()
    assert 0.001 < statistics.median(one for process in starts for one in process) < 5


def test_a_suite_s_tests_are_benchmarks_and_the_one_that_fails_says_why(results: Path, described: Experiment) -> None:
    for variant in ("cpython-2.7", "cpython-3.13t"):
        found = cell(described, variant, "suite")
        assert found.benchmarks["test_sum"].state is State.OK, found
        assert found.benchmarks["test_wrong"].state is State.FAILED
        assert found.benchmarks["test_wrong"].reason == "'test_wrong' ended with exit code 1: assert 1 == 2"
        assert set(values(results, described, variant, "suite")) == {"suite test_sum"}


def test_a_variant_without_pip_is_unsupported_where_packages_are_needed(described: Experiment) -> None:
    for workload in ("perf-startup", "suite", "unresolved"):
        outcome = cell(described, "cpython-2.7-nothreads", workload).outcome
        assert outcome.state is State.UNSUPPORTED
        assert outcome.reason == "cpython-2.7-nothreads has no pip to install packages with"


def test_a_command_line_is_timed_after_its_set_up(described: Experiment) -> None:
    for variant in VARIANTS:
        assert cell(described, variant, "lines").benchmarks["both"].state is State.OK


def test_output_that_is_cut_short_fails_with_what_is_missing(described: Experiment) -> None:
    outcome = cell(described, "cpython-2.7", "lines").benchmarks["cut-short"]
    assert outcome.state is State.FAILED
    assert outcome.reason == "'cut-short' did not print 'half of it': its last line is 'half of'"


def test_a_program_that_is_not_there_fails_its_own_cells(described: Experiment) -> None:
    for variant in VARIANTS:
        outcome = cell(described, variant, "absent").outcome
        assert outcome.state is State.FAILED
        assert outcome.reason == "workloads/absent.toml, key 'program': workloads/absent.py does not exist"


def test_a_requirement_that_does_not_resolve_fails_its_benchmark_alone(described: Experiment) -> None:
    for variant in ("cpython-2.7", "cpython-3.13t"):
        found = cell(described, variant, "unresolved").benchmarks
        assert found["needs"].state is State.FAILED
        assert found["needs"].reason.startswith(
            "six cannot be had: no version fits six==99: for this interpreter there is"
        )
        assert found["needs-none"].state is State.OK
