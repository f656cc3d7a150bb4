"""Interlock as an archive: complete, and the same for the same files."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from interlock.fleet import archive
from tests.builders import ROOT


def test_the_archive_has_what_pip_and_the_matrix_need_and_no_caches() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive.pack(ROOT))) as tar:
        names = set(tar.getnames())
    assert {"pyproject.toml", "README.md", "src/interlock/cli.py", "variants/bases.toml", "workloads/locks.py"} <= names
    assert "dockerfiles/instruments/Dockerfile" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith(("results", "tests", ".git"))]


def test_the_same_files_make_the_same_archive_whenever_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("a = 1\n")
    first = archive.pack(tmp_path)
    assert first[4:8] == bytes(4), "gzip's own time"
    os.utime(tmp_path / "src/a.py", (1, 1))
    assert archive.pack(tmp_path) == first
    (tmp_path / "src/a.py").write_text("a = 2\n")
    assert archive.pack(tmp_path) != first


def test_it_is_written_once_under_its_sum(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("a = 1\n")
    path, sha256 = archive.write(tmp_path, tmp_path / "cache")
    assert path.name == f"interlock-{sha256}.tar.gz"
    assert archive.write(tmp_path, tmp_path / "cache") == (path, sha256)
