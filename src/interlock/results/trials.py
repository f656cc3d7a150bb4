"""What a trial adds to the record of its experiment: what was asked for, and what was seen before the rounds."""

from __future__ import annotations

from interlock.catalog.types import Data, FileLabel
from interlock.catalog.variants import Gil

# The user's Dockerfile with its own FROM: the trial's baseline. No variant's name has a capital letter.
OWN = "OWN"


def without_quote(problem: str) -> str:
    """Return why a variant cannot be tried, without the installer's own words at the end."""
    return problem.partition("; pip: ")[0]


class GilStates(Data):
    """What a service's Python processes report of their GIL; processes that cannot report it are not counted."""

    processes: int
    off_at_start: int
    came_back: int = 0
    modules: list[str] = []  # the modules that switched it on, as the interpreter names them


class TriedImage(Data):
    """What is known of one row of a trial before anything is timed."""

    problem: str = ""  # why its tests or its service do not work; then it is not measured
    changes: list[str] = []  # lines of the diff from the user's Dockerfile, or options of its build
    warnings: list[str] = []  # where the swap is not drop-in
    declared_gil: Gil | None = None
    gil: GilStates | None = None
    kept_as: str = ""  # the image's tag, if it was kept


class Trial(Data):
    """What was asked for, and each row; build arguments and environment by name only, because values may be secrets."""

    context: str
    dockerfile: str
    builder: str  # the engine's classic builder or BuildKit
    target: str | None = None
    stage: str | None = None
    build_args: list[str] = []
    secrets: list[str] = []  # where secrets are read from
    environment: list[str] = []
    environment_sum: str = ""  # of its values, with a key that stays on the machine
    test: str | None = None
    load: str | None = None
    service_cpus: str = ""  # in the engine's words: 1-3; empty for all; of a sweep the most
    memory: str | None = None
    network: str | None = None
    tried: dict[FileLabel, TriedImage] = {}
