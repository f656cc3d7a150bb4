"""What processes printed becomes pyperf's normalised values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.catalog.workloads import Repetition
from interlock.measure import pyperf_runs
from interlock.results.experiments import Estimator, ProgramOutput
from tests.builders import make_benchmark, make_cost, make_workload

WORKLOAD = make_workload(deadline_s=20)
PROGRAM = make_benchmark("uncontended")
COMMAND = make_benchmark("pass", command=["-I", "-c", "pass"])


def test_a_program_replaces_no_figure_that_was_measured_around_it() -> None:
    said = {"group": 7, "block": 9, "estimator": "mean", "process_user_s": 99.0, "own": 1}
    output = ProgramOutput(interlock=1, loops=2, values=[0.5], metadata=said)
    metadata = pyperf_runs.program_run(WORKLOAD, PROGRAM, output, make_cost())._metadata
    assert metadata["interlock_process_user_s"] == make_cost().user_s
    assert metadata["interlock_own"] == 1
    assert not {"interlock_group", "interlock_block", "interlock_estimator"} & metadata.keys()


def test_a_program_becomes_a_run_with_times_per_unit() -> None:
    output = ProgramOutput(
        interlock=1,
        loops=4,
        inner_loops=5,
        warmups=[2.0],
        values=[1.0, 3.0],
        metadata={"threads": 2, "gil_enabled": False},
    )
    run = pyperf_runs.program_run(WORKLOAD, PROGRAM, output, make_cost(1.5))
    assert run.values == (0.05, 0.15)
    assert run.warmups == ((4, 0.1),)
    metadata = run.get_metadata()
    assert metadata["name"] == "locks uncontended"
    assert (metadata["loops"], metadata["inner_loops"], metadata["unit"]) == (4, 5, "second")
    assert (metadata["mem_max_rss"], metadata["interlock_process_wall_s"]) == (9_000_000, 1.5)
    assert (metadata["interlock_threads"], metadata["interlock_gil_enabled"]) == (2, "false")


def test_a_calibration_becomes_a_run_whose_warmups_have_their_own_loops() -> None:
    output = ProgramOutput(interlock=1, loops=2, inner_loops=10, calibration=[(1, 0.06), (2, 0.1)])
    run = pyperf_runs.program_run(WORKLOAD, PROGRAM, output, make_cost())
    assert run.values == ()
    assert run.warmups == ((1, 0.006), (2, 0.005))
    assert run.get_metadata()["calibrate_loops"] == 2


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**4),
    st.lists(st.floats(1e-6, 1e4), min_size=1),
    st.lists(st.floats(1e-6, 1e4)),
)
def test_a_runs_values_times_its_loops_are_the_raw_times(
    loops: int, inner_loops: int, values: list[float], warmups: list[float]
) -> None:
    output = ProgramOutput(interlock=1, loops=loops, inner_loops=inner_loops, values=values, warmups=warmups)
    run = pyperf_runs.program_run(WORKLOAD, PROGRAM, output, make_cost())
    total = run.get_total_loops()
    assert total == loops * inner_loops
    assert [value * total for value in run.values] == pytest.approx(values)
    assert [value * total for _, value in run.warmups or ()] == pytest.approx(warmups)


def test_a_command_becomes_a_run_of_one_value_per_process_with_mean_costs() -> None:
    costs = [
        make_cost(0.9, max_rss_bytes=99_000_000, user_s=9.0),
        make_cost(0.2, max_rss_bytes=5, voluntary_switches=1),
        make_cost(0.4, max_rss_bytes=7, voluntary_switches=4),
    ]
    run = pyperf_runs.command_run(WORKLOAD, COMMAND, costs, Repetition(warmups=1, values=2))
    assert run.values == (0.2, 0.4)
    assert run.warmups == ((1, 0.9),)
    metadata = run.get_metadata()
    assert metadata["name"] == "locks pass"
    assert metadata["mem_max_rss"] == 7
    assert metadata["interlock_process_user_s"] == 0.5
    assert metadata["interlock_process_wall_s"] == pytest.approx(0.3)
    assert metadata["interlock_process_voluntary_switches"] == 2.5


def test_processes_that_start_at_once_are_one_value_per_start_with_the_kernels_share_of_its_cpu_time() -> None:
    costs = [make_cost(1.2, user_s=0.3, sys_s=0.1), make_cost(2.4, user_s=0.5, sys_s=0.3)]
    run = pyperf_runs.command_run(WORKLOAD, COMMAND, costs, Repetition(warmups=0, values=2), units=12)
    assert run.values == pytest.approx((0.1, 0.2))
    assert run.get_metadata()["inner_loops"] == 12
    assert run.get_metadata()["interlock_process_kernel_share"] == pytest.approx(0.4 / 1.2)
    # Without CPU time nobody knows it.
    run = pyperf_runs.command_run(WORKLOAD, COMMAND, [make_cost(user_s=0, sys_s=0)], Repetition(warmups=0, values=1))
    assert "interlock_process_kernel_share" not in run.get_metadata()


def test_what_was_left_in_memory_is_kept_as_the_proof_of_a_cold_start() -> None:
    output = ProgramOutput(interlock=1, loops=1, values=[1.0])
    for share in (0.0, 0.004):
        run = pyperf_runs.program_run(WORKLOAD, PROGRAM, output, make_cost(resident_share=share))
        assert run.get_metadata()["interlock_process_resident_share"] == share
    warm = pyperf_runs.program_run(WORKLOAD, PROGRAM, output, make_cost())
    assert "interlock_process_resident_share" not in warm.get_metadata()


def test_the_figure_of_a_process_is_that_of_its_values_and_a_calibration_has_none() -> None:
    calibration = ProgramOutput(interlock=1, loops=1, calibration=[(1, 0.1)])
    outputs = [
        calibration,
        *(ProgramOutput(interlock=1, loops=2, values=values) for values in ([2.0, 8.0, 4.0], [6.0])),
    ]
    runs = [pyperf_runs.program_run(WORKLOAD, PROGRAM, output, make_cost()) for output in outputs]
    found = [pyperf_runs.in_block(run, number, Estimator.MEAN) for number, run in enumerate(runs)]
    assert pyperf_runs.values_of(found, Estimator.MEAN).figures == [pytest.approx(7 / 3), 3.0]
