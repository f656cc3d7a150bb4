"""What a trial records: a user's own Dockerfile, run across variants."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from interlock.model.common import TWIN, Data, label_of
from interlock.model.profiles import BenchmarkProfile, Probe
from interlock.model.results import Outcome
from interlock.model.variants import Gil

# The user's Dockerfile with its own FROM: the trial's baseline. No variant's name has a capital letter.
OWN = "OWN"
OWN_TWIN = label_of(OWN, TWIN)


class Figure(StrEnum):
    """What is compared: of each, less is better. The value is its key in trial.json."""

    TEST_S = "test_s"
    LOAD_S = "load_s"
    REQUEST_S = "request_s"
    P50_S = "p50_s"
    P99_S = "p99_s"
    CPU_S = "cpu_s"
    MEMORY_BYTES = "memory_bytes"
    START_S = "start_s"


class GilWitness(Data):
    """What Python processes of a started service said of their GIL; processes that could not say are not counted."""

    processes: int
    off_at_start: int
    came_back: int = 0
    modules: list[str] = []  # those that the interpreter named


class CommandRun(Data):
    """One run of the user's test command in the built image."""

    exit_code: int
    duration_s: float


class Candidate(Data):
    """One Dockerfile of a trial, and what came of it. `values` are figures by name, one for each round."""

    label: str  # OWN, its twin, a variant or variant+mode
    outcome: Outcome
    image: str = ""  # what its FROM names; empty where it is the user's own
    image_id: str = ""
    image_tag: str = ""  # only if it was kept
    size_bytes: int = 0
    build_s: float = 0.0
    changes: list[str] = []  # of its Dockerfile to the user's: a diff's lines
    warnings: list[str] = []  # of swapping: what is not drop-in
    declared_gil: Gil | None = None
    gil: GilWitness | None = None
    test: CommandRun | None = None
    values: dict[Figure, list[float]] = {}
    notes: list[str] = []
    profile: BenchmarkProfile | None = None
    no_profile: str = ""


class TrialSettings(Data):
    """How a trial was asked for. Of build arguments and the environment only the names: values may be secrets."""

    context: str
    dockerfile: str
    profile: str = "standard"  # of the variants' builds
    target: str | None = None
    stage: str | None = None
    build_args: list[str] = []
    secrets: list[str] = []  # where they are
    environment: list[str] = []
    test: str | None = None
    load: str | None = None
    http: str | None = None
    rounds: int
    rounds_limit: int | None = None
    half_width: float | None = None
    seed: int
    service_cpus: str = ""  # in the engine's words: 1-3; empty for all
    load_cpus: str = ""
    memory: str | None = None
    network: str | None = None
    profiled: bool = True


class Trial(Data):
    """trial.json: all that a reader needs, raw values included."""

    schema_version: Literal[1] = 1
    name: str
    tool_version: str
    command: str
    started: str
    duration_s: float
    settings: TrialSettings
    host: dict[str, Any]
    builder: str  # the engine's classic one or BuildKit
    candidates: list[Candidate]
    order: list[list[str]] = []
    probe: Probe | None = None
    no_probe: str = ""
    warnings: list[str] = []

    def of(self, label: str) -> Candidate | None:
        """The candidate with this label."""
        return next((one for one in self.candidates if one.label == label), None)
