"""Work for several variants at the same time: builds and packages, which know nothing of each other."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def worker_count(tasks: int) -> int:
    """Return how many tasks run at the same time.

    Configure, install and pip use one core each: one task more than there are cores keeps all of them at work.
    """
    return max(1, min(tasks, (os.cpu_count() or 1) + 1, 4))


def side_by_side(work: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Generator[Result, None, None]:
    """Yield what `work` returns for each task, in the order in which they end; what it raises is raised here.

    The threads are daemons, so that Ctrl-C ends the process. Once the iterator is closed no further task begins.
    """
    todo = deque(tasks)
    done: SimpleQueue[Result | BaseException] = SimpleQueue()

    def go() -> None:
        while todo:
            try:
                task = todo.popleft()
            except IndexError:
                return
            try:
                done.put(work(task))
            except BaseException as error:
                done.put(error)

    for _ in range(workers):
        threading.Thread(target=go, daemon=True).start()
    try:
        for _ in tasks:
            yield _next(done)
    finally:
        todo.clear()


def _next(done: SimpleQueue[Result | BaseException]) -> Result:
    while True:
        # A wait without limit would not be interrupted by Ctrl-C on every platform.
        with suppress(Empty):
            item = done.get(timeout=0.5)
            if isinstance(item, BaseException):
                raise item
            return item
