"""Bare cells: a subject in a session, with the slots of its processes, its times and its notes."""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.catalog.variants import Gil
from interlock.engine.protocol import Sandbox, Surroundings
from interlock.measure.sessions import Session
from interlock.measure.slots import Slot
from interlock.measure.stopwatch import Phase, Stopwatch
from interlock.results.experiments import Subject


@dataclass(eq=False)
class BareCell:
    """A cell without its tracks: where its processes run, and what is noted of them."""

    session: Session
    subject: Subject
    clock: Stopwatch = field(default_factory=Stopwatch)
    slots: list[Slot] = field(default_factory=list)  # in the first everything runs except a block's further processes
    notes: list[str] = field(default_factory=list)
    gil: Gil | None = None  # its state when programs start, as declared or proved

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
        """Return the key by which workloads share sandboxes; empty if this workload has sandboxes of its own."""
        subject, sets = self.subject, self.session.resources.package_sets
        if not self.session.shares_slots or sets.of_workload(subject.variant, self.session.workload):
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
        """Return what its containers are given; with a cold benchmark the interpreter is on a volume for all of them.

        What a storage driver keeps in memory cannot be dropped, and the files of an image's layers are those of other
        containers too: only on a volume can they be put out of the page cache.
        """
        workload = self.session.workload
        cold = any(benchmark.cold for benchmark in workload.benchmarks)
        return Surroundings(tuple(workload.rights), prefix_on_volume=cold)
