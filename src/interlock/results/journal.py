"""The journal of the workload that is measured: a line for each block, on disk before the next one begins.

experiment.json is written after each workload. If anything ends an experiment within a workload (SIGKILL, a full disk),
`store.recover` makes the files of this workload from the journal: it can be reported, and `--resume` goes on with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from interlock import untrusted
from interlock.catalog.types import Data, FileLabel, Sha256
from interlock.catalog.workloads import Workload
from interlock.errors import LazyModule, StoreError
from interlock.results import files
from interlock.results.experiments import EXPERIMENT_FILE, CellResult, Experiment, Facts, Times
from interlock.results.profiles import BenchmarkProfile

if TYPE_CHECKING:
    import pyperf
else:
    pyperf = LazyModule("pyperf", "measure")

# What experiment.json gives as the end of an experiment whose process could not say it, until the end is known.
KILLED = "the end of its process"
JOURNAL_FILE = ".journal"


class JournalHeader(Data):
    """The first line: the workload, and what its interpreters report.

    `experiment` is the sum of experiment.json as it was: one with another sum has the workload in it already.
    """

    schema_version: Literal[1] = 1
    experiment: Sha256
    workload: Workload  # with the benchmarks that were discovered
    facts: dict[str, Facts] = {}


class RunData(Data):
    """A pyperf run: values and warm-ups in seconds per unit of work."""

    values: list[float]
    warmups: list[tuple[int, float]] = []
    metadata: dict[str, Any]

    @classmethod
    def of(cls, run: pyperf.Run) -> RunData:
        return cls(values=list(run.values), warmups=list(run.warmups or ()), metadata=dict(run._metadata))

    @property
    def run(self) -> pyperf.Run:
        warmups = self.warmups or None
        return pyperf.Run(self.values, warmups=warmups, metadata=self.metadata, collect_metadata=False)


class JournalEntry(Data):
    """A further line: the runs and profiles since the one before, by label and benchmark, and all else as it is now."""

    runs: dict[FileLabel, dict[str, list[RunData]]] = {}
    profiles: dict[FileLabel, dict[str, BenchmarkProfile]] = {}
    cells: list[CellResult]
    limits: list[CellResult] = []
    order: list[list[str]]
    times: Times
    in_processes_s: float = 0.0


class Journal:
    """Writes an experiment's journal, locked against other processes until `close` or the end of this process."""

    def __init__(self, folder: Path) -> None:
        """Open it and empty it. StoreError if it cannot be written, or another process measures into the folder."""
        self.folder, self.entries, self._end = folder, 0, 0
        with _store_errors(folder):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(folder / JOURNAL_FILE, flags, 0o644)
            if not files.take_lock(self._descriptor):
                os.close(self._descriptor)
                raise StoreError(
                    file=str(folder), found="another process is writing to it", todo="Wait for it, or end it."
                )
            os.ftruncate(self._descriptor, 0)
        files.sync_folder(folder)

    def begin(self, workload: Workload, facts: Mapping[str, Facts]) -> None:
        """Begin with a workload; experiment.json must be there."""
        self.clear()
        begun = JournalHeader(
            experiment=untrusted.sha256_of(self.folder / EXPERIMENT_FILE), workload=workload, facts=dict(facts)
        )
        self._append(begun)

    def add(self, entry: JournalEntry) -> None:
        """Add a line, which survives any end once this returns; StoreError if it cannot be written."""
        self._append(entry)
        self.entries += 1

    def _append(self, line: BaseModel) -> None:
        data = (line.model_dump_json() + "\n").encode()
        with _store_errors(self.folder):
            # Cut off what an earlier, failed write has left.
            os.ftruncate(self._descriptor, self._end)
            done = 0
            while done < len(data):
                done += os.pwrite(self._descriptor, data[done:], self._end + done)
            os.fsync(self._descriptor)
        self._end += len(data)

    def clear(self) -> None:
        """Forget all lines: experiment.json has them."""
        self._end = 0
        with _store_errors(self.folder):
            os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        """Release the lock and leave the file where it is."""
        os.close(self._descriptor)

    def end(self) -> None:
        """Remove it: experiment.json has all of it."""
        (self.folder / JOURNAL_FILE).unlink(missing_ok=True)
        self.close()


@contextmanager
def _store_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise files.cannot_write(folder / JOURNAL_FILE, error) from None


def with_entries(before: Experiment, begun: JournalHeader, entries: Sequence[JournalEntry]) -> Experiment:
    """Return the record with the interrupted workload in it, so that `--resume` can go on with it."""
    name, last = begun.workload.name, entries[-1]
    cut = {
        "duration_s": last.times.total_s,
        "workloads": before.workloads | {name: begun.workload},
        "facts": begun.facts,
        "cells": last.cells,
        "limits": last.limits,
        "order": {name: last.order},
        "times": {name: last.times},
        "measuring_s": last.times.measuring_s,
        "in_processes_s": last.in_processes_s,
        "waiting_s": 0.0,
        "set_up_s": 0.0,
        "unfinished": [name],
    }
    return joined(before, before.model_copy(update=cut))


SUMS = ("duration_s", "measuring_s", "in_processes_s", "waiting_s", "set_up_s")


def joined(before: Experiment, now: Experiment) -> Experiment:
    """Return one record of an experiment's two parts, the second of which resumed the first.

    A cell that was opened again already has what was measured before; sums and times are added up.
    """
    names, again = before.settings.workloads, now.times.keys()
    kept = [name for name in names if name in before.times and name not in again]
    times = {name: [part.times[name] for part in (before, now) if name in part.times] for name in names}
    return now.model_copy(
        update={
            "started": before.started,
            "cells": sorted(_cells(before.cells, now.cells), key=lambda cell: names.index(cell.workload)),
            "limits": _cells(before.limits, now.limits),
            "workloads": now.workloads | {name: before.workloads[name] for name in kept},
            "programs": now.programs | {name: before.programs.get(name, {}) for name in kept},
            "facts": before.facts | now.facts,
            "order": before.order | {name: before.order.get(name, []) + rounds for name, rounds in now.order.items()},
            "times": {name: reduce(Times.plus, parts) for name, parts in times.items() if parts},
            "warnings": list(dict.fromkeys([*before.warnings, *now.warnings, *of_versions(before, now.tool_version)])),
            "probe": now.probe or before.probe,
            "unfinished": [*(name for name in before.unfinished if name in kept), *now.unfinished],
            **{key: round(getattr(before, key) + getattr(now, key), 3) for key in SUMS},
        }
    )


def of_versions(before: Experiment, now: str) -> list[str]:
    """Return that an experiment was begun with another version of Interlock than it goes on with, if so."""
    same = before.tool_version == now
    return [] if same else [f"begun with Interlock {before.tool_version}, gone on with {now}: its values are of both"]


def _cells(before: Sequence[CellResult], now: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells as they are now; a cell that was not opened again is kept as it was."""
    opened = [cell for cells in (before, now) for cell in cells if cell.times is not None]
    latest = {(cell.label, cell.workload): cell for cells in (before, now, opened) for cell in cells}
    return list(latest.values())
