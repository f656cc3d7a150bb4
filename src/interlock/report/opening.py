"""A report's beginning and end: the recommendation, what is faster or slower; what is open, and where time went.

The recommendation is made by a pick's functions, from the experiment's own figures and for its own day. Pure.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rich.console import Group, RenderableType
from rich.text import Text

from interlock.analysis.comparison import Row, Table, is_too_disturbed, too_disturbed_by
from interlock.analysis.not_measured import by_reason, in_one_line
from interlock.analysis.pick.advice import in_containers
from interlock.analysis.pick.own import is_aside, own_pick
from interlock.analysis.pick.sentences import WITHOUT_CONTAINERS, as_measured, provenance
from interlock.analysis.verdicts import HOPELESS, LOOKS, Comparison, Verdict
from interlock.catalog.project import Catalog
from interlock.catalog.types import TWIN, split_label
from interlock.report.tables import (
    Section,
    capitalized,
    figure_text,
    markdown_lines,
    markdown_table,
    ratio_text,
    rich_parts,
    rounds_text,
    short_ratio_text,
)
from interlock.report.trials import answer, busy_text, next_commands
from interlock.report.trials import sections as trial_sections
from interlock.results.answers import Pick, Rank
from interlock.results.commands import runnable
from interlock.results.experiments import Experiment, State, Times, Values
from interlock.results.settings import duration_text

# Rows of each table before the rest is folded, or left to --full on a terminal.
MOST_ROWS = 25
MOST_LINES_CHANGED, MOST_LINES_OPEN, MOST_LINES_ENDED = 9, 3, 2
LONGEST_BAR = 3
FIRST_LOOK = min(LOOKS)
# Stands beside a name if there is no room for words.
MARK = "*"


@dataclass(frozen=True)
class ComparedRow:
    """A row of a benchmark and how it compares with the baseline."""

    benchmark: str  # workload / benchmark
    label: str
    comparison: Comparison
    built_otherwise: bool  # in another way than the baseline, which the ratio includes
    figure: str  # in the benchmark's unit: '1,820 requests/s'


@dataclass(frozen=True)
class Opening:
    """The pick from an experiment's own figures (None without any), and the rows that are not about what to run."""

    pick: Pick | None
    asides: frozenset[str]
    place: str = ""  # where it was measured, if that was without containers
    lacking: str = ""  # what was not measured, and why, in one line
    answer: str = ""  # a trial's answer, in place of a pick's
    next: tuple[str, ...] = ()  # of a trial
    sections: tuple[Section, ...] = ()  # of a trial
    unpicked: str = "it is not in a project with variants"  # why there is no pick
    can_continue: bool = True  # False for an experiment that came with the project

    @property
    def sentence(self) -> str:
        if self.answer:
            return self.answer
        return self.pick.answer if self.pick else f"NO RECOMMENDATION: {self.unpicked}."

    @property
    def source(self) -> str:
        return provenance(self.pick) if self.pick else self.place

    @property
    def caveats(self) -> list[str]:
        """Return caveats of an interpreter to switch to: a figure that is larger, and others that may be as good."""
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
        rows = self._rows(tables, aside, lambda verdict: verdict.differs)
        return sorted(rows, key=lambda row: -abs(row.comparison.ratio.log))

    def undecided(self, tables: Iterable[Table], *, aside: bool = False) -> list[ComparedRow]:
        """Return the rows that are undecided, those that need the fewest more rounds first."""
        rows = self._rows(tables, aside, lambda verdict: verdict is Verdict.UNDECIDED)
        return sorted(rows, key=lambda row: row.comparison.more_rounds or math.inf)

    def _rows(self, tables: Iterable[Table], aside: bool, wanted: Callable[[Verdict], bool]) -> list[ComparedRow]:
        known = _noise(tables := list(tables))
        return [
            ComparedRow(
                f"{table.workload.name} / {table.benchmark.name}",
                row.label,
                _with_noise(row.to_baseline, known.get(table.workload.name)),
                bool(row.built_otherwise),
                _figure(table, row),
            )
            for table in tables
            for row in table.rows
            if row.to_baseline and (row.label in self.asides) is aside and wanted(row.to_baseline.verdict)
        ]


