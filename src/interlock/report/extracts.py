"""Reads experiments' folders into extracts, many of them on all cores."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from interlock.analysis import comparison
from interlock.analysis.cohorts import Extract, extract
from interlock.results import store

# Starting another process takes as long as reading this many experiments.
MIN_PER_PROCESS = 16


def read_extract(folder: Path) -> Extract:
    """Return the extract of one experiment; its profiles are not read, because no comparison needs them."""
    described = store.read_experiment(folder)
    return extract(described, comparison.tables(described, store.read_cell_values(folder, described), {}))


def read_extracts(folders: Sequence[Path]) -> list[Extract]:
    """Return the extracts of all experiments, in their order; StoreError for the first that cannot be read."""
    workers = min(os.cpu_count() or 1, len(folders) // MIN_PER_PROCESS)
    if workers < 2:
        return [read_extract(folder) for folder in folders]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _prepare) as pool:
        return list(pool.map(read_extract, folders, chunksize=4))


def _prepare() -> None:
    """Prepare a process: its parent handles signals, and what it reads has no cycles to collect."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
