"""Which of the programs that others wrote, and that were tried, is most like a service. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

from interlock.analysis.pick.sentences import cpus_text
from interlock.results.services import ServiceRecord, ServiceRow
from interlock.results.trials import without_quote

WORD = re.compile(r"[a-z][a-z0-9]+")
# Words of a question that say nothing of a service.
COMMON = {
    "and", "behind", "cpu", "cpus", "for", "from", "its", "of", "on",
    "one", "program", "service", "the", "two", "with",
}  # fmt: skip
# A service may install what tests it, and one that was tried, locust, has pytest in it.
TEST_TOOLS = {"coverage", "hypothesis", "mypy", "nox", "pytest", "ruff", "tox"}


def words_in(text: str) -> set[str]:
    """Return the words of a question or a title that tell services apart, in lower case."""
    return set(WORD.findall(text.lower())) - COMMON


def most_like(words: Collection[str], records: Sequence[ServiceRecord]) -> tuple[ServiceRecord, list[str]] | None:
    """Return the service that shares the rarest of these words and packages, and which those are, the rarest first.

    A word weighs the more the fewer services have it. None if there is no such word, or every service has it.
    """
    having = {record.name: {*record.packages, record.name, *words_in(record.title)} for record in records}
    telling = set(words) - TEST_TOOLS
    weights = {
        word: math.log(len(records) / count)
        for word in telling
        if (count := sum(word in its for its in having.values()))
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