NOT_KNOWN = Opening(None, frozenset())
# Above a report that is written while the experiment is measured.
GOES_ON = "The experiment goes on: this is what is known so far."


def _figure(table: Table, row: Row) -> str:
    metric = table.benchmark.metric
    return "-" if row.seconds is None else f"{figure_text(metric.shown(row.seconds))} {metric.label}"


def _noise(tables: Sequence[Table]) -> dict[str, float]:
    """Return the usual error of one round by workload, from the rows that have more than one round."""
    errors: dict[str, list[float]] = {}
    for table in tables:
        for row in table.rows:
            ratio = row.to_baseline.ratio if row.to_baseline else None
            if ratio is not None and math.isfinite(ratio.error):
                errors.setdefault(table.workload.name, []).append(ratio.error * math.sqrt(ratio.rounds))
    return {workload: median(of_rows) for workload, of_rows in errors.items()}


def _with_noise(comparison: Comparison, of_workload: float | None) -> Comparison:
    """Return a comparison; after only one round it has no error of its own, and gets its workload's usual one."""
    if of_workload is None or math.isfinite(comparison.ratio.error):
        return comparison
    return replace(comparison, ratio=replace(comparison.ratio, error=of_workload))


def opening_of(experiment: Experiment, values: Values, catalog: Catalog, tables: Sequence[Table] = ()) -> Opening:
    """Return the opening of an experiment's report for the day that it was started; a trial's comes from its table.

    Variants that came later are left out, so that a report always says the same.
    """
    if experiment.trial and tables:
        said, parts = answer(experiment, tables), trial_sections(experiment, experiment.trial, tables)
        following = next_commands(experiment, tables)
        return Opening(None, frozenset(), place=busy_text(tables), answer=said, next=following, sections=parts)
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
    unpicked = disturbed_text(experiment) or "there are too few figures"
    return replace(known_of_all, pick=own_pick(experiment, values, known, today), asides=asides, unpicked=unpicked)


def disturbed_text(experiment: Experiment) -> str:
    """Return which workloads decide nothing, and what disturbed the first of them; empty if none was so disturbed."""
    by = {name: what[0] for name in experiment.workloads if (what := too_disturbed_by(experiment, name))}
    verb = "decides" if len(by) == 1 else "decide"
    return f"{', '.join(by)} {verb} nothing, because {next(iter(by.values()))}" if by else ""


CHANGED, OPEN = "faster or slower, the largest change first", "undecided, and what it would take"


def differences_section(title: str, rows: Sequence[ComparedRow], baseline: str) -> Section:
    """Return rows as a table: benchmark, variant, figure, ratio with interval, and verdict or what would decide it."""
    last = "it would take" if title == OPEN else "verdict"
    columns = ("benchmark", "variant", "figure", f"time, {baseline} is 1 [95 %]", last)
    cells = (
        (
            row.benchmark,
            row.label,
            row.figure,
            ratio_text(row.comparison.ratio),
            f"{_verdict_text(row)}{', built otherwise' * row.built_otherwise}",
        )
        for row in rows
    )
    return Section(title, columns, tuple(cells))


@dataclass(frozen=True)
class FoldedRows:
    """Rows that changed or are open: some to be seen at once, and the number and kind of the others."""

    shown: Section
    folded: dict[str, Section]


