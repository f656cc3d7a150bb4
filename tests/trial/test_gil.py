"""What the GIL probe and the interpreter's own warnings say of a service's processes."""

from __future__ import annotations

from interlock.results.trials import GilStates
from interlock.trial.gil import gil_states, gil_switchers, joined_gil_states

# CPython 3.14t with brotlicffi 1.2.0.1, in the log of gunicorn.
LOG = """\
[2026-11-21 15:52:40 +0000] [1] [INFO] Starting gunicorn 27.0.1
<frozen importlib._bootstrap>:491: RuntimeWarning: The global interpreter lock (GIL) has been enabled to load module \
'brotlicffi._brotlicffi', which has not declared that it can run safely without the GIL. To override this behavior \
and keep the GIL disabled (at your own risk), run with PYTHON_GIL=0 or -Xgil=0.
"""


def test_the_interpreter_names_who_switched_it_on() -> None:
    assert gil_switchers(LOG + LOG) == ["brotlicffi._brotlicffi"]
    assert gil_switchers("GIL has been enabled") == []


def test_processes_that_said_nothing_are_no_testimony() -> None:
    assert gil_states([], ["Listening"]) is None


def test_each_process_counts() -> None:
    said = gil_states(["1 0 0 json", "7 0 1 lxml.etree\n", "8 0 1 \n", "9 1 1 \n"], [""])
    assert said == GilStates(processes=4, off_at_start=3, came_back=2, modules=["lxml.etree"])


def test_the_interpreters_own_word_goes_before_what_was_loaded_last() -> None:
    said = gil_states(["7 0 1 brotlicffi"], [LOG])
    assert said is not None
    assert said.modules == ["brotlicffi._brotlicffi"]


def test_the_log_alone_is_enough() -> None:
    assert gil_states([], [LOG]) == GilStates(processes=0, off_at_start=0, modules=["brotlicffi._brotlicffi"])


def test_tests_and_service_are_heard_together() -> None:
    one, other = (
        GilStates(processes=1, off_at_start=1, modules=["a"]),
        GilStates(processes=2, off_at_start=1, came_back=1),
    )
    assert joined_gil_states(None, one) == one
    assert joined_gil_states(one, None) == one
    assert joined_gil_states(one, other) == GilStates(processes=3, off_at_start=2, came_back=1, modules=["a"])


def test_a_line_that_is_not_the_probes_is_no_process() -> None:
    assert gil_states(["", "x", "1 0", "1 0 0\n"], []) == gil_states(["1 0 0\n"], [])
