"""What a trial says of each variant: switch, same, undecided or do not switch, and what it gains and costs. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from interlock.analysis.comparison import DetailFigure, Row, Table
from interlock.analysis.pairing import in_places
from interlock.analysis.pick.ranking import ranks
from interlock.analysis.statistics import Interval, fit_levels
from interlock.analysis.verdicts import MARGIN, Comparison, Pair, Verdict, among, compare_rows
from interlock.catalog.types import split_label
from interlock.catalog.variants import Gil
from interlock.results.answers import Rank
from interlock.results.experiments import Experiment, Outcome, State, by_block
from interlock.results.trials import OWN, TriedImage


class TrialVerdict(StrEnum):
    """The answer of a trial for one variant; the value is shown and is in JSON."""

    SWITCH = "switch"
    SAME = "same"
    UNDECIDED = "undecided"
    STAY = "do not switch"
    NOT_TRIED = "not tried"


# From this share of its CPUs on, a service is busy; with a GIL, from so much of one CPU on, however many it has.
BUSY_SHARE, BUSY_CPUS = 0.7, 0.8
# From this share of its CPU on, a load generator cannot send more.
FULL_LOAD = 0.9
# Figures are times: slower is a reason to stay.
VERDICTS = {
    Verdict.SLOWER: TrialVerdict.STAY,
    Verdict.FASTER: TrialVerdict.SWITCH,
    Verdict.SAME: TrialVerdict.SAME,
    Verdict.UNDECIDED: TrialVerdict.UNDECIDED,
}
STATES = {
    State.UNAVAILABLE: TrialVerdict.NOT_TRIED,
    State.UNSUPPORTED: TrialVerdict.NOT_TRIED,
    State.NOT_MEASURED: TrialVerdict.UNDECIDED,
}


class Figure(StrEnum):
    """What a variant may gain or cost, as `--fail-on more-NAME=N%` or `less-NAME=N%` names it."""

    RATE = "throughput"
    TIME = "time"
    P50 = "p50"
    P99 = "p99"
    CPU = "cpu"
    MEMORY = "memory"
    START = "start"
    IMAGE = "image"

    @property
    def worse(self) -> str:
        """Return whether more or less of it is worse."""
        return "less" if self is Figure.RATE else "more"


# Keys of what the processes report.
REPORTED = {
    "units_per_s": Figure.RATE,
    "latency_p50_s": Figure.P50,
    "latency_p99_s": Figure.P99,
    "unit_cpu_s": Figure.CPU,
    "work_cpu_s": Figure.CPU,
    "memory_bytes": Figure.MEMORY,
    "process_max_rss_bytes": Figure.MEMORY,
    "healthy_after_s": Figure.START,
}
LATENCIES = (Figure.P50, Figure.P99)


@dataclass(frozen=True)
class TrialChange:
    """A variant's figure divided by the user's own; for a rate the inverse, so that more is always worse."""

    figure: Figure
    cost: Interval
    verdict: Verdict

    @property
    def share(self) -> float:
        """Return by which share the figure itself is larger than the user's own; for a rate that is not the cost."""
        return (1 / self.cost.estimate if self.figure is Figure.RATE else self.cost.estimate) - 1


@dataclass(frozen=True)
class JudgedRow:
    """A variant's verdict, and what speaks for it besides the figures: why it failed, or that the GIL came back."""

    label: str
    verdict: TrialVerdict
    problem: str
    comparison: Comparison | None  # with the user's own
    changes: Sequence[TrialChange] = ()  # what decides comes first
    has_failed: bool = False  # whether it does not do what it must, whatever its figures are

    @property
    def decides_by_cpu(self) -> bool:
        return bool(self.changes) and self.changes[0].figure is Figure.CPU

    def of(self, verdict: Verdict) -> list[TrialChange]:
        """Return the changes of this verdict."""
        return [change for change in self.changes if change.verdict is verdict]


def judge(experiment: Experiment, table: Table) -> list[JudgedRow]:
    """Return the verdict on every variant, in the order of the trial."""
    tried = experiment.trial.tried if experiment.trial else {}
    changes = _changes_of(experiment, table)
    rows = [row for row in table.rows if row.label != OWN]
    return [_judged(row, tried.get(row.label, TriedImage()), changes.get(row.label, ())) for row in rows]


