"""What a pick says: which image to run, what that gains and costs, and why the others are not it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from interlock.model.audits import VariantAudit
from interlock.model.common import Data, Label


class Decision(StrEnum):
    """What to do."""

    SWITCH = "switch"
    STAY = "stay"
    NOTHING = "nothing"  # meets the demands


class Standing(StrEnum):
    """A contender beside the baseline."""

    BASELINE = "baseline"
    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"


class Estimate(Data):
    """A figure with its 95 % interval; an end that is None lies in infinity: one round has no interval."""

    estimate: float
    low: float
    high: float | None


class Share(Data):
    """How much of the ranking one benchmark is; those of a pick add up to 1."""

    workload: str
    benchmark: str
    share: float


class Contender(Data):
    """What meets the demands. Speed: the work done in the time in which the baseline does 1; above 1 is faster."""

    label: Label
    speed: Estimate
    standing: Standing
    tied_with: Label | None  # the fastest one that it is not shown to differ from
    max_rss_bytes: int  # of one process, the most in the ranked benchmarks
    start_s: float | None  # `python -c pass`, if the experiment has it
    image_bytes: int


class Exclusion(Data):
    """What does not meet the demands, and each reason."""

    label: Label
    reasons: list[str]


class Costs(Data):
    """The picked one less the baseline; `start_ratio` is time divided by time, above 1 is slower."""

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


class Apart(Data):
    """One thing in which this machine is not the experiment's."""

    what: str
    there: str
    here: str


class Pick(Data):
    """pick --json."""

    schema_version: Literal[1] = 1
    decision: Decision
    answer: str
    experiment: str
    shipped: bool  # a reference that came with Interlock, not an experiment of the user's
    profile: str
    baseline: Label
    machine: str
    apart: list[Apart]
    shares: list[Share]
    contenders: list[Contender]  # the fastest first, the baseline among them
    excluded: list[Exclusion]
    recommended: Recommendation | None
    audits: list[VariantAudit]  # of the variants that the requirements were tried on
    notes: list[str]
    measure: str  # the command that measures the best of them here
    next: list[str]  # the commands to go on with
