"""What a host packs is unpacked into its folder or not at all."""

from __future__ import annotations

import gzip
import io
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.errors import StoreError
from interlock.fleet import unpacking


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
        unpacking.unpack(path, into)
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
    source = unpacking.unpack(packed(tmp_path, fill), into)
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
    monkeypatch.setattr(unpacking, "MOST_FILES", 10)
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
    assert time.monotonic() - start_s < 5


def test_a_header_of_many_bytes_is_refused(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("x/a")
    entry.pax_headers = {"comment": "x" * 2**22}
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(entry)
    refused(path, tmp_path)


@pytest.mark.parametrize("content", [b"", b"x", gzip.compress(b"x" * 5000), gzip.compress(b"\0" * 10240)[:-9]])
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(content)
    refused(tmp_path / "x.tar.gz", tmp_path)
