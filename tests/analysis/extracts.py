"""Experiments for tests: what each measured of a few variants, as ratios to the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyperf

from interlock.analysis import comparison
from interlock.analysis.cohorts import Extract, extract
from interlock.catalog.types import label_of
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, Experiment
from tests.builders import make_built, make_cell, make_experiment, make_values

BASE, OTHER, THIRD = "cpython-3.13", "cpython-3.14t", "cpython-2.7"


def make_record(ratios: Mapping[str, float], number: int = 0, **changes: Any) -> Experiment:
    """An experiment over the baseline, its twin, and the variants that have a ratio; `number` tells it from others."""
    variants = [BASE, *ratios]
    host = {**make_experiment().host, "name": changes.pop("host", "box"), **changes.pop("facts_of_host", {})}
    images = changes.pop("content_hashes", {})
    data = {
        "name": f"2026-11-{number + 1:02}-a",
        "started": f"2026-11-{number + 1:02}T06:00:00+00:00",
        "host": host,
        "images": [
            make_built(name).model_copy(update={"content_hash": images.get(name, f"{name} as ever")})
            for name in variants
        ],
        "cells": [*(make_cell(name) for name in variants), make_cell(BASE, mode="twin")],
    }
    return make_experiment(variants, **(data | changes))


def rounds_of(ratio: float, noise: float = 0.004, rounds: int = 8, seconds: float = 1e-7) -> list[list[float]]:
    """Processes around a ratio, to both sides of it in turn."""
    return [[seconds * ratio * math.exp(noise * (-1) ** number)] for number in range(rounds)]


def make_extract(
    ratios: Mapping[str, float],
    number: int = 0,
    *,
    twin: float = 1.0,
    noise: float = 0.004,
    rounds: int = 8,
    **changes: Any,
) -> Extract:
    """What is kept of such an experiment."""
    experiment = make_record(ratios, number, **changes)
    by_label = {BASE: rounds_of(1, 0, rounds), label_of(BASE, "twin"): rounds_of(twin, noise, rounds)}
    by_label |= {name: rounds_of(ratio, noise, rounds) for name, ratio in ratios.items()}
    values = {(label, "locks"): {"uncontended": make_values(*processes)} for label, processes in by_label.items()}
    return extract(experiment, comparison.tables(experiment, values, {}))


def write_experiment(folder: Path, ratios: Mapping[str, float], number: int = 0, **changes: Any) -> Path:
    """The files of such an experiment."""
    experiment = make_record(ratios, number, **changes)
    store.write_json(folder / EXPERIMENT_FILE, experiment)
    for label, ratio in {BASE: 1.0, label_of(BASE, "twin"): 1.0, **ratios}.items():
        path = folder / experiment.host["folder"] / label / "locks.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {
            "name": "locks uncontended",
            "loops": 1,
            "inner_loops": 10,
            "mem_max_rss": 9_000_000,
            "interlock_process_user_s": 0.5,
            "interlock_process_sys_s": 0.25,
            "interlock_estimator": "median",
        }
        processes = rounds_of(ratio, 0 if label == BASE else 0.004)
        runs = [
            pyperf.Run(values, metadata={**metadata, "interlock_block": block}, collect_metadata=False)
            for block, values in enumerate(processes)
        ]
        pyperf.BenchmarkSuite([pyperf.Benchmark(runs)]).dump(str(path))
    return folder
