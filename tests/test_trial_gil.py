"""What a service's processes and its log say of the GIL."""

from __future__ import annotations

from interlock.model import Candidate, Gil, GilWitness
from interlock.runs import OK
from interlock.trial.gil import heard, joined, python_path, shown, switchers, trouble

# CPython 3.14t with brotlicffi 1.2.0.1, in the log of gunicorn.
LOG = """\
[2026-11-21 15:52:40 +0000] [1] [INFO] Starting gunicorn 27.0.1
<frozen importlib._bootstrap>:491: RuntimeWarning: The global interpreter lock (GIL) has been enabled to load module \
'brotlicffi._brotlicffi', which has not declared that it can run safely without the GIL. To override this behavior \
and keep the GIL disabled (at your own risk), run with PYTHON_GIL=0 or -Xgil=0.
"""


def candidate(gil: GilWitness | None, declared: Gil | None = Gil.OFF) -> Candidate:
    return Candidate(label="cpython-3.14t", outcome=OK, declared_gil=declared, gil=gil)


def test_the_interpreter_names_who_switched_it_on() -> None:
    assert switchers(LOG + LOG) == ["brotlicffi._brotlicffi"]
    assert switchers("GIL has been enabled") == []


def test_processes_that_said_nothing_are_no_testimony() -> None:
    assert heard([], ["Listening"]) is None


def test_each_process_counts() -> None:
    said = heard(["1 0 0 json", "7 0 1 lxml.etree\n", "8 0 1 \n", "9 1 1 \n"], [""])
    assert said == GilWitness(processes=4, off_at_start=3, came_back=2, modules=["lxml.etree"])


def test_the_interpreters_own_word_goes_before_what_was_loaded_last() -> None:
    said = heard(["7 0 1 brotlicffi"], [LOG])
    assert said is not None
    assert said.modules == ["brotlicffi._brotlicffi"]


def test_the_log_alone_is_enough() -> None:
    assert heard([], [LOG]) == GilWitness(processes=0, off_at_start=0, modules=["brotlicffi._brotlicffi"])


def test_tests_and_service_are_heard_together() -> None:
    one, other = (
        GilWitness(processes=1, off_at_start=1, modules=["a"]),
        GilWitness(processes=2, off_at_start=1, came_back=1),
    )
    assert joined(None, one) == one
    assert joined(one, None) == one
    assert joined(one, other) == GilWitness(processes=3, off_at_start=2, came_back=1, modules=["a"])


def test_a_gil_that_came_back_is_trouble_and_who_did_it_is_named() -> None:
    back = GilWitness(processes=2, off_at_start=2, came_back=1, modules=["a", "b"])
    assert trouble(candidate(back)) == "the GIL came back: module 'a' and 'b' switched it on"
    unnamed = GilWitness(processes=1, off_at_start=1, came_back=1)
    assert trouble(candidate(unnamed)) == "the GIL came back: a module without a name switched it on"


def test_a_gil_that_was_on_from_the_start_is_trouble_where_it_should_be_off() -> None:
    assert "on from the start" in trouble(candidate(GilWitness(processes=2, off_at_start=0)))


def test_a_gil_that_stays_off_or_that_nobody_promised_is_no_trouble() -> None:
    assert trouble(candidate(GilWitness(processes=2, off_at_start=2))) == ""
    assert trouble(candidate(None)) == ""
    assert trouble(candidate(GilWitness(processes=2, off_at_start=0), Gil.ON)) == ""
    assert trouble(candidate(GilWitness(processes=2, off_at_start=0), None)) == ""


def test_the_state_in_a_word() -> None:
    states = {
        "-": None,
        "off": GilWitness(processes=2, off_at_start=2),
        "on": GilWitness(processes=2, off_at_start=0),
        "off in 1 of 2": GilWitness(processes=2, off_at_start=1),
        "came back": GilWitness(processes=2, off_at_start=2, came_back=1),
    }
    assert {word: shown(candidate(gil)) for word, gil in states.items()} == {word: word for word in states}


def test_the_witness_stands_before_the_images_own_path() -> None:
    assert python_path({}, "/w") == "/w"
    assert python_path({"PYTHONPATH": "/app:/lib"}, "/w") == "/w:/app:/lib"
