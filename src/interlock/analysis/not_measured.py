"""What an experiment has no figures of, by the reason: it stands beside what is undecided. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from interlock.catalog.types import TWIN
from interlock.results.experiments import CellResult, Experiment, Outcome, State

# So many names, so many reasons and so much of a reason are in one line; the whole report has all.
MOST_NAMES, MOST_REASONS, MOST_LETTERS = 4, 3, 90
# What was not reached is no lack: --resume goes on with it, and the end of a report says so.
NOT_LACKING = {State.OK, State.NOT_MEASURED}


def by_reason(
    experiment: Experiment, variants: Collection[str] | None = None, workloads: Collection[str] | None = None
) -> dict[str, list[str]]:
    """Return variants without an image, and then workloads and benchmarks without figures, by the reason.

    Of other variants and workloads than these, if some are named, nothing is said.
    """
    found: dict[str, list[str]] = {}
    missing = {one.variant: one.outcome for one in experiment.images if one.outcome.state not in NOT_LACKING}
    for name, outcome in missing.items():
        if variants is None or name in variants:
            found.setdefault(_words(outcome), []).append(name)
    cells = [
        cell
        for cell in experiment.cells
        if cell.mode != TWIN
        and cell.variant not in missing
        and (variants is None or cell.variant in variants)
        and (workloads is None or cell.workload in workloads)
    ]
    for (reason, labels), names in _without_figures(cells).items():
        everywhere = len(labels) == len({cell.label for cell in cells})
        where = "" if everywhere else f" on {_listed(labels)}"
        found.setdefault(reason, []).append(f"{_listed(names)}{where}")
    return found


def _without_figures(cells: Sequence[CellResult]) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Return workloads and benchmarks, by the reason and by the rows that have no figures of them."""
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        outcomes = cell.benchmarks or {"": cell.outcome}
        is_whole = set(outcomes.values()) == {cell.outcome}
        for benchmark, outcome in ({"": cell.outcome} if is_whole else outcomes).items():
            if outcome.state not in NOT_LACKING:
                name = f"{cell.workload}/{benchmark}" if benchmark else cell.workload
                rows.setdefault((_words(outcome), name), []).append(cell.label)
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, name), labels in rows.items():
        found.setdefault((reason, tuple(labels)), []).append(name)
    return found


def in_one_line(found: Mapping[str, list[str]]) -> str:
    """Return what was not measured, and why, in one line; empty if all was."""
    said = [f"{_listed(names)} ({_cut(reason)})" for reason, names in [*found.items()][:MOST_REASONS]]
    more = len(found) - MOST_REASONS
    said += [f"{more} more reason{'s' * (more > 1)}"] if more > 0 else []
    return f"not measured: {'; '.join(said)}" if said else ""


def _words(outcome: Outcome) -> str:
    return " ".join(outcome.reason.split()).rstrip(".") or outcome.state.value


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return f"{', '.join(names[:MOST_NAMES])}{f' and {more} more' if more > 0 else ''}"


def _cut(reason: str) -> str:
    return reason if len(reason) <= MOST_LETTERS else f"{reason[:MOST_LETTERS]} ..."
