"""What an experiment has no figures of, by the reason: it stands beside what is undecided. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from interlock.catalog.types import TWIN
from interlock.results.experiments import CellResult, Experiment, Outcome, State

# One line has up to so many names and reasons, and so many characters of a reason; the report has all.
MOST_NAMES, MOST_REASONS, MOST_LETTERS = 4, 3, 90
# What was not reached is no lack: --resume goes on with it, and the end of a report says so.
NOT_LACKING = {State.OK, State.NOT_MEASURED}


def by_reason(
    experiment: Experiment, variants: Collection[str] | None = None, workloads: Collection[str] | None = None
) -> dict[str, list[str]]:
    """Return variants without an image, and then workloads and benchmarks without figures, by the reason.

    If variants or workloads are named, others are left out.
    """
    without_image = {
        image.variant: image.outcome for image in experiment.images if image.outcome.state not in NOT_LACKING
    }
    reasons: dict[str, list[str]] = {}
    for name, outcome in without_image.items():
        if variants is None or name in variants:
            reasons.setdefault(_reason(outcome), []).append(name)
    cells = [
        cell
        for cell in experiment.cells
        if cell.mode != TWIN
        and cell.variant not in without_image
        and (variants is None or cell.variant in variants)
        and (workloads is None or cell.workload in workloads)
    ]
    for (reason, labels), names in _without_figures(cells, _reason, NOT_LACKING).items():
        everywhere = len(labels) == len({cell.label for cell in cells})
        where = "" if everywhere else f" on {_listed(labels)}"
        reasons.setdefault(reason, []).append(f"{_listed(names)}{where}")
    return reasons


def every_reason(experiment: Experiment) -> dict[str, list[str]]:
    """Return all that has no figure or no profile, twins and limits too, by its state and the whole reason."""
    without_image = {image.variant: image.outcome for image in experiment.images if image.outcome.state is not State.OK}
    reasons: dict[str, list[str]] = {}
    for name, outcome in without_image.items():
        reasons.setdefault(_state_and_reason(outcome), []).append(name)
    cells = [cell for cell in (*experiment.cells, *experiment.limits) if cell.variant not in without_image]
    for (reason, labels), names in _without_figures(cells, _state_and_reason, {State.OK}).items():
        reasons.setdefault(reason, []).append(f"{', '.join(names)} on {', '.join(labels)}")
    for cell in cells:
        if cell.profile and cell.profile.state is not State.OK:
            reasons.setdefault(f"no profile: {cell.profile.reason}", []).append(f"{cell.workload} on {cell.label}")
    return reasons


def _without_figures(
    cells: Sequence[CellResult], words: Callable[[Outcome], str], not_lacking: Collection[State]
) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Return workloads and benchmarks, by the reason in words and by the rows that have no figures of them."""
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        outcomes = cell.benchmarks or {"": cell.outcome}
        is_whole = set(outcomes.values()) == {cell.outcome}
        for benchmark, outcome in ({"": cell.outcome} if is_whole else outcomes).items():
            if outcome.state not in not_lacking:
                name = f"{cell.workload}/{benchmark}" if benchmark else cell.workload
                rows.setdefault((words(outcome), name), []).append(cell.label)
    names: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, name), labels in rows.items():
        names.setdefault((reason, tuple(labels)), []).append(name)
    return names


def in_one_line(reasons: Mapping[str, list[str]]) -> str:
    """Return what was not measured, and why, in one line; empty if all was."""
    said = [
        f"{_listed(names)} ({reason[:MOST_LETTERS]}{' ...' if len(reason) > MOST_LETTERS else ''})"
        for reason, names in [*reasons.items()][:MOST_REASONS]
    ]
    more = len(reasons) - MOST_REASONS
    said += [f"{more} more reason{'s' * (more > 1)}"] if more > 0 else []
    return f"not measured: {'; '.join(said)}" if said else ""


def _reason(outcome: Outcome) -> str:
    return " ".join(outcome.reason.split()).rstrip(".") or outcome.state.value


def _state_and_reason(outcome: Outcome) -> str:
    return f"{outcome.state.value}: {' '.join(outcome.reason.split())}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return f"{', '.join(names[:MOST_NAMES])}{f' and {more} more' if more > 0 else ''}"
