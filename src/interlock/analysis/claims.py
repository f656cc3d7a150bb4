"""Published claims and an experiment's figures: the way the effect goes here, and how far; or why none can be said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from interlock.analysis.comparison import Contents, fitted_rows, warnings_of
from interlock.analysis.pairing import compared_figures, in_places
from interlock.analysis.statistics import Interval, Ratio
from interlock.analysis.verdicts import MARGIN, Comparison, Verdict, compare_rows
from interlock.catalog.claims import Bound, Claim, ClaimMetric, Measured
from interlock.catalog.types import split_label
from interlock.results.experiments import (
    BenchmarkValues,
    CellKey,
    CellResult,
    Experiment,
    Outcome,
    State,
    by_block,
)
from interlock.results.runs import OF_EVERY_WORK

# A kernel that counts CPU time in clock ticks (250 Hz by default) reports 0 s for what fits between two ticks.
# No process takes 0 s, and a ratio needs a figure: 0 s counts as one tick, the most that it can be.
TICK_S = 0.004
# Fewer rounds show no noise to judge by.
MIN_ROUNDS = 3
# A warning about a workload is a disturbance of the machine unless it begins with this: then it is about the values of
# some cells, whose spread is in the interval.
OF_VALUES = "in '"


class ClaimVerdict(StrEnum):
    """What an experiment shows about a claim."""

    CONFIRMED = "confirmed"
    STRONGER = "same direction, stronger"
    WEAKER = "same direction, weaker"
    NO_EFFECT = "no effect"
    OPPOSITE = "opposite"
    UNDECIDED = "undecided"
    NOT_TESTABLE = "not testable here"
    NO_DATA = "no data yet"

    @property
    def silent(self) -> bool:
        """Return whether the experiment says nothing about the claim."""
        return self in {ClaimVerdict.NOT_TESTABLE, ClaimVerdict.NO_DATA}

    @property
    def contradicts(self) -> bool:
        """Return whether the experiment shows something else than the published effect, stronger or weaker."""
        return self in {ClaimVerdict.NO_EFFECT, ClaimVerdict.OPPOSITE}


@dataclass(frozen=True)
class Finding:
    """A claim, the verdict with its reason in one sentence, and the ratio or count of the experiment."""

    claim: Claim
    verdict: ClaimVerdict
    reason: str
    ratio: Ratio | None = None
    count: float | None = None

    @property
    def figure(self) -> str:
        """Return the ratio with its interval, or the count, as text."""
        if self.ratio is not None:
            return f"{figure_text(self.ratio.estimate)} [{figure_text(self.ratio.low)}, {figure_text(self.ratio.high)}]"
        return "-" if self.count is None else figure_text(self.count)


@dataclass(frozen=True)
class ClaimSubject:
    """One of the two measurements that a claim compares: a label in a benchmark."""

    label: str
    workload: str
    benchmark: str

    @property
    def key(self) -> CellKey:
        return self.label, self.workload

    def __str__(self) -> str:
        return f"{self.label} / {self.workload} / {self.benchmark}"


@dataclass(frozen=True)
class _Judgement:
    """A verdict and its reason."""

    verdict: ClaimVerdict
    reason: str


def evaluate(claims: Sequence[Claim], contents: Contents) -> list[Finding]:
    """Return a finding for each claim, in their order.

    The ratio is that of the workload's table, and the rule that decides there says which way it goes; docs/claims.md
    explains the words. Figures of a workload whose rounds were disturbed judge nothing; nor do fewer than three rounds.
    """
    return [_finding(claim, contents) for claim in claims]


def measure(what: Measured, contents: Contents) -> Comparison | float | str:
    """Return an experiment's figure, or why there is none that may be used."""
    measured = _measured(what, contents)
    unusable = isinstance(measured, Comparison) and _unusable(what, measured.ratio, contents.experiment)
    said = unusable or measured
    return said.reason if isinstance(said, _Judgement) else said


def subjects_of(claim: Measured) -> list[ClaimSubject]:
    """Return the measurement that the claim is about and, for a ratio, the one that it is divided by."""
    mine = ClaimSubject(claim.variant, claim.workload, claim.benchmark)
    if claim.against is None:
        return [mine]
    return [mine, ClaimSubject(claim.against, claim.workload, claim.against_benchmark or claim.benchmark)]


def allowed_range(claim: Claim) -> tuple[float, float]:
    """Return the lowest and the highest figure that agree with the claim."""
    low, high = claim.published * max(0.0, 1 - claim.tolerance), claim.published * (1 + claim.tolerance)
    return (0.0 if claim.bound is Bound.AT_MOST else low), (math.inf if claim.bound is Bound.AT_LEAST else high)


