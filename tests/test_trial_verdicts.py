"""What a trial's values say of each variant."""

from __future__ import annotations

import math

import pytest

from interlock.model import OWN, OWN_TWIN, Figure, Gil, GilWitness, Outcome, State, Trial
from interlock.statistics import Interval
from interlock.trial.verdicts import Judged, Verdict, deciding, inverse, judge, twins
from tests.trials import NOISE, around, make_candidate, make_trial


def verdict_of(trial: Trial) -> Judged:
    (judged,) = judge(trial)
    return judged


def test_a_variant_that_answers_more_is_one_to_switch_to_with_its_gain() -> None:
    judged = verdict_of(make_trial(make_candidate("cpython-3.14", 0.0005)))
    assert judged.verdict is Verdict.SWITCH
    assert judged.reason.startswith("2.000x [1.9")
    assert judged.reason.endswith("] the requests per second")


def test_a_variant_that_answers_fewer_is_none_to_switch_to() -> None:
    judged = verdict_of(make_trial(make_candidate("cpython-3.14", 0.002)))
    assert judged.verdict is Verdict.STAY
    assert judged.reason.startswith("0.500x [0.4")


def test_an_equal_one_is_no_difference() -> None:
    judged = verdict_of(make_trial(make_candidate("cpython-3.14", 0.001)))
    assert judged.verdict is Verdict.SAME


def test_a_gain_within_the_noise_of_ones_own_image_is_no_difference() -> None:
    trial = make_trial(make_candidate("cpython-3.14", 0.0009))
    noisy = make_candidate(OWN_TWIN, 0.0012)
    assert verdict_of(trial).verdict is Verdict.SWITCH
    own, _, variant = trial.candidates
    assert verdict_of(trial.model_copy(update={"candidates": [own, noisy, variant]})).verdict is Verdict.SAME


@pytest.mark.parametrize(("state", "expected"), [(State.UNAVAILABLE, Verdict.NOT_TRIED), (State.FAILED, Verdict.STAY)])
def test_what_has_no_image_was_not_tried_and_what_fails_is_none_to_switch_to(state: State, expected: Verdict) -> None:
    outcome = Outcome(state=state, reason="it does not build: error: no wheel")
    judged = verdict_of(make_trial(make_candidate("cpython-3.14", outcome=outcome)))
    assert judged.verdict is expected
    assert judged.reason == f"{state.value}: it does not build: error: no wheel"


def test_a_gil_that_came_back_forbids_to_switch_however_fast_it_is() -> None:
    back = GilWitness(processes=1, off_at_start=1, came_back=1, modules=["lxml.etree"])
    judged = verdict_of(make_trial(make_candidate("cpython-3.14t", 0.0005, gil=back, declared_gil=Gil.OFF)))
    assert judged.verdict is Verdict.STAY
    assert judged.reason.startswith("the GIL came back: module 'lxml.etree' switched it on; 2.000x")


def test_the_gil_is_said_of_what_failed_as_well() -> None:
    back = GilWitness(processes=1, off_at_start=1, came_back=1, modules=["lxml.etree"])
    failed = Outcome(state=State.FAILED, reason="exit code 139")
    judged = verdict_of(make_trial(make_candidate("cpython-3.14t", outcome=failed, gil=back, declared_gil=Gil.OFF)))
    assert judged.reason == "failed: exit code 139; the GIL came back: module 'lxml.etree' switched it on"


def test_what_else_differs_is_said_beside_the_verdict_and_does_not_decide_it() -> None:
    own = make_candidate(OWN, values={Figure.REQUEST_S: around(0.001), Figure.MEMORY_BYTES: around(100e6)})
    twin = make_candidate(OWN_TWIN, values={Figure.REQUEST_S: around(0.001), Figure.MEMORY_BYTES: around(101e6)})
    other = {Figure.REQUEST_S: around(0.0005), Figure.MEMORY_BYTES: around(150e6, NOISE[::-1])}
    trial = make_trial().model_copy(update={"candidates": [own, twin, make_candidate("cpython-3.14t", values=other)]})
    judged = verdict_of(trial)
    assert judged.verdict is Verdict.SWITCH
    (besides,) = judged.besides
    assert besides.startswith("memory 1.500x [1.4")


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
    assert judged.verdict is Verdict.SWITCH
    assert judged.reason.startswith("0.800x [0.7")
    assert judged.reason.endswith("] the tests' time")


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
