"""Published claims beside an experiment's figures: confirmed, refuted, or why neither can be said. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from interlock.model import (
    BenchmarkValues,
    Bound,
    CellKey,
    CellResult,
    Claim,
    ClaimMetric,
    Experiment,
    Outcome,
    Profiles,
    State,
    Values,
    split_label,
)
from interlock.statistics import Ratio, ratio_of

# A kernel that charges CPU time by its clock's tick (250 Hz by default) reads 0 s for what fits between two of them.
# No process takes 0 s, and a ratio needs a figure: such a reading counts as one tick, the most it can mean.
TICK_S = 0.004
# Of fewer an interval covers less than it says: docs/method.md, From values to a statement.
FEWEST_ROUNDS = 5


class Verdict(StrEnum):
    """What an experiment says of a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    NOT_TESTABLE = "not testable here"
    NO_DATA = "no data yet"


@dataclass(frozen=True)
class Finding:
    """A claim, the verdict with its reason in one sentence, and the ratio or count of the experiment."""

    claim: Claim
    verdict: Verdict
    reason: str
    ratio: Ratio | None = None
    count: float | None = None

    @property
    def figure(self) -> str:
        """The ratio with its interval, or the count."""
        if self.ratio is not None:
            return f"{number(self.ratio.estimate)} [{number(self.ratio.low)}, {number(self.ratio.high)}]"
        return "-" if self.count is None else number(self.count)


@dataclass(frozen=True)
class Side:
    """Whose figure it is: one of the two that a claim compares."""

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
class _Said:
    """A verdict and its reason."""

    verdict: Verdict
    reason: str


def evaluate(claims: Sequence[Claim], experiment: Experiment, values: Values, profiles: Profiles) -> list[Finding]:
    """A finding for each claim, in their order.

    Confirmed: the ratio lies in what the published figure allows with its tolerance and bound. Refuted: its 95 %
    interval lies outside. An interval that reaches it while the ratio does not, or that also holds 1, which the
    claim does not allow, decides nothing; nor do fewer than five rounds.
    """
    evidence = _Evidence(experiment, values, profiles)
    return [_finding(claim, evidence) for claim in claims]


def sides(claim: Claim) -> list[Side]:
    """Whose figure the claim is about and, for a ratio, whose it is divided by."""
    mine = Side(claim.variant, claim.workload, claim.benchmark)
    if claim.against is None:
        return [mine]
    return [mine, Side(claim.against, claim.workload, claim.against_benchmark or claim.benchmark)]


def allowed(claim: Claim) -> tuple[float, float]:
    """The lowest and the highest figure that agree with the claim."""
    low, high = claim.published * max(0.0, 1 - claim.tolerance), claim.published * (1 + claim.tolerance)
    return (0.0 if claim.bound is Bound.AT_MOST else low), (math.inf if claim.bound is Bound.AT_LEAST else high)


def number(figure: float) -> str:
    """Three significant digits, but all that a count has."""
    if figure == 0 or math.isinf(figure):
        return f"{figure:g}"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:#.3g}"


def _finding(claim: Claim, evidence: _Evidence) -> Finding:
    used = _with_substitutes(claim, evidence.experiment)
    lacking, measured = _lacking(claim, evidence.experiment), _measured(used, evidence)
    if isinstance(measured, _Said):
        said = lacking or measured
        return Finding(claim, said.verdict, said.reason)
    said = lacking or _judge(claim, measured)
    reason = "; ".join([said.reason, *_instead(claim, used)])
    if isinstance(measured, Ratio):
        return Finding(claim, said.verdict, reason, ratio=measured)
    return Finding(claim, said.verdict, reason, count=measured)


def _with_substitutes(claim: Claim, experiment: Experiment) -> Claim:
    """With the substitute of each variant that has no figure in this experiment, where the substitute has one."""
    replaced = {}
    for key, side in zip(("variant", "against"), sides(claim), strict=False):
        label = claim.substitutes.get(side.label)
        if label and _gap(side, experiment) and not _gap(replace(side, label=label), experiment):
            replaced[key] = label
    return claim.model_copy(update=replaced)


def _instead(claim: Claim, used: Claim) -> list[str]:
    pairs = ((used.variant, claim.variant), (used.against, claim.against))
    return [f"{one} substitutes for {other}" for one, other in pairs if one != other]


def _lacking(claim: Claim, experiment: Experiment) -> _Said | None:
    """What the claim needs and the host lacks, whatever was measured on it."""
    needs, host = claim.needs, experiment.host
    if needs is None:
        return None
    if host["cores"] < needs.min_cores:
        return _Said(Verdict.NOT_TESTABLE, f"{host['cores']} of {needs.min_cores} cores: {needs.reason}")
    if needs.system is not None and needs.system.lower() not in host["system"].lower():
        return _Said(Verdict.NOT_TESTABLE, f"{host['system']} is not {needs.system}: {needs.reason}")
    return None


def _measured(claim: Claim, evidence: _Evidence) -> Ratio | float | _Said:
    for side in sides(claim):
        gap = _gap(side, evidence.experiment)
        if gap is not None:
            return gap
    return (_count if claim.metric.counted else _ratio)(claim, evidence)


