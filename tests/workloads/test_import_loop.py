"""The import loop."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

ONCE = ["--loops", "1", "--warmups", "0", "--values", "1"]
NOTHING = ["--loops", "0", "--warmups", "0", "--values", "1"]
# Not a module: `import os` finds it in sys.modules, and it is not what the program has seen at its start.
SWAPPED_OS = """
import sys, time
def perf_counter(real=time.perf_counter):
    sys.modules["os"] = "an impostor"
    return real()
time.perf_counter = perf_counter
"""


@pytest.mark.parametrize("where", ["function", "module"])
def test_one_loop_is_a_million_imports(report: Callable[..., dict[str, Any]], where: str) -> None:
    found = report("import_loop.py", "--where", where, *ONCE)
    assert found["inner_loops"] == 1_000_000
    assert len(found["values"]) == 1
    # A nanosecond each is less than any interpreter needs: a loop that is not run shows.
    assert found["values"][0] > 1e-3


@pytest.mark.parametrize("where", ["function", "module"])
def test_zero_loops_import_nothing(report: Callable[..., dict[str, Any]], where: str) -> None:
    found = report("import_loop.py", "--where", where, *NOTHING)
    assert found["loops"] == 0
    assert found["values"][0] < 1e-3


@pytest.mark.parametrize("where", ["function", "module"])
def test_another_object_under_the_name_os_is_an_error(
    run_program: Callable[..., subprocess.CompletedProcess[str]], where: str
) -> None:
    done = run_program("import_loop.py", "--where", where, *ONCE, sabotage=SWAPPED_OS)
    assert done.returncode == 1
    assert "expected the name os bound to <module 'os'" in done.stderr
    assert "found 'an impostor'" in done.stderr


def test_the_place_of_the_import_must_be_given(
    run_program: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run_program("import_loop.py")
    assert done.returncode == 2
    assert "--where" in done.stderr


def test_the_process_never_loads_threads(report: Callable[..., dict[str, Any]]) -> None:
    found = report(
        "import_loop.py", "--where", "function", *NOTHING, sabotage="import sys; sys.modules['threading'] = 0"
    )
    assert found["loops"] == 0
