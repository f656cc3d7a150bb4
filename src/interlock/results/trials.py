"""What a trial records: a user's own Dockerfile, run across variants."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from interlock.catalog.types import TWIN, Data, label_of
from interlock.catalog.variants import Gil
from interlock.results.experiments import Outcome
from interlock.results.profiles import BenchmarkProfile, Probe

# The user's Dockerfile with its own FROM: the trial's baseline. No variant's name has a capital letter.
OWN = "OWN"
OWN_TWIN = label_of(OWN, TWIN)


class Figure(StrEnum):
    """A figure that candidates are compared by, less is better; the value is its key in trial.json."""

    TEST_S = "test_s"
    LOAD_S = "load_s"
    REQUEST_S = "request_s"
    P50_S = "p50_s"
    P99_S = "p99_s"
    CPU_S = "cpu_s"
    MEMORY_BYTES = "memory_bytes"
    START_S = "start_s"


class GilStates(Data):
    """What a service's Python processes report of their GIL; processes that cannot report it are not counted."""

    processes: int
    off_at_start: int
    came_back: int = 0
    modules: list[str] = []  # that switched it on, as the interpreter names them


class CommandRun(Data):
    """One run of the user's test command in the built image."""

    exit_code: int
    duration_s: float


class Candidate(Data):
    """One Dockerfile of a trial and its results; `values` has a figure for each round."""

    label: str  # OWN, its twin, a variant or variant+mode
    outcome: Outcome
    image: str = ""  # what its FROM names; empty where it is the user's own
    image_id: str = ""
    image_tag: str = ""  # only if it was kept
    size_bytes: int = 0
    build_s: float = 0.0
    changes: list[str] = []  # lines of the diff from the user's Dockerfile
    warnings: list[str] = []  # where the swap is not drop-in
    declared_gil: Gil | None = None
    gil: GilStates | None = None
    test: CommandRun | None = None
    values: dict[Figure, list[float]] = {}
    notes: list[str] = []
    profile: BenchmarkProfile | None = None
    no_profile: str = ""


class TrialSettings(Data):
    """What a trial was asked for; build arguments and environment by name only, because values may be secrets."""

    context: str
    dockerfile: str
    profile: str = "standard"  # of the variants' builds
    target: str | None = None
    stage: str | None = None
    build_args: list[str] = []
    secrets: list[str] = []  # where they are read from
    environment: list[str] = []
    test: str | None = None
    load: str | None = None
    http: str | None = None
    rounds: int
    rounds_limit: int | None = None
    half_width: float | None = None  # of old trials, whose rounds went on until intervals were this narrow
    seed: int
    service_cpus: str = ""  # in the engine's words: 1-3; empty for all
    load_cpus: str = ""
    memory: str | None = None
    network: str | None = None
    profiled: bool = True

    @property
    def looks(self) -> bool:
        """Whether the rounds of a candidate went on until it was decided."""
        return self.rounds_limit is not None and self.half_width is None


class Trial(Data):
    """The file trial.json: everything that a reader needs, raw values included."""

    schema_version: Literal[1] = 1
    name: str
    tool_version: str
    command: str
    started: str
    duration_s: float
    settings: TrialSettings
    host: dict[str, Any]
    builder: str  # the engine's classic builder or BuildKit
    candidates: list[Candidate]
    order: list[list[str]] = []
    probe: Probe | None = None
    no_probe: str = ""
    warnings: list[str] = []

    def of(self, label: str) -> Candidate | None:
        """Return the candidate with this label; None if there is none."""
        return next((one for one in self.candidates if one.label == label), None)
