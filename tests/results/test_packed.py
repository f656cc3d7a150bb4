"""Values that come in one archive: unpacked into the cache, or refused with a sentence, and nothing lands elsewhere."""

from __future__ import annotations

import io
import lzma
import tarfile
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.errors import Interrupted, StoreError
from interlock.results import packed
from interlock.results.experiments import EXPERIMENT_FILE
from interlock.untrusted import MIB

pytestmark = pytest.mark.promise

NAME = "box/cpython-3.13/startup.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "2026-11-21-a"
    made.mkdir()
    (made / EXPERIMENT_FILE).write_text("{}")
    return made


def pack(folder: Path, *names: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"values") -> Path:
    path = folder / packed.VALUES_FILE
    with tarfile.open(path, "w:xz") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.type, entry.size, entry.linkname = kind, len(data), "../../x"
            archive.addfile(entry, io.BytesIO(data))
    return path


def refused(folder: Path, cache: Path, named: str = "") -> None:
    before = {path for path in folder.parent.rglob("*") if cache not in path.parents}
    with pytest.raises(StoreError) as caught:
        packed.with_values(folder, cache)
    assert caught.value.file == str(folder / packed.VALUES_FILE)
    assert named in caught.value.found
    assert {path for path in folder.parent.rglob("*") if cache not in path.parents} - before <= {cache}
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_packed_values_are_unpacked_into_the_cache(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert not packed.has_values(folder)
    assert packed.with_values(folder, cache) == folder
    pack(folder, NAME)
    assert packed.has_values(folder)
    for _ in range(2):
        copy = packed.with_values(folder, cache)
        assert copy.name == folder.name
        found = {str(path.relative_to(copy)): path.read_text() for path in copy.rglob("*") if path.is_file()}
        assert found == {EXPERIMENT_FILE: "{}", NAME: "values"}
    assert len(list(copy.parent.iterdir())) == 1


def test_an_experiment_that_was_described_anew_is_unpacked_anew(folder: Path, tmp_path: Path) -> None:
    """One that was compared with was described as it had been, until the cache was removed."""
    pack(folder, NAME)
    before = packed.with_values(folder, tmp_path / "cache")
    (folder / EXPERIMENT_FILE).write_text('{"new": 1}')
    after = packed.with_values(folder, tmp_path / "cache")
    assert [(one / EXPERIMENT_FILE).read_text() for one in (before, after)] == ["{}", '{"new": 1}']


@pytest.mark.parametrize("ended_by", [None, Interrupted()])
def test_an_unpacking_that_another_was_faster_than_or_that_was_ended_leaves_nothing_behind(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended_by: BaseException | None
) -> None:
    pack(folder, NAME)
    unpack = packed._unpack

    def overtaken(archive: Path, into: Path) -> None:
        monkeypatch.setattr(packed, "_unpack", unpack)
        packed.with_values(folder, tmp_path / "cache")
        unpack(archive, into)
        if ended_by:
            raise ended_by

    monkeypatch.setattr(packed, "_unpack", overtaken)
    with suppress(Interrupted):
        packed.with_values(folder, tmp_path / "cache")
    copy = packed.with_values(folder, tmp_path / "cache")
    assert list(copy.parent.iterdir()) == [copy]


@pytest.mark.parametrize("content", [b"", b"no archive", b"\xfd7zXZ\x00", bytes(10_240)])
def test_values_that_are_no_archive_are_refused(folder: Path, tmp_path: Path, content: bytes) -> None:
    (folder / packed.VALUES_FILE).write_bytes(content)
    refused(folder, tmp_path / "cache")


def test_values_that_were_cut_or_changed_are_refused(folder: Path, tmp_path: Path) -> None:
    path = pack(folder, NAME)
    whole = path.read_bytes()
    for data in (whole[:60], whole[:80] + b"xxxx" + whole[84:]):
        path.write_bytes(data)
        refused(folder, tmp_path / "cache")


@pytest.mark.parametrize("name", ["../../../x.json", "/tmp/x.json", "box/../x.json", "a/b/c/d.json", "box/v/x.py", "x"])
def test_values_that_would_land_elsewhere_are_refused(folder: Path, tmp_path: Path, name: str) -> None:
    pack(folder, name)
    refused(folder, tmp_path / "cache", repr(name))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_values_that_are_no_files_are_refused(folder: Path, tmp_path: Path, kind: bytes) -> None:
    pack(folder, NAME, kind=kind, data=b"")
    refused(folder, tmp_path / "cache", repr(NAME))


def test_values_that_unpack_to_too_much_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(folder, NAME, "box/cpython-3.13/locks.json", data=bytes(6000))
    monkeypatch.setattr(packed, "MOST_BYTES", 10_000)
    refused(folder, tmp_path / "cache")
    monkeypatch.setattr(packed, "MOST_FILE_BYTES", 5000)
    refused(folder, tmp_path / "cache", repr(NAME))


@pytest.mark.promise
@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_of_an_archive_whose_header_says_gigabytes_they_are_not_read(folder: Path, tmp_path: Path, kind: bytes) -> None:
    entry = tarfile.TarInfo("a")
    entry.type, entry.size = kind, 300 * MIB
    with lzma.open(folder / packed.VALUES_FILE, "wb", preset=0) as archive:
        archive.write(entry.tobuf())
        for _ in range(300):
            archive.write(bytes(MIB))
    tracemalloc.start()
    refused(folder, tmp_path / "cache", "larger than is read")
    assert tracemalloc.get_traced_memory()[1] < 300 * MIB  # half of what it was: the archive itself may have 256 MiB
    tracemalloc.stop()


@pytest.mark.promise
def test_sparse_files_of_many_gigabytes_in_a_small_archive_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "MOST_BYTES", 20_000)
    with lzma.open(folder / packed.VALUES_FILE, "wb") as archive:
        for number in range(3):
            entry = tarfile.TarInfo(f"box/cpython-3.13/w{number}.json")
            entry.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": "9000", "GNU.sparse.numblocks": "1"}
            archive.write(entry.tobuf(tarfile.PAX_FORMAT))
        archive.write(bytes(1024))
    refused(folder, tmp_path / "cache", "larger than any")
