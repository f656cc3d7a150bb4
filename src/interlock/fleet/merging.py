"""What a host measured, workload by workload, as one experiment. `merged` is pure; `take_in` moves the files."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlock import store
from interlock.errors import StoreError
from interlock.model import Experiment, Settings

Repeat = Callable[[Settings], str]


def merged(before: Experiment | None, new: Experiment, name: str, host: str, repeat: Repeat) -> Experiment:
    """The experiment of a host with another workload, which takes the place of an earlier try at it.

    The host bears the inventory's name: machines that were cloned call themselves the same.
    """
    parts = [*([] if before is None else [_without(before, new.settings.workloads)]), new]
    settings = new.settings.model_copy(
        update={"workloads": [name for part in parts for name in part.settings.workloads]}
    )
    joined = {
        "name": name,
        "command": repeat(settings),
        "started": min(part.started for part in parts),
        "settings": settings,
        "host": {**new.host, "name": host},
        **{key: _sum(parts, key) for key in ("duration_s", "measuring_s", "in_processes_s")},
        **{key: _union(parts, key) for key in ("workloads", "facts", "order", "left_out")},
        **{key: _all(parts, key) for key in ("cells", "limits", "warnings")},
    }
    return new.model_copy(update=joined)


def _without(experiment: Experiment, workloads: list[str]) -> Experiment:
    kept = [name for name in experiment.settings.workloads if name not in workloads]
    return experiment.model_copy(
        update={
            "settings": experiment.settings.model_copy(update={"workloads": kept}),
            "cells": [cell for cell in experiment.cells if cell.workload in kept],
            "limits": [cell for cell in experiment.limits if cell.workload in kept],
            **{key: {name: one for name, one in getattr(experiment, key).items() if name in kept}
               for key in ("workloads", "order", "left_out")},
        }
    )  # fmt: skip


def _sum(parts: list[Experiment], key: str) -> float:
    return round(sum(float(getattr(part, key)) for part in parts), 3)


def _union(parts: list[Experiment], key: str) -> dict[str, Any]:
    return {name: one for part in parts for name, one in getattr(part, key).items()}


def _all(parts: list[Experiment], key: str) -> list[Any]:
    return [one for part in parts for one in getattr(part, key)]


def take_in(
    archive: Path, folder: Path, workload: str, rename: Callable[[Experiment | None, Experiment], Experiment]
) -> None:
    """Unpacks what a host measured into its experiment's folder; experiment.json comes last: it is never untrue.

    StoreError for an archive that is none, or of another workload.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".incoming-") as there:
        source = _unpack(archive, Path(there))
        new = store.read_experiment(source)
        if new.settings.workloads != [workload]:
            raise StoreError(
                file=str(archive), found=f"holds {new.settings.workloads}, not {workload}", todo="Measure again."
            )
        before = store.read_experiment(folder) if (folder / store.EXPERIMENT_FILE).is_file() else None
        values = str(new.host["folder"])
        for path in sorted((source / values).rglob("*")):
            if path.is_file():
                target = folder / values / path.relative_to(source / values)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, target)
        store.write_json(folder / store.EXPERIMENT_FILE, rename(before, new))
    archive.unlink()


def _unpack(archive: Path, into: Path) -> Path:
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(into, filter="data")
        (source,) = into.iterdir()
    except (tarfile.TarError, OSError, ValueError) as error:
        raise StoreError(
            file=str(archive), found=f"is no archive of an experiment ({error})", todo="Measure again."
        ) from None
    return source
