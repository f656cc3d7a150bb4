"""What this machine needs to compile an interpreter, and the packages that bring what is missing."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from interlock.errors import EngineError


@dataclass(frozen=True)
class Need:
    """A program, or a header in <...>, and the packages that have it."""

    what: str
    debian: str
    fedora: str

    @property
    def is_header(self) -> bool:
        return self.what.endswith(".h")


# Without these nothing is built.
PROGRAMS = (
    Need("gcc", "gcc", "gcc"),
    Need("make", "make", "make"),
    Need("patch", "patch", "patch"),
    Need("curl", "curl", "curl"),
    Need("tar", "tar", "tar"),
    Need("xz", "xz-utils", "xz"),
    Need("strip", "binutils", "binutils"),
    Need("pkg-config", "pkg-config", "pkgconf-pkg-config"),
    Need("stdio.h", "libc6-dev", "glibc-devel"),
)
# Without one of these a module of the standard library is missing in what is built; ssl and zlib are what pip needs.
LIBRARIES = (
    Need("zlib.h", "zlib1g-dev", "zlib-devel"),
    Need("openssl/ssl.h", "libssl-dev", "openssl-devel"),
    Need("ffi.h", "libffi-dev", "libffi-devel"),
    Need("bzlib.h", "libbz2-dev", "bzip2-devel"),
    Need("lzma.h", "liblzma-dev", "xz-devel"),
    Need("sqlite3.h", "libsqlite3-dev", "sqlite-devel"),
    Need("readline/readline.h", "libreadline-dev", "readline-devel"),
    Need("ncurses.h", "libncurses-dev", "ncurses-devel"),
    Need("gdbm.h", "libgdbm-dev", "gdbm-devel"),
    Need("db.h", "libdb-dev", "libdb-devel"),
    Need("expat.h", "libexpat1-dev", "expat-devel"),
    Need("uuid/uuid.h", "uuid-dev", "libuuid-devel"),
    Need("zstd.h", "libzstd-dev", "libzstd-devel"),
)

# What the download workloads and profiles need besides.
SERVER = (Need("nginx", "nginx-light", "nginx"), Need("openssl", "openssl", "openssl"))
PROBE = (Need("strace", "strace", "strace"),)
# An ordinary user's PATH may lack where administrators' programs are.
SYSTEM_PROGRAMS = "/usr/local/sbin:/usr/sbin:/sbin"


def find(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_PROGRAMS}")


def missing(needs: Sequence[Need]) -> list[Need]:
    """Those that this machine lacks: programs by PATH, headers by asking the compiler."""
    return [need for need in needs if not (_has_header(need.what) if need.is_header else find(need.what))]


def install_command(needs: Sequence[Need]) -> str:
    """What brings them, in the words of this machine's distribution."""
    if shutil.which("dnf"):
        return "dnf install " + " ".join(need.fedora for need in needs)
    return "apt-get install " + " ".join(need.debian for need in needs)


def require_tools() -> None:
    """EngineError names the packages without which nothing can be built."""
    lacking = missing(PROGRAMS)
    if lacking:
        raise EngineError(
            key="engine host",
            found=f"this machine cannot compile an interpreter: no {', '.join(need.what for need in lacking)}",
            todo=f"{install_command(lacking)}.",
        )


@functools.cache
def identity() -> str:
    """What besides the sources decides what is built, as an image's base does: system, machine and compiler."""
    require_tools()
    ended = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False)
    system = f"{platform.freedesktop_os_release()['PRETTY_NAME']} {platform.machine()} {' '.join(platform.libc_ver())}"
    without = " ".join(need.what for need in missing(LIBRARIES))
    return f"host {system} gcc {ended.stdout.strip()} without {without or 'nothing'}"


def _has_header(name: str) -> bool:
    if shutil.which("gcc") is None:
        return False
    # Some headers use what the standard ones declare: `readline.h` needs FILE.
    source = f"#include <stdio.h>\n#include <{name}>\n"
    ended = subprocess.run(["gcc", "-E", "-x", "c", "-"], input=source, capture_output=True, text=True, check=False)
    return ended.returncode == 0
