"""The picture at the top of the README, as SVG: a few questions, and each variant's answer with its interval. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interlock.analysis.comparison import Row, Table, baseline_optimisation
from interlock.analysis.pick.figures import RecordedLevels
from interlock.analysis.statistics import Interval
from interlock.analysis.verdicts import judged
from interlock.report import experiment as report
from interlock.report.forest import Mark, Plot, picture
from interlock.results.answers import RecordedFigures
from interlock.results.experiments import Experiment
from interlock.results.settings import Settings

# The reference experiment that the pictures show.
EXPERIMENT = "2026-12-01-b"
# Those whose figures are shown before a run, the first that has any: the pictures' own, and one of the core set.
KNOWN = (EXPERIMENT, "2026-11-29-a")
PATH = "docs/overview-{theme}.svg"
BASELINE = "cpython-3.13"
# The variants shown, and the page's colours that they have.
SERIES = {"cpython-3.14": "faster", "cpython-3.14t": "slower"}
SHOWN = tuple(SERIES)
LEFT = 290
# The most rows that are shown before a run, below a title.
MOST_KNOWN = 3


@dataclass(frozen=True)
class OverviewQuestion:
    """A reader's question, and the benchmark that answers it; for memory, by the ratio of the largest processes."""

    text: str
    workload: str
    benchmark: str
    memory: bool = False


QUESTIONS = (
    OverviewQuestion("WSGI service with a database, 1 CPU", "service", "waitress-database"),
    OverviewQuestion("ASGI service that makes JSON, 1 CPU", "service", "uvicorn-json"),
    OverviewQuestion("Service of 8 threads that compute, 2 CPUs", "service", "waitress-json-8"),
    OverviewQuestion("Download of many files, 1 CPU", "download", "many-pinned"),
    OverviewQuestion("Download of one file, 1 CPU", "download", "single-pinned"),
    OverviewQuestion("Download of many files, 2 CPUs", "download", "many"),
    OverviewQuestion("Download of one file, 2 CPUs", "download", "single"),
    OverviewQuestion("Items through a queue", "locks", "queue"),
    OverviewQuestion("Starts of the interpreter", "startup", "pass"),
    OverviewQuestion("Memory of a download (less is better)", "download", "many", memory=True),
)


def known_lines(experiment: Experiment, figures: RecordedFigures, settings: Settings) -> list[str]:
    """Return a reference's verdicts on what these settings measure in at most four lines, marked as such; else none.

    A reader gets these at once, and their own figures when they are measured.
    """
    labels = settings.variants
    shown = [name for name in SHOWN if name in labels] or [name for name in labels if name != BASELINE]
    asked = [
        question
        for question in QUESTIONS
        if question.workload in settings.workloads
        and question.benchmark in settings.benchmarks.get(question.workload, [question.benchmark])
        and not question.memory
    ]
    rows = {name: _known(figures, name, asked) for name in shown}
    lines = [f"known   {name}: {'; '.join(words)}" for name, words in rows.items() if words]
    host = experiment.host
    title = (
        f"known   the project's figures ({host['cores']} cores of an {host['cpu']}, {experiment.started[:10]}, "
        f"{baseline_optimisation(experiment)}; yours follow): time beside {BASELINE}"
    )
    return [title, *lines[:MOST_KNOWN]] if lines else []


def _known(figures: RecordedFigures, label: str, asked: Sequence[OverviewQuestion]) -> list[str]:
    """Return a row's verdicts, a text for each workload: 'download many-pinned 0.676x, single 0.802x'."""
    texts_of: dict[str, list[str]] = {}
    for question in asked:
        table = figures.tables.get(question.workload, {}).get(question.benchmark)
        ratio = RecordedLevels(table).ratio(label, BASELINE) if table else None
        if ratio is not None:
            verdict = judged(BASELINE, ratio).verdict
            text = f"{ratio.estimate:.3g}x" if verdict.differs else verdict.value
            texts_of.setdefault(question.workload, []).append(f"{question.benchmark} {text}")
    return [f"{workload} {', '.join(texts)}" for workload, texts in texts_of.items()]


def pictures(experiment: Experiment, tables: Sequence[Table]) -> dict[str, str]:
    """Return the picture in the light and in the dark theme, by its path below the project's root."""
    answered = answers(tables)
    host = report.headline(experiment)[0].partition(" ")[2].strip()
    caption = (
        f"{host}, builds with {baseline_optimisation(experiment)}",
        f"Lines are 95 % intervals. {EXPERIMENT} of results/reference/",
    )
    lines = [(question.text, marks) for question, marks in answered]
    plot = Plot(f"Throughput relative to {BASELINE} (more is better)", lines, SERIES, caption, LEFT)
    return {PATH.format(theme=theme): picture(plot, theme) for theme in ("light", "dark")}


def answers(tables: Sequence[Table]) -> list[tuple[OverviewQuestion, list[Mark]]]:
    """Return each question that the tables have figures for, with the marks of the variants shown.

    A mark is the baseline's time divided by the variant's, so that more is better; for memory it is the inverse.
    """
    by_key = {(table.workload.name, table.benchmark.name): table for table in tables}
    answered = []
    for question in QUESTIONS:
        table = by_key.get((question.workload, question.benchmark))
        rows = {row.label: row for row in table.rows} if table else {}
        marks = [mark for name in SHOWN if name in rows for mark in _marks(question, rows[name], rows.get(BASELINE))]
        if marks:
            answered.append((question, marks))
    return answered


def _marks(question: OverviewQuestion, row: Row, baseline: Row | None) -> Iterator[Mark]:
    if question.memory:
        if row.max_rss_bytes and baseline and baseline.max_rss_bytes:
            share = row.max_rss_bytes / baseline.max_rss_bytes
            yield Mark(row.label, share, share, share, change_text(share))
    elif row.to_baseline:
        ratio: Interval = row.to_baseline.ratio
        gain = 1 / ratio.estimate
        yield Mark(row.label, gain, 1 / ratio.high, 1 / ratio.low, change_text(gain))


def change_text(ratio: float) -> str:
    """Return '+26 %', or '2.1x' from two times on."""
    return f"{ratio:.1f}x" if ratio >= 2 else f"{100 * (ratio - 1):+z.0f} %"
