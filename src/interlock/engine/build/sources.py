"""Files that a build takes from this machine: sources, wheels and installed interpreters, packed as tar streams."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from interlock.catalog.sources import Download
from interlock.catalog.types import MACHINE
from interlock.catalog.variants import Prefix, Variant
from interlock.engine.ended import run_here
from interlock.errors import EngineError, RequirementsError, SourceUnavailableError

# Left out of a project's folder, because it was installed or made there.
LEFT_OUT = {"__pycache__", "node_modules", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
OF_A_VENV = "pyvenv.cfg"
MIRROR = "INTERLOCK_SOURCE_MIRROR"
PIP = "pip/"
# The tags after the version in a wheel's name (PEP 425; the first where it names several), and pip's options for them.
WHEEL = re.compile(r"-[a-z]+([0-9]+)[^-]*-([^-.]+)[^-]*-([^-.]+)[^-]*\.whl$")
TAGS = ("--python-version", "--abi", "--platform")
PREFIX, LIBRARIES = "usr/local", "opt/interlock"
# Libraries that the image must have itself: libc belongs to the dynamic loader, which is not packed.
LIBC = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|anl|crypt|stdc\+\+|gcc_s))\.so(\.|$)")
# In these prefixes an interpreter lies among everything else that is installed.
SYSTEM = (Path("/"), Path("/usr"))
NOT_PACKED = re.compile(
    r"(^|/)(__pycache__|tests?|idlelib|turtledemo|tkinter|lib-tk)(/|$)"
    r"|(^|/)_tkinter[^/]*\.so$|\.(a|pyc|pyo)$|^bin/idle|^share/(man|doc|info)(/|$)"
)
ELF, SCRIPT = b"\x7fELF", b"#!"
SAID = re.compile(r"^[ \t]*+(\S+) => (/\S+)", re.MULTILINE)


def tar_of(files: Mapping[str, bytes], mode: int = 0o644) -> io.BytesIO:
    """Return a tar with fixed owners and times, so that equal files give equal bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    stream.seek(0)
    return stream


def tar_of_paths(places: Mapping[str, Path | bytes]) -> IO[bytes]:
    """Return a tar, on disk, of each file, folder or text at its absolute place; all of it belongs to root.

    RequirementsError names what cannot be read.
    """
    stream = tempfile.TemporaryFile()  # noqa: SIM115  the caller reads it
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for place, content in sorted(places.items()):
            name = place.lstrip("/")
            if isinstance(content, bytes):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(_owned_by_root(entry), io.BytesIO(content))
                continue
            try:
                _add(tar, content.resolve(), name)
            except OSError as error:
                raise RequirementsError(
                    file=str(error.filename or content),
                    found=f"the file cannot be read ({(error.strerror or str(error)).lower()})",
                    todo="Make it readable for this user.",
                ) from None
    stream.seek(0)
    return stream


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    if not path.is_dir():
        tar.add(path, name, filter=_owned_by_root)
        return
    tar.add(path, name, recursive=False, filter=_owned_by_root)
    for inner in sorted(path.iterdir()):
        if inner.name in LEFT_OUT or (inner / OF_A_VENV).is_file():
            continue
        if inner.is_symlink():
            tar.add(inner, f"{name}/{inner.name}", recursive=False, filter=_owned_by_root)
        elif inner.is_dir() or inner.is_file():
            _add(tar, inner, f"{name}/{inner.name}")


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def local_files(variant: Variant, cache: Path) -> dict[str, bytes]:
    """Return the files that fetch.sh finds beside the scripts, by path in the build context.

    They come from the folder that INTERLOCK_SOURCE_MIRROR names, the cache, and pip's index, which is asked with this
    machine's settings.
    """
    folder = mirror_folder()
    files = {}
    wanted: dict[str, Sequence[Download]] = {
        "sources": [*variant.parts, *variant.archives.values()],
        "finish-sources": variant.finish.downloads if variant.finish else [],
    }
    for place, downloads in wanted.items():
        for download in downloads:
            own = _content(folder / download.file) if folder else None
            data = own or _content(kept(download, cache)) or _from_pip(download, cache)
            if data is not None:
                files[f"{place}/{download.file}"] = data
            signature = folder / f"{download.file}.asc" if folder else None
            if signature and signature.is_file():
                files[f"{place}/{signature.name}"] = signature.read_bytes()
    return files


def _mirror() -> str:
    """Return the user's mirror; a file: URL becomes a path, because a container cannot read this machine's folders."""
    return os.environ.get(MIRROR, "").removeprefix("file://")


def mirror_url() -> str:
    """Return INTERLOCK_SOURCE_MIRROR as builds get it: empty if it is a folder of this machine."""
    mirror = _mirror()
    return mirror if "://" in mirror else ""


def mirror_folder() -> Path | None:
    """Return the folder that INTERLOCK_SOURCE_MIRROR names; None if it names none."""
    mirror = _mirror()
    if not mirror or "://" in mirror:
        return None
    folder = Path(mirror)
    if not folder.is_dir():
        raise EngineError(
            key=MIRROR, found=f"'{mirror}' is neither a URL nor a directory", todo="Correct it or unset it."
        )
    return folder


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def kept(download: Download, cache: Path) -> Path:
    """Return the path of a file in the cache, whether it is there or not."""
    return cache / "downloads" / download.sha256


