"""Work for several variants at the same time: what it yields, what it raises, and what no longer begins."""

from __future__ import annotations

import threading
import time

import pytest

from interlock.engine.side_by_side import side_by_side, worker_count


@pytest.mark.parametrize(("cores", "tasks", "workers"), [(2, 0, 1), (2, 2, 2), (2, 9, 3), (64, 9, 4)])
def test_there_is_a_worker_more_than_there_are_cores_but_no_more_than_tasks_and_four(
    monkeypatch: pytest.MonkeyPatch, cores: int, tasks: int, workers: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert worker_count(tasks) == workers


def test_each_task_is_done_once_and_as_many_at_the_same_time_as_there_are_workers() -> None:
    meeting = threading.Barrier(3, timeout=10)

    def work(task: int) -> int:
        meeting.wait()
        return task * 2

    assert sorted(side_by_side(work, range(6), 3)) == [0, 2, 4, 6, 8, 10]


def test_what_a_task_raises_is_raised_where_its_result_is_waited_for() -> None:
    def work(task: int) -> int:
        raise ValueError(task)

    with pytest.raises(ValueError, match="1"):
        list(side_by_side(work, [1], 1))


def test_once_nobody_waits_for_results_no_further_task_begins() -> None:
    begun: list[int] = []
    goes_on = threading.Event()

    def work(task: int) -> int:
        begun.append(task)
        if task:
            goes_on.wait(10)
        return task

    results = side_by_side(work, range(9), 1)
    assert next(results) == 0
    results.close()
    goes_on.set()
    time.sleep(0.1)
    assert len(begun) <= 2
