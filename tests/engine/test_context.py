"""An image is identified by everything that went into it, and equal contexts are equal bytes."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.context import content_hash, read_context, tar_of

FILES = {"Dockerfile": b"FROM x\n", "build.sh": b"make\n", "patches/a.patch": b"--- a\n"}
HASH = content_hash(FILES, "sha256:base", "standard")
CONTEXTS = st.dictionaries(
    st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5})?", fullmatch=True), st.binary(max_size=600), max_size=5
)


def test_the_hash_is_64_hexadecimal_digits() -> None:
    assert len(HASH) == 64
    assert int(HASH, 16) > 0


@pytest.mark.parametrize("path", FILES)
def test_another_byte_in_any_file_changes_the_hash(path: str) -> None:
    assert content_hash(FILES | {path: FILES[path] + b" "}, "sha256:base", "standard") != HASH


@pytest.mark.parametrize("path", FILES)
def test_a_file_more_or_less_or_under_another_name_changes_the_hash(path: str) -> None:
    fewer = {name: data for name, data in FILES.items() if name != path}
    assert content_hash(fewer, "sha256:base", "standard") != HASH
    assert content_hash(fewer | {f"{path}2": FILES[path]}, "sha256:base", "standard") != HASH
    assert content_hash(FILES | {f"{path}2": b""}, "sha256:base", "standard") != HASH


@pytest.mark.parametrize(("base", "profile"), [("sha256:other", "standard"), ("sha256:base", "release")])
def test_another_base_or_profile_changes_the_hash(base: str, profile: str) -> None:
    assert content_hash(FILES, base, profile) != HASH


def test_the_order_of_the_files_does_not_change_the_hash() -> None:
    assert content_hash(dict(reversed(FILES.items())), "sha256:base", "standard") == HASH


def test_a_context_is_read_with_the_files_of_its_folders(tmp_path: Path) -> None:
    for path, data in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    assert read_context(tmp_path) == FILES
    assert read_context(tmp_path / "nowhere") == {}


@given(CONTEXTS)
def test_a_tar_holds_the_files_and_is_the_same_every_time(files: dict[str, bytes]) -> None:
    stream = tar_of(files)
    data = stream.read()
    assert tar_of(dict(reversed(files.items()))).read() == data
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = tar.getmembers()
        found = {}
        for member in members:
            content = tar.extractfile(member)
            assert content is not None
            found[member.name] = content.read()
    assert found == files
    assert [member.name for member in members] == sorted(files)
    assert {(member.uid, member.gid, member.mtime, member.mode) for member in members} <= {(0, 0, 0, 0o644)}


def test_a_tar_of_programs_may_have_another_mode() -> None:
    with tarfile.open(fileobj=tar_of({"a": b""}, 0o755)) as tar:
        assert tar.getmember("a").mode == 0o755
