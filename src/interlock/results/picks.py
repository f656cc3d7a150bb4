"""A pick: which image to run, what that gains and costs, and why not the others."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from interlock.catalog.types import Data, Label
from interlock.results.audits import VariantAudit


class Decision(StrEnum):
    """What a pick recommends."""

    SWITCH = "switch"
    STAY = "stay"
    MEASURE = "measure"  # what meets the constraints has no figures
    NOTHING = "nothing"  # no image meets the constraints


class Standing(StrEnum):
    """A contender compared with the baseline."""

    BASELINE = "baseline"
    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNDECIDED = "undecided"


class Estimate(Data):
    """A figure with its 95 % interval; None is infinity: one round has no interval."""

    estimate: float
    low: float
    high: float | None


class Share(Data):
    """The share of one benchmark in the ranking; all shares of a pick add up to 1."""

    workload: str
    benchmark: str
    share: float


class Contender(Data):
    """An image that meets the constraints; `speed` is its throughput relative to the baseline's, above 1 is faster."""

    label: Label
    speed: Estimate
    standing: Standing
    tied_with: Label | None  # the fastest contender that it does not differ from
    max_rss_bytes: int  # of one process, the most in the ranked benchmarks
    start_s: float | None  # `python -c pass`, if the experiment has it
    image_bytes: int
    built_otherwise: str  # what optimised it and what the baseline, if not the same


class Exclusion(Data):
    """An image that fails a constraint, and each reason."""

    label: Label
    reasons: list[str]


class Costs(Data):
    """What the picked image costs more than the baseline; `start_ratio` is a ratio of times, above 1 is slower."""

    max_rss_bytes: int
    image_bytes: int
    start_s: float | None = None
    start_ratio: Estimate | None = None


class Recommendation(Data):
    """The image to run, how to start its interpreter, and what speaks against it."""

    label: Label
    reference: str  # what a FROM line names
    pinned: bool  # whether it has a digest, which a registry gives
    environment: dict[str, str]  # of the mode: belongs into ENV lines
    options: list[str]  # of the mode: belong after `python`
    gain: Estimate
    costs: Costs
    risks: list[str]


class Needed(Data):
    """From how many CPUs on a contender is predicted to do more than the baseline, by the curves of both.

    `speed` is its throughput divided by the baseline's there.
    """

    workload: str
    curve: str
    label: Label
    cpus: int
    speed: Estimate
    fitted_to: int  # workers: a larger `cpus` is extrapolated


class MachineDifference(Data):
    """One thing in which this machine differs from the experiment's."""

    what: str
    there: str
    here: str


class Pick(Data):
    """The output of pick --json."""

    schema_version: Literal[1] = 1
    decision: Decision
    answer: str
    experiment: str
    shipped: bool  # whether the experiment is one of results/reference
    profile: str
    cpus: int  # of the machine that the service runs on
    measured_cpus: int  # of the experiment's machine
    baseline: Label
    machine: str
    apart: list[MachineDifference]
    shares: list[Share]
    contenders: list[Contender]  # the fastest first, with the baseline
    excluded: list[Exclusion]
    not_measured: list[Label]  # no figures for a workload that was asked for: nothing speaks against them
    needed: list[Needed]
    recommended: Recommendation | None
    audits: list[VariantAudit]  # of the variants that the requirements were tried on
    notes: list[str]
    measure: str  # the command that measures the best ones here
    next: list[str]  # the next commands