def figure_text(figure: float) -> str:
    """Return a figure with three significant digits, from 100 on with all digits before the point."""
    if figure == 0 or math.isinf(figure):
        return f"{figure:g}"
    return f"{figure:,.0f}" if figure >= 99.95 else f"{figure:#.3g}"


def _finding(claim: Claim, contents: Contents) -> Finding:
    used = with_substitutes(claim, contents.experiment)
    lacking, measured = _missing_needs(claim, contents.experiment), _measured(used, contents)
    if isinstance(measured, _Judgement):
        said = lacking or measured
        return Finding(claim, said.verdict, said.reason)
    if isinstance(measured, float):
        is_work = claim.metric is ClaimMetric.WORKS
        said = lacking or (_judged_work(used, measured, contents) if is_work else _judged_count(used, measured))
        return Finding(claim, said.verdict, _with_substitution(said.reason, claim, used), count=measured)
    said = lacking or _unusable(claim, measured.ratio, contents.experiment) or _judged_ratio(claim, measured)
    return Finding(claim, said.verdict, _with_substitution(said.reason, claim, used), ratio=measured.ratio)


def with_substitutes(claim: Claim, experiment: Experiment) -> Claim:
    """Return the claim with substitutes if a variant of it has no figure in this experiment.

    Both sides are replaced where they can be: substitutes are builds of one style, what they substitute of another.
    """
    sides = dict(zip(("variant", "against"), subjects_of(claim), strict=False))
    if all(_gap(side, experiment) is None for side in sides.values()):
        return claim
    substitutes = {key: replace(side, label=claim.substitutes.get(side.label, "")) for key, side in sides.items()}
    measured = {key: side.label for key, side in substitutes.items() if _gap(side, experiment) is None}
    return claim.model_copy(update=measured)


def _with_substitution(reason: str, claim: Claim, used: Claim) -> str:
    pairs = ((used.variant, claim.variant), (used.against, claim.against))
    return "; ".join(
        [reason, *(f"{used_label} substitutes for {label}" for used_label, label in pairs if used_label != label)]
    )


def _missing_needs(claim: Claim, experiment: Experiment) -> _Judgement | None:
    """Return what the claim needs and the host does not have; None if it has everything."""
    needs, host = claim.needs, experiment.host
    if needs is None:
        return None
    if host["cores"] < needs.min_cores:
        return _Judgement(ClaimVerdict.NOT_TESTABLE, f"{host['cores']} of {needs.min_cores} cores: {needs.reason}")
    if needs.system is not None and needs.system.lower() not in host["system"].lower():
        return _Judgement(ClaimVerdict.NOT_TESTABLE, f"{host['system']} is not {needs.system}: {needs.reason}")
    return None


def _measured(claim: Measured, contents: Contents) -> Comparison | float | _Judgement:
    if claim.metric is ClaimMetric.WORKS:
        return _works(claim, contents.experiment)
    for side in subjects_of(claim):
        gap = _gap(side, contents.experiment)
        if gap is not None:
            return gap
    return (_count if claim.metric.counted else _ratio)(claim, contents)


def _works(claim: Measured, experiment: Experiment) -> float | _Judgement:
    """Return 1 if the benchmark was measured, 0 if the interpreter did not do its work; else why neither is known."""
    (side,) = subjects_of(claim)
    cell = _cell(side, experiment)
    outcome = cell.outcome_of(side.benchmark) if cell else None
    if outcome and outcome.state in {State.FAILED, State.TIMED_OUT, State.UNSUPPORTED}:
        return 0.0
    return _gap(side, experiment) or 1.0


def _gap(side: ClaimSubject, experiment: Experiment) -> _Judgement | None:
    """Return why a measurement has no figure, as far as the experiment's record says so."""
    workload = experiment.workloads.get(side.workload)
    if workload is None:
        return _Judgement(ClaimVerdict.NO_DATA, f"the experiment has no workload '{side.workload}'")
    if side.benchmark not in [benchmark.name for benchmark in workload.benchmarks]:
        return _Judgement(ClaimVerdict.NO_DATA, f"the workload '{side.workload}' has no benchmark '{side.benchmark}'")
    cell = _cell(side, experiment)
    if cell is not None:
        return _unless_ok(str(side), cell.outcome_of(side.benchmark))
    variant, _ = split_label(side.label)
    for image in experiment.images:
        if image.variant == variant and image.outcome.state is not State.OK:
            return _unless_ok(variant, image.outcome)
    return _Judgement(ClaimVerdict.NO_DATA, f"the experiment has no '{side.label}'")


