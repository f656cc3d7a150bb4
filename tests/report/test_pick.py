"""A pick for a terminal: what a person reads, and lines that can be copied."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from interlock.report.pick import closing, first_lines, terminal
from interlock.results.answers import (
    Costs,
    Decision,
    Estimate,
    Exclusion,
    MachineDifference,
    Pick,
    Rank,
    Whose,
)
from tests.builders import make_program
from tests.picks import make_pick
from tests.reports import printed

DIGEST = f"registry.example.com:5000/team/python:3.14t-trixie@sha256:{'4' * 64}"


def text_of(pick: Pick, width: int = 160) -> str:
    return printed(terminal(pick, width), width)


def test_a_terminal_of_80_columns_shows_each_figure_and_word_of_the_ranking_whole() -> None:
    """Intervals were broken over two lines, and the heading was cut."""
    shown, wide = (re.findall(r"^\d\..*", text_of(make_pick(), width), re.MULTILINE) for width in (80, 160))
    assert [line.split()[:6] for line in shown] == [line.split()[:6] for line in wide]
    assert len(shown) == 3
    assert "throughput" in text_of(make_pick(), 80)


@pytest.mark.parametrize("width", [40, 60, 79])
def test_a_narrow_terminal_has_each_contender_as_a_sentence_with_every_figure(width: int) -> None:
    """Figures were cut: '1.4…'."""
    shown = text_of(make_pick(), width)
    assert "…" not in shown
    sentence = f"1. cpython-3.14t: 1.42x [1.28, 1.56], {Rank.OPEN}, faster; RSS 25 MB, start 10.8 ms, image 134 MB"
    assert sentence in " ".join(shown.split())
    assert "3. cpython-3.13: 1.00x, worse, baseline; RSS 25 MB" in " ".join(shown.split())


def test_a_command_within_what_is_behind_the_answer_is_written_as_it_is_typed_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "interlock"
    make_program(program, "")
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert f"measure here: `{tmp_path}/interlock matrix" in text_of(make_pick(), 300)


def words_of(pick: Pick) -> str:
    return " ".join(text_of(pick).split())


def test_the_answer_is_a_line_for_each_candidate_then_whose_figures_and_the_next_command() -> None:
    first, second, whose, then = (line.split(maxsplit=2) for line in first_lines(make_pick()))
    assert first[:2] == ["cpython-3.14t", "SWITCH"]
    assert second[:2] == ["cpython-3.14", "ALSO"]
    assert re.search(r"\b42 % .*\b36 to 49\b.*\+31 MB", first[2])
    assert (whose[0], " ".join(then)) == ("from", "next interlock trial . --variants cpython-3.14t")
    assert [line.split()[0] for line in first_lines(make_pick(next=[]))] == ["cpython-3.14t", "cpython-3.14", "from"]


def test_what_ones_own_experiment_could_not_measure_is_the_third_line_and_a_shipped_ones_is_not() -> None:
    lacking = {"needs a container engine": ["official-3.13"]}
    lines = first_lines(make_pick(whose=Whose.HERE, unmeasured=lacking))
    assert lines[4:] == ["not measured: official-3.13 (needs a container engine)"]
    assert len(first_lines(make_pick(unmeasured=lacking))) == 4


def test_figures_without_containers_say_so_and_that_they_are_of_this_machine_only_if_they_are() -> None:
    own = make_pick(whose=Whose.HERE, in_containers=False, apart=[])
    assert "on this machine, without containers (a 2-core Example CPU 9000)" in first_lines(own)[2]
    other = own.model_copy(update={"apart": [MachineDifference(what="cores", there="2", here="4")]})
    assert "without containers, not on yours" in first_lines(other)[2]
    assert "this machine" not in first_lines(other)[2]


def test_what_was_not_measured_is_a_dash_in_the_ranking_and_said_in_the_costs() -> None:
    (row, *_) = make_pick().contenders
    unknown = row.model_copy(update={"max_rss_bytes": None, "start_s": None, "image_bytes": None})
    pick = make_pick({"costs": Costs(max_rss_bytes=None, image_bytes=None)}, contenders=[unknown])
    assert f"1. cpython-3.14t 1.42x [1.28, 1.56] - - - {Rank.OPEN}" in words_of(pick)
    (cost,) = [line for line in text_of(pick).splitlines() if line.startswith("cost")]
    assert cost.count("not measured") == 2


def test_the_ranking_numbers_the_contenders_and_says_which_may_be_the_best() -> None:
    words = words_of(make_pick())
    assert f"1. cpython-3.14t 1.42x [1.28, 1.56] 25 10.8 134 {Rank.OPEN}, faster 2." in words
    assert f"2. cpython-3.14 1.40x [1.26, 1.54] 25 10.8 134 {Rank.OPEN}, faster" in words
    assert "3. cpython-3.13 1.00x 25 10.8 134 worse, baseline" in words
    assert re.search(r"throughput\b\D*\bcpython-3\.13\b", words)


def test_the_head_says_whose_figures_these_are_and_how_far_away_and_that_measuring_is_better() -> None:
    words = words_of(make_pick(apart=[MachineDifference(what="cores", there="2", here="64")]))
    assert all(part in words for part in ("2026-11-21-a", "2 cores, Example CPU 9000"))
    assert re.search(r"\bcores 64\D+2\b", words)
    assert "measure here" in words
    assert "37.5 % download/many" in words


def test_an_experiment_of_this_machine_is_not_to_be_measured_again() -> None:
    words = words_of(make_pick(whose=Whose.HERE))
    assert "measure here" not in words
    assert not any("interlock matrix" in line for line in closing(make_pick(whose=Whose.HERE)))


def test_costs_have_their_sign_and_a_start_its_interval() -> None:
    words = words_of(make_pick())
    assert re.search(r"\+31 MB .*\+2\.1 ms .*1\.20 \[1\.10, 1\.30\].*\+0 MB ", words)
    start = Estimate(estimate=1.0, low=0.9, high=1.1)
    same = make_pick({"costs": Costs(max_rss_bytes=0, image_bytes=0, start_s=-0.00004, start_ratio=start)})
    assert re.search(r"\+0 MB .*\+0\.0 ms .*\+0 MB ", words_of(same))
    without = make_pick({"costs": Costs(max_rss_bytes=-31_000_000, image_bytes=2_000_000)})
    assert re.search(r"-31 MB .*\+2 MB .* cpython-3\.13", words_of(without))
    assert " ms " not in re.search(r"-31 MB .*\+2 MB ", words_of(without))[0]  # type: ignore[index]


def test_every_risk_and_note_has_a_line() -> None:
    lines = [" ".join(line.split()) for line in text_of(make_pick()).splitlines()]
    assert "risk support: still gets bug fixes" in lines
    assert "risk no wheel for orjson" in lines
    assert "note a note" in lines


def test_those_excluded_for_the_same_reasons_stand_together() -> None:
    excluded = [
        Exclusion(label="cpython-2.7", reasons=["end of life since 2020-01-01", "unavailable"]),
        Exclusion(label="cpython-3.9", reasons=["end of life since 2025-10-31"]),
        Exclusion(label="cpython-2.7-pth", reasons=["end of life since 2020-01-01", "unavailable"]),
    ]
    lines = text_of(make_pick(excluded=excluded)).splitlines()
    assert "  cpython-2.7, cpython-2.7-pth: end of life since 2020-01-01; unavailable" in lines
    assert "  cpython-3.9: end of life since 2025-10-31" in lines


def test_the_from_line_the_env_lines_and_the_commands_are_each_one_line() -> None:
    chosen = {"reference": DIGEST, "pinned": True, "environment": {"PYTHON_GIL": "1", "A": "b"}}
    lines = closing(make_pick(chosen))
    commands = lines[5:]
    assert lines == [
        "",
        f"FROM {DIGEST}",
        "ENV PYTHON_GIL=1",
        "ENV A=b",
        "",
        *commands,
    ]
    assert [shlex.split(line, comments=True)[1:] for line in commands] == [
        ["interlock", "trial", ".", "--variants", "cpython-3.14t"],
        ["interlock", "swap", "Dockerfile", "--to", "cpython-3.14t"],
    ]


def test_what_is_not_in_a_registry_must_be_pushed_and_what_is_need_not() -> None:
    assert "interlock push" in words_of(make_pick())
    assert "interlock push" not in words_of(make_pick({"pinned": True}))


def test_options_of_a_mode_are_said_to_belong_to_the_command() -> None:
    words = words_of(make_pick({"options": ["-X", "frozen_modules=off"]}))
    assert "start `python -X frozen_modules=off ...`" in words


def test_without_a_recommendation_there_is_no_from_line() -> None:
    stay = make_pick(
        decision=Decision.STAY, answer="stay with cpython-3.13", recommended=None, next=[], whose=Whose.HERE
    )
    assert closing(stay) == []
    assert "cost" not in words_of(stay)


def test_with_nothing_left_there_is_no_ranking_and_nothing_to_measure() -> None:
    nothing = make_pick(decision=Decision.NOTHING, answer="none", contenders=[], recommended=None, next=[])
    assert "throughput" not in words_of(nothing)
    assert "measure here" not in words_of(nothing)
    assert closing(nothing) == []


def test_it_fits_eighty_columns_without_breaking_a_name() -> None:
    lines = text_of(make_pick(), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("1.  cpython-3.14t ") for line in lines)


def test_what_was_not_measured_has_a_line_of_its_own() -> None:
    lines = text_of(make_pick(not_measured=["cpython-3.15", "pypy-3.11"])).splitlines()
    assert lines[lines.index("not measured") + 1].strip() == "cpython-3.15, pypy-3.11"
