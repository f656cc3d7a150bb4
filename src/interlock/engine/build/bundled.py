"""What an interpreter's source archive brings of other projects (expat, libmpdec, mimalloc ...), in which version.

`python -m interlock.engine.build.bundled ARCHIVE...` reads archives and adds what they bring to bundled.json: a bill of
materials is made where no archive is at hand.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

# The interpreter's binaries name this shared library if the system's is linked in the place of what the source brings.
SHARED = {"expat": "libexpat.so", "mpdecimal": "libmpdec.so", "libffi": "libffi.so", "zlib": "libz.so"}
MOST_HEADER_BYTES = 2**20
MAJOR_MINOR_MICRO = r"[\s\S]*?".join(rf"#\s*define XML_{part}_VERSION (\d+)\s" for part in ("MAJOR", "MINOR", "MICRO"))
# Of each library the file that has its version, and where in it. What has parts is joined with dots.
HEADERS = {
    "expat": ("Modules/expat/expat.h", MAJOR_MINOR_MICRO),
    "mpdecimal": ("Modules/_decimal/libmpdec/mpdecimal.h", r'#define MPD_VERSION "([\d.]+)"'),
    "mimalloc": ("Include/internal/mimalloc/mimalloc.h", r"#define MI_MALLOC_VERSION (\d)(\d)(\d)\b"),
    "zlib": ("Modules/zlib/zlib.h", r'#define ZLIB_VERSION "([\d.]+)"'),
    "libffi": ("Modules/_ctypes/libffi/configure.ac", r"AC_INIT\(\[libffi\], \[([\w.-]+)\]"),
    # A commit: the project has no versions.
    "hacl-star": ("Modules/_hacl/refresh.sh", r"expected_hacl_star_rev=([0-9a-f]{40})"),
}
# CPython's own list, since 3.12. A header says what is compiled; the list has what no header says.
LIST = "Misc/sbom.spdx.json"
LISTED = {"libb2"}
FACTS = "bundled.json"


@dataclass(frozen=True)
class Bundled:
    """A library that a source brings."""

    name: str
    version: str


def read_archive(path: Path) -> list[Bundled]:
    """Return what a source archive brings, by name."""
    wanted = {file for file, _ in HEADERS.values()} | {LIST}
    texts: dict[str, str] = {}
    with tarfile.open(path) as tar:
        for entry in tar:
            name = entry.name.removeprefix("./").partition("/")[2]
            stream = tar.extractfile(entry) if name in wanted and entry.isreg() else None
            if stream is not None:
                texts[name] = stream.read(MOST_HEADER_BYTES).decode(errors="replace")
    return versions(texts)


def versions(texts: Mapping[str, str]) -> list[Bundled]:
    """Return what the files of a source say, given by their paths in it."""
    found = {}
    for package in json.loads(texts.get(LIST, "{}")).get("packages", []):
        if package["name"] in LISTED:
            found[package["name"]] = package["versionInfo"]
    for name, (file, pattern) in HEADERS.items():
        said = re.search(pattern, texts.get(file, ""))
        if said is not None:
            found[name] = ".".join(said.groups())
    return [Bundled(name, version) for name, version in sorted(found.items())]


@cache
def _facts() -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(_place().read_text(encoding="utf-8"))
    return found


def _place() -> Path:
    return Path(str(files("interlock.engine.build").joinpath(FACTS)))


def known(sha256: str) -> list[Bundled] | None:
    """Return what the archive with this sum brings; None if nobody has read it."""
    found = _facts().get(sha256)
    return None if found is None else [Bundled(name, version) for name, version in found.items()]


def main() -> None:
    """Add what archives bring to the facts."""
    added = {}
    for path in map(Path, sys.argv[1:]):
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        added[sha256] = {one.name: one.version for one in read_archive(path)}
    every = dict(sorted({**_facts(), **added}.items()))
    _place().write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
