"""Published claims and an experiment's figures: confirmed, refuted, or why neither can be said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from interlock.analysis.statistics import Ratio, ratio_of
from interlock.catalog.claims import Bound, Claim, ClaimMetric
from interlock.catalog.types import split_label
from interlock.results.experiments import (
    BenchmarkValues,
    CellKey,
    CellResult,
    Experiment,
    Outcome,
    Profiles,
    State,
    Values,
)

# A kernel that counts CPU time in clock ticks (250 Hz by default) reports 0 s for what fits between two ticks.
# No process takes 0 s, and a ratio needs a figure: 0 s counts as one tick, the most that it can be.
TICK_S = 0.004
# With fewer rounds an interval covers less than 95 %: docs/method.md, From values to a statement.
MIN_ROUNDS = 5


class ClaimVerdict(StrEnum):
    """What an experiment shows about a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    NOT_TESTABLE = "not testable here"
    NO_DATA = "no data yet"


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
class _Evidence:
    experiment: Experiment
    values: Values
    profiles: Profiles


@dataclass(frozen=True)
class _Judgement:
    """A verdict and its reason."""

    verdict: ClaimVerdict
    reason: str


def evaluate(claims: Sequence[Claim], experiment: Experiment, values: Values, profiles: Profiles) -> list[Finding]:
    """Return a finding for each claim, in their order.

    Confirmed: the ratio lies in what the published figure allows with its tolerance and bound. Refuted: its 95 %
    interval lies outside. An interval that reaches it while the ratio does not, or that also holds 1, which the
    claim does not allow, decides nothing; nor do fewer than five rounds.
    """
    evidence = _Evidence(experiment, values, profiles)
    return [_finding(claim, evidence) for claim in claims]


def subjects_of(claim: Claim) -> list[ClaimSubject]:
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
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:#.3g}"


def _finding(claim: Claim, evidence: _Evidence) -> Finding:
    used = _with_substitutes(claim, evidence.experiment)
    lacking, measured = _missing_needs(claim, evidence.experiment), _measured(used, evidence)
    if isinstance(measured, _Judgement):
        said = lacking or measured
        return Finding(claim, said.verdict, said.reason)
    said = lacking or _judge(claim, measured)
    reason = "; ".join([said.reason, *_instead(claim, used)])
    if isinstance(measured, Ratio):
        return Finding(claim, said.verdict, reason, ratio=measured)
    return Finding(claim, said.verdict, reason, count=measured)


def _with_substitutes(claim: Claim, experiment: Experiment) -> Claim:
    """Return the claim with substitutes for variants without a figure in this experiment, where they have one."""
    replaced = {}
    for key, side in zip(("variant", "against"), subjects_of(claim), strict=False):
        label = claim.substitutes.get(side.label)
        if label and _gap(side, experiment) and not _gap(replace(side, label=label), experiment):
            replaced[key] = label
    return claim.model_copy(update=replaced)


def _instead(claim: Claim, used: Claim) -> list[str]:
    pairs = ((used.variant, claim.variant), (used.against, claim.against))
    return [f"{one} substitutes for {other}" for one, other in pairs if one != other]


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


def _measured(claim: Claim, evidence: _Evidence) -> Ratio | float | _Judgement:
    for side in subjects_of(claim):
        gap = _gap(side, evidence.experiment)
        if gap is not None:
            return gap
    return (_count if claim.metric.counted else _ratio)(claim, evidence)


def _gap(side: ClaimSubject, experiment: Experiment) -> _Judgement | None:
    """Return why a measurement has no figure, as far as the experiment's record says so."""
    workload = experiment.workloads.get(side.workload)
    if workload is None:
        return _Judgement(ClaimVerdict.NO_DATA, f"the experiment has no workload '{side.workload}'")
    if side.benchmark not in [benchmark.name for benchmark in workload.benchmarks]:
        return _Judgement(ClaimVerdict.NO_DATA, f"the workload '{side.workload}' has no benchmark '{side.benchmark}'")
    cell = _cell(side, experiment)
    if cell is not None:
        return _unless_ok(str(side), cell.benchmarks.get(side.benchmark, cell.outcome))
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


