"""fleet.json: what is read of earlier fleets."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import StoreError
from interlock.fleet.record import (
    Attempt,
    Ending,
    FleetRecord,
    Shard,
    earlier_durations_s,
    merge_experiments,
    read_facts,
    read_record,
    take_in_results,
    unpack,
    write_record,
)
from interlock.measure import experiment
from interlock.results import store
from interlock.results.experiments import Experiment
from interlock.results.sums import read_sums
from tests.builders import make_cell, make_experiment, make_facts, make_settings, make_workload

SETTINGS = make_settings(["cpython-3.13", "cpython-3.14t"])


def attempt(ending: Ending, duration_s: float) -> Attempt:
    return Attempt(host=f"host-{ending}", started="2026-11-21T06:00:00+00:00", duration_s=duration_s, ending=ending)


def record(name: str, duration_s: float, **changes: Any) -> FleetRecord:
    attempts = [attempt(Ending.LOST, 7), attempt(Ending.DONE, duration_s)]
    data: dict[str, Any] = {
        "name": name,
        "token": "abc",
        "tool_version": "0",
        "command": "",
        "started": f"{name}T06:00:00+00:00",
        "duration_s": 1,
        "settings": SETTINGS,
        "each": False,
        "images": {},
        "hosts": {},
        "shards": [Shard(kind="epyc", workload="locks", expected_s=1, attempts=attempts)],
    }
    return FleetRecord.model_validate(data | changes)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_record(tmp_path, record("2026-11-21", 60))
    assert read_record(tmp_path) == record("2026-11-21", 60)


def test_a_fleet_that_is_not_there_is_said_by_its_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"fleet\.json"):
        read_record(tmp_path)


def test_what_took_how_long_is_told_oldest_first_without_lost_tries_and_for_as_many_variants(tmp_path: Path) -> None:
    write_record(tmp_path / "b", record("2026-11-22", 80))
    write_record(tmp_path / "a", record("2026-11-21", 60))
    one = make_settings(["cpython-3.13"])
    assert list(earlier_durations_s(tmp_path, one)) == [("locks", 30), ("locks", 40)]


def test_a_damaged_record_stops_no_new_fleet(tmp_path: Path) -> None:
    write_record(tmp_path / "a", record("2026-11-21", 60))
    (tmp_path / "b").mkdir()
    (tmp_path / "b/fleet.json").write_text("{")
    assert list(earlier_durations_s(tmp_path, SETTINGS)) == [("locks", 60)]


def test_full_runs_say_nothing_of_quick_ones(tmp_path: Path) -> None:
    write_record(tmp_path / "a", record("2026-11-21", 60, settings=SETTINGS.model_copy(update={"quick": False})))
    assert list(earlier_durations_s(tmp_path, SETTINGS)) == []


VARIANTS = ("cpython-3.13", "cpython-3.14t")


def part(workload: str, started: str = "2026-11-21T06:00:00+00:00", variants: tuple[str, ...] = VARIANTS) -> Experiment:
    settings = make_settings(variants).model_copy(update={"workloads": [workload]})
    return make_experiment(
        variants,
        name=f"fleet-x.host.{workload}",
        started=started,
        settings=settings,
        workloads={workload: make_workload(workload)},
        cells=[make_cell(variant, workload) for variant in variants],
        order={workload: [list(variants)]},
        warnings=[f"{workload}: busy"],
        measuring_s=10,
    )


def joined(*parts: Experiment) -> Experiment:
    found: Experiment | None = None
    for one in parts:
        found = merge_experiments(found, one, "2026-11-21-a", "bench1", experiment.repeat_command)
    assert found is not None
    return found


def test_the_parts_of_a_host_are_one_experiment_with_the_fleets_name_and_the_inventorys_host() -> None:
    one = joined(part("locks", "2026-11-21T07:00:00+00:00"), part("startup"))
    assert (one.name, one.host["name"]) == ("2026-11-21-a", "bench1")
    assert one.settings.workloads == list(one.workloads) == ["locks", "startup"]
    assert [(cell.variant, cell.workload) for cell in one.cells] == [
        (variant, workload) for workload in ("locks", "startup") for variant in VARIANTS
    ]
    assert one.order.keys() == {"locks", "startup"}
    assert one.warnings == ["locks: busy", "startup: busy"]
    assert (one.duration_s, one.measuring_s) == (25.0, 20.0)
    assert one.started == "2026-11-21T06:00:00+00:00"
    assert "--workloads locks,startup " in one.command


def test_a_part_alone_is_told_of_its_host_and_fleet_alike() -> None:
    one = joined(part("locks"))
    assert (one.name, one.host["name"], one.host["folder"]) == ("2026-11-21-a", "bench1", "box")


def test_a_second_try_takes_the_place_of_the_first() -> None:
    one = joined(part("locks"), part("startup"), part("locks", variants=("cpython-3.13",)))
    assert one.settings.workloads == ["startup", "locks"]
    assert [cell.variant for cell in one.cells if cell.workload == "locks"] == ["cpython-3.13"]


def test_facts_of_every_part_stay() -> None:
    other = part("startup").model_copy(update={"facts": {"cpython-3.14t+gil-on": make_facts()}})
    assert joined(part("locks"), other).facts.keys() == {*VARIANTS, "cpython-3.14t+gil-on"}


def suite_text(workload: str, value: float = 0.5) -> str:
    metadata = {
        "name": f"{workload} uncontended", "unit": "second", "loops": 1, "inner_loops": 1, "mem_max_rss": 1,
        "interlock_process_user_s": 1.0, "interlock_process_sys_s": 0.5,
        "interlock_block": 1, "interlock_estimator": "median",
    }  # fmt: skip
    return json.dumps({"version": "1.0", "metadata": metadata, "benchmarks": [{"runs": [{"values": [value]}]}]})


def archive(folder: Path, workload: str, sent: Experiment | None = None) -> Path:
    """As a host packs it: an experiment with one file of values."""
    there = folder / "sent" / f"fleet-x.host.{workload}"
    values = there / "box/cpython-3.13" / f"{workload}.json"
    values.parent.mkdir(parents=True)
    values.write_text(suite_text(workload))
    store.write_json(there / store.EXPERIMENT_FILE, sent or part(workload))
    path = folder / f"{workload}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(there, there.name)
    return path


def take_in(path: Path, into: Path, workload: str) -> None:
    take_in_results(
        path,
        into,
        workload,
        lambda before, new: merge_experiments(before, new, "2026-11-21-a", "bench1", experiment.repeat_command),
        SETTINGS,
    )


def test_archives_become_one_folder_that_reads_as_an_experiment(tmp_path: Path) -> None:
    for workload in ("locks", "startup"):
        take_in(archive(tmp_path, workload), tmp_path / "bench1", workload)
    assert store.read_experiment(tmp_path / "bench1").settings.workloads == ["locks", "startup"]
    found = {str(path.relative_to(tmp_path / "bench1")) for path in (tmp_path / "bench1").rglob("*") if path.is_file()}
    raw = {"bench1/cpython-3.13/locks.json", "bench1/cpython-3.13/startup.json"}
    assert found == {"experiment.json", "SHA256SUMS", *raw}
    assert read_sums(tmp_path / "bench1").known.keys() == raw


def test_a_raw_file_that_changed_before_it_was_packed_is_not_taken(tmp_path: Path) -> None:
    packed = archive(tmp_path, "locks")
    there = tmp_path / "sent" / "fleet-x.host.locks"
    store.write_sums(there)
    path = there / "box/cpython-3.13/locks.json"
    path.write_text(path.read_text().replace("0.5", "0.6"))
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(there, there.name)
    with pytest.raises(StoreError, match=r"locks\.json"):
        take_in(packed, tmp_path / "bench1", "locks")
    assert list((tmp_path / "bench1").iterdir()) == []


def test_what_a_host_sends_later_makes_no_damage_of_before_right(tmp_path: Path) -> None:
    for workload in ("locks", "startup"):
        take_in(archive(tmp_path, workload), tmp_path / "bench1", workload)
        path = tmp_path / "bench1/bench1/cpython-3.13/locks.json"
        path.write_text(path.read_text().replace("[0.5]", "[0.7]"))
    with pytest.raises(StoreError) as caught:
        store.read_cells(tmp_path / "bench1", store.read_experiment(tmp_path / "bench1"))
    assert caught.value.file == str(path)


def test_an_archive_of_another_workload_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="startup"):
        take_in(archive(tmp_path, "locks"), tmp_path / "bench1", "startup")
    assert list((tmp_path / "bench1").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.tar.gz").write_bytes(content)
    with pytest.raises(StoreError, match=r"x\.tar\.gz"):
        take_in(tmp_path / "x.tar.gz", tmp_path / "bench1", "locks")


def test_an_archive_that_would_write_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "evil").write_text("x")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "evil", "../../evil-was-here")
    with pytest.raises(StoreError, match=r"x\.tar\.gz"):
        take_in(tmp_path / "x.tar.gz", tmp_path / "deep/bench1", "locks")
    assert not list(tmp_path.rglob("evil-was-here"))


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def lie(**changes: Any) -> Experiment:
    """What a host says, past what its own schema lets it say."""
    return part("locks").model_copy(update=changes)


@pytest.mark.parametrize(
    "said",
    [
        lie(host={**part("locks").host, "folder": "../../../X"}),
        lie(host={**part("locks").host, "folder": "/etc"}),
        lie(host={**part("locks").host, "folder": "box/../.."}),
        lie(host={**part("locks").host, "folder": None}),
        lie(host={}),
        lie(cells=[make_cell("cpython-3.13", "locks").model_copy(update={"variant": "../../X"})]),
        lie(cells=[make_cell("cpython-3.13", "locks").model_copy(update={"mode": "/../../X"})]),
        lie(cells=[make_cell("cpython-3.13", "locks").model_copy(update={"workload": "../../X"})]),
        lie(cells=[make_cell("cpython-3.13", "startup")]),
        lie(settings=SETTINGS.model_copy(update={"baseline": "other"})),
        lie(settings=SETTINGS.model_copy(update={"variants": ["other"]})),
        lie(workloads={}),
    ],
    ids=range(12),
)
def test_a_host_names_no_folder_and_no_experiment(said: Experiment, tmp_path: Path) -> None:
    path = archive(tmp_path, "locks", said)
    before = files_below(tmp_path)
    with pytest.raises(StoreError):
        take_in(path, tmp_path / "deep/deeper/bench1", "locks")
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("text", ["{", "[]", suite_text("locks", float("inf")), suite_text("locks", -1)])
def test_figures_that_cannot_be_read_are_refused_before_any_are_taken(text: str, tmp_path: Path) -> None:
    path = archive(tmp_path, "locks")
    values = tmp_path / "sent/fleet-x.host.locks/box/cpython-3.13/locks.json"
    values.write_text(text)
    with tarfile.open(path, "w:gz") as tar:
        tar.add(tmp_path / "sent/fleet-x.host.locks", "x")
    with pytest.raises(StoreError):
        take_in(path, tmp_path / "bench1", "locks")
    assert files_below(tmp_path / "bench1") == set()


@pytest.mark.parametrize("text", ["", "{", "[1]", "x" * 2**21, "[" * 100_000])
def test_facts_that_are_none_are_an_error_and_removed(text: str, tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text(text)
    with pytest.raises(StoreError):
        read_facts(tmp_path / "facts.json")
    assert not list(tmp_path.iterdir())


def add(tar: tarfile.TarFile, name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 1) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, link, size if kind == tarfile.REGTYPE else 0
    tar.addfile(entry, io.BytesIO(b"x" * entry.size))


def add_all(tar: tarfile.TarFile, *names: str) -> None:
    for name in names:
        add(tar, name)


def packed(folder: Path, fill: Callable[[tarfile.TarFile], object]) -> Path:
    path = folder / "x.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        fill(tar)
    return path


def refused(path: Path, folder: Path) -> None:
    into = folder / "deep/deeper/into"
    into.mkdir(parents=True)
    with pytest.raises(StoreError):
        unpack(path, into)
    outside = [one for one in folder.rglob("*") if one.is_file() and not one.is_relative_to(into)]
    assert outside == [path]
    assert not [one for one in into.rglob("*") if one.is_symlink()]


def test_files_and_folders_are_unpacked(tmp_path: Path) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        add(tar, "x", tarfile.DIRTYPE)
        add(tar, "x/experiment.json")
        add(tar, "x/box/a+b-3.13/locks.json", size=100_000)

    into = tmp_path / "into"
    into.mkdir()
    source = unpack(packed(tmp_path, fill), into)
    assert (source / "box/a+b-3.13/locks.json").stat().st_size == 100_000


@pytest.mark.parametrize(
    "name",
    [
        "../X",
        "/etc/X",
        "x/../../X",
        "x/./X",
        "x//X",
        "x/.hidden",
        "x/a/b/c/d",
        "x/\nX",
        "x/\x1b[2J",
        "x/" + "a" * 300,
        "\udcff",
    ],
)
def test_a_name_that_is_no_experiments_is_refused(name: str, tmp_path: Path) -> None:
    refused(packed(tmp_path, lambda tar: add(tar, name)), tmp_path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
@pytest.mark.parametrize("link", ["..", "x/y", "../../../.."])
def test_nothing_but_files_and_folders_is_unpacked(kind: bytes, link: str, tmp_path: Path) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        add(tar, "x/l", kind, link)
        add(tar, "x/l/X")

    refused(packed(tmp_path, fill), tmp_path)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    refused(packed(tmp_path, lambda tar: add_all(tar, "x/a", "x/a")), tmp_path)


def test_bytes_and_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.fleet.record.MOST_FILES", 10)
    refused(packed(tmp_path, lambda tar: add_all(tar, *(f"x/{one}" for one in range(11)))), tmp_path)


def test_an_archive_that_unpacks_to_very_much_is_refused_soon(tmp_path: Path) -> None:
    """A header that promises a file of 2 GiB, and 2 GiB of nothing in 2 MB."""
    entry = tarfile.TarInfo("x/a")
    entry.size = 2 * 2**30
    path = tmp_path / "x.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(entry.tobuf())
        for _ in range(64):
            file.write(bytes(2**20))
    start_s = time.monotonic()
    refused(path, tmp_path)
    assert time.monotonic() - start_s < 20


def test_a_header_of_many_bytes_is_refused(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("x/a")
    entry.pax_headers = {"comment": "x" * 2**22}
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(entry)
    refused(path, tmp_path)


# Named, because gzip writes the second into its header, and two workers must collect the same names.
@pytest.mark.parametrize(
    "content",
    [b"", b"x", gzip.compress(b"x" * 5000), gzip.compress(b"\0" * 10240)[:-9]],
    ids=["empty", "text", "no-tar", "cut"],
)
def test_what_a_host_sends_is_refused_if_it_is_no_archive(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(content)
    refused(tmp_path / "x.tar.gz", tmp_path)
