"""A toy source distribution: a `python` that is a shell script, so that builds take seconds in the real engine."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from interlock.catalog import published
from interlock.catalog.overlay import SHARED_FILES
from interlock.catalog.project import Catalog
from interlock.catalog.variants import Base, Mode
from interlock.engine.build.base import LABEL, PATH, find_base, local_tag
from interlock.engine.build.sources import tar_of
from interlock.results.experiments import BaseImage
from tests.apart import command

ANSWERS = {
    "version": "9.9.1",
    "implementation": "cpython",
    "thread_error": "",
    "thread_flavour": "pthread",
    "gil": "on",
    "loaded_libraries": "libc.so.6",
    "prefix": "/usr/local",
    "optimisation": "-O3",
}
# What build.sh expects of any CPython: a compileall in its library, and a library folder once it is installed.
LIBRARY = 'mkdir -p Lib "$prefix/lib/python9.9"; touch Lib/compileall.py'
MAKEFILE = """\
all:
install:
\tmkdir -p @PREFIX@/bin @PREFIX@/lib
\tcp python9 @PREFIX@/bin/python9
"""


def toy_tarball(
    folder: Path,
    file: str,
    configure: str = ":",
    answers: dict[str, str] | None = None,
    first: str = ":",
    makefile: str = MAKEFILE,
) -> str:
    """Writes the archive and returns its SHA-256. Lines of shell: `configure` is what its configure runs first, `first`
    what its python does.
    """
    lines = [f"echo '{key}={value}'" for key, value in (ANSWERS | (answers or {})).items()]
    members = {
        "configure": "\n".join(
            (
                "#!/bin/sh",
                "for word; do case $word in --prefix=*) prefix=${word#--prefix=};; esac; done",
                LIBRARY,
                configure,
                'sed "s:@PREFIX@:$prefix:g" Makefile.in > Makefile',
                "",
            )
        ),
        "Makefile.in": makefile,
        "Makefile.pre.in": "",  # CPython's, which build.sh edits before it configures
        "python9": "\n".join(("#!/bin/sh", first, *lines, "")),
    }
    packed = gzip.compress(tar_of({f"toy/{name}": text.encode() for name, text in members.items()}, 0o755).getvalue())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(packed)
    return hashlib.sha256(packed).hexdigest()


# At each step of a build the engine may look at every file of the image, and toys have many steps: their base has what
# build.sh calls, from this machine, in eighty files, and an apt-get that has nothing to install.
TOYS = "toys"
PROGRAMS = (
    *("cat", "chmod", "cp", "curl", "cut", "date", "dirname", "env", "find", "grep", "gzip", "head", "ln", "ls"),
    *("make", "mkdir", "mv", "nproc", "rm", "rmdir", "sed", "sh", "sha256sum", "sleep", "sort", "stat", "tail", "tar"),
    *("touch", "tr", "uname", "wc", "xz"),
)
TOY_BASE = Base(
    reference=f"interlock-test/base:{TOYS}@sha256:{hashlib.sha256(' '.join(PROGRAMS).encode()).hexdigest()}",
    suite=TOYS,
    build_packages=["make"],
    runtime_packages=["ca-certificates"],
)
# The parent image of all variants, without a compiler: for toys that helper images are built beside.
BARE = "bare"
BARE_PACKAGES = 'build_packages = ["curl", "make"]\nruntime_packages = ["ca-certificates"]\n'


NOWHERE = "https://sources.invalid"


TOY = """\
summary = "a toy"
{origin}
base = "{base}"
tag = "{name}"
family = "already-there"
[support]
phase = "bugfix"
[proof]
"""
PROOF = {"thread_flavour": "pthread", "gil": "on", "thread_library": "libc.so.6"}


def add_variant(root: Path, name: str, text: str, origin: str, base: str = TOYS, **proof: str) -> None:
    """Adds variants/<name>.toml; what is in `proof` replaces what a toy declares."""
    add_toy_bases(root)
    declared = "".join(f'{key} = "{value}"\n' for key, value in (PROOF | proof).items())
    toml = TOY.format(name=name, origin=origin, base=base) + declared + text
    (root / f"variants/{name}.toml").write_text(toml, encoding="utf-8")


def toy_variant(root: Path, name: str, file: str, sha256: str, place: str = NOWHERE, base: str = TOYS) -> None:
    """Adds a variant whose only place is a host that does not exist, unless another is named."""
    source = add_source(root, file, sha256, place)
    add_variant(root, name, "[interpreter]\n", f'source = "{source}"', base)


def add_channel(root: Path, mirror: Path, place: str) -> None:
    """Declare a channel, 9.9, of 9.9.2 and 9.9.1, which a folder has and a place is to serve."""
    sources = []
    for version in ("9.9.2", "9.9.1"):
        file = f"toy-{version}.tgz"
        sum_ = toy_tarball(mirror, file, f": {version}", {"version": version})
        sources.append(add_source(root, file, sum_, place, version))
    path = root / "variants/sources.toml"
    text = path.read_text(encoding="utf-8").replace("[channels]\n", f'[channels]\n"9.9" = {sources}\n')
    path.write_text(text, encoding="utf-8")


def toy_of_channel(root: Path, name: str) -> None:
    """Adds a variant of that channel."""
    toy_variant(root, name, "unused.tgz", "0" * 64)
    path = root / f"variants/{name}.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("toy-unused.tgz", "9.9"), encoding="utf-8")


def add_source(root: Path, file: str, sha256: str, place: str = NOWHERE, version: str = "9.9.1") -> str:
    """Declare a source, in place of one for the same file, and return its name."""
    name = f"toy-{file.lower()}"
    path = root / "variants/sources.toml"
    text = f'[sources."{name}"]\nversion = "{version}"\nfile = "{file}"\nsha256 = "{sha256}"\nsum_from = "a test"\n'
    text += f'places = ["{place}/{file}"]\nunsigned = "a toy"\n'
    kept = re.sub(rf'\[sources\."{re.escape(name)}"\]\n(?:[^\[\n].*\n)*', "", path.read_text(encoding="utf-8"))
    path.write_text(f"{kept}{text}", encoding="utf-8")
    return name


def add_toy_bases(root: Path) -> None:
    """Add the bases of toys to a project that has them not yet: one of their own, and the pin with fewer packages."""
    path = root / "variants/bases.toml"
    text = path.read_text(encoding="utf-8")
    if f"[{BARE}]\n" not in text:
        pin = "".join(re.findall(r"^(?:reference|suite) = .*\n", text, re.MULTILINE))
        own = f'reference = "{TOY_BASE.reference}"\nsuite = "{TOYS}"\nbuild_packages = {TOY_BASE.build_packages}\n'
        own += f"runtime_packages = {TOY_BASE.runtime_packages}\n"
        path.write_text(f"{text}\n[{TOYS}]\n{own}\n[{BARE}]\n{pin}{BARE_PACKAGES}", encoding="utf-8")


def make_toy_base(client: Any) -> BaseImage:
    """Make the base of toys, unless the engine has it."""
    found = find_base(client, TOY_BASE)
    if found is None:
        dockerfile = f"FROM scratch\nADD root.tar /\nENV PATH={PATH}\nLABEL {LABEL}={TOY_BASE.reference}\n"
        context = tar_of({"Dockerfile": dockerfile.encode(), "root.tar": _root_of_toys()})
        client.images.build(fileobj=context, custom_context=True, tag=local_tag(TOY_BASE), rm=True)
        found = find_base(client, TOY_BASE)
    assert found is not None
    return found


def _root_of_toys() -> bytes:
    """A root file system of this machine's programs and the libraries that they link."""
    paths = {name: Path(str(shutil.which(name))) for name in PROGRAMS}
    linked = subprocess.run(["ldd", *map(str, paths.values())], capture_output=True, text=True, check=True).stdout
    libraries = {Path(found) for found in re.findall(r"(/\S+) \(0x", linked)}
    files = {f"usr/bin/{name}": path.read_bytes() for name, path in paths.items()}
    files |= {f"usr/{str(path).removeprefix('/usr').lstrip('/')}": path.read_bytes() for path in libraries}
    files["usr/bin/apt-get"] = b"#!/bin/sh\n"
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("bin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
        for name, mode in {"tmp": 0o1777, "etc": 0o755, "usr/lib64": 0o755}.items():
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            tar.addfile(folder)
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def copy_project(source: Path, target: Path, variants: list[str], workloads: list[str]) -> Path:
    """A project with these of the variants and workloads alone."""
    for folder in ("variants", "workloads", "dockerfiles"):
        shutil.copytree(source / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for kind, wanted in (("variants", [*SHARED_FILES, *variants]), ("workloads", workloads)):
        for path in (target / kind).glob("*.toml"):
            if path.stem not in wanted:
                path.unlink()
    for name in variants:
        drop_control(target / "variants" / f"{name}.toml", variants)
    known = [path.stem for path in (source / "variants").glob("*.toml")]
    for name in set(known) - set(variants):
        shutil.rmtree(target / "dockerfiles" / name, ignore_errors=True)
    (target / published.FILE).write_text(published.HEAD)  # it names variants that are left out
    (target / "results").mkdir()
    return target


def drop_control(path: Path, variants: list[str]) -> None:
    """Remove a variant's control if it is none of these: no image depends on it, and a catalog needs it."""
    text = path.read_text(encoding="utf-8")
    control = re.search(r'^control = "(.+)"\n', text, re.MULTILINE)
    if control and control[1] not in variants:
        path.write_text(text.replace(control[0], ""), encoding="utf-8")


# What cpython-2.7's waking-sem-post does, where it can be had at once.
WAKING = """
[[modes]]
name = "waking"
summary = "every release of a lock wakes"
environment = { LD_PRELOAD = "/interlock/waking_sem_post.so" }
"""


def add_mode(project: Path, variant: str) -> None:
    """Add a mode, `waking`, to a variant of the project; its image stays as it is."""
    with (project / f"variants/{variant}.toml").open("a", encoding="utf-8") as file:
        file.write(WAKING)


# A workload of a test's own, whose program says what it has measured.
WORKLOAD = """\
summary = "a test's own"
program = "{name}.py"
unit = "unit"
deadline_s = 60
quick = {{ warmups = 0, values = 1 }}
full = {{ warmups = 0, values = 1 }}
{more}
[[benchmarks]]
name = "only"
arguments = {arguments}
metric = {{ label = "ms", scale = 1e3 }}
"""
REPORT = '{"interlock": 1, "loops": 1, "inner_loops": 1, "calibration": [[1, 0.1]], "values": [0.1]}'
GOOD = f"print('{REPORT}')\n"


def add_workload(project: Path, name: str, program: str, arguments: str = "[]", more: str = "") -> None:
    """Add a workload to a project."""
    (project / f"workloads/{name}.toml").write_text(WORKLOAD.format(name=name, arguments=arguments, more=more))
    (project / f"workloads/{name}.py").write_text(program)


# The variant whose mode is preloaded into any interpreter.
MODE_OF = "cpython-2.7"


def waking_mode(catalog: Catalog) -> Mode:
    """The mode in which every release of a lock wakes."""
    (mode,) = (mode for mode in catalog.variants[MODE_OF].modes if mode.name == "waking-sem-post")
    return mode


def interlock(
    root: Path,
    *words: str,
    environment: dict[str, str] | None = None,
    timeout_s: float = 1800,
    code: int | None = 0,
) -> subprocess.CompletedProcess[str]:
    """Runs a command in the project and returns what it printed; it ends with this exit code, with None with any."""
    done = subprocess.run(
        command(*words),
        cwd=root,
        env={**os.environ, "COLUMNS": "200", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert code in {None, done.returncode}, done.stdout + done.stderr
    return done
