"""What `--json` prints, by command: the models that docs/schemas/ publishes and tests hold the commands to."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel

from interlock.catalog.claims import Claim
from interlock.catalog.defaults import Defaults
from interlock.catalog.types import Data, FileLabel, Label
from interlock.results.answers import Audit, Pick
from interlock.results.experiments import State
from interlock.results.profiles import LockSites
from interlock.results.trials import Trial


class Ends(Data):
    """A ratio with its 95 % interval; null is infinity."""

    ratio: float | None
    low: float | None
    high: float | None


class KindOfHost(Data):
    """What two hosts must have in common for a ratio of one to be comparable with a ratio of the other."""

    cpu: str
    cores: int
    kernel: str
    engine: str
    storage_driver: str

    def __str__(self) -> str:
        return (
            f"{self.cores} cores {self.cpu}, Linux {self.kernel}, {self.engine}, storage driver {self.storage_driver}"
        )


class ComparedExperiment(Data):
    name: str
    host: str
    started: str
    tool_version: str


class ChangeVerdict(Ends):
    p: float
    p_same: float
    margin: float
    verdict: str


class ChangedRow(Data):
    variant: FileLabel
    before: Ends
    after: Ends
    change: ChangeVerdict
    image: str
    packages: str  # the packages of which it has other versions, and which; empty if it has the same


class ChangedBenchmark(Data):
    workload: str
    benchmark: str
    baseline_packages: str
    rows: list[ChangedRow]


class Compared(Data):
    """What `compare --json` prints: changes between two experiments of one kind of host and build of the baseline."""

    schema_version: Literal[2] = 2
    kind: KindOfHost
    baseline: FileLabel
    optimised_by: str  # the baseline
    before: ComparedExperiment
    after: ComparedExperiment
    baseline_image: str
    left_out: list[str]
    tables: list[ChangedBenchmark]


class TestedRatio(Data):
    """A ratio with its test; null is infinity."""

    estimate: float | None
    low: float | None
    high: float | None
    p: float | None
    rounds: int
    error: float | None
    freedom: float | None


class CheckedClaim(Data):
    claim: Claim
    verdict: str
    reason: str
    ratio: TestedRatio | None
    count: float | None


class CheckedClaims(Data):
    """What `claims --json` prints."""

    schema_version: Literal[1] = 1
    experiment: str
    host: dict[str, object]
    findings: list[CheckedClaim]


class DecidedRatio(TestedRatio):
    """A ratio with its verdict, the margin of 'same', and about how many more rounds would decide."""

    p_adjusted: float
    p_same: float
    verdict: str
    margin: float
    more_rounds: int | None


class ReportedRow(Data):
    """A variant or mode in a benchmark; no ratio for the baseline, or without a figure."""

    workload: str
    benchmark: str
    label: FileLabel
    state: State
    reason: str
    seconds_per_unit: float | None
    error: float | None
    to_baseline: DecidedRatio | None


class FigureChange(Data):
    """A figure beside the user's own: by which share it is more, and the cost's ratio, of a rate its inverse."""

    figure: str
    share: float
    cost: float
    low: float | None  # null is infinity
    high: float | None
    verdict: str


class JudgedVariant(Data):
    """A trial's verdict on a variant; `problem` is why it failed, or that the GIL came back."""

    label: FileLabel
    cpus: int
    verdict: str
    problem: str
    changes: list[FigureChange]


class TrialAnswer(Data):
    """What a trial says, and the commands that follow; `known` is what was asked for, and seen before any timing."""

    conclusion: str
    next: list[str]
    verdicts: list[JudgedVariant]
    known: Trial


class Reported(Data):
    """What `report --json` prints of an experiment, and `trial --json` of the one that it measured."""

    schema_version: Literal[1] = 1
    experiment: str
    started: str
    host: dict[str, object]
    baseline: FileLabel
    pick: Pick | None
    trial: TrialAnswer | None = None
    rows: list[ReportedRow]
    warnings: list[str]


class SwapCaveat(Data):
    """What a person must know about a swap; line 0 is the whole file."""

    line: int
    weight: str
    text: str


class SwapVersion(Data):
    line: int
    old: str
    new: str
    edited: bool
    reason: str


class SwappedFile(Data):
    file: str
    diff: str
    caveats: list[SwapCaveat]
    versions: list[SwapVersion]


class CheckedLine(Data):
    """An image line that `--check` looked at; no problem is an empty text."""

    file: str
    line: int
    image: str
    problem: str


class Swapped(Data):
    """What `swap --json` prints: the changes, or with `--check` the lines that were looked at."""

    schema_version: Literal[1] = 1
    file: str
    written: bool = False
    changes: list[SwappedFile] = []
    caveats: list[SwapCaveat] = []
    left: list[str] = []
    lines: list[CheckedLine] = []


class DoctorCheck(Data):
    subject: str
    state: str
    found: str
    fix: str


class Examined(Data):
    """What `doctor --json` prints; `can_measure` is false if something prevents measuring."""

    schema_version: Literal[1] = 1
    can_measure: bool
    checks: list[DoctorCheck]


class Explained(Data):
    """What `why --json` prints: the sites of each variant or mode, in the order in which they were named."""

    schema_version: Literal[1] = 1
    variants: dict[Label, LockSites]


class ErrorParts(Data):
    kind: str
    message: str
    file: str
    key: str
    found: str
    todo: str
    exit_code: int


class FailedCommand(Data):
    """What every command prints on standard error if it fails with --json."""

    schema_version: Literal[1] = 1
    error: ErrorParts


MODELS: dict[str, type[BaseModel]] = {
    "pick": Pick,
    "audit": Audit,
    "why": Explained,
    "claims": CheckedClaims,
    "compare": Compared,
    "report": Reported,
    "swap": Swapped,
    "doctor": Examined,
    "error": FailedCommand,
}


def schema_texts() -> dict[str, str]:
    """Return the files of docs/schemas/ by path: the schemas of what each command prints, and of interlock.toml."""
    printed = {name: model.model_json_schema(mode="serialization") for name, model in MODELS.items()}
    schemas = {**printed, "interlock": Defaults.model_json_schema()}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {
        f"docs/schemas/{name}.json": json.dumps({**head, **schema}, indent=1) + "\n" for name, schema in schemas.items()
    }