def _judged(row: Row, known: TriedImage, changes: Sequence[TrialChange]) -> JudgedRow:
    state, came_back = row.outcome.state, gil_problem(known)
    failed = "" if state is State.OK else f"{state.value}: {row.outcome.reason}"
    slower = [
        change.figure.value for change in changes if change.figure in LATENCIES and change.verdict is Verdict.SLOWER
    ]
    if state in STATES and not came_back:
        verdict = STATES[state]
    elif failed or came_back:
        verdict = TrialVerdict.STAY
    else:
        verdict = VERDICTS[row.to_baseline.verdict] if row.to_baseline else TrialVerdict.UNDECIDED
    problems = [failed, came_back]
    # CPU time decides where the load leaves the service idle: then whoever asks feels its latency alone.
    if verdict is not TrialVerdict.STAY and slower and changes[0].figure is Figure.CPU:
        verdict = TrialVerdict.STAY
        problems.append(f"its {' and '.join(slower)} is worse")
    return JudgedRow(
        row.label,
        verdict,
        "; ".join(filter(None, problems)),
        row.to_baseline,
        changes,
        verdict is TrialVerdict.STAY and bool(failed or came_back),
    )


def _changes_of(experiment: Experiment, table: Table) -> dict[str, list[TrialChange]]:
    """Return what each variant gains and costs: the figure that decides, the reported ones, and the image's size."""
    compared = {row.label: row.to_baseline for row in table.rows if row.to_baseline}
    changes = {
        label: [TrialChange(decisive(table), decides.ratio, decides.verdict)] for label, decides in compared.items()
    }
    reported = {row.label: reported_by(row) for row in table.rows}
    own = reported.get(OWN, {})
    for figure in own:
        figures = {label: known[figure] for label, known in reported.items() if figure in known}
        for (label, _), comparison in _compared(experiment, table, figure, figures, changes).items():
            # The more figures, the sooner one differs by chance.
            strict = replace(among(comparison, len(own)), is_disturbed=compared[label].is_disturbed)
            changes[label].append(TrialChange(figure, strict.ratio, strict.verdict))
    for label, change in _sizes(experiment, changes).items():
        changes[label].append(change)
    return changes


def own_failure(outcome: Outcome) -> str:
    """Return why there is no answer, as the user's own image does not work after all; empty if it does."""
    if outcome.state not in {State.FAILED, State.TIMED_OUT}:
        return ""
    return f"your own Dockerfile, unchanged, failed after it had worked: {outcome.reason}"


def reported_by(row: Row) -> dict[Figure, DetailFigure]:
    """Return what the processes of a row report of what a variant may gain or cost."""
    return {REPORTED[known.detail.of]: known for known in row.details if known and known.detail.of in REPORTED}


def decisive(table: Table) -> Figure:
    """Return the figure by which the rows are decided."""
    user = table.workload.of_user
    if user.load and user.probed.decides == "cpu":
        return Figure.CPU
    if user.address and not user.load:
        return Figure.START
    return Figure.RATE if table.benchmark.metric.inverse else Figure.TIME


def _compared(
    experiment: Experiment, table: Table, figure: Figure, reported: Mapping[str, DetailFigure], labels: Iterable[str]
) -> dict[Pair, Comparison]:
    """Return how these variants' figures compare with the user's own, by the rule of all tables."""
    sign, end = -1 if figure is Figure.RATE else 1, experiment.rounds_end(table.workload.name)
    known = {label: figures for label, figures in reported.items() if min(figures.processes) > 0}
    by_label = {
        label: by_block([number**sign for number in figures.processes], figures.blocks)
        for label, figures in known.items()
    }
    figures = in_places({label: figures.blocks for label, figures in known.items()}, by_label)
    pairs = [(label, OWN) for label in labels]
    return compare_rows(figures, pairs, OWN, end=end, margin=table.workload.margin)


def _sizes(experiment: Experiment, labels: Mapping[str, object]) -> dict[str, TrialChange]:
    """Return what each variant's image has more, or less, than the user's own."""
    sizes = {image.variant: image.size_bytes for image in experiment.images}
    changes = {}
    for label in labels:
        size, own = sizes.get(split_label(label)[0]), sizes.get(OWN)
        if size and own:
            ratio = size / own
            is_same = abs(math.log(ratio)) < math.log1p(MARGIN)
            verdict = Verdict.SAME if is_same else Verdict.SLOWER if ratio > 1 else Verdict.FASTER
            changes[label] = TrialChange(Figure.IMAGE, Interval(ratio, ratio, ratio), verdict)
    return changes


class Bottleneck(StrEnum):
    """What bounds a service under its load."""

    SERVICE = "service"  # its CPUs are busy
    GIL = "gil"  # one CPU of several is
    LOAD = "load"  # the load's CPU is full
    NOTHING = "nothing"  # neither: the load does not fill the service


