"""fleet.json, and what earlier fleets say of how long workloads take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interlock import store
from interlock.fleet.record import FleetRecord
from interlock.model import Settings

FLEET_FILE = "fleet.json"


def write(folder: Path, record: FleetRecord) -> None:
    store.write_json(folder / FLEET_FILE, record)


def read(folder: Path) -> FleetRecord:
    return store.read_json(folder / FLEET_FILE, FleetRecord)


def read_facts(path: Path) -> dict[str, Any]:
    """What a host said of itself; the file is of no use after that."""
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    return facts


def measured_s(results: Path, settings: Settings) -> Iterator[tuple[str, float]]:
    """How long workloads took in earlier fleets that were as quick, oldest first: for as many variants as now."""
    records = [read(path.parent) for path in results.glob(f"*/{FLEET_FILE}")]
    for record in sorted(records, key=lambda record: record.started):
        if record.settings.quick == settings.quick:
            share = len(settings.variants) / len(record.settings.variants)
            for shard in record.shards:
                for attempt in shard.attempts:
                    if attempt.host == shard.done_by:
                        yield shard.workload, attempt.duration_s * share
