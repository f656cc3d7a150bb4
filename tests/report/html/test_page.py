"""The page as text: whole, safe, and with everything that a reader looks for. How it behaves: tests/browser."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from interlock.analysis import comparison
from interlock.report.html import page
from interlock.report.opening import GOES_ON, NOT_KNOWN, Opening
from interlock.results.answers import Share
from interlock.results.journal import KILLED
from interlock.untrusted import CONTROL
from tests.builders import make_cell, make_experiment, make_values, present
from tests.picks import make_pick
from tests.reports import CANNOT, FIVE, VARIANTS, example, reference, scaled


@cache
def example_page() -> str:
    return page.page(*example())


@cache
def page_of(name: str) -> str:
    return page.page(*reference(name))


def without_scripts(text: str) -> str:
    return re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL)


def example_body() -> str:
    return without_scripts(example_page())


STEERS = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202ehello"


def test_a_page_has_no_control_character_and_no_mark_of_direction() -> None:
    experiment, tables = example()
    changes = {
        "warnings": [STEERS],
        "ended_by": STEERS,
        "command": STEERS,
        "host": {**experiment.host, "cpu": STEERS, "system": STEERS},
        "cells": [make_cell(one, outcome=experiment.cells[0].outcome, notes=[STEERS]) for one in VARIANTS],
    }
    text = page.page(experiment.model_copy(update=changes), tables)
    body = without_scripts(text)
    assert "hello" in body
    assert CONTROL.search(body) is None
    assert "owned" not in body


def test_what_is_open_comes_after_the_answer() -> None:
    experiment, tables = example()
    cut = experiment.model_copy(update={"ended_by": "SIGTERM"})
    body = without_scripts(page.page(cut, tables))
    assert 0 < body.index('id="answer"') < body.index('id="open"')
    assert 'id="open"' not in example_body()


def test_a_page_of_what_goes_on_says_so_and_loads_itself_again_and_the_last_one_does_not() -> None:
    experiment, tables = example()
    cut = experiment.model_copy(update={"ended_by": KILLED})
    text = page.page(cut, tables, goes_on=True)
    assert re.search(r'<noscript><meta http-equiv="refresh" content="(\d+)"></noscript>', text)
    assert re.search(r'<html [^>]*data-reload-s="\d+"', text)
    assert text.count('http-equiv="refresh"') == 1
    assert GOES_ON in without_scripts(text)
    assert KILLED not in without_scripts(text)
    assert 'http-equiv="refresh"' not in example_page()
    assert 'data-reload-s="' not in example_page()
    assert GOES_ON not in example_page()


@pytest.mark.parametrize(("name", "most_bytes"), [("2026-11-30-i", 1_200_000), ("2026-11-29-a", 600_000)])
def test_a_page_is_one_small_file_that_asks_for_nothing(name: str, most_bytes: int) -> None:
    """49 rows of six workloads, 294 cells, and the core set."""
    text = page_of(name)
    assert len(text.encode()) <= most_bytes
    body = without_scripts(text)
    assert not re.search(r'(src|srcset|action|data)="|@import|<link|<img|<iframe', body)
    assert set(re.findall(r'href="([^"]*)"', body)) == set(re.findall(r'href="(#[^"]*)"', body))
    assert "default-src 'none'" in text


def test_every_anchor_leads_to_an_element() -> None:
    ids = re.findall(r' id="([^"]+)"', example_body())
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'href="#([^"]+)"', example_body())) <= set(ids)
    for names in re.findall(r'aria-labelledby="([^"]+)"', example_body()):
        assert set(names.split()) <= set(ids)


def test_what_a_program_said_cannot_become_a_part_of_the_page() -> None:
    assert CANNOT.reason not in example_page()
    assert "cannot start &lt;b&gt;threads&lt;/b&gt; &amp; so on&lt;/script&gt;" in example_body()
    assert example_page().count("</script>") == example_page().count("<script") == 1


def test_the_answer_comes_first() -> None:
    order = [
        example_body().index(f'id="{name}"')
        for name in ("answer", "changes", "heat-map", "benchmarks", "calls", "states", "machine")
    ]
    assert order == sorted(order)
    assert NOT_KNOWN.sentence in example_body()


def test_the_answer_and_what_else_to_know_of_it_come_before_any_table() -> None:
    opening = Opening(make_pick(), frozenset())
    body = without_scripts(page.page(*example(), opening))
    first = body[: body.index("<table")].replace("\xa0", " ")
    assert opening.sentence in first
    assert opening.caveats
    assert all(caveat in first for caveat in opening.caveats)
    assert NOT_KNOWN.caveats == []


def test_rows_that_are_not_about_what_to_run_are_hidden_and_can_be_asked_for() -> None:
    body = without_scripts(page.page(*example(), Opening(None, frozenset({"cpython-2.7-pth"}))))
    assert '<tr data-variant="cpython-2.7-pth" data-aside hidden ' in body
    assert '<tr data-variant="cpython-3.14" ' in body
    assert 'id="all" type="checkbox"' in body
    assert 'id="all"' not in example_body()
    assert "<noscript>" not in example_body()


def test_a_row_that_the_answer_names_is_shown_beside_it_though_it_is_an_aside() -> None:
    weighed = [Share(workload="locks", benchmark="uncontended", share=1)]
    pick = make_pick(named=["cpython-2.7-pth"], shares=weighed)
    body = without_scripts(page.page(*example(), Opening(pick, frozenset({"cpython-2.7-pth"}))))
    answer = body[: body.index("<nav")]
    assert re.findall(r'<li class="slower"([^>]*) data-ratio', answer) == [' data-variant="cpython-2.7-pth"']
    assert re.findall(r'<li [^>]*title="([^:]*):', answer) == ["cpython-2.7-pth uncontended"]


def test_the_filter_finds_a_variant_that_was_built_otherwise_among_the_means() -> None:
    experiment, tables = example()
    rows = tuple(replace(row, built_otherwise="no PGO" * (row.label == "cpython-3.14")) for row in tables[0].rows)
    body = without_scripts(page.page(experiment, [replace(tables[0], rows=rows), *tables[1:]]))
    means = body[body.index("<caption>Means over all benchmarks") :].partition("</table>")[0]
    assert dict(re.findall(r'<tr data-variant="([^"]+)"[^>]*><th scope="row">\1</th>.*>(\w+)</td></tr>', means)) == {
        name: "otherwise" if name == "cpython-3.14" else "alike" for name in VARIANTS[1:]
    }


def test_the_filter_holds_for_what_changed_and_is_open_whose_variant_is_in_the_second_column() -> None:
    aside = Opening(None, frozenset({"cpython-2.7-pth"}))
    body = without_scripts(page.page(*example(), aside))
    changes = body[body.index('<section id="changes"') : body.index("<form")]
    rows = re.findall(r"<tr([^>]*)><th[^>]*>[^<]*</th><td>([^<]*)</td>", changes)
    assert {label for _, label in rows} >= {"cpython-2.7-pth", "cpython-3.14"}
    assert [marks.split() for marks, _ in rows] == [[f'data-variant="{label}"'] for _, label in rows]


def test_the_filter_finds_a_name_with_capitals() -> None:
    """The field makes its words small, and a trial's own image, OWN, was never found."""
    experiment = make_experiment(["OWN"], cells=[make_cell("OWN")])
    assert '<tr data-variant="own" ' in without_scripts(page.page(experiment, comparison.tables(experiment, {}, {})))


