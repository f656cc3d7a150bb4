"""A trial as text."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console

from interlock.catalog.variants import Gil
from interlock.measure.profiling import profile_by_phases
from interlock.results.answers import CommandRun, Figure, GilStates, Trial
from interlock.results.experiments import Outcome, State, duration_text
from interlock.results.profiles import CallCounts, FutexCounts, Method, PhaseCounts
from interlock.trial.tables import (
    as_json,
    call_section,
    conclusion,
    figure_section,
    headline,
    markdown,
    notes,
    terminal,
)
from interlock.trial.verdicts import TrialVerdict, judge
from tests.trials import around, make_candidate, make_trial, make_trial_settings


def printed(trial: Trial) -> str:
    out = Console(file=io.StringIO(), width=200)
    out.print(terminal(trial))
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def profile(units: int = 100):  # type: ignore[no-untyped-def]
    phase = PhaseCounts(
        total=300,
        syscalls={"futex": CallCounts(calls=200), "sendto": CallCounts(calls=100)},
        ns=10**9,
        futex={"wait": FutexCounts(calls=50, ns=10**9, max_ns=9, errors=0, woke_nobody=0)},
    )
    empty = PhaseCounts(total=0, syscalls={})
    return profile_by_phases({"startup": phase, "warmup": empty, "work": empty, "end": empty}, units, command=True)


TIED = make_candidate("cpython-3.14-tailcall", values={Figure.REQUEST_S: around(0.000502)})
FASTER, FAILED = (
    make_candidate("cpython-3.14", 0.0005),
    make_candidate("cpython-3.13t", outcome=Outcome(state=State.FAILED, reason="it does not build: no wheel | sdist")),
)


def test_the_answer_stands_at_the_end_of_the_terminal_and_at_the_beginning_of_the_page() -> None:
    trial = make_trial(FASTER)
    answer = "For 1 CPU: switch to cpython-3.14: interlock swap service/Dockerfile --to cpython-3.14 --paths"
    assert printed(trial).strip().splitlines()[-1].strip() == answer
    assert markdown(trial).splitlines()[2] == f"**{answer}**"


def test_without_a_gain_the_answer_is_to_stay() -> None:
    assert conclusion(make_trial(FAILED), judge(make_trial(FAILED))).startswith("For 1 CPU: do not switch")


def test_variants_that_are_not_shown_to_differ_from_the_best_are_named() -> None:
    trial = make_trial(FASTER, TIED, make_candidate("cpython-3.13", 0.0008))
    assert ": cpython-3.14-tailcall)" in conclusion(trial, judge(trial))


def test_each_variant_has_its_verdict_with_the_evidence() -> None:
    text = printed(make_trial(FASTER, FAILED))
    assert "switch         cpython-3.14  2.000x" in text
    assert f"do not switch  cpython-3.13t  failed: {FAILED.outcome.reason}" in text


def test_requests_are_shown_by_second_with_their_standard_error() -> None:
    trial = make_trial(FASTER)
    section = figure_section(trial, judge(trial))
    rows = {row[0]: dict(zip(section.columns, row, strict=True)) for row in section.rows}
    assert rows["yours"]["requests/s"] == "1,000 ±1%"
    assert rows["cpython-3.14"]["requests/s"] == "2,000 ±1% 2.00x"
    assert re.match(r"figures \(8 rounds, .* 1\.000x \[", section.title)


def test_gil_tests_and_size_have_columns() -> None:
    gil = GilStates(processes=1, off_at_start=1)
    run = CommandRun(exit_code=0, duration_s=12.34)
    trial = make_trial(make_candidate("cpython-3.14t", 0.001, gil=gil, test=run, declared_gil=Gil.OFF))
    section = figure_section(trial, judge(trial))
    row = dict(zip(section.columns, section.rows[-1], strict=True))
    assert (row["GIL"], row["tests"], row["image MB"]) == ("off", "passed in 12.3 s", "150")


def test_calls_are_by_request() -> None:
    section = call_section(make_trial(make_candidate("cpython-3.14", 0.001, profile=profile())))
    assert section is not None
    row = dict(zip(section.columns, section.rows[0], strict=True))
    assert row["calls/request"] == "3"
    assert row["lock cost/request"].startswith("2 futex")
    assert row["futex waits/request"] == "0.5"
    assert row["waited ms/request"] == "10"
    assert row["most calls"] == "futex 2, sendto 1"


def test_a_probe_that_knows_no_waits_shows_none() -> None:
    counted = profile().model_copy(update={"method": Method.TRACEPOINTS})
    section = call_section(make_trial(make_candidate("cpython-3.14", 0.001, profile=counted)))
    assert section is not None
    assert section.rows[0][3:6] == ("-", "-", "-")


def test_without_a_profile_there_is_no_table_of_calls() -> None:
    assert call_section(make_trial(FASTER)) is None


def test_what_is_true_of_several_is_said_once() -> None:
    both = [make_candidate(label, 0.001, warnings=["no registry has it"]) for label in ("a", "a+gil-on")]
    assert notes(make_trial(*both)) == ["a, a+gil-on: no registry has it"]


def test_the_page_has_the_diff_and_escapes_pipes() -> None:
    changed = make_candidate(
        "cpython-3.14", 0.001, changes=["-FROM python:3.13-slim", "+FROM localhost/interlock/python:3.14-trixie"]
    )
    page = markdown(make_trial(changed, FAILED))
    assert "  +FROM localhost/interlock/python:3.14-trixie" in page
    assert "no wheel \\| sdist" in page


def test_json_has_raw_values_verdicts_and_no_infinity() -> None:
    one_round = make_candidate("cpython-3.14", values={Figure.REQUEST_S: [0.0005]})
    found = json.loads(as_json(make_trial(one_round)))
    assert found["candidates"][2]["values"] == {"request_s": [0.0005]}
    (verdict,) = found["verdicts"]
    assert verdict["verdict"] == "undecided"
    assert verdict["ratios"]["request_s"]["high"] is None
    assert found["deciding"] == "request_s"


def test_another_programs_load_is_a_time() -> None:
    own, twin, other = (
        make_candidate(label, values={Figure.LOAD_S: around(seconds)})
        for label, seconds in (("OWN", 2.0), ("OWN+twin", 2.0), ("cpython-3.14", 1.0))
    )
    trial = make_trial(settings=make_trial_settings(load="sh -c 'curl {url}'"), candidates=[own, twin, other])
    assert "0.500x [0.500, 0.500] the load's time" in printed(trial)
    assert "load s" in printed(trial)


def test_the_command_to_switch_names_stage_and_profile() -> None:
    settings = make_trial_settings(stage="app", profile="standard", dockerfile="my service/Dockerfile")
    trial = make_trial(FASTER, settings=settings)
    command = "interlock swap 'my service/Dockerfile' --to cpython-3.14 --paths --stage app --profile standard"
    assert conclusion(trial, judge(trial)).endswith(command)


@pytest.mark.parametrize(("cpus", "expected"), [("1", 1), ("1-3", 3), ("", 2)])
def test_the_verdict_is_for_the_number_of_cpus_that_the_service_had(cpus: str, expected: int) -> None:
    trial = make_trial(settings=make_trial_settings(service_cpus=cpus))
    assert trial.service_cpus == expected
    assert conclusion(trial, judge(trial)).startswith(f"For {expected} CPU")


def test_what_is_undecided_when_the_budget_ends_is_named_with_the_time_that_it_would_take() -> None:
    wild = around(0.00105, (1.0, 1.3, 0.8, 1.2, 0.7, 1.1, 0.9, 1.25))
    late = make_candidate("cpython-3.14", values={Figure.REQUEST_S: wild})
    trial = make_trial(late, ended_by="the budget of 90 s", measuring_s=80.0)
    (judged,) = judge(trial)
    assert judged.verdict is TrialVerdict.UNDECIDED
    more = judged.comparisons[Figure.REQUEST_S].more_rounds
    assert more is not None
    assert judged.reason.endswith(f"about {more} more rounds, some {duration_text(more * 10.0)}")
    assert conclusion(trial, [judged]).endswith(": cpython-3.14.")
    assert trial.ended_by in conclusion(trial, [judged])
    assert any(line.startswith("ended ") and trial.ended_by in line for line in headline(trial))
