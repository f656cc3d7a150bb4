"""The records in results/services/: what trials of released programs (examples/services/) found, one file each."""

from __future__ import annotations

from pathlib import Path

from interlock.catalog.types import Data, Label
from interlock.results import store
from interlock.results.answers import Estimate

FOLDER = "results/services"
# How the names of proofs' files begin.
PROOFS = "proof-"


class ServiceFigure(Data):
    """A figure of a service: itself, and divided by the one that it has on the baseline."""

    value: float
    ratio: Estimate | None = None  # of the figure itself: for a rate more is better
    shows: str = ""  # slower (worse), faster (better), same or undecided; empty on the baseline


class ServiceRow(Data):
    """A service on one variant and so many CPUs."""

    label: Label
    cpus: int
    verdict: str = ""  # empty on the baseline
    problem: str = ""  # why it does not build, start or answer, or that the GIL came back
    gil: str = ""
    figures: dict[str, ServiceFigure] = {}  # by their names for --fail-on; the one that decides is first

    @property
    def is_open(self) -> bool:
        """Return whether the trial has shown nothing of it yet."""
        return self.verdict in {"undecided", "not tried"}

    @property
    def decisive(self) -> tuple[str, ServiceFigure | None]:
        """Return the name of the figure that decides, and the figure."""
        return next(iter(self.figures.items()), ("", None))


class ServiceRecord(Data):
    """What the trial of a service found: its file is the service's name."""

    name: str
    title: str  # what it stands for, in a line
    program: str  # and its version
    packages: list[str]  # all that are installed with it
    load: str
    machine: str
    measured: str  # the day
    minutes: float  # how long building and measuring took
    baseline: Label
    versions: dict[str, str]  # of Python, by variant
    bound: dict[int, str]  # what bounded it, by the number of CPUs
    rows: list[ServiceRow]


class ProofRun(Data):
    """A trial whose answer is known: of the same image under two names, or of one that is slowed."""

    service: str
    machine: str
    ratio: Estimate | None  # the plain image to the other one, in the figure that decides
    verdict: str
    different: list[str]  # figures that the trial calls different
    minutes: float


class ProofRuns(Data):
    """The trials of one kind, in the order in which they ran."""

    slower: float  # by how many per cent the image beside the plain one is slowed; 0 if both are the same
    runs: list[ProofRun]


def read_services(root: Path) -> list[ServiceRecord]:
    """Return the records of services that come with Interlock, by name."""
    paths = sorted((root / FOLDER).glob("*.json"))
    return [store.read_json(path, ServiceRecord) for path in paths if not path.stem.startswith(PROOFS)]


def read_proofs(root: Path) -> list[ProofRuns]:
    """Return all recorded proofs, the one of equal images first."""
    return [store.read_json(path, ProofRuns) for path in sorted((root / FOLDER).glob(f"{PROOFS}*.json"))]
