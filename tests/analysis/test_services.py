"""Trials of others' programs as rows of their records, and which of them is most like a service."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.analysis.services import like_text, most_like, words_in
from interlock.catalog.services import Probed
from interlock.catalog.variants import Gil
from interlock.results.experiments import Outcome, State
from interlock.results.services import ServiceRecord
from interlock.results.trials import GilStates, TriedImage
from tests.builders import present
from tests.services import BASELINE, service_rows
from tests.trials import around, make_trial, make_tried

OLD, NEW, FREE = BASELINE, "cpython-3.14", "cpython-3.14t"


def make_record(**changes: Any) -> ServiceRecord:
    data: dict[str, Any] = {
        "name": "echo",
        "title": "a Flask program behind gunicorn's threads (WSGI)",
        "program": "echo==1.0",
        "packages": ["flask", "gunicorn"],
        "load": "wrk {url}/",
        "machine": "2 cores",
        "measured": "2026-11-29",
        "minutes": 5.0,
        "baseline": OLD,
        "versions": {OLD: "3.13.15"},
        "bound": {},
        "rows": [{"label": OLD, "cpus": 1}, {"label": NEW, "cpus": 1, "verdict": "switch"}],
    }
    return ServiceRecord.model_validate(data | changes)


def test_rows_have_figures_in_units_that_people_read_and_ratios_of_the_figure_itself() -> None:
    experiment, table = make_tried(
        {NEW: around(0.0005)}, reported={NEW: {"memory_bytes": 4e7}, "OWN": {"memory_bytes": 2e7}}
    )
    own, new = service_rows(experiment, [table], BASELINE)
    assert (own.label, own.verdict, new.label, new.verdict) == (OLD, "", NEW, "switch")
    assert next(iter(new.figures)) == "throughput"
    assert new.figures["throughput"].value == pytest.approx(2000, rel=0.02)
    ratio = present(new.figures["throughput"].ratio)
    assert ratio.low <= 2 <= present(ratio.high)
    assert new.figures["memory"].value == pytest.approx(40)
    assert present(new.figures["memory"].ratio).estimate == pytest.approx(2, rel=0.01)
    assert (new.figures["throughput"].shows, new.figures["memory"].shows) == ("faster", "slower")
    assert own.figures["throughput"].ratio is None


def test_what_tests_a_service_makes_it_like_none() -> None:
    records = [make_record(), make_record(name="load", title="a generator of load", packages=["gevent", "pytest"])]
    assert most_like({"pytest", "coverage"}, records) is None
    assert present(most_like({"pytest", "gevent"}, records))[1] == ["gevent"]


def test_cpu_time_that_decides_is_in_ms() -> None:
    experiment, table = make_tried({NEW: around(0.0005)}, probed=Probed(decides="cpu"))
    own, new = service_rows(experiment, [table], BASELINE)
    assert own.figures["cpu"].value == pytest.approx(1, rel=0.02)
    assert new.figures["cpu"].value == pytest.approx(0.5, rel=0.02)


def test_a_row_that_does_not_build_has_its_reason_and_one_that_has_its_gil_back_the_module() -> None:
    reason = "gevent has no wheel for cp314t"
    back = TriedImage(
        declared_gil=Gil.OFF, gil=GilStates(processes=1, off_at_start=1, came_back=1, modules=["greenlet._greenlet"])
    )
    trial = make_trial(tried={"OWN": TriedImage(), NEW: TriedImage(), FREE: back})
    failed = {NEW: Outcome(state=State.FAILED, reason=reason)}
    experiment, table = make_tried({FREE: around(0.001)}, failed, trial=trial)
    rows = {row.label: row for row in service_rows(experiment, [table], BASELINE)}
    assert reason in rows[NEW].problem
    assert rows[NEW].figures == {}
    assert (rows[FREE].gil, rows[FREE].verdict) == ("came back", "do not switch")
    assert "greenlet._greenlet" in rows[FREE].problem


ECHO = make_record()
PLACES = make_record(name="places", title="a database in threads (ASGI)", packages=["uvicorn", "jinja2", "gunicorn"])
FILES = make_record(name="files", title="files (ASGI)", packages=["uvicorn"])


@pytest.mark.parametrize(
    ("words", "name", "shared"),
    [
        (words_in("a WSGI service with threads, two CPUs"), "echo", ["wsgi", "threads"]),
        ({"flask", "left-pad"}, "echo", ["flask"]),
        ({"jinja2", "gunicorn"}, "places", ["jinja2", "gunicorn"]),
    ],
)
def test_the_service_that_shares_the_rarest_words_is_most_like_it(
    words: set[str], name: str, shared: list[str]
) -> None:
    found, why = present(most_like(words, [ECHO, PLACES, FILES]))
    assert (found.name, why) == (name, shared)


def test_nothing_is_like_what_shares_no_word_or_one_that_all_have() -> None:
    assert most_like({"left-pad"}, [ECHO, PLACES]) is None
    assert most_like({"gunicorn"}, [ECHO, PLACES]) is None
    assert most_like({"flask"}, []) is None


@pytest.mark.parametrize(("asked", "answered"), [(1, 1), (2, 2), (8, 2)])
def test_the_answer_is_for_as_many_cpus_as_are_asked_for_or_fewer(asked: int, answered: int) -> None:
    rows = [{"label": NEW, "cpus": cpus, "verdict": "same", "problem": f"on {cpus}"} for cpus in (1, 2)]
    text = like_text(make_record(rows=rows), ["flask"], asked)
    assert f"on {answered}" in text
    assert f"on {3 - answered}" not in text
