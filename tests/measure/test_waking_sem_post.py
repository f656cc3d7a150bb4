"""The library that a mode preloads, compiled for this machine and watched at its system calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "dockerfiles" / "instruments" / "waking_sem_post.c"
# Stands in front of the kernel: its own `syscall` is found before the C library's.
WATCHER = """
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>

static sem_t semaphore;
static int wakes, others;

long syscall(long number, ...) {
    va_list arguments;
    va_start(arguments, number);
    void *address = va_arg(arguments, void *);
    int operation = va_arg(arguments, int);
    int threads = va_arg(arguments, int);
    va_end(arguments);
    if (number == SYS_futex && address == &semaphore && operation == FUTEX_WAKE && threads == 1)
        wakes++;
    else
        others++;
    errno = EFAULT;
    return -1;
}

int main(void) {
    int value, posted = 0;
    sem_init(&semaphore, 0, 0);
    errno = 0;
    for (int number = 0; number < 1000; number++)
        posted |= sem_post(&semaphore);
    int error = errno;
    sem_getvalue(&semaphore, &value);
    printf("{\\"posted\\": %d, \\"errno\\": %d, \\"value\\": %d, \\"wakes\\": %d, ", posted, error, value, wakes);
    sem_init(&semaphore, 0, SEM_VALUE_MAX);
    errno = 0;
    int overflowed = sem_post(&semaphore);
    error = errno;
    printf("\\"overflowed\\": %d, \\"is_eoverflow\\": %d, ", overflowed, error == EOVERFLOW);
    printf("\\"others\\": %d}\\n", others);
}
"""
THREADS = """
import queue, threading
line = queue.Queue(4)
workers = [threading.Thread(target=lambda: [line.put(number) for number in range(500)]) for _ in range(4)]
for worker in workers:
    worker.start()
print(sum(line.get() for _ in range(2000)), "waking_sem_post.so" in open("/proc/self/maps").read())
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("waking") / "waking_sem_post.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", target, SOURCE], check=True)
    return target


def preloaded(library: Path, *argv: str) -> str:
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture(scope="session")
def seen(library: Path) -> Any:
    source, watcher = library.with_name("watcher.c"), library.with_name("watcher")
    source.write_text(WATCHER, encoding="utf-8")
    subprocess.run(["cc", "-rdynamic", "-pthread", "-o", watcher, source], check=True)
    return json.loads(preloaded(library, str(watcher)))


def test_every_post_wakes_though_nobody_waits(seen: Any) -> None:
    assert (seen["wakes"], seen["others"]) == (1000, 0)


def test_a_post_still_counts_and_leaves_errno_as_it_was(seen: Any) -> None:
    assert (seen["posted"], seen["value"], seen["errno"]) == (0, 1000, 0)


def test_what_the_real_sem_post_refuses_is_refused_with_its_reason(seen: Any) -> None:
    assert (seen["overflowed"], seen["is_eoverflow"]) == (-1, 1)


def test_an_interpreter_with_threads_works_on_it(library: Path) -> None:
    assert preloaded(library, sys.executable, "-c", THREADS) == f"{4 * sum(range(500))} True\n"
