"""Generated files: those that differ are written, and what nothing generates any more is removed if that is proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.catalog.types import GENERATED
from interlock.results import generated as files
from interlock.results.files import write_atomically


def marked(name: str) -> str:
    return f"# {GENERATED.format(name=name)}\n"


RENDERED = {
    "dockerfiles/a/build.sh": f"#!/bin/sh\n{marked('a')}echo a\n",
    "dockerfiles/a/Dockerfile": f"{marked('a')}FROM x\n",
    "schema.json": "{}\n",
}


@pytest.fixture
def generated(tmp_path: Path) -> Path:
    files.sync(tmp_path, RENDERED)
    return tmp_path


def test_what_was_just_generated_has_not_drifted(generated: Path) -> None:
    assert files.drift(generated, RENDERED) == []


def test_changed_missing_and_left_over_files_have_drifted_and_are_mended(generated: Path) -> None:
    (generated / "dockerfiles/a/build.sh").write_text("echo b\n", encoding="utf-8")
    (generated / "schema.json").unlink()
    for folder in ("variants", "dockerfiles/a"):
        write_atomically(generated / folder / "patches/old.patch", "--- a\n")
    wrong = ["dockerfiles/a/build.sh", "dockerfiles/a/patches/old.patch", "schema.json"]
    assert files.drift(generated, RENDERED) == wrong
    files.sync(generated, RENDERED)
    assert files.drift(generated, RENDERED) == []
    assert (generated / "dockerfiles/a/build.sh").read_text(encoding="utf-8") == RENDERED["dockerfiles/a/build.sh"]
    assert not (generated / "dockerfiles/a/patches/old.patch").exists()
    assert (generated / "variants/patches/old.patch").exists()


def test_the_folder_of_a_variant_that_is_gone_is_left_over(generated: Path) -> None:
    written = {"Dockerfile": marked("gone"), "finish.sh": f"#!/bin/sh\n{marked('gone')}", "fetch.sh": "fetch\n"}
    write_atomically(generated / "dockerfiles/fetch.sh", "fetch\n")
    for name, text in written.items():
        write_atomically(generated / "dockerfiles/gone" / name, text)
    assert files.sync(generated, RENDERED) == [f"dockerfiles/gone/{name}" for name in sorted(written)]
    assert (generated / "dockerfiles/fetch.sh").exists()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("server/Dockerfile", "FROM x\n"),
        ("server/build.sh", "cc server.c\n"),  # that name alone made a folder a generated one
        ("mine/Dockerfile", marked("a")),  # a copy that somebody goes on with
        ("mine/build.sh", f"#!/bin/sh\n{marked('mine')}"),
        ("a/finish.sh", "echo by hand\n"),
        ("a/notes.txt", "by hand\n"),
        ("a/before/build.sh", f"#!/bin/sh\n{marked('a')}"),
        ("a/patches/mine.patch", "+++ mine\n"),
        ("a/fetch.sh", "echo mine\n"),
    ],
)
def test_what_is_not_proved_to_be_generated_is_not_touched(generated: Path, path: str, text: str) -> None:
    write_atomically(generated / "dockerfiles" / path, text)
    assert files.sync(generated, RENDERED) == []
    assert (generated / "dockerfiles" / path).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("damage", [b"echo a\r\n", b"\xff\xfe\n"], ids=["other line ends", "not text"])
def test_a_file_with_other_bytes_has_drifted(generated: Path, damage: bytes) -> None:
    (generated / "dockerfiles/a/build.sh").write_bytes(damage)
    assert files.drift(generated, RENDERED) == ["dockerfiles/a/build.sh"]
