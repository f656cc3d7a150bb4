"""Users' files are replaced whole, all of them or none, whatever ends the writing."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.errors import StoreError
from interlock.swap.files import (
    DOCKERFILE,
    PlannedFile,
    find_files,
    plan,
    remove_temporaries,
    reverted_file,
    swapped_file,
)
from interlock.swap.writing import FileChange, read_file, replace_files
from tests.swap.samples import FREE


def replace(path: Path, text: str) -> None:
    replace_files([FileChange(path, read_file(path), text)])


@pytest.mark.parametrize(
    "data", [b"", b"a", b"a\r\nb\n", b"\xef\xbb\xbfFROM x", b"# Gr\xfc\xdfe\n", bytes(range(1, 256))]
)
def test_any_bytes_come_back(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    replace(file, read_file(file))
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
    replace(file, "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o2640
    assert {name: os.getxattr(file, name) for name in attributes} == attributes


@pytest.mark.parametrize("of", ["the file system", "macOS, where Python has no such function"])
def test_a_system_without_attributes_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str) -> None:
    def refuse(_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    (tmp_path / "file").write_text("old")
    monkeypatch.setattr(os, "listxattr", refuse)
    if "macOS" in of:
        monkeypatch.delattr(os, "listxattr")
    replace(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    os.chown(file, 1234, 4321)
    file.chmod(0o600)
    replace(file, "new")
    assert (file.stat().st_uid, file.stat().st_gid, stat.S_IMODE(file.stat().st_mode)) == (1234, 4321, 0o600)


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    replace(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_file_that_is_gone_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file"):
        replace_files([FileChange(tmp_path / "file", "", "new")])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.mkdir(), "not a regular file"),
        (lambda path: path.write_text("FROM x", encoding="utf-16"), "UTF-8"),
        (lambda path: None, "No such file"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, make: object, problem: str) -> None:
    make(tmp_path / "x")  # type: ignore[operator]
    with pytest.raises(StoreError, match=problem):
        read_file(tmp_path / "x")


@pytest.fixture
def two(tmp_path: Path) -> list[FileChange]:
    """Changes of two files, the second one in a folder of its own and of 100 KB."""
    changes = []
    for name, size in (("first", 1), ("below/second", 50_000)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("a\n" * size)
        changes.append(FileChange(path, "a\n" * size, "b\n" * size))
    return changes


def contents(changes: list[FileChange]) -> list[str]:
    """What each file has, and that nothing else is beside it."""
    for folder in {one.path.parent for one in changes}:
        files = [path for path in folder.iterdir() if path.is_file()]
        assert files == [one.path for one in changes if one.path.parent == folder]
    return [one.path.read_text() for one in changes]


def test_two_files_are_replaced_and_nothing_else_is_left(two: list[FileChange]) -> None:
    replace_files(two)
    assert contents(two) == [one.after for one in two]


def test_a_disk_that_is_full_for_the_second_file_leaves_the_first(two: list[FileChange]) -> None:
    """The system itself refuses to write more than 50 KB."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"second: .*too large"):
            replace_files(two)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(two) == [one.before for one in two]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_that_may_not_be_written_leaves_the_files_of_others() -> None:
    """A person's own files, the second one in a folder of somebody else's."""
    with tempfile.TemporaryDirectory() as place:
        first, second = (FileChange(Path(place, name), "old", "new") for name in ("first", "below/second"))
        second.path.parent.mkdir()
        for one in (first, second):
            one.path.write_text(one.before)
            os.chown(one.path, 1234, 1234)
        os.chown(place, 1234, 1234)
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setresgid(1234, 1234, 1234)
            os.setresuid(1234, 1234, 1234)
            try:
                replace_files([first, second])
            except StoreError as error:
                os._exit(17 if error.file == str(second.path) else 18)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
        assert contents([first, second]) == ["old", "old"]


def test_what_somebody_else_changed_meanwhile_stays(two: list[FileChange]) -> None:
    two[1].path.write_text("mine\n")
    with pytest.raises(StoreError, match=r"second: "):
        replace_files(two)
    assert contents(two) == [two[0].before, "mine\n"]


def test_a_file_that_cannot_be_moved_is_told_with_how_many_were(
    two: list[FileChange], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is mounted by itself into a container."""
    move = Path.replace

    def refusing(source: Path, target: Path) -> Path:
        if target == two[1].path:
            raise OSError(16, "Device or resource busy")
        return move(source, target)

    monkeypatch.setattr(Path, "replace", refusing)
    with pytest.raises(StoreError, match=r"busy.*\b1 of 2\b.*--revert"):
        replace_files(two)
    assert contents(two) == [two[0].after, two[1].before]


ORIGINAL = {
    **{f"{number}/Dockerfile": f"FROM python:3.12-slim\r\nRUN python3.12 -V # {number}\n" for number in range(12)},
    "x.Dockerfile": "FROM python:3.12 AS a",
    "compose.yaml": "services:\n  a:\n    image: python:3.12-slim\n",
}


def change_all(folder: Path, change: Callable[[str, str], str]) -> None:
    replace_files(plan(folder, lambda path, text: PlannedFile(path, text, change(str(path), text))).changed)


def swap_and_revert_forever(folder: Path) -> None:
    while True:
        change_all(folder, lambda name, text: swapped_file(name, text, FREE, None, paths=True).text)
        change_all(folder, reverted_file)


def test_after_a_kill_at_any_moment_a_revert_brings_every_byte_back(tmp_path: Path) -> None:
    for name, text in ORIGINAL.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    seen = set()
    for _ in range(12):
        child = os.fork()
        if child == 0:
            swap_and_revert_forever(tmp_path)
        time.sleep(random.uniform(0.05, 0.5))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, "it did not end by itself"
        swapped = [path for path in find_files(tmp_path) if "interlock: was" in read_file(path)]
        seen.add((len(swapped), sum(path.is_file() for path in tmp_path.rglob("*")) - len(ORIGINAL)))
        remove_temporaries(tmp_path)
        change_all(tmp_path, reverted_file)
        left = {str(path.relative_to(tmp_path)): read_file(path) for path in tmp_path.rglob("*") if path.is_file()}
        assert left == ORIGINAL
    assert len(seen) > 1, "the kills hit different moments"


def test_what_a_killed_swap_left_is_no_file_to_swap_and_goes(tmp_path: Path) -> None:
    kept = [tmp_path / "x.Dockerfile", tmp_path / ".x.Dockerfile.orig", tmp_path / ".y.Dockerfile.interlock-abcdefg1"]
    for path in (*kept, tmp_path / ".x.Dockerfile.interlock-abcdefg1"):
        path.write_text("FROM python:3.12-slim\n")
    assert set(find_files(tmp_path)) == set(kept[:2])
    remove_temporaries(kept[0])
    assert set(tmp_path.iterdir()) == set(kept)
    remove_temporaries(tmp_path)
    assert set(tmp_path.iterdir()) == set(kept[:2])
    assert DOCKERFILE.fullmatch(kept[1].name), "a file of a user's own"


def test_what_may_not_be_looked_at_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = Path.lstat

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Dockerfile").write_text("FROM python:3.12-slim\n")
    closed = tmp_path / "closed" / "Dockerfile"
    with monkeypatch.context() as patched:
        patched.setattr(Path, "lstat", lambda path: refuse() if path == closed else look(path))
        assert [*find_files(tmp_path)] == [tmp_path / "open" / "Dockerfile"]
        for function in ("listdir", "scandir"):
            patched.setattr(os, function, refuse)
        remove_temporaries(closed)
