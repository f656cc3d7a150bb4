"""Findings are shown whole, at any width, and a requirement that is contradicted is an error that names it."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from interlock.analysis.claims import ClaimVerdict, Finding
from interlock.analysis.statistics import ratio_from
from interlock.catalog.claims import Claim
from interlock.errors import ClaimError
from interlock.report import claims
from tests.builders import make_claim, make_experiment
from tests.reports import printed

RATIO = ratio_from(math.log(0.7634), 0.0132, 11, 12)


def finding(verdict: ClaimVerdict = ClaimVerdict.CONFIRMED, claim: Claim | None = None) -> Finding:
    return Finding(claim or make_claim(), verdict, "because", ratio=RATIO)


def shown(*found: Finding, width: int = 100) -> str:
    return "\n".join(line.rstrip() for line in printed(claims.terminal(found), width).splitlines())


def test_a_row_has_what_was_published_what_was_found_and_the_verdict() -> None:
    row = shown(finding()).splitlines()[1]
    assert re.split("  +", row) == ["half", "0.500 ±10 %", "0.763 [0.742, 0.786]", "confirmed"]


@pytest.mark.parametrize(
    ("bound", "expected"), [("at-most", "at most 0.500 ±10 %"), ("at-least", "at least 0.500 ±10 %")]
)
def test_a_bound_is_part_of_what_was_published(bound: str, expected: str) -> None:
    assert expected in shown(finding(claim=make_claim(bound=bound)))


def test_an_exact_figure_has_no_tolerance_and_a_count_all_its_digits() -> None:
    claim = make_claim(metric="futex", against=None, published=1_000_020, tolerance=0)
    row = shown(Finding(claim, ClaimVerdict.CONFIRMED, "because", count=1_000_020.0)).splitlines()[1]
    assert row.split() == ["half", "1,000,020", "1,000,020", "confirmed"]


def test_the_reason_stands_with_the_statement_its_source_what_was_compared_and_the_note() -> None:
    text = shown(finding(claim=make_claim(note="A note.")), width=200)
    assert "half: confirmed\n  a takes half the time. (somebody, 2007-10-22)\n" in text
    assert "  time of a to b in locks / uncontended: because.\n  A note.\n" in text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"against": "a", "against_benchmark": "queue"}, "time of a in locks / uncontended to a in locks / queue: "),
        ({"metric": "futex", "against": None}, "futex of a in locks / uncontended: "),
        ({"metric": "syscalls", "syscalls": ["stat", "statx"]}, "stat, statx of a to b in locks / uncontended: "),
    ],
)
def test_what_was_compared_is_named_whatever_it_is(changes: dict[str, object], expected: str) -> None:
    assert expected in shown(finding(claim=make_claim(**changes)), width=200)


def test_verdicts_are_counted_and_those_that_did_not_occur_left_out() -> None:
    text = shown(finding(), finding(ClaimVerdict.STRONGER), finding(ClaimVerdict.STRONGER))
    assert text.endswith("3 claims: 1 confirmed; 2 same direction, stronger")


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_name_and_no_line_is_cut_at_any_usual_width(width: int) -> None:
    claim = make_claim(name="startup-parallel-kernel-share", bound="at-most", note="word " * 60 + "end")
    text = shown(finding(ClaimVerdict.NOT_TESTABLE, claim), width=width)
    assert text.splitlines()[1].startswith("startup-parallel-kernel-share ")
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert text.split().count("word") == 60


def test_the_same_can_be_had_as_json() -> None:
    described = make_experiment()
    data = json.loads(claims.as_json(described, [finding(), Finding(make_claim(), ClaimVerdict.NO_DATA, "none")]))
    assert data["experiment"] == described.name
    assert data["host"] == described.host
    measured, missing = data["findings"]
    assert Claim.model_validate(measured["claim"]) == make_claim()
    assert (measured["verdict"], measured["reason"], measured["count"]) == ("confirmed", "because", None)
    assert measured["ratio"] == {key: pytest.approx(figure) for key, figure in vars(RATIO).items()}
    assert (missing["verdict"], missing["ratio"]) == ("no data yet", None)


def test_an_interval_without_an_end_is_json_too() -> None:
    open_ended = Finding(
        make_claim(), ClaimVerdict.NOT_TESTABLE, "one round", ratio=ratio_from(math.log(0.5), math.inf, 0, 1)
    )
    text = claims.as_json(make_experiment(), [open_ended])
    assert json.loads(text, parse_constant=pytest.fail)["findings"][0]["ratio"]["high"] is None


@pytest.mark.parametrize(
    ("verdict", "file", "named"),
    [(ClaimVerdict.NO_EFFECT, None, ""), (ClaimVerdict.OPPOSITE, Path("my claims.toml"), " --claims 'my claims.toml'")],
)
def test_requirements_that_are_contradicted_are_an_error_that_names_them_and_the_command(
    verdict: ClaimVerdict, file: Path | None, named: str
) -> None:
    required, other = make_claim(required=True), make_claim(name="third", required=True)
    found = [finding(verdict, required), finding(verdict), finding(verdict, other)]
    with pytest.raises(ClaimError) as caught:
        claims.check_required(Path("my results/x"), found, file)
    assert caught.value.exit_code == 1
    assert (caught.value.file, caught.value.key) == ("my results/x", "half, third")
    assert f"`interlock claims 'my results/x'{named}`" in caught.value.todo


@pytest.mark.parametrize("verdict", [one for one in ClaimVerdict if not one.contradicts])
def test_a_requirement_that_is_not_contradicted_is_no_error(verdict: ClaimVerdict) -> None:
    claims.check_required(
        Path("results/x"), [finding(verdict, make_claim(required=True)), finding(ClaimVerdict.OPPOSITE)]
    )


def test_the_markdown_has_a_row_and_the_reasons_of_each_claim() -> None:
    claim = make_claim(note="a | b")
    text = claims.markdown(make_experiment(), [finding(), finding(ClaimVerdict.NO_EFFECT, claim)])
    assert text.startswith("# Claims on experiment 2026-11-21-a\n\n2 claims: 1 confirmed; 1 no effect.\n")
    assert "| half | 0.500 ±10 % | 0.763 [0.742, 0.786] | no effect |\n" in text
    assert text.count("because.\n") == 2
    assert text.endswith("- a | b\n")
