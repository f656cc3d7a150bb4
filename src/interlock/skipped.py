"""What of an experiment has no figure, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.model import CellResult, Experiment, Outcome, State


def skipped(experiment: Experiment) -> list[str]:
    """A line for each thing that has no figure, and why; benchmarks with the same reason share one."""
    missing = [image for image in experiment.images if image.outcome.state is not State.OK]
    lines = [f"{image.variant}: {image.outcome.state.value}: {image.outcome.reason}" for image in missing]
    without_image = {image.variant for image in missing}
    originals = {(cell.variant, cell.workload): cell.outcome for cell in experiment.cells if cell.mode is None}
    for cell in [*experiment.cells, *experiment.limits]:
        # What the twin or a mode shares with its variant is said once; a twin that failed alone leaves no noise.
        repeated = cell.mode is not None and cell.outcome == originals.get((cell.variant, cell.workload))
        if cell.variant not in without_image and not repeated:
            lines += _skipped_in(cell)
    return lines


def _skipped_in(cell: CellResult) -> list[str]:
    by_outcome: dict[Outcome, list[str]] = {}
    for name, outcome in (cell.benchmarks or {"all": cell.outcome}).items():
        if outcome.state is not State.OK:
            by_outcome.setdefault(outcome, []).append(name)
    where = f"{cell.label} / {cell.workload}"
    lines = [
        f"{where} / {', '.join(names)}: {outcome.state.value}: {outcome.reason}"
        for outcome, names in by_outcome.items()
    ]
    if cell.profile and cell.profile.state is not State.OK:
        lines.append(f"{where}: no profile: {cell.profile.reason}")
    return lines


def failures(cells: Sequence[CellResult]) -> list[CellResult]:
    """Cells that failed: what is unsupported, unavailable or timed out is a result, a failure is not."""
    return [cell for cell in cells if cell.outcome.state is State.FAILED]
