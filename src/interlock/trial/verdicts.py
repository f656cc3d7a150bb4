"""What a trial's values and GIL probe say of each variant: switch, same, undecided or do not switch, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.analysis.pick.ranking import ranks
from interlock.analysis.statistics import Interval, Ratio, fit_levels, ratio_of
from interlock.analysis.verdicts import HOPELESS, Comparison, Verdict, compare_rows
from interlock.catalog.variants import Gil
from interlock.measure.processes import GIL_SWITCHED_ON
from interlock.report.tables import ratio_text
from interlock.results.answers import OWN, OWN_TWIN, Candidate, Figure, GilStates, Rank, Trial
from interlock.results.experiments import State, duration_text

# The first of these that was measured decides; other differences are listed next to it.
DECIDING = (Figure.REQUEST_S, Figure.LOAD_S, Figure.TEST_S, Figure.START_S)
FIGURE_WORDS = {
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


class TrialVerdict(StrEnum):
    """The answer of a trial for one variant; the value is shown and is the key in JSON."""

    SWITCH = "switch"
    SAME = "same"
    UNDECIDED = "undecided"
    STAY = "do not switch"
    NOT_TRIED = "not tried"


# Figures are times or bytes: slower is a reason to stay.
VERDICTS = {
    Verdict.SLOWER: TrialVerdict.STAY,
    Verdict.FASTER: TrialVerdict.SWITCH,
    Verdict.SAME: TrialVerdict.SAME,
    Verdict.UNDECIDED: TrialVerdict.UNDECIDED,
}


@dataclass(frozen=True)
class JudgedCandidate:
    """A variant's verdict with the reason and what else differs. Comparisons are with the user's own Dockerfile."""

    candidate: Candidate
    verdict: TrialVerdict
    reason: str
    also: tuple[str, ...]
    comparisons: Mapping[Figure, Comparison]


def deciding(trial: Trial) -> Figure:
    """Return the figure that decides the verdicts."""
    own = trial.of(OWN)
    taken = own.values if own else {}
    return next((figure for figure in DECIDING if taken.get(figure)), Figure.START_S)


def twins(trial: Trial) -> dict[Figure, Ratio]:
    """Return the ratio of the twin to the same image, for each figure that was measured."""
    own, twin = trial.of(OWN), trial.of(OWN_TWIN)
    if own is None or twin is None:
        return {}
    ratios = {figure: ratio_of(twin.values.get(figure, []), values) for figure, values in own.values.items()}
    return {figure: ratio for figure, ratio in ratios.items() if ratio}


def variants(trial: Trial) -> list[Candidate]:
    """Return all candidates but the user's own Dockerfile and its twin."""
    return [one for one in trial.candidates if one.label not in {OWN, OWN_TWIN}]


def comparisons(trial: Trial) -> dict[str, dict[Figure, Comparison]]:
    """Compare every variant with the user's own, by label; p is adjusted for all variants of a figure."""
    own = trial.of(OWN)
    found: dict[str, dict[Figure, Comparison]] = {one.label: {} for one in variants(trial)}
    for figure in own.values if own else {}:
        rows = {one.label: one.values.get(figure, []) for one in trial.candidates}
        pairs = [(label, OWN) for label in found]
        for (label, _), comparison in compare_rows(rows, pairs, OWN, end=trial.rounds_end).items():
            found[label][figure] = comparison
    return found


def judge(trial: Trial) -> list[JudgedCandidate]:
    """Return the verdict on every variant, in the order of the trial."""
    compared, figure = comparisons(trial), deciding(trial)
    return [_judged(trial, one, compared[one.label], figure) for one in variants(trial)]


def _judged(
    trial: Trial, candidate: Candidate, compared: Mapping[Figure, Comparison], figure: Figure
) -> JudgedCandidate:
    decided = compared.get(figure)
    also = tuple(
        f"{FIGURE_WORDS[other]} {ratio_text(one.ratio)}"
        for other, one in compared.items()
        if other is not figure and one.verdict.differs
    )
    verdict, reasons = _verdict(trial, candidate, decided, figure)
    return JudgedCandidate(candidate, verdict, "; ".join(reasons), also, compared)


