"""Cells: a workload on one subject while it is measured, with the slots of its processes and a track per benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from interlock.catalog.types import LIMIT
from interlock.catalog.variants import Gil
from interlock.catalog.workloads import Repetition, Workload
from interlock.engine.protocol import Network, Sandbox, Surroundings, Workspace
from interlock.errors import WorkloadError
from interlock.measure.blocks import MOST_ROWS
from interlock.measure.kinds.choosing import kind_of, kinds_of, limit_kinds
from interlock.measure.packages import PackageSets
from interlock.measure.slots import Slot
from interlock.measure.stopwatch import Phase, Stopwatch
from interlock.measure.tracks import Track
from interlock.measure.watching import Observers
from interlock.results.experiments import Built, Facts, Subject
from interlock.results.journal import Journal
from interlock.results.profiles import Probe
from interlock.results.settings import Settings

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
    programs: frozenset[str] = frozenset()  # paths below workloads/ of the programs that cells have
    known: Interpreters = field(default_factory=Interpreters)
    # Gives a cell of the workload of this name what was measured of it before, if the experiment is resumed.
    restore: Callable[[Cell], None] = lambda _: None
    listed: Mapping[str, Workload] = field(default_factory=dict)  # with the benchmarks that it knew then, by name
    first_look_alone: bool = False  # the rounds end with it, nothing is profiled: other rows join, and all go on
    journal: Journal | None = None
    # Raises EngineError if the engine is gone: what failed meanwhile failed for that.
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


@dataclass(eq=False)
class Cell:
    """A workload on one subject while it is measured; what is measured without an interpreter is its limit's."""

    session: Session
    subject: Subject
    clock: Stopwatch = field(default_factory=Stopwatch)
    slots: list[Slot] = field(default_factory=list)  # the first is where all but the others of a block runs
    notes: list[str] = field(default_factory=list)
    gil: Gil | None = None  # its state when programs start, as declared or proved
    profile_problem: str = ""

    @cached_property
    def tracks(self) -> dict[str, Track]:
        """Return the tracks by their benchmarks; they are known once those are discovered."""
        kinds = limit_kinds(self.session.workload, self.subject) if self.is_limit else kinds_of(self.session.workload)
        return {kind.benchmark.name: Track(self, kind) for kind in kinds}

    @property
    def is_limit(self) -> bool:
        return self.subject.image_id is None

    def note(self, text: str) -> None:
        """Add a note unless it is empty or already there."""
        if text and text not in self.notes:
            self.notes.append(text)

    def slot(self, number: int = 0) -> Slot:
        """Return the cell's slot of this number, which is opened, or taken from the workload before, if it is new."""
        while len(self.slots) <= number:
            with self.session.clock.during(Phase.PREPARING), self.clock.during(Phase.PREPARING):
                waiting = self.session.resources.waiting.get(self._shared_by)
                slot = waiting.pop() if waiting else Slot(self._open_sandbox, self._open_sandbox())
                slot.open_sandbox = self._open_sandbox  # the network of the workload before is gone
                self.slots.append(slot)
        return self.slots[number]

    def leave(self) -> None:
        """Leave the slots to the next workload, or close their sandboxes."""
        if self._shared_by:
            self.session.resources.waiting.setdefault(self._shared_by, []).extend(self.slots)
        else:
            self.close()

    def close(self) -> None:
        """Close the sandboxes."""
        for slot in self.slots:
            slot.sandbox.close()

    @property
    def _shared_by(self) -> str:
        """Return what the sandboxes are known by that workloads can share.

        It is empty for a workload that needs something of its own, that leaves files, or whose program is another's.
        """
        workload, subject = self.session.workload, self.subject
        own = workload.server or workload.load or workload.limits or workload.rights
        packages = self.session.resources.package_sets.of_workload(subject.variant, workload)
        if own or packages or any(kind.leaves_traces for kind in (kind_of(workload), *kinds_of(workload))):
            return ""
        return f"{subject.image_id} {self._surroundings}"

    def _open_sandbox(self) -> Sandbox:
        """Open a sandbox of the subject's variant, with all packages of the workload; a limit has none of its own."""
        workload, network, subject = self.session.workload, self.session.network, self.subject
        if subject.image_id is None:
            return network.open_limits_sandbox(Surroundings(tuple(workload.rights)))
        needed = self.session.resources.package_sets.of_workload(subject.variant, workload)
        packages = {packages.volume: packages.mount_path for packages in needed}
        return network.open_sandbox(subject.image_id, self._surroundings, packages)

    @property
    def _surroundings(self) -> Surroundings:
        """Return what its containers are given; with a cold benchmark the interpreter is on a volume, for hot ones too.

        What a storage driver keeps in memory cannot be dropped, and the files of an image's layers are those of other
        containers too: only on a volume can they be put out of the page cache.
        """
        workload = self.session.workload
        cold = any(benchmark.cold for benchmark in workload.benchmarks)
        return Surroundings(tuple(workload.rights), prefix_on_volume=cold)


def limits_of(workload: Workload) -> list[Subject]:
    """Return the workload's limits, which have cells as variants do."""
    return [Subject(variant=LIMIT, mode=limit.name, image_id=None) for limit in workload.limits]


@contextmanager
def open_session(resources: Resources, workload: Workload, clock: Stopwatch | None = None) -> Iterator[Session]:
    """Yield the workload's session, then close it; WorkloadError if its server or load does not start."""
    environment = None if workload.server is None else workload.server.environment
    with resources.workspace.network(environment, load=kind_of(workload).needs_load) as network:
        yield Session(resources, workload, network, clock or Stopwatch())
