"""Trials for tests: the least that the models accept, with what a test is about as arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interlock.analysis.comparison import Table, tables
from interlock.catalog.types import split_label
from interlock.catalog.workloads import Address
from interlock.results.experiments import BenchmarkValues, Estimator, Experiment, Outcome
from interlock.results.trials import OWN, OWN_TWIN, Trial
from interlock.trial.workloads import Checks, workload_of
from tests.builders import OK, make_built, make_cell, make_experiment, make_settings

LOAD = ["wrk", "--latency", "{url}/"]
CHECKS = Checks(address=Address(port=8000), load=LOAD)
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
    **changes: Any,
) -> tuple[Experiment, Table]:
    """A trial and its table: seconds per request of each row by round; the user's own and its twin take 1 ms."""
    rows = {OWN: around(0.001), OWN_TWIN: around(0.001, NOISE[::-1]), **seconds}
    ended, workload = outcomes or {}, workload_of(Path("service"), checks)
    (benchmark,) = workload.benchmarks
    labels = [*(label for label in rows if label != OWN_TWIN), *(one for one in ended if one not in rows)]
    data: dict[str, Any] = {
        "command": "interlock trial service --load 'wrk {url}/'",
        "settings": make_settings(labels).model_copy(
            update={"workloads": [workload.name], "rounds": 8, "quick": False, "profile": "release"}
        ),
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
    values = {(label, workload.name): {benchmark.name: values_of(some)} for label, some in rows.items()}
    (table,) = tables(experiment, values, {})
    return experiment, table


def values_of(seconds: Sequence[float]) -> BenchmarkValues:
    """What a file holds of a service's runs, one for each round."""
    return BenchmarkValues(
        processes=[[one] for one in seconds],
        blocks=list(range(1, len(seconds) + 1)),
        estimator=Estimator.MEAN,
        max_rss_bytes=50_000_000,
    )
