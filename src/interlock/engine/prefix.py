"""An interpreter that is installed on this machine, packed with the libraries that it links: a `prefix` variant."""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from interlock.errors import SourceUnavailableError
from interlock.model import Prefix, Variant

PREFIX, LIBRARIES = "usr/local", "opt/interlock"
# What the image has to bring itself: libc is one with the kernel's loader, which is not packed.
LIBC = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|anl|crypt|stdc\+\+|gcc_s))\.so(\.|$)")
# Here an interpreter lies among everything else that is installed.
SYSTEM = (Path("/"), Path("/usr"))
LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|tests?|idlelib|turtledemo|tkinter|lib-tk)(/|$)"
    r"|(^|/)_tkinter[^/]*\.so$|\.(a|pyc|pyo)$|^bin/idle|^share/(man|doc|info)(/|$)"
)
ELF, SCRIPT = b"\x7fELF", b"#!"
SAID = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)


def find_prefix(variant: Variant, prefix: Prefix) -> Path:
    """The first of the prefix' places that exists here.

    SourceUnavailableError names all places if none does, or the one that is the system's own.
    """
    found = f"not installed on this machine: {', '.join(prefix.places)}"
    for place in prefix.places:
        folder = Path(os.path.expandvars(place)).expanduser().resolve()
        if folder in SYSTEM:
            found = f"{place} is the system's own folder: with the interpreter the whole system would be packed"
            break
        if (folder / "bin").is_dir():
            return folder
    raise SourceUnavailableError(
        file=f"variants/{variant.name}.toml",
        key="prefix.places",
        found=found,
        todo="Install it into a folder of its own and name that.",
    )


def packed_files(prefix: Path) -> list[Path]:
    """What of the prefix goes into an image, below it and sorted: no tests, no static libraries, no byte code."""
    found = []
    for folder, folders, files in os.walk(prefix):
        below = Path(folder).relative_to(prefix)
        folders[:] = sorted(name for name in folders if not LEFT_OUT.search(str(below / name)))
        links = [name for name in folders if (prefix / below / name).is_symlink()]
        found += [below / name for name in (*links, *files) if not LEFT_OUT.search(str(below / name))]
    return sorted(found)


def identity(prefix: Path, files: list[Path]) -> str:
    """What tells whether the prefix changed: names, sizes and times, so that nothing is read for it."""
    lines = []
    for path in files:
        status = (prefix / path).lstat()
        lines.append(f"{path} {status.st_mode:o} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(lines)


def pack(prefix: Path, files: list[Path]) -> bytes:
    """A tar of usr/local and opt/interlock (the libraries), with root's owner and the files' own times, sorted."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", dereference=False) as tar:
        for path in files:
            _add(tar, prefix, path)
        for library in libraries(prefix, files):
            entry = tar.gettarinfo(str(library.resolve()), f"{LIBRARIES}/{library.name}")
            with library.open("rb") as data:
                tar.addfile(_plain(entry), data)
    return stream.getvalue()


def _add(tar: tarfile.TarFile, prefix: Path, path: Path) -> None:
    entry = _plain(tar.gettarinfo(str(prefix / path), f"{PREFIX}/{path}"))
    if not entry.isreg():
        if entry.issym() and entry.linkname.startswith(f"{prefix}/"):
            entry.linkname = entry.linkname.replace(f"{prefix}/", f"/{PREFIX}/", 1)
        tar.addfile(entry)
        return
    # A hard link's data would be missing if its first name is left out.
    entry.type, entry.linkname = tarfile.REGTYPE, ""
    data = _moved((prefix / path).read_bytes(), prefix)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _moved(data: bytes, prefix: Path) -> bytes:
    """A script's first line names its interpreter where the image has it."""
    if not data.startswith(SCRIPT):
        return data
    line, newline, rest = data.partition(b"\n")
    return line.replace(f"{prefix}/".encode(), f"/{PREFIX}/".encode()) + newline + rest


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode = 0o755 if entry.mode & 0o111 else 0o644
    return entry


def libraries(prefix: Path, files: list[Path]) -> list[Path]:
    """The shared libraries outside the prefix that its programs and modules link, libc's own left out, by name."""
    said = "".join(
        subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
        for path in _elf_files(prefix, files)
    )
    found = {name: Path(place) for name, place in SAID.findall(said) if not LIBC.match(name)}
    return [place for _, place in sorted(found.items()) if not place.is_relative_to(prefix)]


def _elf_files(prefix: Path, files: list[Path]) -> Iterator[Path]:
    for path in files:
        full = prefix / path
        if full.is_symlink() or not full.is_file():
            continue
        with full.open("rb") as data:
            if data.read(len(ELF)) == ELF:
                yield full
