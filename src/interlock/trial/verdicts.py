"""What a trial's values say of each variant: switch, no difference, or do not switch, with the evidence. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.compare import FASTER, SAME, SLOWER, Comparison, band_of
from interlock.model import OWN, OWN_TWIN, Candidate, Figure, State, Trial
from interlock.sections import interval
from interlock.statistics import Interval, Ratio, by_round, holm, ratio_of, ratio_over
from interlock.trial.gil import trouble

# Of these the first one that was taken decides; what else differs is said beside it.
DECIDING = (Figure.REQUEST_S, Figure.LOAD_S, Figure.TEST_S, Figure.START_S)
SAID = {
    Figure.REQUEST_S: "the requests per second",
    Figure.LOAD_S: "the load's time",
    Figure.TEST_S: "the tests' time",
    Figure.START_S: "the time until it is healthy",
    Figure.P50_S: "median latency",
    Figure.P99_S: "99th percentile of latency",
    Figure.CPU_S: "CPU time under the load",
    Figure.MEMORY_BYTES: "memory",
}
NEVER_TRIED = {State.UNAVAILABLE, State.UNSUPPORTED}


class Verdict(StrEnum):
    """What a user is told of a variant."""

    SWITCH = "switch"
    SAME = "no difference"
    STAY = "do not switch"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Judged:
    """A variant's verdict: why, and what else differs. Comparisons are to the user's own Dockerfile."""

    candidate: Candidate
    verdict: Verdict
    reason: str
    besides: tuple[str, ...]
    comparisons: Mapping[Figure, Comparison]


def deciding(trial: Trial) -> Figure:
    """The figure that verdicts go by."""
    own = trial.of(OWN)
    taken = own.values if own else {}
    return next((figure for figure in DECIDING if taken.get(figure)), Figure.START_S)


def twins(trial: Trial) -> dict[Figure, Ratio]:
    """What equal images showed, of each figure that was taken."""
    own, twin = trial.of(OWN), trial.of(OWN_TWIN)
    if own is None or twin is None:
        return {}
    ratios = {figure: ratio_of(twin.values.get(figure, []), values) for figure, values in own.values.items()}
    return {figure: ratio for figure, ratio in ratios.items() if ratio}


def variants(trial: Trial) -> list[Candidate]:
    """All but the user's own Dockerfile and its twin."""
    return [one for one in trial.candidates if one.label not in {OWN, OWN_TWIN}]


def comparisons(trial: Trial) -> dict[str, dict[Figure, Comparison]]:
    """Every variant beside the user's own, by label; p is adjusted for all variants of a figure."""
    own = trial.of(OWN)
    found: dict[str, dict[Figure, Comparison]] = {one.label: {} for one in variants(trial)}
    bands = twins(trial)
    for figure, theirs in (own.values if own else {}).items():
        rounds = {one.label: by_round(one.values.get(figure, []), theirs) for one in variants(trial)}
        ratios = {label: ratio_over(ratios) for label, ratios in rounds.items() if ratios}
        adjusted = holm({label: ratio.p for label, ratio in ratios.items()})
        for label, ratio in ratios.items():
            band = band_of(bands.get(figure))
            found[label][figure] = Comparison(OWN, tuple(rounds[label]), ratio, adjusted[label], band)
    return found


def judge(trial: Trial) -> list[Judged]:
    """Every variant in the order of the trial."""
    compared, figure = comparisons(trial), deciding(trial)
    return [_judged(one, compared[one.label], figure) for one in variants(trial)]


def _judged(candidate: Candidate, compared: Mapping[Figure, Comparison], figure: Figure) -> Judged:
    decided = compared.get(figure)
    besides = tuple(
        f"{SAID[other]} {interval(one.ratio)}"
        for other, one in compared.items()
        if other is not figure and one.verdict != SAME
    )
    verdict, reasons = _verdict(candidate, decided, figure)
    return Judged(candidate, verdict, "; ".join(reasons), besides, compared)


def _verdict(candidate: Candidate, decided: Comparison | None, figure: Figure) -> tuple[Verdict, Sequence[str]]:
    outcome, came_back = candidate.outcome, trouble(candidate)
    shown = [] if decided is None else [gain(figure, decided)]
    if outcome.state in NEVER_TRIED:
        return Verdict.NOT_TRIED, [f"{outcome.state.value}: {outcome.reason}"]
    if outcome.state is not State.OK:
        return Verdict.STAY, [f"{outcome.state.value}: {outcome.reason}", *([came_back] if came_back else [])]
    if came_back:
        return Verdict.STAY, [came_back, *shown]
    if decided is None:
        return Verdict.SAME, ["it runs, and no figure was taken that both have"]
    verdicts = {SLOWER: Verdict.STAY, FASTER: Verdict.SWITCH, SAME: Verdict.SAME}
    return verdicts[decided.verdict], shown


def gain(figure: Figure, comparison: Comparison) -> str:
    """The deciding ratio as people say it: of requests the number in a second, of all else the time."""
    ratio: Interval = comparison.ratio
    if figure is Figure.REQUEST_S:
        ratio = inverse(ratio)
    return f"{interval(ratio)} {SAID[figure]}"


def tie(one: Judged, other: Judged, figure: Figure) -> bool:
    """Whether no difference between two variants is shown, compared with each other round by round."""
    rounds = by_round(one.candidate.values.get(figure, []), other.candidate.values.get(figure, []))
    if not rounds:
        return False
    ratio = ratio_over(rounds)
    band = one.comparisons[figure].band
    return Comparison(other.candidate.label, tuple(rounds), ratio, ratio.p, band).verdict == SAME


def inverse(ratio: Interval) -> Interval:
    """The ratio of what is done in a time, from that of the time for each."""
    return Interval(1 / ratio.estimate, 1 / ratio.high, 1 / ratio.low if ratio.low else float("inf"))
