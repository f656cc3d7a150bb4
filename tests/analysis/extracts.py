"""Experiments for tests: what each measured of a few variants, as ratios to the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.analysis import comparison
from interlock.analysis.cohorts import Extract, extract
from interlock.catalog.types import label_of
from interlock.results.experiments import Experiment
from tests.builders import make_built, make_cell, make_experiment
from tests.picks import Figures, values_of, write_figures

BASE, OTHER, THIRD = "cpython-3.13", "cpython-3.14t", "cpython-2.7"


def make_record(ratios: Mapping[str, float], number: int = 0, **changes: Any) -> Experiment:
    """An experiment over the baseline, its twin, and the variants that have a ratio; `number` tells it from others.

    `packages` are installed versions by name, by variant.
    """
    variants = [BASE, *ratios]
    packages = {name: {"uncontended": of} for name, of in changes.pop("packages", {}).items()}
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
        "cells": [
            make_cell(name, mode=mode, packages=packages.get(name, {}))
            for name, mode in [*((name, None) for name in variants), (BASE, "twin")]
        ],
    }
    return make_experiment(variants, **(data | changes))


def rounds_of(ratio: float, noise: float = 0.004, rounds: int = 8) -> list[float]:
    """Milliseconds around a ratio, to both sides of it in turn."""
    return [0.001 * ratio * math.exp(noise * (-1) ** number) for number in range(rounds)]


def figures_of(ratios: Mapping[str, float], twin: float = 1.0, noise: float = 0.004, rounds: int = 8) -> Figures:
    rows = {BASE: rounds_of(1, 0, rounds), label_of(BASE, "twin"): rounds_of(twin, noise, rounds)}
    rows |= {name: rounds_of(ratio, noise, rounds) for name, ratio in ratios.items()}
    return {label: {"locks/uncontended": row} for label, row in rows.items()}


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
    values = values_of(figures_of(ratios, twin, noise, rounds))
    return extract(experiment, comparison.tables(experiment, values, {}))


def write_experiment(folder: Path, ratios: Mapping[str, float], number: int = 0, **changes: Any) -> Path:
    """The files of such an experiment."""
    return write_figures(folder, make_record(ratios, number, **changes), figures_of(ratios))
