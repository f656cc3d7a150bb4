"""A trial of a program that others wrote, as rows of the table of services; and which of them is most like a service.

Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence

from interlock.analysis.comparison import Row, Table
from interlock.analysis.pick.advice import estimate_of, speed_of
from interlock.analysis.pick.sentences import cpus_text
from interlock.analysis.trials import Figure, TrialChange, decisive, gil_text, judge, reported_by
from interlock.results.answers import Estimate
from interlock.results.experiments import Experiment
from interlock.results.services import ServiceFigure, ServiceRecord, ServiceRow
from interlock.results.trials import OWN, without_quote

# Figures as people read them, in the units of a trial's details: CPU time that decides in ms, images in MB.
SCALES = {Figure.CPU: 1e3, Figure.IMAGE: 1e-6}
WORD = re.compile(r"[a-z][a-z0-9]+")
# Words of a question that say nothing of a service.
COMMON = {
    "and", "behind", "cpu", "cpus", "for", "from", "its", "of", "on",
    "one", "program", "service", "the", "two", "with",
}  # fmt: skip


def service_rows(experiment: Experiment, tables: Sequence[Table], baseline: str) -> list[ServiceRow]:
    """Return each variant on each number of CPUs, after the trial's own image, which is that of the baseline."""
    return [row for table in tables for row in _rows_of(experiment, table, baseline)]


def _rows_of(experiment: Experiment, table: Table, baseline: str) -> Iterator[ServiceRow]:
    judged = {row.label: row for row in judge(experiment, table)}
    tried = experiment.trial.tried if experiment.trial else {}
    sizes = {image.variant: float(image.size_bytes) for image in experiment.images if image.size_bytes}
    for row in table.rows:
        verdict, known = judged.get(row.label), _values(table, row)
        if known and row.label in sizes:
            known[Figure.IMAGE] = sizes[row.label] * SCALES[Figure.IMAGE]
        yield ServiceRow(
            label=baseline if row.label == OWN else row.label,
            cpus=table.cores,
            verdict=verdict.verdict.value if verdict else "",
            problem=verdict.problem if verdict else "",
            gil=gil_text(tried.get(row.label)),
            figures=_figures(known, {change.figure: change for change in verdict.changes} if verdict else {}),
        )


def _values(table: Table, row: Row) -> dict[Figure, float]:
    """Return what is known of a row, as people read it: what decides is first."""
    known, decides = {}, decisive(table)
    if row.seconds:
        known[decides] = 1 / row.seconds if decides is Figure.RATE else row.seconds * SCALES.get(decides, 1)
    return known | {figure: reported.value for figure, reported in reported_by(row).items()}


def _figures(known: dict[Figure, float], changes: dict[Figure, TrialChange]) -> dict[str, ServiceFigure]:
    figures = {}
    for figure, value in known.items():
        change = changes.get(figure)
        figures[figure.value] = ServiceFigure(
            value=round_to(value),
            ratio=_ratio(change) if change else None,
            shows=change.verdict.value if change else "",
        )
    return figures


def _ratio(change: TrialChange) -> Estimate:
    """Return a figure divided by the user's own: of a rate its cost is the inverse."""
    return rounded((speed_of if change.figure is Figure.RATE else estimate_of)(change.cost))


def rounded(exact: Estimate) -> Estimate:
    """Return a ratio with as many digits as records have."""
    high = None if exact.high is None else round_to(exact.high)
    return Estimate(estimate=round_to(exact.estimate), low=round_to(exact.low), high=high)


def round_to(value: float, digits: int = 4) -> float:
    """Return a figure with so many significant digits."""
    return float(f"{value:.{digits}g}")


def words_in(text: str) -> set[str]:
    """Return the words of a question or a title that tell services apart, in lower case."""
    return set(WORD.findall(text.lower())) - COMMON


def most_like(words: Collection[str], records: Sequence[ServiceRecord]) -> tuple[ServiceRecord, list[str]] | None:
    """Return the service that shares the rarest of these words and packages, and which those are, the rarest first.

    A word weighs the more the fewer services have it. None if there is no such word, or every service has it.
    """
    having = {record.name: {*record.packages, record.name, *words_in(record.title)} for record in records}
    weights = {
        word: math.log(len(records) / count) for word in words if (count := sum(word in its for its in having.values()))
    }

    def weight(record: ServiceRecord) -> float:
        return sum(weights.get(word, 0.0) for word in having[record.name])

    best = max(records, key=weight, default=None)
    if best is None or not weight(best):
        return None
    shared = sorted(weights.keys() & having[best.name], key=lambda word: (-weights[word], word))
    return best, [word for word in shared if weights[word]]


def like_text(record: ServiceRecord, shared: Sequence[str], cpus: int) -> str:
    """Return why a service is named, and what it gains on each variant, on as many CPUs as are asked for or fewer."""
    known = sorted({row.cpus for row in record.rows})
    nearest = max((count for count in known if count <= cpus), default=known[0])
    said = "; ".join(in_short(row) for row in record.rows if row.cpus == nearest and row.verdict)
    why = f"{record.name} is most like it, {record.title}: shares {', '.join(shared[:4])}"
    return f"{why}. On {cpus_text(nearest)}: {said}"


def in_short(row: ServiceRow) -> str:
    """Return a variant's verdict with what stands in its way, and the figure that decides."""
    name, figure = row.decisive
    ratio = figure.ratio if figure else None
    high = "" if ratio is None or ratio.high is None else f", {ratio.high:.2f}"
    shown = f"{name} {ratio.estimate:.2f}x [{ratio.low:.2f}{high}]" if ratio else ""
    return f"{row.label} {', '.join(filter(None, [row.verdict, without_quote(row.problem), shown]))}"
