"""Evidence for picks: an experiment with figures, its catalog, and criteria, each with the least that they need."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from interlock.analysis.pick.criteria import Criteria, parse_weights
from interlock.analysis.pick.evidence import Evidence, RecordedExperiment
from interlock.analysis.pick.figures import recorded_figures
from interlock.catalog.project import Catalog
from interlock.catalog.types import TWIN, split_label
from interlock.catalog.workloads import Workload
from interlock.measure.pyperf_runs import in_block, program_run
from interlock.results import store
from interlock.results.answers import (
    Contender,
    Costs,
    Decision,
    Estimate,
    Pick,
    Rank,
    Recommendation,
    Share,
    Standing,
    VariantAudit,
    Whose,
)
from interlock.results.experiments import (
    EXPERIMENT_FILE,
    BenchmarkValues,
    Estimator,
    Experiment,
    Outcome,
    ProgramOutput,
    State,
    Values,
)
from tests.builders import (
    OK,
    make_benchmark,
    make_built,
    make_cell,
    make_cost,
    make_experiment,
    make_settings,
    make_values,
    make_variant,
    make_workload,
)

TODAY = datetime.date(2026, 11, 21)
# Seconds per unit of work, one for each round, by label and `workload/benchmark`.
Figures = Mapping[str, Mapping[str, Sequence[float]]]
# Six rounds: too few to be trimmed twice, enough to tell 10 % apart.
SIX = (1.0, 1.01, 0.99, 1.02, 0.98, 1.0)


def noisy(factor: float, *, off: float = 0.005) -> list[float]:
    """Six rounds whose ratios to SIX are the factor, give or take a little: without any spread all would be certain."""
    return [factor * figure * (1 + off * (-1) ** number) for number, figure in enumerate(SIX)]


def queue(base: Sequence[float] = SIX, **others: Sequence[float]) -> dict[str, Mapping[str, Sequence[float]]]:
    """Figures of `locks/queue` alone."""
    return {label: {"locks/queue": mine} for label, mine in {"base": base, **others}.items()}


def make_evidence(
    figures: Figures,
    weights: Sequence[str] = ("locks",),
    *,
    rss_bytes: Mapping[str, int] | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    audits: Mapping[str, VariantAudit] | None = None,
    experiment: Mapping[str, Any] | None = None,
    shipped: bool = False,
    **criteria: Any,
) -> Evidence:
    """The first label is the experiment's baseline; `variants` changes the catalog's, `experiment` the experiment."""
    recorded = RecordedExperiment(
        Path("results/own"), experiment_of(figures, **(experiment or {})), Whose.PROJECT if shipped else Whose.HERE
    )
    values = values_of(figures, rss_bytes or {})
    catalog = catalog_of(figures, recorded.experiment.workloads, variants or {})
    wanted = Criteria(weights=parse_weights(weights), **{"cpus": 1, **criteria})
    return Evidence(recorded, recorded_figures(recorded.experiment, values), catalog, wanted, TODAY, audits or {})


def values_of(figures: Figures, rss_bytes: Mapping[str, int] = MappingProxyType({})) -> Values:
    """The raw values of these figures, by label and workload."""
    return {(label, workload): cell for label in figures for workload, cell in _cells(figures[label], label, rss_bytes)}


def write_figures(folder: Path, described: Experiment, figures: Figures) -> Path:
    """The files of an experiment with these figures."""
    store.write_json(folder / EXPERIMENT_FILE, described)
    for cell in described.cells:
        workload, runs = described.workloads[cell.workload], {}
        for benchmark in workload.benchmarks:
            seconds = figures.get(cell.label, {}).get(f"{cell.workload}/{benchmark.name}", ())
            outputs = [ProgramOutput(interlock=1, loops=1, values=[second]) for second in seconds]
            measured = [program_run(workload, benchmark, output, make_cost()) for output in outputs]
            runs[benchmark.name] = [in_block(run, block, Estimator.MEAN) for block, run in enumerate(measured)]
        path = store.cell_path(folder, described.host["folder"], cell.variant, cell.mode, cell.workload)
        store.write_runs(path, runs)
    return folder


def with_memory(evidence: Evidence, sizes: Mapping[tuple[str, str], int]) -> Evidence:
    """The evidence with other sizes of all processes of these benchmarks, in bytes."""
    tables = {
        workload: {
            name: table.model_copy(
                update={"max_rss_bytes": [sizes.get((workload, name), one) for one in table.max_rss_bytes]}
            )
            for name, table in of_workload.items()
        }
        for workload, of_workload in evidence.figures.tables.items()
    }
    return replace(evidence, figures=evidence.figures.model_copy(update={"tables": tables}))


def _cells(
    mine: Mapping[str, Sequence[float]], label: str, rss_bytes: Mapping[str, int]
) -> list[tuple[str, dict[str, BenchmarkValues]]]:
    cells: dict[str, dict[str, BenchmarkValues]] = {}
    for name, seconds in mine.items():
        workload, benchmark = name.split("/")
        values = make_values(*([second] for second in seconds), rss=rss_bytes.get(label, 10_000_000))
        cells.setdefault(workload, {})[benchmark] = values
    return list(cells.items())


def experiment_of(figures: Figures, **changes: Any) -> Experiment:
    """Everything in it is ok; who has no figures for a benchmark failed in it."""
    workloads = workloads_of(figures)
    names = list(dict.fromkeys(split_label(label)[0] for label in figures))
    cells = []
    for label, mine in figures.items():
        variant, mode = split_label(label)
        for workload in workloads.values():
            there = {one.name: f"{workload.name}/{one.name}" in mine for one in workload.benchmarks}
            if any(there.values()):
                outcomes = {name: _outcome(name, there[name]) for name in there}
                worst = next((one for one in outcomes.values() if one.state is not State.OK), OK)
                cells.append(make_cell(variant, workload.name, outcome=worst, mode=mode, benchmarks=outcomes))
    data: dict[str, Any] = {
        "settings": make_settings(names, workloads=list(workloads)),
        "images": [make_built(name) for name in names],
        "workloads": workloads,
        "cells": cells,
        "facts": {},
    }
    return make_experiment(names, **(data | changes))


def _outcome(benchmark: str, there: bool) -> Outcome:
    return OK if there else Outcome(state=State.FAILED, reason=f"'{benchmark}' crashed")


def workloads_of(figures: Figures) -> dict[str, Workload]:
    names = dict.fromkeys(name for mine in figures.values() for name in mine)
    by_workload: dict[str, list[str]] = {}
    for name in names:
        workload, benchmark = name.split("/")
        by_workload.setdefault(workload, []).append(benchmark)
    return {
        workload: make_workload(workload, benchmarks=[make_benchmark(one) for one in benchmarks])
        for workload, benchmarks in by_workload.items()
    }


def catalog_of(
    figures: Figures, workloads: Mapping[str, Workload], changes: Mapping[str, Mapping[str, Any]]
) -> Catalog:
    """A variant of each label, with each of its modes."""
    variants = {}
    for name in dict.fromkeys(split_label(label)[0] for label in figures):
        modes = [split_label(label)[1] for label in figures if split_label(label)[0] == name]
        declared = [{"name": mode, "summary": "a mode"} for mode in modes if mode not in {None, TWIN}]
        variants[name] = make_variant(name, **{"modes": declared, **changes.get(name, {})})
    return Catalog(bases={}, families={}, differences={}, variants=variants, workloads=dict(workloads))


def contender(label: str, speed: float, standing: Standing, rank: Rank = Rank.WORSE) -> Contender:
    return Contender(
        label=label,
        speed=Estimate(estimate=speed, low=speed * 0.9, high=speed * 1.1),
        standing=standing,
        rank=rank,
        max_rss_bytes=25_000_000,
        start_s=0.0108,
        image_bytes=134_000_000,
        built_otherwise="",
    )


def make_pick(changed: dict[str, Any] | None = None, **changes: Any) -> Pick:
    """`changed` are fields of the recommendation."""
    chosen: dict[str, Any] = {
        "label": "cpython-3.14t",
        "reference": "localhost/interlock/python:3.14t-trixie",
        "pinned": False,
        "environment": {},
        "options": [],
        "gain": Estimate(estimate=1.42, low=1.36, high=1.49),
        "measured_gain": Estimate(estimate=1.42, low=1.36, high=1.49),
        "costs": Costs(
            max_rss_bytes=31_000_000,
            image_bytes=-400_000,
            start_s=0.0021,
            start_ratio=Estimate(estimate=1.2, low=1.1, high=1.3),
        ),
        "risks": ["support: still gets bug fixes", "no wheel for orjson"],
    }
    data: dict[str, Any] = {
        "decision": Decision.SWITCH,
        "answer": "switch",
        "experiment": "2026-11-21-a",
        "whose": Whose.PROJECT,
        "measured": "2026-11-21",
        "built": "PGO and LTO",
        "also": "yours: none here",
        "measured_otherwise": "",
        "elsewhere": [],
        "cpus": 2,
        "measured_cpus": 2,
        "baseline": "cpython-3.13",
        "machine": "2 cores, Example CPU 9000",
        "measured_on": "a 2-core Example CPU 9000",
        "apart": [],
        "shares": [Share(workload="download", benchmark="many", share=0.375)],
        "contenders": [
            contender("cpython-3.14t", 1.42, Standing.FASTER, Rank.OPEN),
            contender("cpython-3.14", 1.4, Standing.FASTER, Rank.OPEN),
            contender("cpython-3.13", 1.0, Standing.BASELINE),
        ],
        "named": ["cpython-3.14t", "cpython-3.14"],
        "excluded": [],
        "not_measured": [],
        "audits": [],
        "recommended": Recommendation(**(chosen | (changed or {}))),
        "notes": ["a note"],
        "measure": "interlock matrix --workloads download",
        "next": ["interlock trial . --variants cpython-3.14t", "interlock swap Dockerfile --to cpython-3.14t"],
    }
    return Pick(**(data | changes))
