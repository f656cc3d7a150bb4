"""The import loop."""

from collections.abc import Callable
from types import ModuleType

import pytest

from tests.workloads.conftest import ONCE, Refusal, Report, Run

NOTHING = ["--loops", "0", "--warmups", "0", "--values", "1"]
# Not a module: `import os` finds it in sys.modules, and it is not what the program has seen at its start.
SWAPPED_OS = """
import sys, time

def perf_counter(real=time.perf_counter):
    sys.modules["os"] = "an impostor"
    return real()
time.perf_counter = perf_counter
"""


@pytest.mark.parametrize("where", ["function", "module", "from"])
def test_a_hundred_loops_are_a_million_imports(report: Report, where: str) -> None:
    found = report("import_loop.py", "--where", where, *ONCE)
    assert 100 * found["inner_loops"] == 1_000_000
    assert len(found["values"]) == 1
    # A nanosecond each is less than any interpreter needs: a loop that is not run shows.
    assert found["values"][0] > 1e-5


@pytest.mark.parametrize("where", ["function", "module", "from"])
def test_zero_loops_import_nothing(report: Report, where: str) -> None:
    found = report("import_loop.py", "--where", where, *NOTHING)
    assert found["loops"] == 0
    assert found["values"][0] < 1e-3


@pytest.mark.parametrize("where", ["function", "module"])
def test_another_object_under_the_name_os_is_an_error(refusal: Refusal, where: str) -> None:
    said = refusal("import_loop.py", "--where", where, *ONCE, sabotage=SWAPPED_OS)
    assert "<module 'os'" in said
    assert "'an impostor'" in said


def test_the_process_never_loads_threads(run_program: Run) -> None:
    tell = "import atexit, sys; atexit.register(lambda: sys.stderr.write(str('threading' in sys.modules)))"
    assert run_program("import_loop.py", "--where", "function", *NOTHING, sabotage=tell).stderr == "False"


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("where", ["function", "module", "from"])
def test_threads_share_ten_thousand_imports(report: Report, where: str, threads: int) -> None:
    found = report("import_loop.py", "--where", where, "--threads", str(threads), *ONCE)
    assert (found["inner_loops"], found["metadata"]["threads"]) == (10_000, threads)
    assert found["values"][0] > 1e-4


def test_imports_that_a_thread_left_out_are_an_error(
    protocol: ModuleType, module: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    import_loop = module("import_loop")
    real = import_loop.import_in_thread
    monkeypatch.setattr(import_loop, "import_in_thread", lambda place, repeats, ended: real(place, repeats[1:], ended))
    with pytest.raises(Exception, match=r"\b100\b.*\b98\b"):
        import_loop.time_imports_at_once(protocol.Threads(), 2, "function", 100)


def test_another_object_in_one_of_the_threads_is_an_error(refusal: Refusal) -> None:
    assert "'an impostor'" in refusal(
        "import_loop.py", "--where", "function", "--threads", "2", *ONCE, sabotage=SWAPPED_OS
    )
