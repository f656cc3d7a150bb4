"""What a trial's values say of each variant."""

from __future__ import annotations

import math

import pytest

from interlock.analysis.statistics import Interval
from interlock.analysis.verdicts import Verdict
from interlock.catalog.variants import Gil
from interlock.measure.processes import OK
from interlock.results.answers import OWN, OWN_TWIN, Candidate, Figure, GilStates, Trial
from interlock.results.experiments import Outcome, State
from interlock.trial.verdicts import (
    JudgedCandidate,
    TrialVerdict,
    deciding,
    gil_label,
    gil_problem,
    gil_states,
    gil_switchers,
    inverse,
    joined_gil_states,
    judge,
    twins,
)
from tests.trials import NOISE, around, make_candidate, make_trial, make_trial_settings


def verdict_of(trial: Trial) -> JudgedCandidate:
    (judged,) = judge(trial)
    return judged


def test_a_variant_that_answers_more_is_one_to_switch_to_with_its_gain() -> None:
    judged = verdict_of(make_trial(make_candidate("cpython-3.14", 0.0005)))
    assert judged.verdict is TrialVerdict.SWITCH
    assert judged.reason.startswith("2.000x [1.9")
    assert judged.reason.endswith(str(Verdict.FASTER))


def test_a_variant_that_answers_fewer_is_none_to_switch_to() -> None:
    judged = verdict_of(make_trial(make_candidate("cpython-3.14", 0.002)))
    assert judged.verdict is TrialVerdict.STAY
    assert judged.reason.startswith("0.500x [0.4")


def test_an_equal_one_is_the_same() -> None:
    judged = verdict_of(make_trial(make_candidate("cpython-3.14", 0.001)))
    assert judged.verdict is TrialVerdict.SAME


@pytest.mark.parametrize(
    ("ended_by", "expected"),
    [("the budget of 10 min", TrialVerdict.SAME), ("", TrialVerdict.SAME), ("Ctrl-C", TrialVerdict.UNDECIDED)],
)
def test_what_a_budget_ended_may_be_the_same_where_what_somebody_ended_is_undecided(
    ended_by: str, expected: TrialVerdict
) -> None:
    def rounds(label: str, *factors: float) -> Candidate:
        return make_candidate(label, values={Figure.REQUEST_S: [0.001 * factor for factor in factors]})

    own, other = rounds(OWN, 1.0, 1.0, 1.0, 1.0), rounds("cpython-3.14", 1.025, 0.975, 1.025, 0.975)
    settings = make_trial_settings(rounds=4, rounds_limit=20)
    (judged,) = judge(make_trial(candidates=[own, other], settings=settings, ended_by=ended_by))
    assert judged.verdict is expected


@pytest.mark.parametrize(
    ("state", "expected"), [(State.UNAVAILABLE, TrialVerdict.NOT_TRIED), (State.FAILED, TrialVerdict.STAY)]
)
def test_what_has_no_image_was_not_tried_and_what_fails_is_none_to_switch_to(
    state: State, expected: TrialVerdict
) -> None:
    outcome = Outcome(state=state, reason="it does not build: error: no wheel")
    judged = verdict_of(make_trial(make_candidate("cpython-3.14", outcome=outcome)))
    assert judged.verdict is expected
    assert judged.reason == f"{state.value}: {outcome.reason}"


def test_a_gil_that_came_back_forbids_to_switch_however_fast_it_is() -> None:
    back = GilStates(processes=1, off_at_start=1, came_back=1, modules=["lxml.etree"])
    judged = verdict_of(make_trial(make_candidate("cpython-3.14t", 0.0005, gil=back, declared_gil=Gil.OFF)))
    assert judged.verdict is TrialVerdict.STAY
    problem, _, rest = judged.reason.partition("; ")
    assert "'lxml.etree'" in problem
    assert rest.startswith("2.000x")


def test_the_gil_is_said_of_what_failed_as_well() -> None:
    back = GilStates(processes=1, off_at_start=1, came_back=1, modules=["lxml.etree"])
    failed = Outcome(state=State.FAILED, reason="exit code 139")
    judged = verdict_of(make_trial(make_candidate("cpython-3.14t", outcome=failed, gil=back, declared_gil=Gil.OFF)))
    assert judged.reason.startswith(f"failed: {failed.reason}; ")
    assert "'lxml.etree'" in judged.reason


def test_what_else_differs_is_said_beside_the_verdict_and_does_not_decide_it() -> None:
    own = make_candidate(OWN, values={Figure.REQUEST_S: around(0.001), Figure.MEMORY_BYTES: around(100e6)})
    twin = make_candidate(OWN_TWIN, values={Figure.REQUEST_S: around(0.001), Figure.MEMORY_BYTES: around(101e6)})
    other = {Figure.REQUEST_S: around(0.0005), Figure.MEMORY_BYTES: around(150e6, NOISE[::-1])}
    trial = make_trial().model_copy(update={"candidates": [own, twin, make_candidate("cpython-3.14t", values=other)]})
    judged = verdict_of(trial)
    assert judged.verdict is TrialVerdict.SWITCH
    (also,) = judged.also
    assert also.startswith("memory 1.500x [1.4")


