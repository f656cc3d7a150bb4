"""The report of one experiment as JSON: the pick, each row with its verdict, and the warnings. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.analysis.comparison import Row, Table
from interlock.analysis.trials import judge
from interlock.analysis.verdicts import Comparison
from interlock.report.opening import Opening
from interlock.results.experiments import Experiment
from interlock.results.json_documents import (
    DecidedRatio,
    FigureChange,
    JudgedVariant,
    Reported,
    ReportedRow,
    TrialAnswer,
)


def as_json(experiment: Experiment, tables: Sequence[Table], opening: Opening) -> str:
    """Return the report as JSON; an infinite end of an interval is null."""
    return Reported(
        experiment=experiment.name,
        started=experiment.started,
        host=dict(experiment.host),
        baseline=experiment.settings.baseline,
        pick=opening.pick,
        trial=_trial(experiment, tables, opening),
        rows=[_row(table, row) for table in tables for row in (*table.rows, *table.limits)],
        warnings=experiment.warnings,
    ).model_dump_json(indent=1)


def _trial(experiment: Experiment, tables: Sequence[Table], opening: Opening) -> TrialAnswer | None:
    if experiment.trial is None:
        return None
    verdicts = [
        JudgedVariant(
            label=row.label,
            cpus=table.cores,
            verdict=row.verdict.value,
            problem=row.problem,
            changes=[
                FigureChange(
                    figure=change.figure,
                    share=change.share,
                    cost=change.cost.estimate,
                    low=change.cost.low,
                    high=change.cost.high,
                    verdict=change.verdict,
                )
                for change in row.changes
            ],
        )
        for table in tables
        for row in judge(experiment, table)
    ]
    return TrialAnswer(conclusion=opening.answer, next=list(opening.next), verdicts=verdicts, known=experiment.trial)


def _row(table: Table, row: Row) -> ReportedRow:
    return ReportedRow(
        workload=table.workload.name,
        benchmark=table.benchmark.name,
        label=row.label,
        state=row.outcome.state,
        reason=row.outcome.reason,
        seconds_per_unit=row.seconds,
        error=row.error,
        to_baseline=row.to_baseline and _decided(row.to_baseline),
    )


def _decided(comparison: Comparison) -> DecidedRatio:
    return DecidedRatio(
        **vars(comparison.ratio),
        p_adjusted=comparison.p,
        p_same=comparison.p_same,
        verdict=comparison.verdict,
        margin=comparison.margin,
        more_rounds=comparison.more_rounds,
    )
