"""docs/services.md has a row for each service in the table of each figure, and what stands in its way."""

from __future__ import annotations

from typing import Any

from interlock.report.services_page import page, short_table
from interlock.results.services import ProofRun, ProofRuns
from tests.analysis.test_services import FREE, NEW, OLD, make_record

Rows = list[dict[str, Any]]


def ratio(estimate: float) -> dict[str, float]:
    return {"estimate": estimate, "low": estimate - 0.1, "high": estimate + 0.1}


def make_rows(name: str, value: float, estimate: float = 1.2, shows: str = "undecided") -> Rows:
    """The rows of the baseline and of a newer variant, with one figure."""
    return [
        {"label": OLD, "cpus": 2, "figures": {name: {"value": value}}},
        {
            "label": NEW,
            "cpus": 2,
            "verdict": "do not switch",
            "figures": {name: {"value": 2.0, "ratio": ratio(estimate), "shows": shows}},
        },
    ]


def table_under(text: str, heading: str) -> list[list[str]]:
    part = text.partition(heading)[2].partition("\n## ")[0]
    return rows_of(part)


def rows_of(text: str) -> list[list[str]]:
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_each_service_has_the_figure_that_decides_and_ratios_with_intervals() -> None:
    head, _, row = table_under(page([make_record(rows=make_rows("throughput", 1234))], []), "## What each gains")
    assert head[3:] == [f"{OLD}, 2 CPUs", f"{NEW}, 2 CPUs"]
    assert row[0] == "echo 1.0"
    assert row[2:] == ["throughput, /s", "1,234", "1.200x [1.100, 1.300] ?"]


def test_a_figure_that_decides_is_in_no_table_of_prices() -> None:
    rows = make_rows("cpu", 1.5)
    for row in rows:
        row["figures"] |= make_rows("memory", 20.0, shows="slower")[bool(row.get("verdict"))]["figures"]
    text = page([make_record(rows=rows)], [])
    assert table_under(text, "## What each gains")[2][2] == "CPU time, ms"
    assert len(table_under(text, "## Memory")) == 3
    assert not table_under(text, "## CPU time")


def test_a_price_of_which_nothing_is_shown_has_no_table() -> None:
    for shows, has_table in (("undecided", False), ("faster", True)):
        rows = make_rows("throughput", 9.0)
        for row, more in zip(rows, make_rows("start", 1.5, shows=shows), strict=True):
            row["figures"] |= more["figures"]
        assert bool(table_under(page([make_record(rows=rows)], []), "## Start")) is has_table


def test_the_least_and_the_most_that_is_shown_are_named_and_what_is_undecided_is_not_among_them() -> None:
    known = {"a": (1.2, "slower"), "b": (1.7, "slower"), "c": (0.5, "undecided"), "d": (1.4, "slower")}
    records = [make_record(name=name, rows=make_rows("memory", 20.0, *shown)) for name, shown in known.items()]
    part = page(records, []).partition("## Memory")[2].partition("|")[0]
    assert "1.200x (a) to 1.700x (b)" in part
    assert "0.500x" not in part


def test_the_table_in_short_has_what_is_shown_and_marks_what_is_not() -> None:
    records = [make_record(rows=make_rows("throughput", 9.0, 1.2, shows)) for shows in ("faster", "undecided", "same")]
    head, _, *rows = rows_of(short_table([*records, make_record(rows=[])]))
    assert head[1:] == [f"{NEW}, 2 CPUs"]
    assert [row[1] for row in rows] == ["1.200x [1.100, 1.300]", "?", "=", "-"]


def test_what_stands_in_the_way_is_told_once_and_what_is_open_is_not() -> None:
    rows = [
        {"label": NEW, "cpus": 1, "verdict": "do not switch", "problem": "a has no wheel; pip: error"},
        {"label": NEW, "cpus": 2, "verdict": "do not switch", "problem": "a has no wheel; pip: error"},
        {"label": FREE, "cpus": 1, "verdict": "undecided", "problem": "not measured"},
    ]
    record = make_record(rows=rows)
    (line,) = page([record], []).partition("## What stands in the way")[2].partition("##")[0].split("\n\n")[1:2]
    assert line == f"- echo, {NEW}: a has no wheel; pip: error"
    assert rows_of(short_table([record]))[2][1:] == ["a has no wheel", "-", "-"]


def test_facts_that_all_services_share_stand_once_and_others_with_their_services() -> None:
    records = [
        make_record(name=name, machine=f"2 cores, Linux {kernel}") for name, kernel in zip("abc", "676", strict=True)
    ]
    text = page(records, [])
    assert text.count("2 cores") == text.count("2026-11-29") == 1
    assert "Linux 6 for a, c; Linux 7 for b" in text


def test_services_that_are_bounded_alike_are_named_together_with_the_cpus_that_they_used() -> None:
    said = {
        "a": "0.96 of 1 CPU, the load 0.1 of its own: it is full.",
        "b": "1 of 1 CPU, the load 0.2 of its own: it is full.",
    }
    records = [make_record(name=name, bound={1: f"Your service used {text}"}) for name, text in said.items()]
    assert "- On 1 CPU it is full: a 0.96, b 1." in page(records, []).splitlines()


def test_a_proof_counts_what_is_right_and_names_what_is_not_and_the_machines() -> None:
    runs = [
        ProofRun(service=name, machine=machine, ratio=None, verdict="same", different=different, minutes=2)
        for name, machine, different in (("a", "one", []), ("b", "other", ["memory"]), ("c", "one", []))
    ]
    for slower, right, wrong in ((0, 2, "b (memory called different)."), (10, 1, "a, c.")):
        text = page([], [ProofRuns(slower=slower, runs=runs)])
        assert f"right in {right} of 3" in text
        assert "2 on one; 1 on other" in text
        assert text.rstrip().endswith(wrong)


def test_a_service_has_its_load_and_minutes_and_is_named_where_the_gil_stays_off() -> None:
    rows = [
        {"label": OLD, "cpus": 1, "gil": "on"},
        *({"label": FREE, "cpus": cpus, "gil": "off", "verdict": "switch"} for cpus in (1, 2)),
    ]
    text = page([make_record(name="a", rows=rows), make_record(name="b", minutes=7.4)], [])
    loads = text.partition("## Their loads")[2].partition("\n## ")[0].splitlines()
    assert [line for line in loads if line.startswith("-")] == ["- a: `wrk {url}/`, 5", "- b: `wrk {url}/`, 7"]
    (stays,) = [line for line in text.splitlines() if "GIL" in line]
    assert (stays.count(FREE), stays.endswith(" a.")) == (1, True)