def test_all_but_the_answer_the_changes_and_the_heat_map_is_folded() -> None:
    body = without_scripts(page_of("2026-11-29-a"))
    for folded in ("<details class=.behind.*?</details>", "<details.*?</details>"):
        body = re.sub(folded, "", body, flags=re.DOTALL)
    assert 'class="dots"' not in body
    assert body.count("<table") == 3


def test_the_tables_of_a_chart_stand_below_it_whole_and_without_javascript() -> None:
    for title, cell in (
        ("locks: uncontended, ", "750 ±1%"),
        ("locks: uncontended, system calls per 1M locks", "futex 500,000, read 100,000"),
        ("Means over all benchmarks", "1 of 2"),
        ("Images", "unavailable"),
    ):
        table = re.search(rf"<caption>{re.escape(title)}.*?</table>", example_body(), flags=re.DOTALL | re.IGNORECASE)
        assert table is not None, title
        assert f">{cell}</td>" in table[0]


def test_the_table_of_a_benchmark_without_a_chart_is_open() -> None:
    alone = make_experiment(["a"], cells=[make_cell("a")])
    values = {("a", "locks"): {"uncontended": make_values([1e-7], [1.01e-7])}}
    body = without_scripts(page.page(alone, comparison.tables(alone, values, {})))
    assert body.count('<details class="behind" open>') == 1
    assert "1 builds" not in body
    assert '<details class="behind" open>' not in example_body()


