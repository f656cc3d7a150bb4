"""How a report begins and ends: the recommendation, what is faster or slower; then what is open, and where time went.

The recommendation is a pick's, by the same functions, from the experiment's own figures and on its own day. Pure.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.text import Text

from interlock.analysis.comparison import Table
from interlock.analysis.not_measured import by_reason, in_one_line
from interlock.analysis.pick.advice import in_containers
from interlock.analysis.pick.own import is_aside, own_pick
from interlock.analysis.pick.sentences import WITHOUT_CONTAINERS, as_measured, provenance
from interlock.analysis.verdicts import Comparison, Verdict
from interlock.catalog.project import Catalog
from interlock.catalog.types import split_label
from interlock.report.tables import Section, markdown_lines, markdown_table, ratio_text, rich_parts
from interlock.report.trials import answer
from interlock.report.trials import sections as trial_sections
from interlock.results.answers import Decision, Pick, Rank
from interlock.results.commands import runnable
from interlock.results.experiments import Experiment, State, Times, Values

# Rows of each table before the rest is folded, or left to --full on a terminal.
MOST_ROWS = 25
MOST_LINES_CHANGED, MOST_LINES_OPEN, MOST_LINES_ENDED = 11, 5, 4
# Beside a name, where there is no room for words.
MARK = "*"


@dataclass(frozen=True)
class ComparedRow:
    """A row of a benchmark and how it compares with the baseline."""

    benchmark: str  # workload / benchmark
    label: str
    comparison: Comparison
    built_otherwise: bool  # than the baseline: the ratio is of both


@dataclass(frozen=True)
class Opening:
    """The pick from an experiment's own figures, None without any, and the rows that are not about what to run."""

    pick: Pick | None
    asides: frozenset[str]
    place: str = ""  # where it was measured, if that was without containers
    lacking: str = ""  # what was not measured, and why, in one line
    answer: str = ""  # of a trial, in place of a pick's
    sections: tuple[Section, ...] = ()  # of a trial

    @property
    def sentence(self) -> str:
        if self.answer:
            return self.answer
        return self.pick.answer if self.pick else "NO RECOMMENDATION: too few figures, or not in a project."

    @property
    def source(self) -> str:
        return provenance(self.pick) if self.pick else self.place

    @property
    def caveats(self) -> list[str]:
        """Return what else to know of an interpreter to switch to: a larger figure, and which others may be as good."""
        chosen = self.pick.recommended if self.pick else None
        if self.pick is None or chosen is None:
            return []
        rivals = [
            contender.label
            for contender in self.pick.contenders
            if contender.rank is Rank.OPEN and contender.label != chosen.label
        ]
        measured = as_measured(chosen)
        return [
            *([f"{measured}."] if measured else []),
            *([f"Not shown to differ from it: {', '.join(rivals)}."] if rivals else []),
        ]

    def differences(self, tables: Iterable[Table], *, aside: bool = False) -> list[ComparedRow]:
        """Return the rows that are faster or slower, the largest change first."""
        rows = _rows(tables, self._is_among(aside), lambda verdict: verdict.differs)
        return sorted(rows, key=lambda row: -abs(row.comparison.ratio.log))

    def undecided(self, tables: Iterable[Table], *, aside: bool = False) -> list[ComparedRow]:
        """Return the rows that are undecided, those that need the fewest more rounds first."""
        rows = _rows(tables, self._is_among(aside), lambda verdict: verdict is Verdict.UNDECIDED)
        return sorted(rows, key=lambda row: row.comparison.more_rounds or math.inf)

    def _is_among(self, aside: bool) -> Callable[[str], bool]:
        return lambda label: (label in self.asides) is aside


NOT_KNOWN = Opening(None, frozenset())
# Above a report that is written while the experiment is measured.
GOES_ON = "The experiment goes on: this is what is known so far."


def _rows(
    tables: Iterable[Table], shown: Callable[[str], bool], wanted: Callable[[Verdict], bool]
) -> list[ComparedRow]:
    return [
        ComparedRow(
            f"{table.workload.name} / {table.benchmark.name}", row.label, row.to_baseline, bool(row.built_otherwise)
        )
        for table in tables
        for row in table.rows
        if row.to_baseline and shown(row.label) and wanted(row.to_baseline.verdict)
    ]