def _from_pip(download: Download, cache: Path) -> bytes | None:
    """Return the wheel if pip's index has it with the declared sum; the build reports what goes wrong."""
    releases = [place.removeprefix(PIP) for place in download.places if place.startswith(PIP)]
    tags = _tags(download.file)
    if not releases or not tags:
        return None
    target = kept(download, cache)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", folder]
        run_here([*command, *tags, releases[0]])
        data = _content(Path(folder, download.file))
        if data is None or hashlib.sha256(data).hexdigest() != download.sha256:
            return None
        (Path(folder) / download.file).replace(target)
    return data


def _tags(file: str) -> list[str]:
    """Return pip's options for the interpreter of a wheel, which is not the one that runs pip; none for other files."""
    match = WHEEL.search(file)
    return [word for pair in zip(TAGS, match.groups(), strict=True) for word in pair] if match else []


def folders_of(prefix: Prefix) -> list[Path]:
    """Return the prefix' places as folders of this machine, whether they exist or not."""
    named = [place.replace(MACHINE, platform.machine()) for place in prefix.places]
    return [Path(os.path.expandvars(place)).expanduser().resolve() for place in named]


def find_prefix(variant: Variant, prefix: Prefix) -> Path:
    """Return the first of the prefix' places that exists here.

    SourceUnavailableError names all places if none does, or the one that is the system's own.
    """
    for place, folder in zip(prefix.places, folders_of(prefix), strict=True):
        if folder in SYSTEM:
            raise not_found(variant, f"{place} is the system's own folder: packing it would pack the whole system")
        if (folder / "bin").is_dir():
            return folder
    raise not_found(variant, f"not installed on this machine: {', '.join(prefix.places)}")


def not_found(variant: Variant, problem: str) -> SourceUnavailableError:
    """Return the error for an interpreter that others built and that none of its places has."""
    todo = "Install it into a folder of its own and name that."
    return SourceUnavailableError(file=variant.file, key="prefix.places", found=problem, todo=todo)


def packed_files(prefix: Path) -> list[Path]:
    """Return the files of the prefix that go into an image, sorted: no tests, static libraries or byte code."""
    kept_files = []
    for folder, folders, files in os.walk(prefix):
        below = Path(folder).relative_to(prefix)
        folders[:] = sorted(name for name in folders if not NOT_PACKED.search(str(below / name)))
        links = [name for name in folders if (prefix / below / name).is_symlink()]
        kept_files += [below / name for name in (*links, *files) if not NOT_PACKED.search(str(below / name))]
    return sorted(kept_files)


def identity(prefix: Path, files: list[Path]) -> str:
    """Return a text that changes with the prefix. It has names, sizes and times, so that no file is read for it."""
    lines = []
    for path in files:
        status = (prefix / path).lstat()
        lines.append(f"{path} {status.st_mode:o} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(lines)


def pack(prefix: Path, files: list[Path]) -> bytes:
    """Return a sorted tar of usr/local and opt/interlock (the libraries), owned by root, with the files' own times."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", dereference=False) as tar:
        for path in files:
            _add_file(tar, prefix, path)
        for library in libraries(prefix, files):
            entry = tar.gettarinfo(str(library.resolve()), f"{LIBRARIES}/{library.name}")
            with library.open("rb") as data:
                tar.addfile(_plain(entry), data)
    return stream.getvalue()


def _add_file(tar: tarfile.TarFile, prefix: Path, path: Path) -> None:
    entry = _plain(tar.gettarinfo(str(prefix / path), f"{PREFIX}/{path}"))
    if not entry.isreg():
        if entry.issym() and entry.linkname.startswith(f"{prefix}/"):
            entry.linkname = entry.linkname.replace(f"{prefix}/", f"/{PREFIX}/", 1)
        tar.addfile(entry)
        return
    data = _moved((prefix / path).read_bytes(), prefix)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _moved(data: bytes, prefix: Path) -> bytes:
    """Return a script with the first line changed to name the interpreter where the image has it."""
    if not data.startswith(SCRIPT):
        return data
    line, newline, rest = data.partition(b"\n")
    return line.replace(f"{prefix}/".encode(), f"/{PREFIX}/".encode()) + newline + rest


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    _owned_by_root(entry)
    entry.mode = 0o755 if entry.mode & 0o111 else 0o644
    return entry


def libraries(prefix: Path, files: list[Path]) -> list[Path]:
    """Return the shared libraries outside the prefix that its programs and modules link, by name, without libc's."""
    said = "".join(run_here(["ldd", str(path)]).stdout for path in _elf_files(prefix, files))
    linked = {name: Path(place) for name, place in SAID.findall(said) if not LIBC.match(name)}
    return [place for _, place in sorted(linked.items()) if not place.is_relative_to(prefix)]


def _elf_files(prefix: Path, files: list[Path]) -> Iterator[Path]:
    for path in files:
        full = prefix / path
        if full.is_symlink() or not full.is_file():
            continue
        with full.open("rb") as data:
            if data.read(len(ELF)) == ELF:
                yield full