def test_a_load_decides_before_tests_and_both_before_the_start() -> None:
    values = {Figure.START_S: around(1), Figure.TEST_S: around(2), Figure.REQUEST_S: around(0.001)}
    for expected in (Figure.REQUEST_S, Figure.TEST_S, Figure.START_S):
        trial = make_trial().model_copy(update={"candidates": [make_candidate(OWN, values=values)]})
        assert deciding(trial) is expected
        del values[expected]


def test_tests_that_take_less_time_are_a_gain_in_time() -> None:
    own, twin = (make_candidate(label, values={Figure.TEST_S: around(10)}) for label in (OWN, OWN_TWIN))
    fast = make_candidate("cpython-3.14", values={Figure.TEST_S: around(8, NOISE[::-1])})
    judged = verdict_of(make_trial().model_copy(update={"candidates": [own, twin, fast]}))
    assert judged.verdict is TrialVerdict.SWITCH
    assert judged.reason.startswith("0.800x [0.7")
    assert judged.reason.endswith(str(Verdict.FASTER))


def test_p_is_adjusted_for_all_variants_of_a_figure() -> None:
    one = make_candidate("cpython-3.14", 0.00098)
    alone = judge(make_trial(one))[0].comparisons[Figure.REQUEST_S]
    among = judge(make_trial(one, *(make_candidate(f"cpython-3.{minor}", 0.001) for minor in range(5, 10))))[0]
    assert among.comparisons[Figure.REQUEST_S].p > alone.p


def test_the_twin_is_compared_and_judged_by_nobody() -> None:
    trial = make_trial()
    assert judge(trial) == []
    assert twins(trial)[Figure.REQUEST_S].estimate == pytest.approx(1.0)


def test_the_inverse_of_an_open_interval_is_open() -> None:
    assert inverse(Interval(2.0, 0.0, math.inf)) == Interval(0.5, 0.0, math.inf)
    assert inverse(Interval(2.0, 1.0, 4.0)) == Interval(0.5, 0.25, 1.0)


# CPython 3.14t with brotlicffi 1.2.0.1, in the log of gunicorn.
LOG = """\
[2026-11-21 15:52:40 +0000] [1] [INFO] Starting gunicorn 27.0.1
<frozen importlib._bootstrap>:491: RuntimeWarning: The global interpreter lock (GIL) has been enabled to load module \
'brotlicffi._brotlicffi', which has not declared that it can run safely without the GIL. To override this behavior \
and keep the GIL disabled (at your own risk), run with PYTHON_GIL=0 or -Xgil=0.
"""


def candidate(gil: GilStates | None, declared: Gil | None = Gil.OFF) -> Candidate:
    return Candidate(label="cpython-3.14t", outcome=OK, declared_gil=declared, gil=gil)


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


def test_a_gil_that_came_back_is_trouble_and_who_did_it_is_named() -> None:
    back = GilStates(processes=2, off_at_start=2, came_back=1, modules=["a", "b"])
    assert all(module in gil_problem(candidate(back)) for module in ("'a'", "'b'"))
    unnamed = GilStates(processes=1, off_at_start=1, came_back=1)
    assert gil_problem(candidate(unnamed))
    assert "'" not in gil_problem(candidate(unnamed))


def test_a_gil_that_was_on_from_the_start_is_trouble_where_it_should_be_off() -> None:
    assert gil_problem(candidate(GilStates(processes=2, off_at_start=0)))
    assert not gil_problem(candidate(GilStates(processes=2, off_at_start=2)))


def test_a_gil_that_stays_off_or_that_nobody_promised_is_no_trouble() -> None:
    assert gil_problem(candidate(GilStates(processes=2, off_at_start=2))) == ""
    assert gil_problem(candidate(None)) == ""
    assert gil_problem(candidate(GilStates(processes=2, off_at_start=0), Gil.ON)) == ""
    assert gil_problem(candidate(GilStates(processes=2, off_at_start=0), None)) == ""


def test_the_state_in_a_word() -> None:
    states = {
        "-": None,
        "off": GilStates(processes=2, off_at_start=2),
        "on": GilStates(processes=2, off_at_start=0),
        "off in 1 of 2": GilStates(processes=2, off_at_start=1),
        "came back": GilStates(processes=2, off_at_start=2, came_back=1),
    }
    assert {word: gil_label(candidate(gil)) for word, gil in states.items()} == {word: word for word in states}


def test_a_line_that_is_not_the_probes_is_no_process() -> None:
    assert gil_states(["", "x", "1 0", "1 0 0\n"], []) == gil_states(["1 0 0\n"], [])
