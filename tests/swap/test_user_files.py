"""A user's file is read and replaced byte for byte, with its mode, owner, attributes and links, whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from interlock.errors import StoreError
from interlock.swap import user_files


@pytest.mark.parametrize(
    "data", [b"", b"a", b"a\r\nb\n", b"\xef\xbb\xbfFROM x", b"# Gr\xfc\xdfe\n", bytes(range(1, 256))]
)
def test_any_bytes_come_back(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    user_files.replace(file, user_files.read(file))
    assert file.read_bytes() == data


def test_the_mode_and_the_attributes_stay(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o2640)
    attributes = {}
    try:
        os.setxattr(file, "user.note", b"mine")
        attributes["user.note"] = b"mine"
    except OSError:
        pass  # a file system without them
    user_files.replace(file, "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o2640
    assert {name: os.getxattr(file, name) for name in attributes} == attributes


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    os.chown(file, 1234, 4321)
    file.chmod(0o600)
    user_files.replace(file, "new")
    assert (file.stat().st_uid, file.stat().st_gid, stat.S_IMODE(file.stat().st_mode)) == (1234, 4321, 0o600)


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    user_files.replace(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_nothing_else_is_left_in_the_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    user_files.replace(file, "new")
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_cannot_be_replaced_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        user_files.replace(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_is_gone_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        user_files.replace(tmp_path / "file", "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (lambda path: path.write_text("FROM x", encoding="utf-16"), "zero bytes"),
        (lambda path: None, "cannot be read: No such file"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, make: object, problem: str) -> None:
    make(tmp_path / "x")  # type: ignore[operator]
    with pytest.raises(StoreError, match=problem):
        user_files.read(tmp_path / "x")
