"""Sessions: a workload while it is measured, and what all cells of an experiment share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from interlock.catalog.workloads import Repetition, Workload
from interlock.engine.protocol import Network, Workspace
from interlock.errors import WorkloadError
from interlock.measure.packages import PackageSets
from interlock.measure.slots import Slot
from interlock.measure.stopwatch import Stopwatch
from interlock.measure.watching import Observers
from interlock.results.experiments import Built, Experiment, Facts, Subject
from interlock.results.journal import Journal
from interlock.results.profiles import Probe
from interlock.results.settings import Settings

# Above this number of rows a block is split, so that the values of partners stay close to each other in time.
MOST_ROWS = 15
# Of many rows each process takes half of its values, but no fewer than this.
LEAST_VALUES = 3


@dataclass(frozen=True)
class Interpreters:
    """What is known of the interpreters of an experiment's rows, and learnt while it is measured."""

    images: Sequence[Built] = ()  # of the variants
    controls: Mapping[str, str] = field(default_factory=dict)  # by variant: what it is compared with, too
    facts: dict[str, Facts] = field(default_factory=dict)  # by label
    silent: set[str] = field(default_factory=set)  # labels that did not report their facts in time: not asked again

    def facts_of(self, subject: Subject) -> Facts | None:
        """Return the facts of a subject, else of its variant: the twin is not asked, a mode may be silent."""
        return self.facts.get(subject.label) or self.facts.get(subject.variant)


@dataclass(frozen=True)
class Resources:
    """What the cells of an experiment share, made once."""

    workspace: Workspace
    folder: Path
    host: str
    probe: Probe | None  # None if nothing is profiled
    settings: Settings
    watching: Observers
    package_sets: PackageSets = field(default_factory=PackageSets)
    programs: Mapping[str, bytes] = field(default_factory=dict)  # that cells have, by path below workloads/
    known: Interpreters = field(default_factory=Interpreters)
    resumes: Experiment | None = None  # what was measured before, if it goes on with an experiment that was ended
    first_look_alone: bool = False  # rounds end after it, nothing is profiled: other rows join, and all go on
    journal: Journal | None = None
    # Raises EngineError if the engine is gone: what failed meanwhile failed because of that.
    require_answer: Callable[[], object] = lambda: None
    waiting: dict[str, list[Slot]] = field(default_factory=dict)  # for the next workload, by what they are known by

    def require_probe(self) -> Probe:
        """Return the probe; WorkloadError if none was chosen."""
        if self.probe is None:
            raise WorkloadError(key="--no-profile", found="no probe was chosen", todo="Run without --no-profile.")
        return self.probe


@dataclass
class Session:
    """One workload while it is measured, and the network of its cells, with a server or a load if it needs one."""

    resources: Resources
    workload: Workload  # with the benchmarks that were discovered, once they are
    network: Network
    clock: Stopwatch = field(default_factory=Stopwatch)  # of the whole workload
    shares_slots: bool = True  # whether its cells go on in slots of the workload before, and leave theirs to the next

    @property
    def repetition(self) -> Repetition:
        """Return what the workload says of its benchmarks: of many rows a quick process takes half of its values."""
        settings = self.resources.settings
        if not settings.quick:
            return self.workload.full
        take = self.workload.quick
        if len(settings.variants) <= MOST_ROWS:
            return take
        return take.model_copy(update={"values": max(min(take.values, LEAST_VALUES), take.values // 2)})
