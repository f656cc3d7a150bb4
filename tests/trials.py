"""Trials for tests: the least that the models accept, with what a test is about as arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interlock.analysis.comparison import Table, tables
from interlock.catalog.services import Probed, ServiceAddress
from interlock.catalog.types import TWIN, label_of, split_label
from interlock.engine.protocol import CpuUsed
from interlock.measure.kinds.users_service import HEALTHY_AFTER, MEMORY, Loaded, service_run
from interlock.measure.pyperf_runs import in_block
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, BenchmarkValues, Estimator, Experiment, Outcome
from interlock.results.trials import OWN, Trial
from interlock.trial.workloads import UNKNOWN, Checks, workload_of
from tests.builders import OK, make_built, make_cell, make_experiment, make_settings

OWN_TWIN = label_of(OWN, TWIN)
LOAD = ["wrk", "--latency", "{url}/"]
CHECKS = Checks(address=ServiceAddress(port=8000), load=LOAD)
# Of eight rounds, no two alike, so that there is noise.
NOISE = (1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995, 1.0)


def around(value: float, noise: Sequence[float] = NOISE) -> list[float]:
    return [value * one for one in noise]


def make_trial(**changes: Any) -> Trial:
    data: dict[str, Any] = {
        "context": "service",
        "dockerfile": "service/Dockerfile",
        "builder": "the engine's classic builder",
        "load": "wrk {url}/",
        "service_cpus": "1",
    }
    return Trial.model_validate(data | changes)


def make_tried(
    seconds: Mapping[str, Sequence[float]],
    outcomes: Mapping[str, Outcome] | None = None,
    checks: Checks = CHECKS,
    reported: Mapping[str, Mapping[str, float | Sequence[float]]] | None = None,
    probed: Probed = UNKNOWN,
    **changes: Any,
) -> tuple[Experiment, Table]:
    """A trial and its table: seconds per request of each row by round; the user's own and its twin take 1 ms.

    `reported` are further figures of rows, by label and key: one that is around each round's, or that of each.
    """
    rows = {OWN: around(0.001), OWN_TWIN: around(0.001, NOISE[::-1]), **seconds}
    ended, workload = outcomes or {}, workload_of(Path("service"), checks, probed=probed)
    (benchmark,) = workload.benchmarks
    labels = [*(label for label in rows if label != OWN_TWIN), *(one for one in ended if one not in rows)]
    data: dict[str, Any] = {
        "command": "interlock trial service --load 'wrk {url}/'",
        "settings": make_settings(labels, workloads=[workload.name], rounds=8, quick=False),
        "workloads": {workload.name: workload},
        "images": [make_built(name) for name in dict.fromkeys(split_label(label)[0] for label in labels)],
        "facts": {},
        "cells": [
            make_cell(name, workload.name, ended.get(label, OK), mode=mode)
            for label in [*labels, OWN_TWIN]
            for name, mode in [split_label(label)]
        ],
        "trial": make_trial(tried={label: {} for label in labels}),
    }
    experiment = make_experiment(**(data | changes))
    values = {
        (label, workload.name): {benchmark.name: values_of(some, (reported or {}).get(label, {}))}
        for label, some in rows.items()
    }
    (table,) = tables(experiment, values, {})
    return experiment, table


def values_of(seconds: Sequence[float], reported: Mapping[str, float | Sequence[float]]) -> BenchmarkValues:
    """What a file holds of a service's runs, one for each round; what they report has the noise of their times."""
    return BenchmarkValues(
        processes=[[one] for one in seconds],
        blocks=list(range(1, len(seconds) + 1)),
        estimator=Estimator.MEAN,
        units=[1] * len(seconds),
        reported={
            key: around(value, NOISE[: len(seconds)]) if isinstance(value, float) else list(value)
            for key, value in reported.items()
        },
        max_rss_bytes=50_000_000,
    )


def write_tried(folder: Path, experiment: Experiment, seconds: Mapping[str, float]) -> None:
    """Write a trial into its folder as it is measured: the median of each row, by label."""
    (workload,) = experiment.workloads.values()
    (benchmark,) = workload.benchmarks
    for cell in experiment.cells:
        if cell.label in seconds:
            runs = [
                in_block(service_run(workload, benchmark, *ran(seconds[cell.label] * noise)), number, Estimator.MEAN)
                for number, noise in enumerate(NOISE, 1)
            ]
            path = store.cell_path(folder, experiment.host["folder"], cell.variant, cell.mode, workload.name)
            store.write_runs(path, {benchmark.name: runs})
    store.write_json(folder / EXPERIMENT_FILE, experiment.model_copy(update={"name": folder.name}))


def ran(unit_s: float) -> tuple[list[Loaded], CpuUsed, dict[str, float]]:
    latencies = {"latency_p50_s": 0.01, "latency_p99_s": 0.05}
    return (
        [Loaded(unit_s, round(1 / unit_s), 1.0, latencies, 0.9, 0.3)],
        CpuUsed(0.7, 0.1),
        {MEMORY: 5e7, HEALTHY_AFTER: 0.6},
    )
