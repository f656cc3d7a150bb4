"""Reads experiments' folders into extracts; many of them on all cores."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from interlock import compare, store
from interlock.across.extract import Extract, extract
from interlock.errors import StoreError

# Fewer are read before another process has started.
FEWEST = 16


def read(folder: Path) -> Extract:
    """One experiment, without its profiles, which nothing across experiments needs."""
    described = store.read_experiment(folder)
    return extract(described, compare.tables(described, store.read_cell_values(folder, described), {}))


def read_all(folders: Sequence[Path]) -> list[Extract]:
    """Each of them, in their order; StoreError for the first that cannot be read."""
    workers = min(os.cpu_count() or 1, len(folders) // FEWEST)
    if workers < 2:
        return [read(folder) for folder in folders]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _prepare) as pool:
        found = []
        for one in pool.map(_try, folders, chunksize=4):
            if isinstance(one, dict):
                pool.shutdown(wait=False, cancel_futures=True)
                raise StoreError(**one)
            found.append(one)
        return found


def _try(folder: Path) -> Extract | dict[str, str]:
    """An error's parts, for an exception of ours does not survive the way between processes."""
    try:
        return read(folder)
    except StoreError as error:
        return {"file": error.file, "key": error.key, "found": error.found, "todo": error.todo}


def _prepare() -> None:
    """Of each process: signals are the parent's, and nothing that is read has cycles for the collector to look for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
