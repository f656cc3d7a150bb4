#!/bin/sh
# Moves the byte code of the installed pure-Python standard library into the zip file that the interpreter looks into
# first, stored and not deflated, and removes the sources: run on $PREFIX when its byte code is compiled. The .pyc files
# go in as they are. Nothing is done where that zip file exists.
set -eu
: "${PREFIX:=/usr/local}"

PYTHONHASHSEED=0 "$PREFIX/bin/python3" -S -B - <<'PYTHON'
import sys
import zipfile
from pathlib import Path
from sysconfig import get_path

# venv copies its scripts and ensurepip reads its wheels from beside themselves.
ON_DISK = {"venv", "ensurepip"}
library = Path(get_path("stdlib"))
target = Path(next(place for place in sys.path if place.endswith(".zip")))


def is_packed(source):
    """Whether a .py file is a module of the standard library: of a package from the top down, and not left on disk."""
    folders = source.relative_to(library).parent.parts
    packages = (library.joinpath(*folders[: depth + 1], "__init__.py") for depth in range(len(folders)))
    return not ON_DISK.intersection(folders[:1]) and all(package.exists() for package in packages)


def byte_code_of(source):
    return source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"


def pack(sources):
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as packed:
        for source in sources:
            entry = zipfile.ZipInfo(str(source.relative_to(library).with_suffix(".pyc")))  # of 1980, as all are
            entry.external_attr = 0o100644 << 16
            packed.writestr(entry, byte_code_of(source).read_bytes())


def remove(sources):
    for source in sources:
        source.unlink()
        byte_code_of(source).unlink()
    folders = sorted({source.parent for source in sources}, reverse=True)
    for folder in [*(folder / "__pycache__" for folder in folders), *folders]:
        if not any(folder.iterdir()):
            folder.rmdir()


if target.exists():
    print(f"interlock: {target} exists")
    sys.exit()
modules = [source for source in sorted(library.rglob("*.py")) if is_packed(source)]
pack(modules)
remove(modules)
print(f"interlock: {len(modules)} modules are in {target}, {target.stat().st_size} bytes")
PYTHON
