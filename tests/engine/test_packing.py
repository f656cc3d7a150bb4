"""A tar of this machine's files: at their places, root's, and without what is no part of a project."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from interlock.engine.packing import tar_of_paths
from interlock.errors import RequirementsError


def names(places: dict[str, Path | bytes]) -> dict[str, tarfile.TarInfo]:
    with tar_of_paths(places) as stream, tarfile.open(fileobj=stream) as tar:
        return {entry.name: entry for entry in tar}


def test_a_projects_folder_is_there_whole_but_for_what_was_made_or_installed_in_it(tmp_path: Path) -> None:
    for file in ("pyproject.toml", "src/app/__init__.py", ".git/HEAD", "env/pyvenv.cfg", "env/bin/python", ".nox/x"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "link").symlink_to("pyproject.toml")
    os.mkfifo(tmp_path / "pipe")
    found = names({"/audit/local/0": tmp_path})
    files = {name for name, entry in found.items() if not entry.isdir()}
    below = "audit/local/0"
    assert files == {f"{below}/{file}" for file in ("pyproject.toml", "src/app/__init__.py", ".git/HEAD", "link")}
    assert found[f"{below}/link"].issym()


def test_everything_belongs_to_root_and_texts_are_files(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_text("wheel")
    with (
        tar_of_paths({"/x/a.whl": tmp_path / "a.whl", "/x/t.txt": b"text"}) as stream,
        tarfile.open(fileobj=stream) as tar,
    ):
        assert {(entry.name, entry.uid, entry.uname, entry.size) for entry in tar} == {
            ("x/a.whl", 0, "root", 5),
            ("x/t.txt", 0, "root", 4),
        }


def test_a_file_that_is_named_by_a_link_goes_along_itself(tmp_path: Path) -> None:
    (tmp_path / "real.pem").write_text("certificates")
    (tmp_path / "link.pem").symlink_to("real.pem")
    assert names({"/audit/ca.pem": tmp_path / "link.pem"})["audit/ca.pem"].isreg()


def test_what_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequirementsError, match=r"gone: the file cannot be read \(no such file or directory\)"):
        tar_of_paths({"/x": tmp_path / "gone"})
