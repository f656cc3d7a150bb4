"""What a volume of packages is known by, and what is read from the names of wheels."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.build.sources import tar_of
from interlock.engine.packages import installer
from interlock.engine.packages.installer import COMPILE, names_of, planned, versions_of
from tests.builders import make_container
from tests.workloads.test_syntax import vermin

LINES = st.lists(st.text(min_size=1), min_size=1, unique=True)


def test_the_names_of_wheels_tell_packages_and_versions() -> None:
    places = [
        "/audit/wheels/Backports.functools_lru_cache-1.6.6-py2.py3-none-any.whl",
        "/audit/wheels/mercurial-7.2.4-1-cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    ]
    assert versions_of(places) == {"backports-functools-lru-cache": "1.6.6", "mercurial": "7.2.4"}


def test_a_package_of_which_each_python_has_a_version_is_named_once() -> None:
    lines = ["b2==5.0.0; python_version >= '3.10'", "b2sdk[full]==2.13.1", "b2==4.6.0; python_version == '3.9'"]
    assert names_of(lines) == ["b2", "b2sdk"]


@given(st.text(min_size=1), LINES, st.text(min_size=1))
def test_the_same_image_and_lines_have_the_same_volume_and_others_another(
    image: str, lines: list[str], more: str
) -> None:
    assert planned(image, lines) == planned(image, list(lines))
    assert planned(image, lines).volume != planned(image + more, lines).volume
    assert planned(image, lines).volume != planned(image, [*lines, more]).volume


def test_a_cell_finds_modules_below_the_place() -> None:
    found = planned("sha256:1", ["six"])
    assert found.site == f"{found.mount_path}/site"
    assert found.mount_path.startswith("/packages/")


def compiled(site: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", before + COMPILE, str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Packages as pip leaves them, with a file for another version of Python."""
    (tmp_path / "package").mkdir()
    files = {"one.py": "x = 1\n", "package/__init__.py": "", "package/old.py": "print 'two'\n", "data.txt": "x"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_module_gets_its_byte_code_but_for_those_of_other_versions(site: Path) -> None:
    assert compiled(site).returncode == 0
    tag = sys.implementation.cache_tag
    assert {str(path.relative_to(site)) for path in site.rglob("*.pyc")} == {
        f"__pycache__/one.{tag}.pyc",
        f"package/__pycache__/__init__.{tag}.pyc",
    }


def test_byte_code_that_cannot_be_stored_is_an_error(site: Path) -> None:
    (site / "package/__pycache__").write_text("in the way")
    done = compiled(site)
    assert done.returncode != 0
    assert "__pycache__" in done.stderr


def test_byte_code_that_is_not_where_it_was_stored_is_an_error(site: Path) -> None:
    done = compiled(site, "import py_compile; py_compile.compile = lambda path, doraise: path + 'c'\n")
    assert done.returncode != 0
    assert done.stderr.startswith(f"no byte code of {site}")


def test_byte_code_is_made_by_every_interpreter(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(COMPILE)
    assert vermin(tmp_path / "program.py").returncode == 0


def record(data: bytes) -> Any:
    """A volume's container, and what is read of it."""
    client = Mock()
    client.containers.create.return_value = make_container(data)
    return installer._recorded(client, "sha256:1", planned("sha256:1", ["six"]))


def packed(content: bytes) -> bytes:
    return tar_of({"interlock.json": content}).read()


def link(target: str) -> bytes:
    entry = tarfile.TarInfo("interlock.json")
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    return entry.tobuf() + bytes(tarfile.RECORDSIZE)


def test_the_versions_are_read_back() -> None:
    assert record(packed(b'{"six": "1.17"}')) == {"six": "1.17"}


SPOILED = [b"", b"{", b"1", b"[1]", b'["ab"]', b'{"six": 1}', b"[" * 20_000, b"\xff"]


@pytest.mark.parametrize("data", [*SPOILED, *map(packed, SPOILED), *map(link, ("", "interlock.json", "../x"))])
def test_a_record_that_what_was_installed_has_changed_or_made_a_link_is_none(data: bytes) -> None:
    assert record(data) is None