def folded_rows(opening: Opening, tables: Sequence[Table], baseline: str, most: int) -> list[FoldedRows]:
    """Return the rows that changed, and those that are open, with at most `most` of each to be seen at once."""
    groups = []
    for title, rows_of in ((CHANGED, opening.differences), (OPEN, opening.undecided)):
        rows = rows_of(tables)
        rest = {"more": rows[most:], "of modes, studies and versions without support": rows_of(tables, aside=True)}
        folded = {
            f"{len(hidden)} {words}": differences_section(title, hidden, baseline)
            for words, hidden in rest.items()
            if hidden
        }
        groups.append(FoldedRows(differences_section(title, rows[:most], baseline), folded))
    return groups


def _brief_section(title: str, rows: Sequence[ComparedRow], baseline: str) -> Section:
    """Return rows as a table that fits 80 columns, with a bar for each that is faster or slower."""
    last, text = ("more rounds", _rounds_text) if title == OPEN else ("figure", _bar)
    columns = ("benchmark", "variant", "time [95 %]", last)
    cells = (
        (
            row.benchmark.replace(" / ", "/"),
            f"{row.label}{MARK * row.built_otherwise}",
            short_ratio_text(row.comparison.ratio),
            f"{text(row)} {row.figure.partition(' per ')[0]}",
        )
        for row in rows
    )
    said = title if title == OPEN else title.replace("faster", "faster ▼").replace("slower", "slower ▲")
    return Section(f"{said} ({baseline}: 1.000x)", columns, tuple(cells))


def _bar(row: ComparedRow) -> str:
    """Return a bar for how far a ratio is from 1: a sign for each third of a doubling, downwards for less time."""
    log = row.comparison.ratio.log
    length = min(LONGEST_BAR, 1 + math.floor(3 * abs(log) / math.log(2)))
    return (("▲" if log > 0 else "▼") * length).ljust(LONGEST_BAR)


def _alone_section(tables: Sequence[Table]) -> Section | None:
    """Return the figures of an experiment that compares nothing; None if something is compared."""
    rows = [(table, row) for table in tables for row in table.rows if split_label(row.label)[1] != TWIN]
    if any(row.to_baseline for _, row in rows) or not any(row.seconds for _, row in rows):
        return None
    cells = (
        (f"{table.workload.name} / {table.benchmark.name}", row.label, _figure(table, row))
        for table, row in rows[:MOST_LINES_CHANGED]
    )
    return Section("measured, with nothing to compare", ("benchmark", "variant", "figure"), tuple(cells))


def _rounds_text(row: ComparedRow) -> str:
    """Return about how many more rounds would decide a row, if rounds can."""
    more = row.comparison.more_rounds
    if row.comparison.is_disturbed:
        return "measure again,"
    if more is None:
        return f"{max(1, FIRST_LOOK - row.comparison.ratio.rounds)} to see,"
    return f"about {more}," if more <= HOPELESS else "too many,"


def _verdict_text(row: ComparedRow) -> str:
    """Return the verdict; for an undecided row also how many more rounds it needs, if they are within reach."""
    if row.comparison.verdict is not Verdict.UNDECIDED:
        return row.comparison.words
    if row.comparison.more_rounds is None and not row.comparison.is_disturbed:
        return f"{rounds_text(max(1, FIRST_LOOK - row.comparison.ratio.rounds))} more for a first look"
    return row.comparison.words.partition(", ")[2] or "too many rounds"


def markdown_opening(opening: Opening, tables: Sequence[Table], baseline: str) -> list[str]:
    """Return the lines that a report begins with, under its title."""
    lines = [f"**{opening.sentence}**", "", *(line for command in opening.next for line in (f"`{command}`", ""))]
    lines += [line for said in (opening.source, *opening.caveats) if said for line in (said, "")]
    lines += [line for section in opening.sections for line in markdown_lines(section, capitalized(section.title))]
    for group in folded_rows(opening, tables, baseline, MOST_ROWS):
        lines += [f"## {capitalized(group.shown.title)}", ""]
        lines += [*markdown_table(group.shown.columns, group.shown.rows), ""] if group.shown.rows else ["Nothing.", ""]
        for words, folded in group.folded.items():
            lines += details(words, markdown_table(folded.columns, folded.rows))
    return [*lines, *([f"{capitalized(opening.lacking)}.", ""] if opening.lacking else [])]