def _cell(side: ClaimSubject, experiment: Experiment) -> CellResult | None:
    return next((cell for cell in experiment.cells if (cell.label, cell.workload) == side.key), None)


def _unless_ok(what: str, outcome: Outcome) -> _Judgement | None:
    if outcome.state is State.OK:
        return None
    return _Judgement(ClaimVerdict.NOT_TESTABLE, f"{what}: {outcome.state.value}: {outcome.reason.rstrip('.')}")


def _ratio(claim: Measured, contents: Contents) -> Comparison | _Judgement:
    """Return the comparison of the two sides, by the rule and with the rows of the workload's table.

    Rows of two tables are not one family of errors, and nothing in a block puts their values beside each other: the
    two sides alone are compared, a figure for each block.
    """
    mine, theirs = sides = subjects_of(claim)
    tables = {side.benchmark: fitted_rows(contents.values, side.workload, side.benchmark) for side in sides}
    for side in sides:
        row = tables[side.benchmark].get(side.label)
        if row is None or (claim.metric is ClaimMetric.WORK_SYS and OF_EVERY_WORK not in row.reported):
            return _Judgement(ClaimVerdict.NO_DATA, f"{side} has no values of '{claim.metric.value}'")
    if len(tables) > 1:
        rows = {str(side): tables[side.benchmark][side.label] for side in sides}
    else:
        rows = {str(replace(mine, label=label)): row for label, row in tables[mine.benchmark].items()}
    if claim.metric is ClaimMetric.TIME and len(tables) == 1:
        figures = compared_figures(rows)
    else:
        blocks = {name: row.blocks for name, row in rows.items()}
        figures = in_places(blocks, {name: figures_by_block(claim.metric, row) for name, row in rows.items()})
    workload, end = contents.experiment.workloads[claim.workload], contents.experiment.rounds_end(claim.workload)
    pair = (str(mine), str(theirs))
    compared = compare_rows(figures, [pair], pair[1], end=end, margin=workload.margin)
    return compared.get(pair) or _Judgement(ClaimVerdict.NOT_TESTABLE, "a figure is 0, so there is no ratio")


def figures_by_block(metric: ClaimMetric, values: BenchmarkValues) -> Sequence[float]:
    """Return a figure for each block, to compare: CPU time is of the whole process, per unit of one of its values."""
    if metric is ClaimMetric.TIME:
        return values.figures
    if metric is ClaimMetric.WORK_SYS:
        done = zip(values.reported[OF_EVERY_WORK], values.processes, values.units, strict=True)
        return by_block([(sys_s or TICK_S) / (len(timed) * units) for sys_s, timed, units in done], values.blocks)
    cpu = [(user or TICK_S, system or TICK_S) for user, system in zip(values.user_s, values.sys_s, strict=True)]
    if metric is ClaimMetric.SYS_SHARE:
        return by_block([system / (user + system) for user, system in cpu], values.blocks)
    counted = {ClaimMetric.USER: (1, 0), ClaimMetric.SYS: (0, 1), ClaimMetric.CPU: (1, 1)}[metric]
    shares = [counted[0] * user + counted[1] * system for user, system in cpu]
    figures = [share / units for share, units in zip(shares, values.units, strict=True)]
    return by_block(figures, values.blocks)


def _count(claim: Measured, contents: Contents) -> float | _Judgement:
    """Return calls per unit of work times the claim's scale, or the ratio of two such counts."""
    counts = []
    for side in subjects_of(claim):
        profile = contents.profiles.get(side.key, {}).get(side.benchmark)
        if profile is None:
            return _without_profile(side, contents.experiment)
        names = claim.syscalls or ["futex"]
        if not profile.knows(names):
            return _Judgement(ClaimVerdict.NOT_TESTABLE, f"the probe of {side} counts futex calls only")
        counts.append(profile.calls_per_unit(names))
    if len(counts) == 1:
        return counts[0] * claim.scale
    mine, theirs = counts
    return (
        mine / theirs
        if theirs
        else _Judgement(ClaimVerdict.NOT_TESTABLE, "the other side has 0 calls, so there is no ratio")
    )


def _without_profile(side: ClaimSubject, experiment: Experiment) -> _Judgement:
    cell = _cell(side, experiment)
    failed = _unless_ok(f"the profile of {side}", cell.profile) if cell and cell.profile else None
    return failed or _Judgement(ClaimVerdict.NO_DATA, f"{side} was not profiled")


