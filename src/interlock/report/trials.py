"""What the report of a trial has besides its tables: verdicts, what each image is, and what to do. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from interlock.analysis.comparison import Table
from interlock.analysis.pick.sentences import cpus_text
from interlock.analysis.trials import JudgedRow, TrialVerdict, best_of, gil_text, judge
from interlock.report.tables import Section, detail_text, ratio_text, value_text
from interlock.results.experiments import Experiment, State
from interlock.results.trials import OWN, Trial


def headline(trial: Trial) -> list[str]:
    """Return the lines that say what was tried, and with what."""
    asked = [f"{what} {text!r}" for what, text in (("load", trial.load), ("tests", trial.test)) if text]
    limits = [f"service on CPU {trial.service_cpus or 'any'}", *([f"memory {trial.memory}"] if trial.memory else [])]
    return [
        f"trial    {trial.dockerfile} in {trial.context}, {', '.join(asked) or 'start only'}",
        f"images   built by {trial.builder}; {', '.join(limits)}",
    ]


def answer(experiment: Experiment, trial: Trial, table: Table) -> str:
    """Return one sentence that says what to do, and for how many CPUs."""
    return f"For {cpus_text(trial.cpus(experiment.host['cores']))}: {_advice(experiment, trial, table)}"


def _advice(experiment: Experiment, trial: Trial, table: Table) -> str:
    own = next((row for row in table.rows if row.label == OWN), None)
    if own is not None and own.outcome.state is State.FAILED:
        return f"no answer: your own Dockerfile, unchanged, failed after it had worked: {own.outcome.reason}"
    judged = judge(trial, table)
    still_open = [one.label for one in judged if one.verdict is TrialVerdict.UNDECIDED]
    best, *also = best_of(judged, table) or [""]
    if not best and still_open:
        ended = f" when {experiment.ended_by} came" if experiment.ended_by else ""
        return f"keep your image, or measure longer: undecided{ended}: {', '.join(still_open)}."
    if not best:
        return "do not switch: no variant is better."
    with_ = f" (not shown to differ from the best: {', '.join(also)})" if also else ""
    return f"switch to {best}{with_}: {_swap(trial, best)}"


def _swap(trial: Trial, label: str) -> str:
    """Return the command that changes the user's Dockerfile to what was tried."""
    words = ["interlock", "swap", trial.dockerfile, "--to", label, "--paths"]
    words += ["--stage", trial.stage] if trial.stage else []
    return shlex.join(words)


def sections(trial: Trial, table: Table) -> tuple[Section, ...]:
    """Return the verdicts, the figures in short, how the built Dockerfiles differ, and what to know of them."""
    rows = tuple((one.label, why(one), one.verdict.value) for one in judge(trial, table))
    verdicts = Section("verdicts", ("variant", f"time, {OWN} is 1 [95 %], and why", "verdict"), rows)
    return tuple(one for one in (verdicts, _figures(trial, table), _changes(trial), _remarks(trial)) if one.rows)


def why(one: JudgedRow) -> str:
    """Return the reason of a verdict: what failed, and the ratio to the user's own with its verdict."""
    shown = f"{ratio_text(one.comparison.ratio)} {one.comparison.words}" if one.comparison else ""
    return "; ".join(part for part in (one.problem, shown) if part) or "it has no figure"


def _figures(trial: Trial, table: Table) -> Section:
    """Return the figures of each row: the one that decides, the further ones, and the state of the GIL."""
    details = [one.label for one in table.workload.details_of(table.benchmark)]
    rows = tuple(
        (row.label, value_text(table, row), *map(detail_text, row.details), gil_text(trial.tried.get(row.label)))
        for row in table.rows
    )
    rounds = f"{table.rounds} round{'' if table.rounds == 1 else 's'}"
    twin = f", the same image again {ratio_text(table.twin)}" if table.twin else ""
    return Section(f"figures ({rounds}{twin})", ("variant", table.benchmark.metric.label, *details, "GIL"), rows)


def _changes(trial: Trial) -> Section:
    """Return each line that differs, beside the variants that it is of."""
    lines = {label: [line for line in one.changes if not line.startswith("@@")] for label, one in trial.tried.items()}
    return Section("changes to your Dockerfile", ("line", "variants"), _by_text(lines))


def _remarks(trial: Trial) -> Section:
    """Return what is not drop-in, and where images are kept, beside the variants that it is of."""
    said = {
        label: [*one.warnings, *([f"kept as {one.kept_as}"] if one.kept_as else [])]
        for label, one in trial.tried.items()
    }
    return Section("remarks", ("remark", "variants"), _by_text(said))


def _by_text(said: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
    found: dict[str, list[str]] = {}
    for label, texts in said.items():
        for text in texts:
            found.setdefault(text, []).append(label)
    return tuple((text, ", ".join(labels)) for text, labels in found.items())
