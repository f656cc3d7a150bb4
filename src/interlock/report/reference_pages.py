"""The parts of docs/claims.md and docs/findings.md that come from the experiments beside them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from interlock.analysis.claims import ClaimVerdict, Finding, figure_text
from interlock.analysis.comparison import DetailFigure, baseline_optimisation
from interlock.analysis.references import ReferenceFigure, ReferenceFinding
from interlock.analysis.verdicts import Comparison
from interlock.catalog.claims import AnsweringFigure, ClaimMetric, JudgedApart, Question, Statement, Untested
from interlock.errors import CatalogError
from interlock.report import forest
from interlock.report.claims import published_text, total
from interlock.report.tables import detail_text, estimate_text, markdown_table, ratio_text
from interlock.results.experiments import Experiment

BEGIN, END = "<!-- `interlock render` writes this part -->", "<!-- until here -->"
FOLDER = "../results/reference"
# The page's colour of each verdict in a plot, and where its axis begins: right of the longest subject.
SERIES = {"faster": "faster", "slower": "slower", "same": "baseline", "undecided": "same"}
LEFT = 445


# A question with its figures, or why there is none, by their names.
Answered = tuple[Question, Mapping[str, ReferenceFigure | str]]


def filled(page: str, content: str) -> str:
    """Return a page with its written part replaced."""
    head, _, rest = page.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{content}\n\n{END}{rest.partition(END)[2]}"


def claims_tables(
    judged: Sequence[ReferenceFinding], apart: Sequence[JudgedApart], untested: Sequence[Untested]
) -> str:
    """Return a table for each publication: its statements, our figures and verdicts, and where these are from."""
    count = total([judgement.finding for judgement in judged])
    parts = [f"{count}; {len(apart)} statements that a benchmark judges; {len(untested)} that nothing judges."]
    statements: list[Statement] = [*(judgement.finding.claim for judgement in judged), *apart, *untested]
    for source in dict.fromkeys(statement.source for statement in statements):
        own = [judgement for judgement in judged if judgement.finding.claim.source == source]
        title = source.title.replace("[", "(").replace("]", ")")
        parts += ["", f"### {source.author}, {source.date}: {title}", ""]
        rows = [*map(_claim_row, own), *(_apart_row(statement) for statement in apart if statement.source == source)]
        if rows:
            parts += markdown_table(("published", "as a ratio or count", "ours [95 %]", "verdict", "from"), rows)
        if substitutes := dict.fromkeys(filter(None, (_substituted(judgement.finding)[1] for judgement in own))):
            parts += ["", f"Without figures of their own: {', '.join(substitutes)}."]
        if rest := [f"- {claim.statement.rstrip('.')}: {claim.reason}" for claim in untested if claim.source == source]:
            parts += ["", "Not tested, and why:", "", *rest]
    return "\n".join(parts)


def _substituted(finding: Finding) -> tuple[str, str]:
    """Return a finding's reason, and separately the variant that was judged in place of the claim's own."""
    reason, _, last = (
        finding.reason.rpartition("; ") if "substitutes for" in finding.reason else (finding.reason, "", "")
    )
    return reason, last


def _claim_row(judged: ReferenceFinding) -> tuple[str, ...]:
    finding, claim = judged.finding, judged.finding.claim
    statement = f"{claim.statement} ({claim.note.rstrip('.')})" if claim.note else claim.statement
    if finding.verdict is ClaimVerdict.NO_DATA and finding.ratio is None:
        return statement, published_text(claim), "-", finding.verdict.value, "-"
    reason = _substituted(finding)[0]
    said = f"{finding.verdict.value}: {reason}" if finding.verdict.silent else finding.verdict.value
    return statement, published_text(claim), finding.figure, said, _link(judged.experiment)


def _apart_row(statement: JudgedApart) -> tuple[str, ...]:
    link = f"[a benchmark]({statement.section})"
    return statement.statement, statement.published, statement.ours, statement.verdict, link


def _link(experiment: Experiment) -> str:
    return f"[{experiment.name}]({FOLDER}/{experiment.name}/report.md)"


def _machine(experiment: Experiment) -> str:
    return f"{experiment.host['cores']} cores {experiment.host['cpu']}"


def answers(questions: Sequence[Answered], experiments: Sequence[Experiment]) -> str:
    """Return each question with its answer, figures and the command that measures them again, and the experiments.

    CatalogError if a figure is gone, or contradicts its answer.
    """
    if wrong := list(_wrong(questions)):
        todo = "Write these answers anew, and `shows` with them."
        raise CatalogError(file="docs/findings.toml", key="questions", found="; ".join(wrong), todo=todo)
    parts = []
    for number, (question, known) in enumerate(questions, 1):
        figures = {name: figure for name, figure in known.items() if isinstance(figure, ReferenceFigure)}
        texts = {name: _short(figure) for name, figure in figures.items()}
        rows = [
            (_subject(question.figures[name]), _words(figure), _shown(figure), _link(figure.experiment))
            for name, figure in figures.items()
        ]
        parts += [f"## {number}. {question.question}", "", f"**{question.answer.format_map(texts)}**", ""]
        if _ratios(question, known):
            parts += [f"![The ratios below with their intervals](findings-{number}.svg)", ""]
        if question.picture:
            parts += [f"![{question.picture.says}]({question.picture.file})", ""]
        if rows:
            parts += [*markdown_table(("figure", "ours [95 %]", "shows", "experiment"), rows), ""]
            parts += [f"To repeat: {_repeating(question, figures)}", ""]
    parts += ["## The experiments", ""]
    titles = ("experiment", "machine", "compiled with", "rows", "workloads", "minutes")
    return "\n".join([*parts, *markdown_table(titles, map(_experiment_row, experiments))])


def charts(questions: Sequence[Answered]) -> dict[str, str]:
    """Return the forest plot of each question that has ratios, by its path below the project's root."""
    drawn = {}
    for number, (question, known) in enumerate(questions, 1):
        if lines := _ratios(question, known):
            title = "Time per unit of work, logarithmic: left of 1 is faster"
            drawn[f"docs/findings-{number}.svg"] = forest.picture(forest.Plot(title, lines, SERIES, (), LEFT), "light")
    return drawn


