"""What a host sent: what is taken of it, and that a host that lies writes nothing outside its folder."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import FleetError, StoreError, UsageError
from interlock.fleet.record import FleetRecord, HostRecord, take_in_results, unpack
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, EngineName, Experiment
from interlock.results.settings import Where
from interlock.results.sums import read_sums, write_sums
from tests.builders import make_cell, make_experiment, make_settings, make_workload

VARIANTS = ("cpython-3.13", "cpython-3.14t")
SETTINGS = make_settings(VARIANTS).model_copy(update={"where": Where(engine=EngineName.DOCKER)})
RECORD = FleetRecord(
    name="2026-11-21-a",
    token="abc",  # noqa: S106
    command="interlock fleet -i inventory.yml --quick",
    settings=SETTINGS,
    builds={"cpython-3.13": "a"},
)
SENT = f"{RECORD.name}-{RECORD.token}.bench1"


def measured(**changes: Any) -> Experiment:
    """What a host says that it measured."""
    plain: dict[str, Any] = {
        "name": SENT,
        "settings": SETTINGS,
        "workloads": {"locks": make_workload("locks")},
        "cells": [make_cell(variant, "locks") for variant in VARIANTS],
    }
    return make_experiment(VARIANTS, **plain | changes)


def suite_text(value: float = 0.5) -> str:
    metadata = {
        "name": "locks uncontended", "unit": "second", "loops": 1, "inner_loops": 1, "mem_max_rss": 1,
        "interlock_process_user_s": 1.0, "interlock_process_sys_s": 0.5,
        "interlock_block": 1, "interlock_estimator": "mean",
    }  # fmt: skip
    return json.dumps({"version": "1.0", "metadata": metadata, "benchmarks": [{"runs": [{"values": [value]}]}]})


def archive(folder: Path, sent: Experiment | None = None, text: str = "") -> Path:
    """As a host packs it: an experiment with one file of values, and what else there is of it."""
    there = folder / "sent" / SENT
    values = there / "box/cpython-3.13/locks.json"
    values.parent.mkdir(parents=True, exist_ok=True)
    values.write_text(text or suite_text())
    store.write_json(there / EXPERIMENT_FILE, sent or measured())
    for name in ("report.html", "report.md", ".journal"):
        (there / name).write_text("not for others")
    return pack(folder)


def pack(folder: Path) -> Path:
    path = folder / "bench1.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder / "sent" / SENT, SENT)
    return path


def take_in(path: Path, fleet: Path) -> Experiment:
    return take_in_results(path, fleet, "bench1", RECORD)


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_what_a_host_sent_is_an_experiment_with_the_fleets_name_command_and_the_inventorys_host(tmp_path: Path) -> None:
    taken = take_in(archive(tmp_path), tmp_path / "fleet")
    assert (taken.name, taken.command, taken.host["name"]) == (RECORD.name, RECORD.command, "bench1")
    assert store.read_experiment(tmp_path / "fleet/bench1") == taken


def test_where_to_go_on_is_not_a_hosts_to_say(tmp_path: Path) -> None:
    own = SETTINGS.model_copy(update={"where": Where(engine=EngineName.HOST, as_root=True, results="/etc")})
    assert take_in(archive(tmp_path, measured(settings=own)), tmp_path / "fleet").settings == SETTINGS


def test_which_registrys_image_a_from_line_names_is_not_a_hosts_to_say(tmp_path: Path) -> None:
    images = [image.model_copy(update={"digest": "evil.example/x@sha256:0"}) for image in measured().images]
    taken = take_in(archive(tmp_path, measured(images=images)), tmp_path / "fleet")
    assert [image.reference for image in taken.images] == [image.tag for image in measured().images]


def test_nothing_but_record_sums_and_the_cells_files_is_taken(tmp_path: Path) -> None:
    take_in(archive(tmp_path), tmp_path / "fleet")
    raw = "box/cpython-3.13/locks.json"
    assert files_below(tmp_path / "fleet") == {f"bench1/{name}" for name in ("experiment.json", "SHA256SUMS", raw)}
    assert read_sums(tmp_path / "fleet/bench1").known.keys() == {raw}


def test_what_is_sent_later_takes_the_place_of_what_was_sent_before(tmp_path: Path) -> None:
    take_in(archive(tmp_path), tmp_path / "fleet")
    take_in(archive(tmp_path, text=suite_text(0.7)), tmp_path / "fleet")
    assert "0.7" in (tmp_path / "fleet/bench1/box/cpython-3.13/locks.json").read_text()


def test_what_is_sent_later_is_on_the_disk_before_what_was_sent_before_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, there = tmp_path / "fleet", list[bool]()
    take_in(archive(tmp_path), fleet)
    places = [fleet / "bench1" / EXPERIMENT_FILE, fleet / ".incoming/new/bench1" / EXPERIMENT_FILE]
    monkeypatch.setattr(os, "sync", lambda: there.append(all(map(Path.is_file, places))))
    take_in(archive(tmp_path, text=suite_text(0.7)), fleet)
    assert there == [True]


def test_what_is_refused_later_leaves_what_was_taken_before(tmp_path: Path) -> None:
    take_in(archive(tmp_path), tmp_path / "fleet")
    before = files_below(tmp_path / "fleet")
    with pytest.raises(StoreError):
        take_in(archive(tmp_path, text="{"), tmp_path / "fleet")
    assert files_below(tmp_path / "fleet") == before
    assert "0.5" in (tmp_path / "fleet/bench1/box/cpython-3.13/locks.json").read_text()


def test_a_raw_file_that_changed_before_it_was_packed_is_not_taken(tmp_path: Path) -> None:
    archive(tmp_path)
    there = tmp_path / "sent" / SENT
    write_sums(there)
    (there / "box/cpython-3.13/locks.json").write_text(suite_text(0.6))
    with pytest.raises(StoreError, match=r"locks\.json"):
        take_in(pack(tmp_path), tmp_path / "fleet")
    assert files_below(tmp_path / "fleet") == set()


def lie(**changes: Any) -> Experiment:
    """What a host says, past what its own schema lets it say."""
    return measured().model_copy(update=changes)


def cell(**changes: Any) -> dict[str, Any]:
    return {"cells": [make_cell("cpython-3.13", "locks").model_copy(update=changes)]}


@pytest.mark.parametrize(
    "said",
    [
        lie(host={**measured().host, "folder": "../../../X"}),
        lie(host={**measured().host, "folder": "/etc"}),
        lie(host={**measured().host, "folder": "box/../.."}),
        lie(host={**measured().host, "folder": None}),
        lie(host={}),
        lie(**cell(variant="../../X")),
        lie(**cell(mode="/../../X")),
        lie(**cell(workload="../../X")),
        lie(**cell(workload="startup")),
        lie(settings=SETTINGS.model_copy(update={"baseline": "other"})),
        lie(settings=SETTINGS.model_copy(update={"variants": ["other"]})),
        lie(settings=SETTINGS.model_copy(update={"workloads": ["startup"]})),
        lie(workloads={}),
    ],
    ids=range(13),
)
def test_a_host_names_no_folder_and_no_experiment(said: Experiment, tmp_path: Path) -> None:
    path = archive(tmp_path, said)
    before = files_below(tmp_path)
    with pytest.raises(StoreError):
        take_in(path, tmp_path / "deep/deeper/fleet")
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("text", ["{", "[]", suite_text(float("inf")), suite_text(-1)])
def test_figures_that_cannot_be_read_are_refused_before_any_are_taken(text: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        take_in(archive(tmp_path, text=text), tmp_path / "fleet")
    assert files_below(tmp_path / "fleet") == set()


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


def place(folder: Path) -> Path:
    into = folder / "deep/deeper/into"
    into.mkdir(parents=True)
    return into


def refused(path: Path, folder: Path) -> None:
    with pytest.raises(StoreError):
        unpack(path, place(folder))
    assert [one for one in folder.rglob("*") if one.is_file() and "into" not in one.parts] == [path]


@pytest.mark.parametrize(
    "name",
    [
        "../X",
        "/etc/X",
        "x/../../X",
        "x/../experiment.json",
        "../x/experiment.json",
        "/x/experiment.json",
        "x/./a/b/X.json",
        "x//a/b/X.json",
        "x/../a/b/X.json",
        "x/a/b/..",
        "x/.hidden",
        "x/report.html",
        "x/a/b/c/d.json",
        "x/\nX",
        "x/experiment.json\n",
        "x/a/b/\x1b[2J.json",
        "x/a/b/" + "a" * 300 + ".json",
        "\udcff",
    ],
)
def test_what_has_another_name_than_an_experiments_files_is_not_unpacked(name: str, tmp_path: Path) -> None:
    path = packed(tmp_path, lambda tar: add_all(tar, name, "x/experiment.json"))
    unpack(path, place(tmp_path))
    assert files_below(tmp_path) == {path.name, "deep/deeper/into/experiment.json"}


@pytest.mark.promise(escapes=True)
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
@pytest.mark.parametrize("link", ["..", "x/y", "../../../.."])
@pytest.mark.parametrize("name", ["x/h", "x/h/v", "x/h/v/l.json"])
def test_nothing_but_files_is_unpacked(kind: bytes, link: str, name: str, tmp_path: Path) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        add(tar, name, kind, link)
        add(tar, "x/h/v/w.json")

    path = packed(tmp_path, fill)
    unpack(path, place(tmp_path))
    assert files_below(tmp_path) == {path.name, "deep/deeper/into/h/v/w.json"}


@pytest.mark.parametrize("again", ["x/experiment.json", "x/experiment.json/v/w.json"])
def test_a_file_is_never_written_twice(again: str, tmp_path: Path) -> None:
    refused(packed(tmp_path, lambda tar: add_all(tar, "x/experiment.json", again)), tmp_path)


def test_files_are_bounded_in_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.fleet.record.MOST_FILES", 10)
    refused(packed(tmp_path, lambda tar: add_all(tar, *(f"x/{one}" for one in range(11)))), tmp_path)


@pytest.mark.promise
def test_an_archive_that_unpacks_to_very_much_is_refused_soon(tmp_path: Path) -> None:
    """A header that promises a file of 2 GiB, and 2 GiB of nothing in 2 MB."""
    entry = tarfile.TarInfo("x/a")
    entry.size = 2 * 2**30
    path = tmp_path / "x.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(entry.tobuf())
        for _ in range(64):
            file.write(bytes(2**25))
    start_s = time.monotonic()
    refused(path, tmp_path)
    assert time.monotonic() - start_s < 20


@pytest.mark.parametrize(
    ("host", "resumes"),
    [
        (HostRecord(complete=True), None),
        (HostRecord(complete=True, reason="a / locks: it crashed"), False),
        (HostRecord(complete=True, not_restored="no answer"), True),
        (HostRecord(reason="no answer"), True),
    ],
)
def test_a_fleet_is_resumed_for_what_is_not_measured_or_not_restored_alone(
    host: HostRecord, resumes: bool | None, tmp_path: Path
) -> None:
    record = RECORD.model_copy(update={"hosts": {"ash": host, "birch": HostRecord(complete=True)}})
    if resumes is None:
        record.require_well(tmp_path)
        return
    with pytest.raises(FleetError) as caught:
        record.require_well(tmp_path)
    assert (caught.value.key, "--resume" in caught.value.todo) == ("ash", resumes)


def test_the_hosts_that_are_not_well_are_named_with_all_their_reasons(tmp_path: Path) -> None:
    hosts = {"ash": "no answer", "birch": "the disk is full", "cedar": "no answer"}
    record = RECORD.model_copy(update={"hosts": {name: HostRecord(reason=reason) for name, reason in hosts.items()}})
    with pytest.raises(FleetError) as caught:
        record.require_well(tmp_path)
    assert (caught.value.key, caught.value.found) == ("ash, birch, cedar", "no answer; the disk is full")


# Named, because gzip writes the second into its header, and two workers must collect the same names.
@pytest.mark.parametrize(
    "content",
    [b"", b"x", gzip.compress(b"x" * 5000), gzip.compress(b"\0" * 10240)[:-9]],
    ids=["empty", "text", "no-tar", "cut"],
)
def test_what_a_host_sends_is_refused_if_it_is_no_archive(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(content)
    refused(tmp_path / "x.tar.gz", tmp_path)


@pytest.mark.parametrize(
    ("engine", "builds", "key"),
    [(EngineName.HOST, RECORD.builds, "host"), (EngineName.DOCKER, {"cpython-3.13": "b"}, "cpython-3.13")],
)
def test_a_fleet_goes_on_with_the_engine_and_the_builds_with_which_it_began_alone(
    engine: EngineName, builds: dict[str, str], key: str
) -> None:
    RECORD.require_same(EngineName.DOCKER, RECORD.builds)
    with pytest.raises(UsageError) as caught:
        RECORD.require_same(engine, builds)
    assert key in caught.value.found