def _verdict(
    trial: Trial, candidate: Candidate, decided: Comparison | None, figure: Figure
) -> tuple[TrialVerdict, Sequence[str]]:
    outcome, came_back = candidate.outcome, gil_problem(candidate)
    shown = [] if decided is None else [f"{gain(figure, decided)}, {decided.words}{_more_time(trial, decided)}"]
    if outcome.state in NEVER_TRIED:
        return TrialVerdict.NOT_TRIED, [f"{outcome.state.value}: {outcome.reason}"]
    if outcome.state is not State.OK:
        return TrialVerdict.STAY, [f"{outcome.state.value}: {outcome.reason}", *([came_back] if came_back else [])]
    if came_back:
        return TrialVerdict.STAY, [came_back, *shown]
    if decided is None:
        return TrialVerdict.UNDECIDED, ["it runs, but the two have no figure in common"]
    return VERDICTS[decided.verdict], shown


def _more_time(trial: Trial, comparison: Comparison) -> str:
    """Return about how long the rounds that would decide take, as ', some 4 min'; empty if that is not known."""
    own = trial.of(OWN)
    rounds = max((len(values) for values in own.values.values()), default=0) if own else 0
    more = comparison.more_rounds
    if more is None or more > HOPELESS or not rounds or not trial.measuring_s:
        return ""
    return f", some {duration_text(more * trial.measuring_s / rounds)}"


def gain(figure: Figure, comparison: Comparison) -> str:
    """Return the deciding ratio in words: of requests per second, or of a time."""
    ratio: Interval = comparison.ratio
    if figure is Figure.REQUEST_S:
        ratio = inverse(ratio)
    return f"{ratio_text(ratio)} {FIGURE_WORDS[figure]}"


def not_shown_to_differ(better: Sequence[JudgedCandidate], figure: Figure) -> list[JudgedCandidate]:
    """Return the variants that may be the best of these, compared with each other round by round; the fastest first."""
    rows = {one.candidate.label: one.candidate.values.get(figure, []) for one in better}
    order = sorted(better, key=lambda one: one.comparisons[figure].ratio.estimate)
    found = ranks([one.candidate.label for one in order], fit_levels(rows).ratio)
    return [one for one in order if found[one.candidate.label] is not Rank.WORSE]


def inverse(ratio: Interval) -> Interval:
    """Return the ratio of rates from the ratio of times: 1/x, with the ends of the interval swapped."""
    return Interval(1 / ratio.estimate, 1 / ratio.high, 1 / ratio.low if ratio.low else float("inf"))


def gil_switchers(log: str) -> list[str]:
    """Return the modules that a log names as having switched the GIL on, each once."""
    return list(dict.fromkeys(GIL_SWITCHED_ON.findall(log)))


def gil_states(lines: Iterable[str], logs: Iterable[str]) -> GilStates | None:
    """Return what the GIL probe (a line for each process) and the interpreter's logs say; None if they say nothing."""
    # A process of the service may write there what it likes.
    reports = [words for words in (line.split(None, 3) for line in lines) if len(words) >= 3]
    named = [module for log in logs for module in gil_switchers(log)]
    off = [words for words in reports if words[1] == "0"]
    back = [words for words in off if words[2] == "1"]
    seen = [words[3].strip() for words in back if len(words) > 3]
    if not reports and not named:
        return None
    return GilStates(
        processes=len(reports),
        off_at_start=len(off),
        came_back=len(back),
        modules=list(dict.fromkeys(named or seen)),
    )


def joined_gil_states(before: GilStates | None, after: GilStates | None) -> GilStates | None:
    """Return the sum of two reports: of the service and of the tests, say."""
    if before is None or after is None:
        return before or after
    return GilStates(
        processes=before.processes + after.processes,
        off_at_start=before.off_at_start + after.off_at_start,
        came_back=before.came_back + after.came_back,
        modules=list(dict.fromkeys(before.modules + after.modules)),
    )


def gil_problem(candidate: Candidate) -> str:
    """Return why a variant that is declared to run without the GIL does not; empty if it does or nothing is known."""
    gil = candidate.gil
    if gil is None or candidate.declared_gil is not Gil.OFF:
        return ""
    if gil.came_back or gil.modules:
        who = f"module {' and '.join(repr(one) for one in gil.modules)}" if gil.modules else "a module without a name"
        return f"the GIL came back: {who} switched it on"
    if gil.processes and not gil.off_at_start:
        return (
            "the GIL was on from the start: the Dockerfile sets PYTHON_GIL or -X gil, "
            "or another interpreter than the image's runs the service"
        )
    return ""


def gil_label(candidate: Candidate) -> str:
    """Return the state of the GIL after the imports, in a word or two for a table."""
    gil = candidate.gil
    if gil is None:
        return "-"
    if gil.came_back or gil.modules:
        return "came back"
    if gil.off_at_start == gil.processes:
        return "off"
    return "on" if not gil.off_at_start else f"off in {gil.off_at_start} of {gil.processes}"