def _unusable(claim: Measured, ratio: Ratio, experiment: Experiment) -> _Judgement | None:
    """Return why a ratio judges nothing: its rounds were disturbed, or too few."""
    disturbed = disturbances(experiment, claim.workload)
    if disturbed:
        return _Judgement(ClaimVerdict.NO_DATA, f"the rounds of '{claim.workload}' were disturbed: {disturbed[0]}")
    if ratio.rounds < MIN_ROUNDS:
        count = f"{ratio.rounds} round{'' if ratio.rounds == 1 else 's'}"
        return _Judgement(ClaimVerdict.NO_DATA, f"{count} are too few: measure {MIN_ROUNDS} or more")
    return None


def disturbances(experiment: Experiment, workload: str) -> list[str]:
    """Return what disturbed the machine during a workload's rounds, as recorded: stolen time, other programs, heat."""
    mine = warnings_of(experiment, workload)
    return [warning.partition(": ")[0] for warning in mine if not warning.startswith(OF_VALUES)]


def _judged_ratio(claim: Claim, measured: Comparison) -> _Judgement:
    said = _ratio_verdict(claim, measured.ratio, measured.verdict)
    after = f"after {measured.ratio.rounds} rounds {measured.words}"
    if said is ClaimVerdict.UNDECIDED and measured.verdict is not Verdict.UNDECIDED:
        return _Judgement(said, f"{after}, but the interval is only partly within {_range_text(claim)}")
    return _Judgement(said, f"{after}, compared with {_range_text(claim)}")


def _ratio_verdict(claim: Claim, ratio: Interval, verdict: Verdict) -> ClaimVerdict:
    """Return what a ratio shows, given the rule's verdict on its difference from 1."""
    low, high = allowed_range(claim)
    if low <= 1 <= high:  # the claim is that there is no effect, or none beyond its bound
        inside, outside = low <= ratio.low and ratio.high <= high, ratio.high < low or ratio.low > high
        return ClaimVerdict.CONFIRMED if inside else ClaimVerdict.OPPOSITE if outside else ClaimVerdict.UNDECIDED
    if not verdict.differs:
        return ClaimVerdict.NO_EFFECT if verdict is Verdict.SAME else ClaimVerdict.UNDECIDED
    if (ratio.estimate > 1) != (low > 1):
        return ClaimVerdict.OPPOSITE
    if low <= ratio.estimate <= high:
        return ClaimVerdict.CONFIRMED
    below, above = ratio.high < low, ratio.low > high
    if not below and not above:
        return ClaimVerdict.UNDECIDED
    return ClaimVerdict.STRONGER if above == (low > 1) else ClaimVerdict.WEAKER


def _judged_work(claim: Claim, done: float, contents: Contents) -> _Judgement:
    """Judge whether a benchmark was done, as published; the reason is its own."""
    (side,) = subjects_of(claim)
    cell = _cell(side, contents.experiment)
    gap = None if done or cell is None else _unless_ok(str(side), cell.outcome_of(side.benchmark))
    said = ClaimVerdict.CONFIRMED if done == claim.published else ClaimVerdict.OPPOSITE
    return _Judgement(said, gap.reason if gap else f"{side} works")


def _judged_count(claim: Claim, count: float) -> _Judgement:
    """Judge a number of calls, or a ratio of two: they have no interval, and differ from 1 by the margin or not."""
    if claim.against is None:
        said = _count_verdict(claim, count)
    else:
        side = Verdict.SLOWER if count > 1 else Verdict.FASTER
        verdict = Verdict.SAME if 1 / (1 + MARGIN) < count < 1 + MARGIN else side
        said = _ratio_verdict(claim, Interval(count, count, count), verdict)
    return _Judgement(said, f"{figure_text(count)} compared with {_range_text(claim)}")


def _count_verdict(claim: Claim, count: float) -> ClaimVerdict:
    """Return what a number of calls shows: next to none where some were published is no effect."""
    low, high = allowed_range(claim)
    if low <= count <= high:
        return ClaimVerdict.CONFIRMED
    if count > high:
        few = claim.published == 0 or claim.bound is Bound.AT_MOST
        return ClaimVerdict.OPPOSITE if few else ClaimVerdict.STRONGER
    return ClaimVerdict.NO_EFFECT if count < MARGIN * claim.published else ClaimVerdict.WEAKER


def _range_text(claim: Claim) -> str:
    return f"the claim's {allowed_text(claim)}"


def allowed_text(claim: Claim) -> str:
    """Return what agrees with a claim: a figure, a range, or a bound."""
    low, high = (figure_text(end) for end in allowed_range(claim))
    if claim.bound is Bound.AT_MOST:
        return f"at most {high}"
    if claim.bound is Bound.AT_LEAST:
        return f"at least {low}"
    return low if low == high else f"{low} to {high}"
