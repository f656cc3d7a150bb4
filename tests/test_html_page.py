"""The page as text: whole, safe, and with everything that a reader looks for. How it behaves: tests/browser."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from interlock.claims import Verdict
from interlock.html import page
from interlock.model import Bound
from tests.builders import make_cell, make_claim
from tests.reports import CANNOT, FIVE, VARIANTS, example, reference

EXAMPLE = example()
PAGE = page.page(*EXAMPLE)
MOST_BYTES = 6_000_000


@cache
def page_of(name: str) -> str:
    return page.page(*reference(name))


def payload_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', text, flags=re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def without_scripts(text: str) -> str:
    return re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL)


BODY = without_scripts(PAGE)


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_page_is_one_file_of_at_most_6_mb_that_asks_for_nothing(name: str) -> None:
    text = page_of(name)
    assert len(text.encode()) <= MOST_BYTES
    body = without_scripts(text)
    assert not re.search(r'(src|srcset|action|data)="|@import|<link|<img|<iframe', body)
    assert set(re.findall(r'href="([^"]*)"', body)) == set(re.findall(r'href="(#[^"]*)"', body))
    assert "default-src 'none'" in text


def test_every_anchor_leads_to_an_element() -> None:
    ids = re.findall(r' id="([^"]+)"', BODY)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'href="#([^"]+)"', BODY)) <= set(ids)
    for names in re.findall(r'aria-labelledby="([^"]+)"', BODY):
        assert set(names.split()) <= set(ids)


def test_what_a_program_said_cannot_become_a_part_of_the_page() -> None:
    assert CANNOT.reason not in PAGE
    assert "cannot start &lt;b&gt;threads&lt;/b&gt; &amp; so on&lt;/script&gt;" in BODY
    assert PAGE.count("</script>") == PAGE.count("<script") == 4


def test_the_data_stand_in_the_page_once() -> None:
    data = payload_of(PAGE)
    assert data["variants"] == VARIANTS
    frame = data["frames"]["ratios"]
    assert len(frame["rows"]) == len(VARIANTS) * 2
    assert all(len(row) == len(frame["columns"]) for row in frame["rows"])
    for chart in data["charts"].values():
        for layout in ("wide", "narrow"):
            assert "cpython-2.7-pth" not in json.dumps(chart[layout])


def test_the_answer_comes_first() -> None:
    order = [BODY.index(f'id="{name}"') for name in ("answer", "heat-map", "benchmarks", "calls", "states", "machine")]
    assert order == sorted(order)
    less, same, more = page.groups(payload_frame("summary"))
    assert [[one["variant"] for one in group.members] for group in (less, same, more)] == [
        ["cpython-3.14"],
        ["cpython-2.7-nothreads"],
        ["cpython-2.7-pth"],
    ]


def payload_frame(name: str) -> list[dict[str, Any]]:
    frame = payload_of(PAGE)["frames"][name]
    return [dict(zip(frame["columns"], row, strict=True)) for row in frame["rows"]]


def test_a_group_of_many_is_folded_after_the_first_ones() -> None:
    body = without_scripts(page_of("b"))
    assert re.search(r"<summary>\d+ more<span", body)


def test_states_are_grouped_by_their_reason_and_name_benchmarks_unless_it_is_all_of_them() -> None:
    experiment, tables, _ = EXAMPLE
    found = {one.state: one for one in page.reasons(experiment, tables)}
    assert found["unavailable"].where == {"": ["nogil-3.9"]}
    assert found["unsupported"].where == {"locks uncontended": ["cpython-2.7-nothreads"]}
    assert found["unsupported"].reason == CANNOT.reason


def test_a_profile_that_failed_is_among_the_reasons() -> None:
    experiment, tables, _ = EXAMPLE
    cells = [make_cell("cpython-3.14", profile=CANNOT)]
    found = page.reasons(experiment.model_copy(update={"cells": cells}), tables)
    assert [one.where for one in found if one.state == "no profile"] == [{"locks": ["cpython-3.14"]}]


def test_the_machine_the_warnings_and_the_command_are_told() -> None:
    for text in ("Example CPU 9000", "seed 7", '<code id="command">nox -s matrix -- --quick --seed 7</code>'):
        assert text in BODY
    assert "locks: a short one." in BODY
    assert "(3 of them)" in BODY


def test_claims_stand_under_their_verdict_with_what_was_published_what_agrees_and_ours() -> None:
    sections = re.split(r'<details class="verdict"', BODY)[1:]
    assert [re.findall(r"<h3>([\w-]+)</h3>", one)[0] for one in sections] == ["pth-is-slow", "pth-is-fast", "elsewhere"]
    assert [word in one for word, one in zip(("confirmed", "refuted", Verdict.NO_DATA), sections, strict=True)] == [
        True
    ] * 3
    assert "7.40, which allows 6.66 to 8.14" in sections[0]


@pytest.mark.parametrize(
    ("bound", "text"),
    [(Bound.EXACT, "0.450 to 0.550"), (Bound.AT_MOST, "at most 0.550"), (Bound.AT_LEAST, "at least 0.450")],
)
def test_what_a_claim_allows_is_a_range_or_a_limit(bound: Bound, text: str) -> None:
    assert page.allowed_text(make_claim(bound=bound)) == text


def test_without_claims_profiles_and_warnings_their_sections_are_left_out() -> None:
    experiment, tables, _ = reference("a", FIVE)
    bare = [table for table in tables if table.benchmark.profile_metric is None]
    body = without_scripts(page.page(experiment.model_copy(update={"warnings": []}), bare, []))
    for name in ("published", "calls", "waits"):
        assert f'id="{name}"' not in body
    assert "<p>None.</p>" in body


def test_the_noise_that_the_twin_showed_is_told() -> None:
    assert re.search(r"as its own twin was off by up to \d+\.\d %", BODY)


def test_a_unit_that_ends_a_script_does_not_end_the_pages() -> None:
    experiment, tables, findings = EXAMPLE
    metric = tables[0].benchmark.metric.model_copy(update={"label": "</script><!--<script>"})
    benchmark = tables[0].benchmark.model_copy(update={"metric": metric})
    text = page.page(experiment, [replace(tables[0], benchmark=benchmark), *tables[1:]], findings)
    assert text.count("</script>") == PAGE.count("</script>")
    assert metric.label in json.dumps(payload_of(text)["charts"])