def _ratios(question: Question, known: Mapping[str, ReferenceFigure | str]) -> list[tuple[str, list[forest.Mark]]]:
    """Return the lines of a question's plot: its comparisons, variants of CPython by their versions.

    Where two experiments answer the same, each line names its own.
    """
    ratios = {
        name: (figure, figure.figure.ratio)
        for name, figure in known.items()
        if isinstance(figure, ReferenceFigure) and isinstance(figure.figure, Comparison)
    }
    subjects = {name: _subject(question.figures[name]).replace("cpython-", "") for name in ratios}
    answers_of = Counter(subjects.values())
    return [
        (
            subject if answers_of[subject] == 1 else f"{subject}, {figure.experiment.name}",
            [forest.Mark(_shown(figure), ratio.estimate, ratio.low, ratio.high, _short(figure))],
        )
        for subject, (figure, ratio) in zip(subjects.values(), ratios.values(), strict=True)
    ]


def _experiment_row(experiment: Experiment) -> tuple[str, ...]:
    settings = experiment.settings
    return (
        _link(experiment),
        _machine(experiment),
        baseline_optimisation(experiment),
        str(len({cell.label for cell in experiment.cells})),
        str(len(settings.workloads)),
        f"{experiment.duration_s / 60:.0f}",
    )


def _wrong(questions: Sequence[Answered]) -> Iterator[str]:
    """Yield each figure that is gone or contradicts its answer, with its number on the page."""
    for number, (question, known) in enumerate(questions, 1):
        for name, figure in known.items():
            wanted = question.figures[name].shows or "-"
            if isinstance(figure, str):
                yield f"{number}.{name}: {figure}"
            elif _shown(figure) != wanted:
                yield f"{number}.{name}: {_shown(figure)} in {figure.experiment.name}, not {wanted}"


def _words(figure: ReferenceFigure) -> str:
    if isinstance(figure.figure, DetailFigure):
        return detail_text(figure.figure)
    return ratio_text(figure.figure.ratio) if isinstance(figure.figure, Comparison) else figure_text(figure.figure)


def _short(figure: ReferenceFigure) -> str:
    """Return a figure for its answer's text: a ratio has no interval or error, which the table below gives."""
    if isinstance(figure.figure, DetailFigure):
        return figure_text(figure.figure.value)
    if not isinstance(figure.figure, Comparison):
        return figure_text(figure.figure)
    return estimate_text(figure.figure.ratio.estimate)


def _shown(figure: ReferenceFigure) -> str:
    return figure.figure.verdict.value if isinstance(figure.figure, Comparison) else "-"


def _subject(figure: AnsweringFigure) -> str:
    metric = "" if figure.metric is ClaimMetric.TIME else f"{figure.detail or figure.metric.value}, "
    benchmark = f" {figure.against_benchmark}" if figure.against_benchmark else ""
    against = f" to {figure.against}{benchmark}" if figure.against else ""
    return f"{metric}{figure.workload} / {figure.benchmark}: {figure.variant}{against}"


def _repeating(question: Question, known: Mapping[str, ReferenceFigure]) -> str:
    """Return the commands that measure an answer's figures again: of quick experiments, and of the others."""
    groups = (
        (quick, [question.figures[name] for name, of in known.items() if of.experiment.settings.quick is quick])
        for quick in (True, False)
    )
    return " and ".join(f"`{command(figures, quick=quick)}`" for quick, figures in groups if figures)


def command(figures: Sequence[AnsweringFigure], *, quick: bool) -> str:
    """Return the command that measures these figures again."""
    labels = dict.fromkeys(label for figure in figures for label in (figure.against, figure.variant) if label)
    names = [(figure.workload, name) for figure in figures for name in (figure.benchmark, figure.against_benchmark)]
    benchmarks = dict.fromkeys(f"{workload}/{name}" for workload, name in names if name)
    named = f"--variants {','.join(labels)} --baseline {next(iter(labels))} --workloads {','.join(benchmarks)}"
    return f"interlock matrix {'--quick ' if quick else ''}{named}"
