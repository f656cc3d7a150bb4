"""The journal of the workload that is measured: a line for each block, on disk before the next one begins.

experiment.json is written after each workload. Whatever ends an experiment within one, SIGKILL or a full disk,
`recover` makes the files of the cut workload of the journal: it can be reported, and `--resume` goes on with it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from interlock import untrusted
from interlock.catalog.types import Data, FileLabel, Sha256, split_label
from interlock.catalog.workloads import Workload
from interlock.errors import LazyModule, StoreError
from interlock.results import store
from interlock.results.experiments import CellResult, Experiment, Facts, Times
from interlock.results.profiles import BenchmarkProfile, CellProfile
from interlock.results.runs import added
from interlock.results.store import read_runs, write_runs

if TYPE_CHECKING:
    import pyperf
else:
    pyperf = LazyModule("pyperf", "measure")

# What ended an experiment whose process could not say it, in words; experiment.json has it until the end is known.
KILLED = "the end of its process"
# The longest of the reference experiments had less than 5 MiB.
MOST_BYTES = 128 * untrusted.MIB
REMOVE = "Remove it: the experiment is then read without the workload that was interrupted."
Line = TypeVar("Line", bound=BaseModel)


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
    """Writes the journal of an experiment, and holds it against others until `close`, or the end of the process."""

    def __init__(self, folder: Path) -> None:
        """Open it, empty. StoreError if it cannot be written, or another process measures into the folder."""
        self.folder, self.entries, self._end = folder, 0, 0
        with _store_errors(folder):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(folder / store.JOURNAL_FILE, flags, 0o644)
            if not store.take_lock(self._descriptor):
                os.close(self._descriptor)
                raise StoreError(
                    file=str(folder), found="another process is writing to it", todo="Wait for it, or end it."
                )
            os.ftruncate(self._descriptor, 0)
        store.sync_folder(folder)

    def begin(self, workload: Workload, facts: Mapping[str, Facts]) -> None:
        """Begin with a workload; experiment.json must be there."""
        self.clear()
        begun = JournalHeader(experiment=sum_of(self.folder), workload=workload, facts=dict(facts))
        self._append(begun)

    def add(self, entry: JournalEntry) -> None:
        """Add a line. Once this returns it survives any end; StoreError if it cannot be written."""
        self._append(entry)
        self.entries += 1

    def _append(self, line: BaseModel) -> None:
        data = (line.model_dump_json() + "\n").encode()
        with _store_errors(self.folder):
            # What an earlier write that failed has left is written over.
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
        """Let go of it, and leave it where it is."""
        os.close(self._descriptor)

    def end(self) -> None:
        """Remove it: experiment.json has all of it."""
        (self.folder / store.JOURNAL_FILE).unlink(missing_ok=True)
        self.close()


@contextmanager
def _store_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise store.cannot_write(folder / store.JOURNAL_FILE, error) from None


def sum_of(folder: Path) -> str:
    """Return the SHA-256 of an experiment's experiment.json."""
    return hashlib.sha256((folder / store.EXPERIMENT_FILE).read_bytes()).hexdigest()


def recover(folder: Path, ended_by: str = "") -> bool:
    """Make cells' files and experiment.json of the journal and remove it; `ended_by` is said there if it is known.

    What was done before a recovery was itself cut is not done twice. Return False, and do nothing, while the experiment
    is measured.
    """
    path = folder / store.JOURNAL_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise store.cannot_write(path, error) from None
    try:
        if not store.take_lock(descriptor):
            return False
        _recover(folder, _lines(path, descriptor), ended_by)
        store.remove_temporary(folder)
        path.unlink(missing_ok=True)
        store.sync_folder(folder)
    finally:
        os.close(descriptor)
    return True


def _lines(path: Path, descriptor: int) -> list[bytes]:
    """Return the lines of an open journal; StoreError, before it is read, for one that is too long."""
    if os.fstat(descriptor).st_size > MOST_BYTES:
        raise StoreError(file=str(path), found=f"has more than {MOST_BYTES // untrusted.MIB} MiB", todo=REMOVE)
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        return stream.read(MOST_BYTES).split(b"\n")