def _gap(side: Side, experiment: Experiment) -> _Said | None:
    """Why a benchmark of a cell has no figure, if the experiment's record already says so."""
    workload = experiment.workloads.get(side.workload)
    if workload is None:
        return _Said(Verdict.NO_DATA, f"the experiment has no workload '{side.workload}'")
    if side.benchmark not in [benchmark.name for benchmark in workload.benchmarks]:
        return _Said(Verdict.NO_DATA, f"the workload '{side.workload}' has no benchmark '{side.benchmark}'")
    cell = _cell(side, experiment)
    if cell is not None:
        return _unless_ok(str(side), cell.benchmarks.get(side.benchmark, cell.outcome))
    variant, _ = split_label(side.label)
    for image in experiment.images:
        if image.variant == variant and image.outcome.state is not State.OK:
            return _unless_ok(variant, image.outcome)
    return _Said(Verdict.NO_DATA, f"the experiment has no '{side.label}'")


def _cell(side: Side, experiment: Experiment) -> CellResult | None:
    return next((cell for cell in experiment.cells if (cell.label, cell.workload) == side.key), None)


def _unless_ok(what: str, outcome: Outcome) -> _Said | None:
    if outcome.state is State.OK:
        return None
    return _Said(Verdict.NOT_TESTABLE, f"{what}: {outcome.state.value}: {outcome.reason.rstrip('.')}")


def _ratio(claim: Claim, evidence: _Evidence) -> Ratio | _Said:
    figures = []
    for side in sides(claim):
        values = evidence.values.get(side.key, {}).get(side.benchmark)
        figures.append(_by_process(claim.metric, values) if values else [])
        if not figures[-1]:
            return _Said(Verdict.NO_DATA, f"{side} has no values of '{claim.metric.value}'")
    mine, theirs = figures
    return ratio_of(mine, theirs) or _Said(Verdict.NOT_TESTABLE, "a figure of 0 has no ratio")


def _by_process(metric: ClaimMetric, values: BenchmarkValues) -> list[float]:
    """One figure for each process. CPU time is of the whole process, so it is divided by the work of its values."""
    if metric is ClaimMetric.TIME:
        return values.medians
    cpu = [(user or TICK_S, system or TICK_S) for user, system in zip(values.user_s, values.sys_s, strict=True)]
    if metric is ClaimMetric.SYS_SHARE:
        return [system / (user + system) for user, system in cpu]
    which = 0 if metric is ClaimMetric.USER else 1
    return [one[which] / units for one, units in zip(cpu, values.units, strict=True)]


def _count(claim: Claim, evidence: _Evidence) -> float | _Said:
    """Calls per unit of work times scale, or the ratio of two such counts."""
    counts = []
    for side in sides(claim):
        profile = evidence.profiles.get(side.key, {}).get(side.benchmark)
        if profile is None:
            return _without_profile(side, evidence.experiment)
        names = claim.syscalls or ["futex"]
        if not profile.knows(names):
            return _Said(Verdict.NOT_TESTABLE, f"the probe of {side} counted futex calls alone")
        counts.append(profile.calls_per_unit(names))
    if len(counts) == 1:
        return counts[0] * claim.scale
    mine, theirs = counts
    return mine / theirs if theirs else _Said(Verdict.NOT_TESTABLE, "a ratio to 0 calls is none")


def _without_profile(side: Side, experiment: Experiment) -> _Said:
    cell = _cell(side, experiment)
    failed = _unless_ok(f"the profile of {side}", cell.profile) if cell and cell.profile else None
    return failed or _Said(Verdict.NO_DATA, f"{side} was not profiled")


def _judge(claim: Claim, measured: Ratio | float) -> _Said:
    low, high = allowed(claim)
    if not isinstance(measured, Ratio):
        agrees = low <= measured <= high
        return _said(agrees, f"{number(measured)} lies {'within' if agrees else 'outside'} {_allowed(claim)}")
    rounds = f"the interval over {measured.rounds} round{'' if measured.rounds == 1 else 's'}"
    if measured.rounds < FEWEST_ROUNDS:
        return _Said(Verdict.NOT_TESTABLE, f"{rounds} covers too little: measure {FEWEST_ROUNDS} or more")
    if measured.low > high or measured.high < low:
        return _said(False, f"{rounds} lies outside {_allowed(claim)}")
    no_effect_too = measured.low <= 1 <= measured.high and not low <= 1 <= high
    if no_effect_too or not low <= measured.estimate <= high:
        return _Said(Verdict.NOT_TESTABLE, f"{rounds} reaches {_allowed(claim)} and more besides: measure more rounds")
    return _said(True, f"the ratio over {measured.rounds} rounds lies within {_allowed(claim)}")


def _said(agrees: bool, reason: str) -> _Said:
    return _Said(Verdict.CONFIRMED if agrees else Verdict.REFUTED, reason)


def _allowed(claim: Claim) -> str:
    low, high = (number(end) for end in allowed(claim))
    if claim.bound is Bound.AT_MOST:
        return f"the claim's at most {high}"
    if claim.bound is Bound.AT_LEAST:
        return f"the claim's at least {low}"
    return f"the claim's {low}" if low == high else f"the claim's {low} to {high}"
