"""figures.json: what a pick reads of an experiment in the place of its raw values, which no package has to bring."""

from __future__ import annotations

from typing import Literal

from interlock.catalog.types import Data

# An interval: estimate, low and high.
Bounds = tuple[float, float, float]


class TableFigures(Data):
    """The rows of one benchmark that have figures, fitted together.

    Row `i` of `errors` and of `freedoms` has, for each row up to itself, the standard error of the logarithm of their
    ratio and its degrees of freedom; None where the error is not known.
    """

    labels: list[str]
    seconds: list[float]  # the median over the rounds
    max_rss_bytes: list[int]
    rounds: list[int]
    levels: list[float]  # logarithms, up to a constant of the benchmark
    errors: list[list[float | None]]
    freedoms: list[list[float]]


class CurveFigures(Data):
    """What a curve over workers predicts: by label and CPUs, the throughput divided by the baseline's.

    The baseline is the experiment's. Only ratios whose interval is above 1 are there.
    """

    name: str
    fitted_to: int  # workers
    faster: dict[str, dict[int, Bounds]]


class RecordedFigures(Data):
    """The figures of all benchmarks, and what curves over workers predict."""

    schema_version: Literal[1] = 1
    made_of: str  # SHA-256 of the experiment's record and values
    tables: dict[str, dict[str, TableFigures]]  # by workload and benchmark
    curves: dict[str, list[CurveFigures]] = {}  # by workload