def _ratio(claim: Claim, evidence: _Evidence) -> Ratio | _Judgement:
    figures = []
    for side in subjects_of(claim):
        values = evidence.values.get(side.key, {}).get(side.benchmark)
        figures.append(_by_process(claim.metric, values) if values else [])
        if not figures[-1]:
            return _Judgement(ClaimVerdict.NO_DATA, f"{side} has no values of '{claim.metric.value}'")
    mine, theirs = figures
    return ratio_of(mine, theirs) or _Judgement(ClaimVerdict.NOT_TESTABLE, "a figure of 0 has no ratio")


def _by_process(metric: ClaimMetric, values: BenchmarkValues) -> list[float]:
    """Return one figure for each process; CPU time is of the whole process and is divided by all its work."""
    if metric is ClaimMetric.TIME:
        return values.medians
    cpu = [(user or TICK_S, system or TICK_S) for user, system in zip(values.user_s, values.sys_s, strict=True)]
    if metric is ClaimMetric.SYS_SHARE:
        return [system / (user + system) for user, system in cpu]
    which = 0 if metric is ClaimMetric.USER else 1
    return [one[which] / units for one, units in zip(cpu, values.units, strict=True)]


def _count(claim: Claim, evidence: _Evidence) -> float | _Judgement:
    """Return calls per unit of work times the claim's scale, or the ratio of two such counts."""
    counts = []
    for side in subjects_of(claim):
        profile = evidence.profiles.get(side.key, {}).get(side.benchmark)
        if profile is None:
            return _without_profile(side, evidence.experiment)
        names = claim.syscalls or ["futex"]
        if not profile.knows(names):
            return _Judgement(ClaimVerdict.NOT_TESTABLE, f"the probe of {side} counted futex calls alone")
        counts.append(profile.calls_per_unit(names))
    if len(counts) == 1:
        return counts[0] * claim.scale
    mine, theirs = counts
    return mine / theirs if theirs else _Judgement(ClaimVerdict.NOT_TESTABLE, "a ratio to 0 calls is none")


def _without_profile(side: ClaimSubject, experiment: Experiment) -> _Judgement:
    cell = _cell(side, experiment)
    failed = _unless_ok(f"the profile of {side}", cell.profile) if cell and cell.profile else None
    return failed or _Judgement(ClaimVerdict.NO_DATA, f"{side} was not profiled")


def _judge(claim: Claim, measured: Ratio | float) -> _Judgement:
    low, high = allowed_range(claim)
    if not isinstance(measured, Ratio):
        agrees = low <= measured <= high
        return _agreement(
            agrees, f"{figure_text(measured)} lies {'within' if agrees else 'outside'} {_range_text(claim)}"
        )
    rounds = f"the interval over {measured.rounds} round{'' if measured.rounds == 1 else 's'}"
    if measured.rounds < MIN_ROUNDS:
        return _Judgement(ClaimVerdict.NOT_TESTABLE, f"{rounds} covers too little: measure {MIN_ROUNDS} or more")
    if measured.low > high or measured.high < low:
        return _agreement(False, f"{rounds} lies outside {_range_text(claim)}")
    no_effect_too = measured.low <= 1 <= measured.high and not low <= 1 <= high
    if no_effect_too or not low <= measured.estimate <= high:
        return _Judgement(
            ClaimVerdict.NOT_TESTABLE, f"{rounds} reaches {_range_text(claim)} and more besides: measure more rounds"
        )
    return _agreement(True, f"the ratio over {measured.rounds} rounds lies within {_range_text(claim)}")


def _agreement(agrees: bool, reason: str) -> _Judgement:
    return _Judgement(ClaimVerdict.CONFIRMED if agrees else ClaimVerdict.REFUTED, reason)


def _range_text(claim: Claim) -> str:
    low, high = (figure_text(end) for end in allowed_range(claim))
    if claim.bound is Bound.AT_MOST:
        return f"the claim's at most {high}"
    if claim.bound is Bound.AT_LEAST:
        return f"the claim's at least {low}"
    return f"the claim's {low}" if low == high else f"the claim's {low} to {high}"