def _recover(folder: Path, lines: Sequence[bytes], ended_by: str) -> None:
    if not (folder / store.EXPERIMENT_FILE).is_file():
        return
    before = now = store.read_json(folder / store.EXPERIMENT_FILE, Experiment)
    begun = _parsed(lines[0], JournalHeader)
    # The last line is whole or empty: where the end came while it was written, its block was not complete.
    entries = [entry for line in lines[1:-1] if (entry := _parsed(line, JournalEntry)) is not None]
    if begun is not None and entries and begun.experiment == sum_of(folder):
        _check_workloads(folder, now, begun, entries)
        try:
            _write_cells(folder, now.host["folder"], begun.workload.name, entries)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:  # pyperf's, of a run
            raise StoreError(
                file=str(folder / store.JOURNAL_FILE),
                found=f"has a line that is not a run ({error})",
                todo=REMOVE,
            ) from None
        now = with_entries(now, begun, entries)
    if ended_by:
        now = now.model_copy(update={"ended_by": ended_by})
    if now != before:
        store.write_json(folder / store.EXPERIMENT_FILE, now)


def _check_workloads(folder: Path, before: Experiment, begun: JournalHeader, entries: Sequence[JournalEntry]) -> None:
    """StoreError, before anything is written, if cells are of another workload than the journal."""
    name = begun.workload.name
    named = {name, *(one.workload for entry in entries for one in (*entry.cells, *entry.limits))}
    strange = named - {name} or named - {*before.settings.workloads}
    if strange:
        raise StoreError(
            file=str(folder / store.JOURNAL_FILE),
            found=f"has a cell of {min(strange)!r}, which is not the workload that it is of",
            todo=REMOVE,
        )


def _parsed(line: bytes, model: type[Line]) -> Line | None:
    try:
        return model.model_validate_json(line)
    except ValidationError:
        return None


def _write_cells(folder: Path, host: str, workload: str, entries: Sequence[JournalEntry]) -> None:
    """Write the values and profiles of the entries beside those that cells' files have."""
    store.forget_sums(folder)
    for label in dict.fromkeys(label for one in entries for label in (*one.runs, *one.profiles)):
        path = store.cell_path(folder, host, *split_label(label), workload)
        runs: dict[str, list[pyperf.Run]] = {}
        profiles: dict[str, BenchmarkProfile] = {}
        for entry in entries:
            profiles |= entry.profiles.get(label, {})
            for name, some in entry.runs.get(label, {}).items():
                runs.setdefault(name, []).extend(one.run for one in some)
        if runs:
            write_runs(path, added(read_runs(path), runs))
        if profiles:
            both = CellProfile(benchmarks=store.read_profiles(path) | profiles)
            store.write_json(store.profile_path(path), both)


def with_entries(before: Experiment, begun: JournalHeader, entries: Sequence[JournalEntry]) -> Experiment:
    """Return the record with the cut workload in it, which `--resume` goes on with."""
    name, last = begun.workload.name, entries[-1]
    names = before.settings.workloads
    cells = {(one.label, one.workload): one for one in (*before.cells, *last.cells)}
    limits = {(one.label, one.workload): one for one in (*before.limits, *last.limits)}
    earlier = before.times.get(name, Times())
    return before.model_copy(
        update={
            "duration_s": round(before.duration_s + last.times.total_s, 1),
            "workloads": before.workloads | {name: begun.workload},
            "facts": before.facts | begun.facts,
            "cells": sorted(cells.values(), key=lambda one: names.index(one.workload)),
            "limits": list(limits.values()),
            "order": before.order | {name: before.order.get(name, []) + last.order},
            "times": before.times | {name: earlier.plus(last.times)},
            "measuring_s": round(before.measuring_s + last.times.measuring_s, 3),
            "in_processes_s": round(before.in_processes_s + last.in_processes_s, 3),
            "unfinished": [*(one for one in before.unfinished if one != name), name],
        }
    )
