"""What this machine needs to compile an interpreter, and the instruments that are compiled here."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interlock.engine import machine
from interlock.engine.build.image import read_context
from interlock.engine.build.sources import MIRROR, mirror_folder, mirror_url
from interlock.engine.ended import linked_by, run_here
from interlock.engine.host import fetching
from interlock.engine.host.account import MYSELF, Account
from interlock.errors import EngineError

# Folders of administrators' programs, which an ordinary user's PATH may lack.
SYSTEM_PROGRAMS = "/usr/local/sbin:/usr/sbin:/sbin"
LAUNCHER = ("launch.c", "agent.c", "batch.c", "evict.c")
COMPILE_PROGRAM = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-s", "-o"]
COMPILE_LIBRARY = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]
# The size of pip's wheel of zig.
ZIG_BYTES = 94e6
# Exit codes of fetch.sh: no place has the source, or the file has another sum.
NO_SOURCE = (69, 65)
SEE_DOCTOR = "Run `interlock doctor --engine host`: it names what is missing."
PTH = "libpthread-pth.so"
# A file in the profiler's place that says why it does not compile here.
NOT_COMPILED = "not-compiled"


@dataclass(frozen=True)
class Need:
    """A program, a header or a file, and the packages that have it; an empty name where no package does."""

    what: str
    debian: str
    fedora: str

    @property
    def is_here(self) -> bool:
        """Return whether it is here: a program in PATH, a header that the compiler finds, or a file."""
        if self.what.startswith("/"):
            return Path(self.what).exists()
        return _has_header(self.what) if self.what.endswith(".h") else find(self.what) is not None


GCC = "gcc"
# Interlock's own programs need no more.
COMPILER = (Need("gcc", "gcc", "gcc"), Need("stdio.h", "libc6-dev", "glibc-devel"))
# Without these no interpreter is built.
PROGRAMS = (
    *COMPILER,
    Need("make", "make", "make"),
    Need("patch", "patch", "patch"),
    Need("tar", "tar", "tar"),
    Need("xz", "xz-utils", "xz"),
    Need("strip", "binutils", "binutils"),
    Need("pkg-config", "pkg-config", "pkgconf-pkg-config"),
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

# What the download workloads and profiles need as well.
OPENSSL = Need("openssl", "openssl", "openssl")
SERVER = (Need("nginx", "nginx-light", "nginx"), OPENSSL)
# GNU pth's archive is of 2006 and needs the system's file: without it modes that preload pth are unsupported.
PTH_NEEDS = (Need("/usr/share/misc/config.guess", "autotools-dev", ""),)
PROBE = (Need("strace", "strace", "strace"),)
# What the profiler is compiled with. Without it only strace counts, and nothing takes stacks.
PROFILER = (
    Need("clang", "clang", "clang"),
    Need("bpftool", "bpftool", "bpftool"),
    Need("bpf/bpf.h", "libbpf-dev", "libbpf-devel"),
    Need("libelf.h", "libelf-dev", "elfutils-libelf-devel"),
)


def find(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_PROGRAMS}")


def missing(needs: Sequence[Need]) -> list[Need]:
    """Return what this machine lacks."""
    return [need for need in needs if not need.is_here]


def install_command(needs: Sequence[Need]) -> str:
    """Return the distribution's command that installs them."""
    return " ".join(["dnf install" if shutil.which("dnf") else "apt-get install", *packages(needs)])


def packages(needs: Sequence[Need]) -> list[str]:
    """Return the packages of this machine's distribution that have them."""
    return [name for need in needs if (name := need.fedora if shutil.which("dnf") else need.debian)]


def cannot_compile(lacking: Sequence[Need]) -> str:
    """Return in words what is lacking to compile an interpreter here."""
    return f"this machine has no {', '.join(need.what for need in lacking)} to compile it with"


def programs(compiled_by: str) -> tuple[Need, ...]:
    """Return what an interpreter is built with; `compiled_by` may be another compiler than the usual one."""
    return PROGRAMS if compiled_by == GCC else (*PROGRAMS, Need(compiled_by, compiled_by, "clang"))


def needs(*, traces: bool) -> tuple[Need, ...]:
    """Return all that this machine as the engine asks for; playbooks/roles/tools/vars has their packages.

    nginx is not among them, because it is unpacked into the cache. What the profiler needs is, if it could trace here.
    """
    return (*PROGRAMS, *LIBRARIES, *PTH_NEEDS, OPENSSL, *PROBE, *(PROFILER if traces else ()))


@functools.cache
def compiler(program: str) -> str:
    """Return a compiler and this machine in words, as a stored profile of optimisation names what it serves."""
    said = run_here([program, "--version"]).stdout
    return f"{said.splitlines()[0] if said else program}, {platform.machine()}"


@functools.cache
def identity(compiled_by: str) -> str:
    """Return what decides the result of a build besides the sources: system, machine, compiler, missing libraries."""
    gcc = f"gcc {run_here(['gcc', '-dumpfullversion']).stdout.strip()}"
    system = f"{machine.operating_system()} {platform.machine()} {' '.join(platform.libc_ver())}"
    without = " ".join(need.what for need in missing(LIBRARIES))
    return f"host {system} {gcc if compiled_by == GCC else compiler(compiled_by)} without {without or 'nothing'}"


def _has_header(name: str) -> bool:
    # Some headers need the declarations of standard ones: `readline.h` needs FILE.
    source = f"#include <stdio.h>\n#include <{name}>\n"
    return run_here(["gcc", "-E", "-x", "c", "-"], given=source).ok


