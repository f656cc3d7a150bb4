"""What a source brings of other projects is read from its own headers and lists."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from interlock.catalog import project as catalogs
from interlock.engine.build.bundled import Bundled, known, read_archive, versions
from tests.builders import ROOT

EXPAT = "#define XML_MAJOR_VERSION 2\n#define XML_MINOR_VERSION 7\n#define XML_MICRO_VERSION 5\n\n#ifdef __cplusplus\n"
FILES = {
    "Modules/expat/expat.h": EXPAT,
    "Modules/_decimal/libmpdec/mpdecimal.h": '#define MPD_MAJOR_VERSION 2\n\n#define MPD_VERSION "2.5.1"\n',
    "Include/internal/mimalloc/mimalloc.h": "#define MI_MALLOC_VERSION 212   // major + 2 digits minor\n",
    "Modules/zlib/zlib.h": '#define ZLIB_VERSION "1.2.11"\n#define ZLIB_VERNUM 0x12b0\n',
    "Modules/_ctypes/libffi/configure.ac": "dnl\nAC_INIT([libffi], [3.1], [http://example.org])\n",
    "Modules/_hacl/refresh.sh": f"expected_hacl_star_rev={'a' * 40}\n",
    "Misc/sbom.spdx.json": json.dumps(
        {"packages": [{"name": "libb2", "versionInfo": "0.98.1"}, {"name": "pip", "versionInfo": "1"}]}
    ),
}
FOUND = {
    "expat": "2.7.5",
    "hacl-star": "a" * 40,
    "libb2": "0.98.1",
    "libffi": "3.1",
    "mimalloc": "2.1.2",
    "mpdecimal": "2.5.1",
    "zlib": "1.2.11",
}


def test_versions_are_those_of_the_headers() -> None:
    assert versions(FILES) == [Bundled(name, version) for name, version in FOUND.items()]


@pytest.mark.parametrize("file", FILES)
def test_what_is_not_in_a_source_is_not_named(file: str) -> None:
    assert len(versions({file: FILES[file]})) == 1
    assert versions({file: "another text" if not file.endswith("json") else "{}"}) == []


def test_a_version_within_a_condition_is_read_too() -> None:
    """As expat has it since 2.7.5."""
    indented = EXPAT.replace("#define", "#  define")
    assert versions({"Modules/expat/expat.h": indented}) == [Bundled("expat", "2.7.5")]


@pytest.mark.parametrize("first", ["Python-3.14.4/", "./Python-3.14.4/"])
def test_an_archive_is_read_below_its_folder(first: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "source.tgz", "w:gz") as tar:
        for name, text in {**FILES, "Doc/Modules/expat/expat.h": EXPAT.replace("7", "1")}.items():
            entry = tarfile.TarInfo(first + name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    assert {one.name: one.version for one in read_archive(tmp_path / "source.tgz")} == FOUND


def test_what_the_core_variants_sources_bring_is_known() -> None:
    """A new version wants to be read (docs/images.md)."""
    variants = catalogs.load(ROOT).variants.values()
    sources = [one.interpreter for one in variants if one.core and one.interpreter]
    read = {one.file: known(one.sha256) for one in sources if "Python-" in one.file}
    assert len(read) > 1
    assert all(found and "expat" in {one.name for one in found} for found in read.values()), read


def test_a_source_that_nobody_has_read_is_unknown_and_not_empty() -> None:
    assert known("0" * 64) is None