def opening_of(experiment: Experiment, values: Values, catalog: Catalog, tables: Sequence[Table] = ()) -> Opening:
    """Return how the report of an experiment begins, as on the day that it was started; that of a trial by its table.

    Variants that came later are left out, so that a report says the same later.
    """
    if experiment.trial and tables:
        trial, table = experiment.trial, tables[0]
        return Opening(
            None, frozenset(), answer=answer(experiment, trial, table), sections=trial_sections(trial, table)
        )
    place = "" if in_containers(experiment.host["engine"]) else f"Measured on {WITHOUT_CONTAINERS}."
    known_of_all = Opening(None, frozenset(), place, in_one_line(by_reason(experiment)))
    if not catalog.variants:
        return known_of_all
    names = {split_label(cell.label)[0] for cell in experiment.cells}
    variants = {name: variant for name, variant in catalog.variants.items() if name in names}
    known = catalog.model_copy(update={"variants": variants})
    today = datetime.date.fromisoformat(experiment.started[:10])
    labels = dict.fromkeys(cell.label for cell in experiment.cells)
    asides = frozenset(label for label in labels if is_aside(label, known, today))
    return replace(known_of_all, pick=own_pick(experiment, values, known, today), asides=asides)


CHANGED, OPEN = "faster or slower, the largest change first", "undecided, and what it would take"


def differences_section(title: str, rows: Sequence[ComparedRow], baseline: str) -> Section:
    """Return rows as a table: benchmark, variant, ratio with its interval, and verdict or what it would take."""
    last = "it would take" if title == OPEN else "verdict"
    columns = ("benchmark", "variant", f"time, {baseline} is 1 [95 %]", last)
    cells = (
        (row.benchmark, row.label, ratio_text(row.comparison.ratio), f"{_verdict_text(row)}{_otherwise(row)}")
        for row in rows
    )
    return Section(title, columns, tuple(cells))


def _otherwise(row: ComparedRow) -> str:
    return ", built otherwise" if row.built_otherwise else ""


def _brief_section(title: str, rows: Sequence[ComparedRow], baseline: str) -> Section:
    """Return rows as a table that fits 80 columns."""
    last, text = ("more rounds", _rounds_text) if title == OPEN else ("verdict", _verdict_text)
    columns = ("benchmark", "variant", "time [95 %]", last)
    cells = (
        (row.benchmark, f"{row.label}{MARK * row.built_otherwise}", ratio_text(row.comparison.ratio), text(row))
        for row in rows
    )
    return Section(f"{title} ({baseline}: 1.000x)", columns, tuple(cells))


def _rounds_text(row: ComparedRow) -> str:
    """Return about how many more rounds decide a row."""
    return f"about {row.comparison.more_rounds}" if row.comparison.more_rounds else "too many"


def _verdict_text(row: ComparedRow) -> str:
    """Return the verdict; of what is undecided how many more rounds, if so many are in reach."""
    if row.comparison.verdict is not Verdict.UNDECIDED:
        return row.comparison.words
    return row.comparison.words.partition(", ")[2] or "too many rounds"


def markdown_opening(opening: Opening, tables: Sequence[Table], baseline: str) -> list[str]:
    """Return the lines that a report begins with, under its title."""
    lines = [f"**{opening.sentence}**", ""]
    lines += [line for said in (opening.source, *opening.caveats) if said for line in (said, "")]
    lines += [line for section in opening.sections for line in markdown_lines(section, section.title.capitalize())]
    for title, rows_of in ((CHANGED, opening.differences), (OPEN, opening.undecided)):
        rows, asides = rows_of(tables), rows_of(tables, aside=True)
        section = differences_section(title, rows[:MOST_ROWS], baseline)
        lines += [f"## {title.capitalize()}", ""]
        lines += [*markdown_table(section.columns, section.rows), ""] if rows else ["Nothing.", ""]
        rest = {"more": rows[MOST_ROWS:], "of modes, studies and versions without support": asides}
        for words, hidden in rest.items():
            if hidden:
                folded = differences_section(title, hidden, baseline)
                lines += details(f"{len(hidden)} {words}", markdown_table(folded.columns, folded.rows))
    return [*lines, *([f"{opening.lacking[0].upper()}{opening.lacking[1:]}.", ""] if opening.lacking else [])]