def ensure_instruments(root: Path, cache: Path, account: Account = MYSELF) -> Path:
    """Return the folder with the launcher, the probes and what modes preload.

    It is made anew if dockerfiles/instruments changed, or if what the probes need was installed. GNU pth is tried again
    as long as no place has its source.
    """
    source = root / "dockerfiles" / "instruments"
    files = read_context(source) | read_context(root / "dockerfiles" / "limits")
    folder = cache / "instruments" / instruments_identity(files)
    if folder.is_dir():
        if not (folder / PTH).is_file():
            _make_pth(source, folder, account)
        return folder
    making = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    try:
        with _compiler(source, cache) as compiler:
            _compile_programs(compiler, root, making)
        _make_pth(source, making, account)
        _make_profiler(source / "profiler", making / "profiler")
        _copy_strace(making / "strace")
        _take_place(making, folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def _take_place(made: Path, folder: Path) -> None:
    """Give a folder its name, unless another process was quicker."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


@contextmanager
def _compiler(source: Path, cache: Path) -> Iterator[list[str]]:
    """Yield a C compiler's command: gcc, or without it zig from pip, which is removed after the block."""
    if not missing(COMPILER):
        yield ["gcc"]
        return
    with tempfile.TemporaryDirectory(dir=cache) as name:
        said = fetching.wheels(source / "zig.txt", Path(name) / "zig")
        if said:
            raise EngineError(
                key="engine host",
                found=f"this machine has no compiler for Interlock's own programs, and zig cannot be fetched: {said}",
                todo=f"{install_command(COMPILER)}.",
            )
        zig = Path(name) / "zig/ziglang/zig"
        zig.chmod(0o755)
        yield ["env", *(f"ZIG_{which}_CACHE_DIR={name}/cache" for which in ("LOCAL", "GLOBAL")), str(zig), "cc"]


def _compile_programs(compiler: list[str], root: Path, folder: Path) -> None:
    """Compile the launcher, what modes preload, and the programs of limits."""
    source = root / "dockerfiles" / "instruments"
    _compile([*compiler, *COMPILE_PROGRAM, str(folder / "launch"), *(str(source / name) for name in LAUNCHER)])
    preloaded = [str(folder / "waking_sem_post.so"), str(source / "waking_sem_post.c")]
    _compile([*compiler, *COMPILE_LIBRARY, *preloaded])
    (folder / "limits").mkdir()
    for program in (root / "dockerfiles" / "limits").glob("*.c"):
        _compile([*compiler, *COMPILE_PROGRAM, str(folder / "limits" / program.stem), str(program)])


def instruments_identity(files: Mapping[str, bytes]) -> str:
    """Return what decides how instruments are made: their files, and which probes can be compiled here."""
    without = " ".join(need.what for need in missing([*PROGRAMS, *PTH_NEEDS, *PROBE, *PROFILER]))
    parts = [*(path.encode() + data for path, data in sorted(files.items())), without.encode()]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


def _compile(argv: list[str]) -> None:
    done = run_here(argv)
    if not done.ok:
        raise EngineError(file=argv[-1], found=f"it does not compile: {done.why}", todo=SEE_DOCTOR)


def _make_pth(source: Path, folder: Path, account: Account) -> None:
    """Build GNU pth for the modes that preload it, unless its source or something that it needs is missing."""
    if missing([*PROGRAMS, *PTH_NEEDS]):
        return
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        work = Path(name)
        account.give(work)
        for script in ("pth.sh", "fetch.sh"):
            shutil.copyfile(source / script, work / script)
        mirror = mirror_folder()
        settings = {"PREFIX": name, "BUILD_DIR": name, MIRROR: mirror.resolve().as_uri() if mirror else mirror_url()}
        argv = account.command(["sh", f"{name}/pth.sh"])
        done = run_here(argv, environment={**os.environ, **settings}, folder=work)
        if (work / PTH).is_file() and not (work / PTH).is_symlink():  # root follows no link of a build
            shutil.copyfile(work / PTH, folder / PTH)
    if done.exit_code not in {0, *NO_SOURCE}:
        problem = f"GNU pth cannot be built: {done.why}"
        raise EngineError(file="dockerfiles/instruments/pth.sh", found=problem, todo=SEE_DOCTOR)


def _make_profiler(source: Path, folder: Path) -> None:
    """Build the profiler, if what it needs is here. If it does not compile, a file says so and strace has to do."""
    if missing(PROFILER):
        return
    shutil.copytree(source, folder)
    path = f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_PROGRAMS}"
    done = run_here(["make", "-C", str(folder), "profiler"], environment={**os.environ, "PATH": path})
    if not done.ok:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        (folder / NOT_COMPILED).write_text((errors or [done.why])[0])


def _copy_strace(folder: Path) -> None:
    """Copy this machine's strace, if it has one, with its loader and libraries to the place that it has in a container.

    With its own loader, strace does not load the library that a mode preloads.
    """
    strace = shutil.which("strace")
    if strace is None:
        return
    folder.mkdir()
    for library in linked_by(strace):
        shutil.copy(library, folder / ("ld.so" if library.name.startswith("ld-") else library.name))
    shutil.copy(strace, folder / "strace")


def put_programs(tools: Path, programs: Mapping[str, bytes], folder: Path) -> Path:
    """Fill a folder with the instruments and the workload programs, laid out as in a cell."""
    folder.mkdir(parents=True)
    for path in tools.iterdir():
        (folder / path.name).symlink_to(path)
    for name, data in programs.items():
        target = folder / "workloads" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder
