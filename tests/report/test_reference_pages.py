"""The pages over all references: what is written into them, and what is refused."""

from __future__ import annotations

import re

import pytest

from interlock.analysis.claims import ClaimVerdict, Finding
from interlock.analysis.comparison import DetailFigure
from interlock.analysis.references import ReferenceFigure, ReferenceFinding
from interlock.analysis.statistics import Ratio
from interlock.analysis.verdicts import Comparison
from interlock.catalog.claims import AnsweringFigure, JudgedApart, Picture, Question, Untested
from interlock.catalog.workloads import Detail
from interlock.errors import CatalogError
from interlock.report.reference_pages import BEGIN, END, answers, charts, claims_tables, command, filled
from tests.builders import make_claim, make_experiment

FUTEX = AnsweringFigure.model_validate(
    {"workload": "locks", "benchmark": "queue", "metric": "futex", "variant": "a+slow"}
)
RATIO = AnsweringFigure.model_validate(
    {"workload": "startup", "benchmark": "pass", "variant": "b", "against": "a", "shows": "faster"}
)
ASKED = Question(question="How many?", answer="It makes {calls}.", figures={"calls": FUTEX})
EXPERIMENT = make_experiment(["a", "b"])


def test_only_the_written_part_of_a_page_is_replaced_and_once_more_is_the_same() -> None:
    page = filled(f"Before.\n\n{BEGIN}\n\nold\n\n{END}\n\nAfter.\n", "new")
    assert page == f"Before.\n\n{BEGIN}\n\nnew\n\n{END}\n\nAfter.\n"
    assert filled(page, "new") == page


def test_an_answer_has_its_figures_where_they_are_from_and_the_command_that_repeats_them() -> None:
    text = answers([(ASKED, {"calls": ReferenceFigure(3.0, EXPERIMENT)})], [EXPERIMENT])
    assert "**It makes 3.00.**" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| futex, locks / queue: a+slow |")]
    assert EXPERIMENT.name in row
    assert f"`{command([FUTEX], quick=True)}`" in text


def test_figures_of_quick_experiments_and_of_others_are_repeated_by_a_command_each() -> None:
    slow = EXPERIMENT.model_copy(update={"settings": EXPERIMENT.settings.model_copy(update={"quick": False})})
    calls = FUTEX.model_copy(update={"benchmark": "contended"})
    asked = Question(question="How many?", answer="{quick} and {slow}.", figures={"quick": FUTEX, "slow": calls})
    text = answers([(asked, {"quick": ReferenceFigure(3.0, EXPERIMENT), "slow": ReferenceFigure(4.0, slow)})], [slow])
    assert f"`{command([FUTEX], quick=True)}` and `{command([calls], quick=False)}`" in text


def test_a_detail_is_told_with_its_error_in_the_table_and_without_it_in_the_answer() -> None:
    memory = AnsweringFigure.model_validate(
        {"workload": "service", "benchmark": "xml", "metric": "detail", "detail": "MB at last", "variant": "a"}
    )
    asked = Question(question="How large?", answer="It takes {memory} MB.", figures={"memory": memory})
    figure = DetailFigure(Detail(label="MB at last", of="memory_bytes"), (40.0, 42.0), (1, 2))
    text = answers([(asked, {"memory": ReferenceFigure(figure, EXPERIMENT)})], [EXPERIMENT])
    assert "**It takes 41.0 MB.**" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| MB at last, service / xml: a |")]
    assert re.search(r"\| 41 \S+\d%", row)


@pytest.mark.parametrize("changes", [{"detail": ""}, {"metric": "futex"}, {"against": "b"}])
def test_a_detail_is_named_and_of_one_variant(changes: dict[str, str]) -> None:
    known = {"workload": "service", "benchmark": "xml", "metric": "detail", "detail": "MB", "variant": "a"}
    with pytest.raises(ValueError, match="detail"):
        AnsweringFigure.model_validate(known | changes)


def test_a_command_measures_all_variants_and_benchmarks_of_an_answer_once() -> None:
    words = command([RATIO, FUTEX, RATIO], quick=True).split()
    assert words[words.index("--variants") + 1] == "a,b,a+slow"
    assert words[words.index("--baseline") + 1] == "a"
    assert words[words.index("--workloads") + 1] == "startup/pass,locks/queue"
    assert "--quick" in words
    assert "--quick" not in command([RATIO], quick=False).split()


def test_answers_whose_figures_are_gone_or_show_something_else_are_refused_together() -> None:
    shows = Question(question="How many?", answer="{calls}", figures={"calls": RATIO})
    known: list[ReferenceFigure | str] = ["there is no reference", ReferenceFigure(3.0, EXPERIMENT)]
    asked = [(shows, {"calls": one}) for one in known]
    with pytest.raises(CatalogError) as caught:
        answers(asked, [])
    assert caught.value.file == "docs/findings.toml"
    assert "1.calls: there is no reference; 2.calls: " in caught.value.found


def test_an_answer_names_only_figures_that_it_has() -> None:
    with pytest.raises(ValueError, match=r"\{waits\}"):
        Question(question="How many?", answer="{waits}", figures={"calls": FUTEX})


def test_a_publication_has_a_table_of_what_was_judged_and_a_list_of_what_was_not_and_why() -> None:
    claim = make_claim()
    reason = "it hangs; a substitutes for b"
    judged = [
        ReferenceFinding(Finding(claim, ClaimVerdict.CONFIRMED, "because"), EXPERIMENT),
        ReferenceFinding(Finding(claim, ClaimVerdict.NOT_TESTABLE, reason), EXPERIMENT),
        ReferenceFinding(Finding(claim, ClaimVerdict.NOT_TESTABLE, reason), EXPERIMENT),
        ReferenceFinding(Finding(claim, ClaimVerdict.NO_DATA, "nobody did"), EXPERIMENT),
    ]
    lost = Untested(statement="It is fast.", source=claim.source, reason="no figure")
    counted = JudgedApart(
        statement="Twice.", source=claim.source, published="2", ours="3", verdict="confirmed", section="page.md#part"
    )
    text = claims_tables(judged, [counted], [lost])
    rows = [[cell.strip() for cell in line.split("|")[3:6]] for line in text.splitlines()[6:] if line.startswith("|")]
    assert [row[1] for row in rows] == ["confirmed", *["not testable here: it hangs"] * 2, "no data yet", "confirmed"]
    assert "| Twice. | 2 | 3 | confirmed | [a benchmark](page.md#part) |" in text
    assert text.count("a substitutes for b") == 1
    assert text.splitlines()[-1] == "- It is fast: no figure"
    assert text.count("###") == 1
    assert text.count(EXPERIMENT.name) == 6  # a row's link has it twice


def test_an_answer_says_a_ratio_and_the_table_below_its_interval() -> None:
    comparison = Comparison("a", Ratio(0.5, 0.4, 0.6, p=0, rounds=9, error=0.1, freedom=9), p=0, p_same=1)
    asked = Question(question="How fast?", answer="It takes {time}.", figures={"time": RATIO})
    text = answers([(asked, {"time": ReferenceFigure(comparison, EXPERIMENT)})], [EXPERIMENT])
    assert "**It takes 0.500x.**" in text
    assert "| 0.500x [0.400, 0.600] | faster |" in text


def test_a_question_has_a_plot_of_its_ratios_and_one_of_counts_none_but_its_picture() -> None:
    comparison = Comparison("a", Ratio(0.5, 0.4, 0.6, p=0, rounds=9, error=0.1, freedom=9), p=0, p_same=1)
    ratios = Question(question="How fast?", answer="It takes {time}.", figures={"time": RATIO})
    counts = ASKED.model_copy(update={"picture": Picture(file="flame.svg", says="Flames")})
    known = [
        (counts, {"calls": ReferenceFigure(3.0, EXPERIMENT)}),
        (ratios, {"time": ReferenceFigure(comparison, EXPERIMENT)}),
    ]
    drawn, text = charts(known), answers(known, [EXPERIMENT])
    assert [*drawn] == ["docs/findings-2.svg"]
    assert "b to a: faster 0.500x" in drawn["docs/findings-2.svg"]
    assert re.findall(r"!\[[^]]+\]\(([^)]+)\)", text) == ["flame.svg", "findings-2.svg"]


def test_two_experiments_that_answer_the_same_have_lines_that_tell_them_apart() -> None:
    comparison = Comparison("a", Ratio(0.5, 0.4, 0.6, p=0, rounds=9, error=0.1, freedom=9), p=0, p_same=1)
    figures = {
        name: ReferenceFigure(comparison, EXPERIMENT.model_copy(update={"name": name})) for name in ("first", "second")
    }
    asked = Question(question="How fast?", answer="{first}, {second}", figures=dict.fromkeys(figures, RATIO))
    (drawn,) = charts([(asked, figures)]).values()
    lines = [line for line in re.findall(r"<text[^>]*>([^<]+)", drawn) if "b to a" in line]
    assert [line.rpartition(", ")[2] for line in lines] == ["first", "second"]
    assert len({line.rpartition(", ")[0] for line in lines}) == 1
