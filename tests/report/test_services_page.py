"""docs/services.md has a table for each service, and what stands in its way."""

from __future__ import annotations

from interlock.report.services_page import page
from interlock.results.services import ProofRun, ProofRuns
from tests.analysis.test_services import NEW, make_record

RATIO = {"estimate": 1.2, "low": 1.1, "high": 1.3}
FIGURE = {"value": 2.0, "ratio": RATIO, "shows": "undecided"}
ROWS = [
    {"label": "cpython-3.13", "cpus": 2, "figures": {"p99": {"value": 1.5}}},
    {"label": NEW, "cpus": 2, "verdict": "do not switch", "problem": "no wheel", "figures": {"p99": FIGURE}},
]


def table_under(text: str, heading: str) -> list[list[str]]:
    lines = text.partition(heading)[2].splitlines()
    rows = [line for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_each_service_has_its_rows_with_intervals() -> None:
    text = page([make_record(rows=ROWS)], [])
    head, _, own, new, *_ = table_under(text, "## echo")
    assert head[3] == "p99, ms"
    assert own[3] == "1.5"
    assert new[3] == "2, 1.200x [1.100, 1.300] ?"
    assert text.count("no wheel") == 3


def test_the_cpu_time_of_a_batch_is_in_seconds_as_its_time_is() -> None:
    for more, unit in ({"time": {"value": 4.9}}, "s"), ({"throughput": {"value": 90.0}}, "ms"):
        rows = [{"label": "cpython-3.13", "cpus": 1, "figures": {**more, "cpu": {"value": 2.6}}}]
        head, *_ = table_under(page([make_record(rows=rows)], []), "## echo")
        assert f"CPU time, {unit}" in head


def test_the_table_in_short_has_a_column_for_each_variant_and_number_of_cpus() -> None:
    head, _, first, second = table_under(page([make_record(rows=ROWS), make_record(name="b")], []), "## In short")[:4]
    assert head[2:] == [f"{NEW}, 1 CPU", f"{NEW}, 2 CPUs"]
    assert first[2] == "-"
    assert second[3] == "-"


def test_what_stands_in_the_way_and_more_memory_are_sentences_and_what_is_open_is_not() -> None:
    memory = {"memory": {"value": 80.0, "ratio": RATIO, "shows": "slower"}}
    rows = [
        {"label": NEW, "cpus": 1, "verdict": "do not switch", "problem": "a has no wheel; pip: error"},
        {"label": NEW, "cpus": 2, "verdict": "do not switch", "problem": "a has no wheel; pip: error"},
        {"label": "cpython-3.14t", "cpus": 1, "verdict": "undecided", "problem": "not measured", "figures": memory},
    ]
    part = page([make_record(rows=rows)], []).partition("## What each may not know")[2].partition("##")[0]
    wheel, more = [line for line in part.splitlines() if line]
    assert wheel == f"- echo: {NEW}: a has no wheel."
    assert "1.200x [1.100, 1.300]" in more


def test_a_proof_counts_what_is_called_different() -> None:
    runs = [
        ProofRun(service=name, machine=machine, ratio=None, verdict="same", different=different, minutes=2)
        for name, machine, different in (("a", "one", []), ("b", "other", ["memory"]), ("c", "one", []))
    ]
    for slower, right in ((0, 2), (10, 1)):
        text = page([], [ProofRuns(slower=slower, runs=runs)])
        assert f"right in {right} of 3" in text
        one, other = text.split("On one:")[1].split("On other:")
        assert ("| a |" in one, "| c |" in one, "| b |" in other) == (True, True, True)
