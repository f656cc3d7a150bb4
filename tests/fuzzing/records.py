"""What commands have written and read again: experiments, values, profiles, journals and small records."""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

from interlock import untrusted
from interlock.analysis import claims, comparison
from interlock.catalog import project
from interlock.engine import ownership
from interlock.fleet.record import FleetRecord
from interlock.report import experiment as report
from interlock.report.opening import opening_of
from interlock.results import journal, store
from interlock.results.answers import RecordedFigures
from interlock.results.experiments import EXPERIMENT_FILE, BuildRecord, Experiment
from interlock.results.journal import JOURNAL_FILE
from tests.builders import ROOT, make_claim, make_experiment, make_workload
from tests.fleet.test_record import RECORD
from tests.fuzzing.damage import Form, Target, each
from tests.results.writer import begun, entry_of, run_of

REFERENCE = ROOT / "results/reference/2026-11-29-a"
CELL = REFERENCE / "vm/cpython-2.7-pth-plain/startup.json"


def _put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", errors="replace")
    return path


def _experiment(text: str, folder: Path) -> object:
    return store.read_json(_put(folder / EXPERIMENT_FILE, text), Experiment)


def _values(text: str, folder: Path) -> object:
    path = _put(folder / "cell.json", text)
    store.read_runs(path)
    return store.read_values(path)


def _profiles(text: str, folder: Path) -> object:
    _put(folder / "x.profile.json", text)
    return store.read_profiles(folder / "x.json")


def _journal(text: str, folder: Path) -> object:
    """An experiment whose process was killed: it is read with whatever its journal has, and can be read again."""
    there = folder / "killed"
    shutil.rmtree(there, ignore_errors=True)
    there.mkdir()
    store.write_json(there / EXPERIMENT_FILE, begun())
    _put(there / JOURNAL_FILE, text)
    found = store.read_experiment(there)
    assert not (there / JOURNAL_FILE).exists()
    store.read_cells(there, found)
    assert store.read_experiment(there) == found
    assert {path.name for path in folder.iterdir()} <= {"killed"}
    return found


def _report(text: str, folder: Path) -> object:
    """An experiment of two variants with its values, whose record was changed: if it is read, it is reported."""
    there = folder / "changed"
    shutil.rmtree(there, ignore_errors=True)
    there.mkdir()
    _put(there / EXPERIMENT_FILE, text)
    for label in (*VARIANTS, f"{VARIANTS[0]}+twin"):
        runs = [run_of(block, "a").run for block in range(1, 4)]
        store.write_runs(there / "box" / label / "locks.json", {"uncontended": runs})
    described = store.read_experiment(there)
    values, profiles = store.read_cells(there, described)
    tables = comparison.tables(described, values, profiles)
    claims.evaluate([make_claim()], comparison.Contents(described, values, profiles))
    return report.markdown(described, tables, opening_of(described, values, _catalog()))


@cache
def _catalog() -> project.Catalog:
    return project.load(ROOT)


@cache
def _experiments() -> list[str]:
    return [make_experiment(VARIANTS).model_dump_json()]


@cache
def _journals() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, EXPERIMENT_FILE)
        store.write_json(path, begun())
        sum_of = untrusted.sha256_of(path)
    first = journal.JournalHeader(experiment=sum_of, workload=make_workload("locks"), facts={})
    return ["\n".join([first.model_dump_json(), *(entry_of(1, block).model_dump_json() for block in (1, 2)), ""])]


def _small(text: str, folder: Path) -> None:
    """Files of which a damaged one counts as none."""
    store._made_of(_put(folder / "figures.json", text))
    store.read_durations(_put(folder / "durations.json", text).parent)
    ownership.life_of(_put(folder / ownership.MARK, text).parent)


@cache
def _records() -> list[str]:
    (builds,) = (ROOT / "results/reference").glob("*/builds.json")
    small = [{"cpython-3.13": 12.5}, ownership.labels_of("matrix-1"), {"interlock/python:3.13": "sha256:0"}]
    large = [RECORD.model_dump_json(), builds.read_text(), (REFERENCE / "figures.json").read_text()]
    return [*large, *map(json.dumps, small)]


VARIANTS = ("cpython-3.13", "cpython-3.14t")
RECORDS = {
    "experiment.json": Target(_experiment, cache(lambda: [(REFERENCE / "experiment.json").read_text()]), Form.JSON),
    "a cell's values": Target(_values, cache(lambda: [CELL.read_text()]), Form.JSON),
    "a cell's profiles": Target(_profiles, cache(lambda: [store.profile_path(CELL).read_text()]), Form.JSON),
    "a report of a changed experiment": Target(_report, _experiments, Form.JSON),
    "a journal": Target(_journal, _journals, Form.LINES),
    "fleet.json, builds.json, figures.json and small records": Target(
        each(
            *(
                lambda text, folder, kind=kind: store.read_json(_put(folder / "record.json", text), kind)
                for kind in (FleetRecord, BuildRecord, RecordedFigures)
            ),
            _small,
        ),
        _records,
        Form.JSON,
    ),
}