@dataclass(frozen=True)
class Busy:
    """How many CPUs the user's own service used, of those that it had, and how many its load did."""

    used: float
    cpus: int
    load: float

    @property
    def bound(self) -> Bottleneck:
        if self.used >= BUSY_SHARE * self.cpus:
            return Bottleneck.SERVICE
        if self.load >= FULL_LOAD:
            return Bottleneck.LOAD
        return Bottleneck.GIL if self.used >= BUSY_CPUS else Bottleneck.NOTHING


def busy_of(table: Table) -> Busy | None:
    """Return how busy the user's own service was; None of what has no load."""
    own = next((row for row in table.rows if row.label == OWN), None)
    known = {figure.detail.of: fmean(figure.processes) for figure in own.details if figure} if own else {}
    if "service_cpus" not in known:
        return None
    return Busy(known["service_cpus"], table.cores, known["load_cpus"])


def best_of(judged: Sequence[JudgedRow], table: Table) -> list[str]:
    """Return the variants to switch to that may be the best of them, compared with each other; the fastest first."""
    better = {row.label: row.comparison for row in judged if row.verdict is TrialVerdict.SWITCH and row.comparison}
    rows = {row.label: row for row in table.rows if row.label in better}
    order = sorted(rows, key=lambda label: better[label].ratio.estimate)
    figures = in_places(
        {label: row.blocks for label, row in rows.items()}, {label: row.figures for label, row in rows.items()}
    )
    places = ranks(order, fit_levels(figures).ratio) if order else {}
    return [label for label in order if places[label] is not Rank.WORSE]


# A program gains from a second CPU if it does so much more with it.
GAINS = 1.25


def gains_by_cpus(tables: Sequence[Table]) -> dict[str, float]:
    """Return how many times as much each row of a sweep does on two CPUs as on one, by label."""
    rates = {table.cores: dict(_rates(table)) for table in tables}
    on_one, on_two = rates.get(1, {}), rates.get(2, {})
    return {label: on_two[label] / rate for label, rate in on_one.items() if label in on_two}


def _rates(table: Table) -> Iterator[tuple[str, float]]:
    for row in table.rows:
        reported = next((figure.value for figure in row.details if figure and figure.detail.of == "units_per_s"), None)
        if row.seconds:
            yield row.label, reported or 1 / row.seconds


class FailOn(StrEnum):
    """What shuts the gate of a trial, as `--fail-on` has it."""

    SLOWER = "slower"  # shown in what decides
    UNDECIDED = "undecided"
    FAILED = "failed"  # it does not build, start, pass its tests or answer, or has its GIL back
    WORSE = "worse"  # a figure, by more than a share of the user's own, and shown


@dataclass(frozen=True)
class Condition:
    """A fault; for a figure that is worse, which one and the share by which it may be."""

    fault: FailOn
    figure: Figure | None = None
    share: float = 0.0


def faults(judged: Sequence[JudgedRow], conditions: Sequence[Condition]) -> list[tuple[str, str]]:
    """Return the labels that meet a condition, each with the condition in words."""
    return [(row.label, words) for row in judged for condition in conditions if (words := _fault(row, condition))]


def _fault(row: JudgedRow, condition: Condition) -> str:
    if condition.fault is FailOn.WORSE:
        change = next((change for change in row.changes if change.figure is condition.figure), None)
        is_worse = change and change.verdict is Verdict.SLOWER and abs(change.share) > condition.share
        return f"{condition.figure} {change.share:+.0%}" if change and is_worse else ""
    meets = {
        FailOn.SLOWER: row.comparison is not None and row.comparison.verdict is Verdict.SLOWER,
        FailOn.UNDECIDED: row.verdict is TrialVerdict.UNDECIDED,
        FailOn.FAILED: row.has_failed,
    }
    return condition.fault.value if meets[condition.fault] else ""


def gil_problem(known: TriedImage) -> str:
    """Return why a variant that is declared to run without the GIL does not; empty if it does or nothing is known."""
    gil = known.gil
    if gil is None or known.declared_gil is not Gil.OFF:
        return ""
    if gil.came_back or gil.modules:
        who = (
            f"module {' and '.join(repr(module) for module in gil.modules)}"
            if gil.modules
            else "a module without a name"
        )
        return f"the GIL came back: {who} switched it on"
    if gil.processes and not gil.off_at_start:
        return (
            "the GIL was on from the start: the Dockerfile sets PYTHON_GIL or -X gil, "
            "or another interpreter than the image's runs the service"
        )
    return ""


def gil_text(known: TriedImage | None) -> str:
    """Return the state of the GIL after the imports, in a word or two for a table."""
    gil = known.gil if known else None
    if gil is None:
        return "-"
    if gil.came_back or gil.modules:
        return "came back"
    if gil.off_at_start == gil.processes:
        return "off"
    return "on" if not gil.off_at_start else f"off in {gil.off_at_start} of {gil.processes}"