def details(summary: str, lines: Iterable[str]) -> list[str]:
    """Return Markdown that is folded away under a summary."""
    return [f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def brief(experiment: Experiment, tables: Sequence[Table], opening: Opening) -> RenderableType:
    """Return a report in at most forty lines of a terminal: what changed, what is open, and the answer at the end."""
    baseline, has_mark, parts = experiment.settings.baseline, False, list[RenderableType]()
    parts += [part for section in opening.sections for part in rich_parts(section)]
    changed = (CHANGED, MOST_LINES_CHANGED, opening.differences), (OPEN, MOST_LINES_OPEN, opening.undecided)
    # A trial's verdicts already say both.
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
    alone = None if opening.sections else _alone_section(tables)
    parts += rich_parts(alone) if alone else []
    # Only what was not reached; undecided rows are above.
    unreached = ended_lines(experiment, [])[1:]
    parts += [Text(line) for line in unreached[:MOST_LINES_ENDED]]
    hidden = len(unreached) - MOST_LINES_ENDED
    parts += [Text(f"and {hidden} more", style="dim")] if hidden > 0 else []
    disturbed = disturbed_text(experiment)
    parts += [Text(f"{capitalized(disturbed)}.")] if disturbed and disturbed not in opening.sentence else []
    said = " ".join(filter(None, (opening.source, _progress(experiment, tables))))
    parts += [Text(), Text(opening.sentence, style="bold"), *([Text(said)] if said else [])]
    # A command must be copied whole, so it is neither broken nor cropped: the terminal folds it.
    parts += [Text(runnable(line), no_wrap=True, overflow="ignore") for line in _commands(experiment, opening)]
    number = len(experiment.warnings)
    warnings = f"; {number} warning{'s' * (number > 1)}" if number else ""
    last = f"{experiment.name}, {experiment.started[:10]}{warnings}: all tables with --full, charts with --html"
    parts += [Text(last, style="dim")]
    return Group(*parts)


def _interpreter(experiment: Experiment, pick: Pick) -> Iterator[str]:
    """Yield where the recommended interpreter is, if it was measured without containers."""
    chosen = split_label(pick.recommended.label)[0] if pick.recommended else ""
    for image in experiment.images if not pick.in_containers else ():
        if image.variant == chosen:
            yield f"its interpreter, to run your own tests with: {image.image_id}/bin/python3"


COLUMNS = ("workload", "preparing s", "measuring s", "profiling s", "in all s", "slowest row to prepare")
# A row whose preparation took less than this is not named.
NAMED_S = 1.0


def time_section(experiment: Experiment) -> Section | None:
    """Return the table of seconds by workload, then of what belongs to none; None if they are not recorded."""
    if not experiment.times:
        return None
    rows = [_row(experiment, name, times) for name, times in experiment.times.items()]
    alone = {"instruments, probe, packages": experiment.set_up_s, "waiting for the lock": experiment.waiting_s}
    rows += [(name, "-", "-", "-", f"{seconds:.0f}", "") for name, seconds in alone.items()]
    total_s = sum(times.total_s for times in experiment.times.values()) + sum(alone.values())
    return Section(f"where the time went: {total_s:.0f} s in all, without the builds", COLUMNS, tuple(rows))


def _row(experiment: Experiment, workload: str, times: Times) -> tuple[str, ...]:
    cells = [cell for cell in experiment.cells if cell.workload == workload and cell.times]
    prepared = {cell.label: cell.times.preparing_s for cell in cells if cell.times}
    label = max(prepared, key=lambda row: prepared[row], default="")
    dearest = f"{label} {prepared[label]:.0f} s" if prepared.get(label, 0) >= NAMED_S else ""
    phases = (times.preparing_s, times.measuring_s, times.profiling_s, times.total_s)
    return (workload, *(f"{seconds:.0f}" for seconds in phases), dearest)


def _progress(experiment: Experiment, tables: Sequence[Table]) -> str:
    """Return in plain words how many rows are decided, what is open and how long that would take, and what ended it."""
    compared = [row.to_baseline for table in tables for row in table.rows if row.to_baseline]
    open_ = [comparison for comparison in compared if comparison.verdict is Verdict.UNDECIDED]
    decided = f"{len(compared) - len(open_)} of {len(compared)} rows are decided"
    said = [f"{decided}{_to_decide(experiment, tables, open_)}."] if compared else []
    said += [f"{capitalized(experiment.ended_by)} ended the experiment."] if experiment.ended_by else []
    return " ".join(said)


def _commands(experiment: Experiment, opening: Opening) -> Iterator[str]:
    """Yield the next commands: the one that resumes an experiment that was ended, and those of the pick."""
    pick = opening.pick
    if opening.can_continue and _all_was_disturbed(experiment):
        yield f"to measure again, once that is over: {experiment.command}"
    if experiment.ended_by and opening.can_continue:
        yield f"to continue: {experiment.resume_command}"
    yield from (f"next: {command}" for command in (*opening.next, *(pick.next[:1] if pick else ())))
    if pick:
        yield from _interpreter(experiment, pick)


def _to_decide(experiment: Experiment, tables: Sequence[Table], open_: Sequence[Comparison]) -> str:
    """Return how many rows are open, and how long those near a decision would take at the pace of this experiment."""
    if not open_:
        return ""
    near = [more for row in open_ if (more := row.more_rounds) is not None and more <= HOPELESS]
    measured = sum(len(row.figures) for table in tables for row in table.rows)
    if not near or not measured or not experiment.measuring_s:
        return f", {len(open_)} open"
    pace_s = experiment.measuring_s / measured
    which = "which take" if len(near) == len(open_) else f"{len(near)} of which take"
    return f", {len(open_)} open, {which} about {duration_text(pace_s * sum(near))} more"


def _all_was_disturbed(experiment: Experiment) -> bool:
    """Return whether more rounds decide nothing either: a workload stays disturbed once it was."""
    return bool(experiment.times) and all(is_too_disturbed(experiment, name) for name in experiment.times)


def ended_lines(experiment: Experiment, tables: Iterable[Table]) -> list[str]:
    """Return what ended an experiment before all was decided, what is still open, and how to go on."""
    if not experiment.ended_by:
        return []
    goes_on = f"`{experiment.resume_command}` continues it."
    if _all_was_disturbed(experiment):
        goes_on += f" What was disturbed stays undecided: `{experiment.command}` measures it again."
    open_rows = [line for table in tables for line in _open_rows(table)]
    unreached = _unreached(experiment)
    return [
        f"{capitalized(experiment.ended_by)} ended the experiment. {goes_on}",
        *(f"undecided: {line}" for line in open_rows),
        *(f"not measured: {line}" for line in unreached),
    ]


def _open_rows(table: Table) -> list[str]:
    """Return a line for a benchmark whose rows are not all decided, with their names."""
    labels = [row.label for row in table.rows if row.to_baseline and row.to_baseline.verdict is Verdict.UNDECIDED]
    return [f"{table.workload.name} / {table.benchmark.name}: {', '.join(labels)}"] if labels else []


def _unreached(experiment: Experiment) -> list[str]:
    """Return a line for each workload with cells that were not measured; only its name if none was."""
    lines = []
    for workload in experiment.settings.workloads:
        states = {cell.label: cell.outcome.state for cell in experiment.cells if cell.workload == workload}
        labels = [label for label, state in states.items() if state is State.NOT_MEASURED]
        rows = f": {', '.join(labels)}" if State.OK in states.values() else ""
        lines += [f"{workload}{rows}"] if labels else []
    return lines
