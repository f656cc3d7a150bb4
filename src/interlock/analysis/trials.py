"""What a trial says of each variant: switch, same, undecided or do not switch, by the verdict of its table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.analysis.comparison import Row, Table
from interlock.analysis.pick.ranking import ranks
from interlock.analysis.statistics import fit_levels
from interlock.analysis.verdicts import Comparison, Verdict
from interlock.catalog.variants import Gil
from interlock.results.answers import Rank
from interlock.results.experiments import State
from interlock.results.trials import OWN, Trial, TriedImage


class TrialVerdict(StrEnum):
    """The answer of a trial for one variant; the value is shown and is in JSON."""

    SWITCH = "switch"
    SAME = "same"
    UNDECIDED = "undecided"
    STAY = "do not switch"
    NOT_TRIED = "not tried"


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


@dataclass(frozen=True)
class JudgedRow:
    """A variant's verdict, and what speaks for it besides the figures: why it failed, or that the GIL came back."""

    label: str
    verdict: TrialVerdict
    problem: str
    comparison: Comparison | None  # with the user's own


def judge(trial: Trial, table: Table) -> list[JudgedRow]:
    """Return the verdict on every variant, in the order of the trial."""
    return [_judged(row, trial.tried.get(row.label, TriedImage())) for row in table.rows if row.label != OWN]


def _judged(row: Row, known: TriedImage) -> JudgedRow:
    state, came_back = row.outcome.state, gil_problem(known)
    failed = "" if state is State.OK else f"{state.value}: {row.outcome.reason}"
    if state in STATES:
        verdict = STATES[state]
    elif failed or came_back:
        verdict = TrialVerdict.STAY
    else:
        verdict = VERDICTS[row.to_baseline.verdict] if row.to_baseline else TrialVerdict.UNDECIDED
    return JudgedRow(
        row.label, verdict, "; ".join(problem for problem in (failed, came_back) if problem), row.to_baseline
    )


def best_of(judged: Sequence[JudgedRow], table: Table) -> list[str]:
    """Return the variants to switch to that may be the best of them, compared with each other; the fastest first."""
    better = {row.label: row.comparison for row in judged if row.verdict is TrialVerdict.SWITCH and row.comparison}
    rows = {row.label: row.figures for row in table.rows if row.label in better}
    order = sorted(rows, key=lambda label: better[label].ratio.estimate)
    places = ranks(order, fit_levels(rows).ratio) if order else {}
    return [label for label in order if places[label] is not Rank.WORSE]


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