def details(summary: str, lines: Iterable[str]) -> list[str]:
    """Return Markdown that is folded away under a summary."""
    return [f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def brief(experiment: Experiment, tables: Sequence[Table], opening: Opening) -> RenderableType:
    """Return a report in at most forty lines of a terminal: the answer, what changed, and what is open."""
    parts: list[RenderableType] = [Text(opening.sentence, style="bold"), Text(opening.source)]
    pick, baseline, has_mark = opening.pick, experiment.settings.baseline, False
    if pick and pick.decision is Decision.SWITCH and pick.next:
        # A command is copied whole: the terminal folds it, without a break, where what prints it does not crop.
        parts += [
            Text(line, style="dim", no_wrap=True, overflow="ignore")
            for line in (runnable(f"next: {pick.next[0]}") if pick.next else "", *_interpreter(experiment, pick))
        ]
    parts += [part for section in opening.sections for part in rich_parts(section)]
    changed = (CHANGED, MOST_LINES_CHANGED, opening.differences), (OPEN, MOST_LINES_OPEN, opening.undecided)
    # The verdicts of a trial say both.
    for title, most, rows_of in changed if not opening.sections else ():
        rows, asides = rows_of(tables), len(rows_of(tables, aside=True))
        has_mark |= any(row.built_otherwise for row in rows[:most])
        parts += rich_parts(_brief_section(title, rows[:most], baseline)) if rows else []
        left = [f"{len(rows) - most} more"] if len(rows) > most else []
        left += [f"{asides} of modes, studies and versions without support"] if asides else []
        first = "and" if rows else f"{title}:"
        parts += [Text(f"{first} {', '.join(left)}", style="dim")] if left else []
    parts += [Text(opening.lacking)] if opening.lacking else []
    parts += (
        [Text(f"{MARK} built otherwise than {baseline}: the ratio is of that too", style="dim")] if has_mark else []
    )
    # How it goes on, and what was not reached; what is undecided stands above.
    parts += [Text(line) for line in ended_lines(experiment, [])[:MOST_LINES_ENDED]]
    number = len(experiment.warnings)
    warnings = f"; {number} warning{'s' * (number > 1)}" if number else ""
    last = f"{experiment.name}, {experiment.started[:10]}{warnings}: all tables with --full, charts with --html"
    parts += [Text(), Text(last, style="dim")]
    return Group(*parts)


def _interpreter(experiment: Experiment, pick: Pick) -> Iterator[str]:
    """Yield where the recommended interpreter is, if it was measured without containers."""
    chosen = split_label(pick.recommended.label)[0] if pick.recommended else ""
    for image in experiment.images if not pick.in_containers else ():
        if image.variant == chosen:
            yield f"its interpreter, to run your own tests with: {image.image_id}/bin/python3"


COLUMNS = ("workload", "preparing s", "measuring s", "profiling s", "in all s", "slowest row to prepare")
# A row whose preparing took less than this is not worth a name.
NAMED_S = 1.0


def time_section(experiment: Experiment) -> Section | None:
    """Return the table of seconds by workload, then those of no workload; None where they are not recorded."""
    if not experiment.times:
        return None
    rows = [_row(experiment, name, times) for name, times in experiment.times.items()]
    alone = {"instruments, probe, packages": experiment.set_up_s, "waiting for the lock": experiment.waiting_s}
    rows += [(name, "-", "-", "-", f"{seconds:.0f}", "") for name, seconds in alone.items()]
    title = f"where the time went: {_sum(experiment):.0f} s in all, without the builds"
    return Section(title, COLUMNS, tuple(rows))


def _row(experiment: Experiment, workload: str, times: Times) -> tuple[str, ...]:
    cells = [cell for cell in experiment.cells if cell.workload == workload and cell.times]
    prepared = {cell.label: cell.times.preparing_s for cell in cells if cell.times}
    label = max(prepared, key=lambda row: prepared[row], default="")
    dearest = f"{label} {prepared[label]:.0f} s" if prepared.get(label, 0) >= NAMED_S else ""
    phases = (times.preparing_s, times.measuring_s, times.profiling_s, times.total_s)
    return (workload, *(f"{seconds:.0f}" for seconds in phases), dearest)


def _sum(experiment: Experiment) -> float:
    return sum(times.total_s for times in experiment.times.values()) + experiment.set_up_s + experiment.waiting_s


def ended_lines(experiment: Experiment, tables: Iterable[Table]) -> list[str]:
    """Return what ended an experiment before all was decided, what of it is open, and how it goes on."""
    if not experiment.ended_by:
        return []
    open_rows = [line for table in tables for line in _open_rows(table)]
    unreached = _unreached(experiment)
    return [
        f"{experiment.ended_by} ended the experiment. `{experiment.resume_command}` continues it.",
        *(f"undecided: {line}" for line in open_rows),
        *(f"not measured: {line}" for line in unreached),
    ]


def _open_rows(table: Table) -> list[str]:
    """Return a line for a benchmark whose rows are not all decided, with their names."""
    labels = [row.label for row in table.rows if row.to_baseline and row.to_baseline.verdict is Verdict.UNDECIDED]
    return [f"{table.workload.name} / {table.benchmark.name}: {', '.join(labels)}"] if labels else []


def _unreached(experiment: Experiment) -> list[str]:
    """Return a line for a workload with cells that were not measured: the workload alone if none of it was."""
    lines = []
    for workload in experiment.settings.workloads:
        states = {cell.label: cell.outcome.state for cell in experiment.cells if cell.workload == workload}
        labels = [label for label, state in states.items() if state is State.NOT_MEASURED]
        rows = f": {', '.join(labels)}" if State.OK in states.values() else ""
        lines += [f"{workload}{rows}"] if labels else []
    return lines
