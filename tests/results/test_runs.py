"""Values from pyperf's format are those that pyperf's own reader gives."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyperf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.catalog.variants import Gil
from interlock.results.experiments import BLOCK, ESTIMATOR, GROUP, BenchmarkValues, Estimator
from interlock.results.runs import parse_pyperf
from tests.builders import ROOT

FILES = sorted(path for path in ROOT.glob("results/reference/*/*/*/*.json") if ".profile" not in path.name)


def by_pyperf(path: Path) -> dict[str, BenchmarkValues]:
    suite = pyperf.BenchmarkSuite.load(str(path))
    return {benchmark.get_name().split(" ", 1)[1]: _values(benchmark) for benchmark in suite.get_benchmarks()}


def _values(benchmark: Any) -> BenchmarkValues:
    runs = [run for run in benchmark.get_runs() if run.values]
    metadata = [run.get_metadata() for run in runs]
    groups = [data.get(GROUP, 0) for data in metadata] if any(GROUP in data for data in metadata) else []
    return BenchmarkValues(
        processes=[list(run.values) for run in runs],
        blocks=[data[BLOCK] for data in metadata],
        groups=groups,
        estimator=metadata[-1][ESTIMATOR],
        user_s=[data["interlock_process_user_s"] for data in metadata],
        sys_s=[data["interlock_process_sys_s"] for data in metadata],
        units=[data["loops"] * data["inner_loops"] for data in metadata],
        max_rss_bytes=max(data["mem_max_rss"] for data in metadata),
        gil_after={"true": Gil.ON, "false": Gil.OFF}.get(str(metadata[-1].get("interlock_gil_enabled"))),
    )


def test_every_file_of_the_reference_experiments_is_read_as_pyperf_reads_it() -> None:
    assert len(FILES) > 150
    for path in FILES:
        assert parse_pyperf(path.read_bytes(), {}) == by_pyperf(path), path


COSTS = st.fixed_dictionaries(
    {
        "mem_max_rss": st.integers(1, 10**9),
        "interlock_process_user_s": st.floats(0, 9),
        "interlock_process_sys_s": st.floats(0, 9),
        BLOCK: st.integers(1, 9),
        ESTIMATOR: st.sampled_from([str(one) for one in Estimator]),
    },
    optional={"interlock_gil_enabled": st.sampled_from(["true", "false"])},
)
RUNS = st.lists(st.tuples(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=3), COSTS), min_size=1, max_size=3)
LOOPS = st.fixed_dictionaries({"loops": st.integers(1, 9), "inner_loops": st.integers(1, 9)})
SUITE = st.dictionaries(st.sampled_from(["a", "b c", "d"]), st.tuples(LOOPS, RUNS), min_size=1)


@settings(max_examples=settings().max_examples // 2)
@given(SUITE)
def test_whatever_runs_have_in_common_is_read_as_pyperf_reads_it(
    tmp_path_factory: pytest.TempPathFactory, suite: dict[str, tuple[dict[str, int], list[Any]]]
) -> None:
    """pyperf writes metadata once, with the suite or the benchmark, if all runs of it agree."""
    benchmarks = []
    for name, (loops, runs) in suite.items():
        shared = {"name": f"locks {name}", **loops}
        benchmarks.append(
            pyperf.Benchmark(
                [pyperf.Run(values, metadata={**shared, **costs}, collect_metadata=False) for values, costs in runs]
            )
        )
    path = tmp_path_factory.mktemp("suite") / "locks.json"
    pyperf.BenchmarkSuite(benchmarks).dump(str(path))
    assert parse_pyperf(path.read_bytes(), {}) == by_pyperf(path)


def test_a_block_that_was_not_split_is_all_of_the_first_group_of_one_that_was(tmp_path: Path) -> None:
    """The first rows of an experiment have their first blocks alone; all rows together are split."""
    shared = {"name": "locks queue", "loops": 1, "inner_loops": 1, "mem_max_rss": 1}
    costs = {"interlock_process_user_s": 1.0, "interlock_process_sys_s": 1.0, ESTIMATOR: "mean"}
    places: list[dict[str, int]] = [{BLOCK: 1}, {BLOCK: 2, GROUP: 1}, {BLOCK: 2, GROUP: 0}]
    runs = [pyperf.Run([1.0], metadata={**shared, **costs, **one}, collect_metadata=False) for one in places]
    pyperf.BenchmarkSuite([pyperf.Benchmark(runs)]).dump(str(tmp_path / "locks.json"))
    values = parse_pyperf((tmp_path / "locks.json").read_bytes(), {})["queue"]
    assert (values.blocks, values.groups) == ([1, 2, 2], [0, 1, 0])
    assert values.block_figures == [{0: 1.0}, {1: 1.0, 0: 1.0}]


@pytest.mark.parametrize(
    "text", [b'{"version": "0.9", "benchmarks": [1]}', b'{"version": "1.0", "benchmarks": []}', b'{"version": 1']
)
def test_another_format_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"version|benchmark|EOF"):
        parse_pyperf(text, {})


def test_what_processes_reported_is_read_if_it_was_asked_for_and_all_of_them_reported_it() -> None:
    def suite(*reports: dict[str, Any]) -> bytes:
        shared = {"name": "locks a", "loops": 1, "inner_loops": 1, "mem_max_rss": 1}
        shared |= {"interlock_process_user_s": 0.5, "interlock_process_sys_s": 0.5}
        shared |= {BLOCK: 1, ESTIMATOR: "mean"}
        runs = [
            pyperf.Run([1.0], metadata={**shared, **{f"interlock_{key}": one for key, one in report.items()}})
            for report in reports
        ]
        text = io.StringIO()
        pyperf.BenchmarkSuite([pyperf.Benchmark(runs)]).dump(text)
        return text.getvalue().encode()

    text = suite(
        {"same": 3, "own": 1.5, "once": 1, "colour": "red"},
        {"same": 3, "own": 2, "colour": "red"},
    )
    wanted = {"a": ["same", "own", "once", "colour", "process_user_s"], "other": ["own"]}
    assert parse_pyperf(text, wanted)["a"].reported == {
        "same": [3, 3],
        "own": [1.5, 2],
        "process_user_s": [0.5, 0.5],
    }
    assert parse_pyperf(text, {})["a"].reported == {}
