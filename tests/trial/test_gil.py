"""What the GIL probe and the interpreter's own warnings say of a service's processes."""

from __future__ import annotations

import pytest

from interlock.results.trials import GilStates
from interlock.trial.gil import gil_states, joined_gil_states

# CPython 3.14t with brotlicffi 1.2.0.1, in the log of gunicorn.
LOG = """\
[2026-11-21 15:52:40 +0000] [1] [INFO] Starting gunicorn 27.0.1
<frozen importlib._bootstrap>:491: RuntimeWarning: The global interpreter lock (GIL) has been enabled to load module \
'brotlicffi._brotlicffi', which has not declared that it can run safely without the GIL. To override this behavior \
and keep the GIL disabled (at your own risk), run with PYTHON_GIL=0 or -Xgil=0.
"""


MODULE = "brotlicffi._brotlicffi"


@pytest.mark.parametrize(
    ("lines", "logs", "said"),
    [
        ([], ["Listening", "GIL has been enabled"], None),
        ([], [LOG + LOG, LOG], GilStates(processes=0, off_at_start=0, modules=[MODULE])),
        # The interpreter's own word goes before what was loaded last.
        (["7 0 1 brotlicffi"], [LOG], GilStates(processes=1, off_at_start=1, came_back=1, modules=[MODULE])),
        (
            ["1 0 0 json", "7 0 1 lxml.etree\n", "8 0 1 \n", "9 1 1 \n"],
            [""],
            GilStates(processes=4, off_at_start=3, came_back=2, modules=["lxml.etree"]),
        ),
        # What is not the probe's is no process.
        (["", "x", "1 0", "1 0 0\n"], [], GilStates(processes=1, off_at_start=1)),
    ],
)
def test_each_process_and_each_log_counts(lines: list[str], logs: list[str], said: GilStates | None) -> None:
    assert gil_states(lines, logs) == said


def test_tests_and_service_are_heard_together() -> None:
    one, other = (
        GilStates(processes=1, off_at_start=1, modules=["a"]),
        GilStates(processes=2, off_at_start=1, came_back=1),
    )
    assert joined_gil_states(None, one) == one
    assert joined_gil_states(one, None) == one
    assert joined_gil_states(one, other) == GilStates(processes=3, off_at_start=2, came_back=1, modules=["a"])
