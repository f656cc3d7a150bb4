"""The picture at the top of the README, as SVG: a few questions, and each variant's answer with its interval. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from interlock.analysis.comparison import Row, Table, baseline_optimisation
from interlock.analysis.pick.figures import RecordedLevels
from interlock.analysis.statistics import Interval
from interlock.analysis.verdicts import judged
from interlock.report import experiment as report
from interlock.results.answers import RecordedFigures
from interlock.results.experiments import Experiment

# The reference experiment that the pictures show.
EXPERIMENT = "2026-11-29-a"
PATH = "docs/overview-{theme}.svg"
BASELINE = "cpython-3.13"
SHOWN = ("cpython-3.14", "cpython-3.14t")
# Rows that are said before a run, below a title.
MOST_KNOWN = 3


@dataclass(frozen=True)
class OverviewQuestion:
    """What a reader asks, and the benchmark that answers it; of memory, the ratio of the largest processes."""

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


def known_lines(
    experiment: Experiment, figures: RecordedFigures, labels: Sequence[str], workloads: Sequence[str]
) -> list[str]:
    """Return in at most four lines what the reference says of these rows and workloads, marked as such; else none.

    A reader has them at once, and their own figures when they are measured.
    """
    shown = [name for name in SHOWN if name in labels] or [name for name in labels if name != BASELINE]
    asked = [question for question in QUESTIONS if question.workload in workloads and not question.memory]
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


@dataclass(frozen=True)
class Mark:
    """One variant's answer: times the baseline's throughput or memory, with its 95 % interval if there is one."""

    variant: str
    value: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """Return '+26 %', or '2.1x' from two times on."""
        return f"{self.value:.1f}x" if self.value >= 2 else f"{100 * (self.value - 1):+.0f} %"


@dataclass(frozen=True)
class Theme:
    """Colours of a picture: paper, text, lines, and one for each variant."""

    paper: str
    ink: str
    muted: str
    line: str
    variants: tuple[str, ...]


THEMES = {
    "light": Theme("#ffffff", "#1a1d21", "#545b64", "#c9ced4", ("#1f5f9e", "#b04c0c")),
    "dark": Theme("#14171b", "#e8eaed", "#a9b1bb", "#3f464f", ("#7db8ee", "#f0995a")),
}
WIDTH, LEFT, RIGHT, TOP, STEP, FOOT = 860, 290, 90, 84, 46, 66
TICKS = (0.125, 0.25, 0.5, 0.7, 1, 1.4, 2, 4, 8, 16)


def pictures(experiment: Experiment, tables: Sequence[Table]) -> dict[str, str]:
    """Return the picture in the light and in the dark theme, by its path below the project's root."""
    answered = answers(tables)
    host = report.headline(experiment)[0].partition(" ")[2].strip()
    caption = (
        f"{host}, builds with {baseline_optimisation(experiment)}",
        f"Lines are 95 % intervals. {EXPERIMENT} of results/reference/",
    )
    return {PATH.format(theme=name): picture(answered, caption, theme) for name, theme in THEMES.items()}


def answers(tables: Sequence[Table]) -> list[tuple[OverviewQuestion, list[Mark]]]:
    """Return each question that the tables have figures for, with the marks of the variants shown.

    A mark is the baseline's time divided by the variant's, so that more is better; of memory the other way round.
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
            yield Mark(row.label, share, share, share)
    elif row.to_baseline:
        ratio: Interval = row.to_baseline.ratio
        yield Mark(row.label, 1 / ratio.estimate, 1 / ratio.high, 1 / ratio.low)


def picture(answered: Sequence[tuple[OverviewQuestion, Sequence[Mark]]], caption: Sequence[str], theme: Theme) -> str:
    """Return the SVG: a question a line, a logarithmic axis of the ratio to the baseline, whiskers of 95 %."""
    marks = [mark for _, marks_of in answered for mark in marks_of]
    low = min(0.7, *(mark.low for mark in marks)) / 1.08
    high = max(1.4, *(mark.high for mark in marks)) * 1.08
    colours = dict(zip(SHOWN, theme.variants, strict=True))
    height = TOP + STEP * len(answered) + FOOT

    def x_of(value: float) -> float:
        share = math.log(value / low) / math.log(high / low)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="14">',
        f"<title>{escape(_spoken(answered))}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="{theme.paper}"/>',
        *_legend(colours, theme),
        *(line for tick in TICKS if low <= tick <= high for line in _tick(x_of(tick), tick, height, theme)),
    ]
    for number, (question, marks_of) in enumerate(answered):
        lines += _line(TOP + STEP * number, question, marks_of, x_of, colours, theme)
    lines += [
        _text(16, height - 12 - 18 * number, line, theme.muted, size=12)
        for number, line in enumerate(reversed(caption))
    ]
    return "\n".join([*lines, "</svg>", ""])


def _spoken(answered: Sequence[tuple[OverviewQuestion, Sequence[Mark]]]) -> str:
    said = (
        f"{question.text}: " + ", ".join(f"{mark.variant} {mark.text}" for mark in marks)
        for question, marks in answered
    )
    return f"Beside {BASELINE}. " + "; ".join(said)


def _legend(colours: Mapping[str, str], theme: Theme) -> Iterator[str]:
    yield _text(16, 30, f"Throughput relative to {BASELINE} (more is better)", theme.ink, size=16)
    for number, (variant, colour) in enumerate(colours.items()):
        x = LEFT + 150 * number
        yield f'<circle cx="{x + 6}" cy="52" r="5" fill="{colour}"/>'
        yield _text(x + 18, 57, variant, colour)


def _tick(x: float, value: float, height: int, theme: Theme) -> Iterator[str]:
    width = 2 if value == 1 else 1
    stroke = theme.muted if value == 1 else theme.line
    yield f'<line x1="{x}" x2="{x}" y1="{TOP - 12}" y2="{height - FOOT}" stroke="{stroke}" stroke-width="{width}"/>'
    yield _text(x, height - FOOT + 16, f"{value:g}x", theme.muted, anchor="middle", size=12)


def _line(  # noqa: PLR0913, PLR0917 - a line has a place, its content and its looks
    y: int,
    question: OverviewQuestion,
    marks: Sequence[Mark],
    x_of: Callable[[float], float],
    colours: Mapping[str, str],
    theme: Theme,
) -> Iterator[str]:
    yield _text(16, y + 20, question.text, theme.ink)
    for number, mark in enumerate(marks):
        middle, colour = y + 9 + 16 * number, colours[mark.variant]
        if mark.low < mark.high:
            yield (
                f'<line x1="{x_of(mark.low)}" x2="{x_of(mark.high)}" y1="{middle}" y2="{middle}" '
                f'stroke="{colour}" stroke-width="3" stroke-linecap="round"/>'
            )
        yield f'<circle cx="{x_of(mark.value)}" cy="{middle}" r="5" fill="{colour}"/>'
        yield _text(WIDTH - 16, middle + 5, mark.text, colour, anchor="end")


def _text(  # noqa: PLR0913 - as SVG has it
    x: float, y: float, text: str, colour: str, *, anchor: str = "start", size: int = 14
) -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