def test_throughput_by_workers_is_a_table_of_its_own() -> None:
    body = without_scripts(page.page(*scaled()))
    section = body[body.index('<section id="scaling"') :]
    assert "<h3>threads: pure, tasks/s by workers, higher is better</h3>" in section
    assert ">1.94x at 8</td>" in section


def test_the_machine_the_warnings_and_the_command_are_told() -> None:
    for text in ("Example CPU 9000", "seed 7", '<code id="command">nox -s matrix -- --quick --seed 7</code>'):
        assert text in example_body()
    assert "startup: a short one." in example_body()


def test_without_profiles_and_warnings_their_sections_are_left_out() -> None:
    experiment, tables = reference("2026-11-29-a", FIVE)
    bare = [table for table in tables if table.benchmark.name == "single-pinned"][:1]
    alone = {
        "warnings": [],
        "settings": experiment.settings.model_copy(update={"workloads": ["download"]}),
        "cells": [cell for cell in experiment.cells if cell.workload == "download"],
    }
    body = without_scripts(page.page(experiment.model_copy(update=alone), bare))
    for name in ("calls", "scaling"):
        assert f'id="{name}"' not in body
    assert "<p>None.</p>" in body


def test_warnings_are_linked_though_nothing_is_recommended() -> None:
    assert NOT_KNOWN.source == ""
    first = example_body()[: example_body().index("<nav")]
    assert first.count('href="#warnings"') == 1
    experiment, tables = example()
    quiet = without_scripts(page.page(experiment.model_copy(update={"warnings": []}), tables))
    assert 'href="#warnings"' not in quiet


def test_the_noise_that_the_twin_showed_is_told() -> None:
    assert re.search(r"\btwin\b[^<]*\b\d+\.\d %", example_body())


def test_a_unit_that_ends_a_script_does_not_end_the_pages() -> None:
    experiment, tables = example()
    metric = tables[0].benchmark.metric.model_copy(update={"label": "</script><!--<script>"})
    benchmark = tables[0].benchmark.model_copy(update={"metric": metric})
    text = page.page(experiment, [replace(tables[0], benchmark=benchmark), *tables[1:]])
    assert text.count("</script>") == example_page().count("</script>")
    assert "&lt;/script&gt;&lt;!--&lt;script&gt;" in text


def test_each_chart_has_a_row_for_each_variant_with_a_ratio() -> None:
    chart = present(re.search(r'id="ratio-locks-uncontended".*?<ul>(.*?)</ul>', example_body(), flags=re.DOTALL))
    assert re.findall(r'data-variant="([^"]+)"', chart[1]) == ["cpython-3.13", "cpython-2.7-pth", "cpython-3.14"]
    assert chart[1].count("<circle") == 3
