"""Variants that others built and publish as an archive: fetched for the image's machine, unpacked, proved, checked."""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import Catalog
from interlock.engine.build import contract
from interlock.results.experiments import Built, State
from tests.integration.resources import run
from tests.integration.test_sources import add, build, log_of, served
from tests.integration.toys import ANSWERS, TOYS

MACHINE = platform.machine()
OTHER = {"x86_64": "aarch64"}.get(MACHINE, "x86_64")
FILE = f"python-{MACHINE}.tar.gz"
NOWHERE = "http://127.0.0.1:1/python-{machine}.tar.gz"
# Debian's interpreter in the layout of python-build-standalone, with what that says of its own build.
RELOCATE = r"""
set -eu
mkdir -p /a/python/bin /a/python/lib /a/python/include
cd /a/python
cp /usr/bin/python3.13 bin/
ln -s python3.13 bin/python3
cp -r /usr/lib/python3.13 lib/
cp -r /usr/lib/python3/dist-packages/pip lib/python3.13/
cp -r /usr/include/python3.13 include/
rm -r lib/python3.13/config-* lib/python3.13/EXTERNALLY-MANAGED
find . -name __pycache__ -prune -exec rm -r {} +
for name in pip pydoc; do
    printf '#!/bin/sh\nexec "$(dirname "$(realpath "$0")")/python3" -m %s "$@"\n' $name > bin/${name}3
done
printf '#!/bin/sh\necho -I/usr/local/include/python3.13\n' > bin/python3-config
chmod 755 bin/*
sed -i -E -e "s:'/usr('|/bin|/include|/lib/python):'/install\1:g" -e "s:'[a-z0-9_]*-linux-gnu-gcc([ ']):'clang\1:g" \
    -e "s:'[a-z0-9_]*-linux-gnu-g\+\+([ ']):'clang++\1:g" -e "s:'[a-z0-9_]*-linux-gnu-gcc-ar':'/tools/bin/llvm-ar':g" \
    lib/python3.13/_sysconfigdata_*.py
grep -q "'clang " lib/python3.13/_sysconfigdata_*.py
"""


@pytest.fixture(scope="module")
def archive(client: Any, quick: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive of this machine, of the layout that python-build-standalone publishes."""
    folder = tmp_path_factory.mktemp("archive")
    container = client.containers.create(quick.image_id, ["sh", "-c", RELOCATE], network_mode="none")
    try:
        container.start()
        assert container.wait()["StatusCode"] == 0, container.logs().decode()
        stream, _ = container.get_archive("/a/python")
        with gzip.open(folder / FILE, "wb", compresslevel=1) as packed:
            packed.writelines(stream)
    finally:
        container.remove(v=True, force=True)
    with tarfile.open(folder / FILE) as tar:
        assert {name.split("/")[0] for name in tar.getnames()} == {"python"}
    return folder


def sum_of(folder: Path) -> str:
    return hashlib.sha256((folder / FILE).read_bytes()).hexdigest()


def add_archive(project: Path, name: str, sums: dict[str, str], *places: str, base: str = TOYS, **proof: str) -> None:
    """A variant whose interpreter is an archive for these machines."""
    text = (
        '[prefix]\nplaces = ["/nowhere/{machine}"]\n[prefix.archive]\nfile = "python-{machine}.tar.gz"\n'
        f'sum_from = "this test"\nunsigned = "it needs none"\nplaces = {json.dumps(places)}\n[prefix.archive.sha256]\n'
    )
    add(project, name, text + "".join(f'{machine} = "{sum_}"\n' for machine, sum_ in sums.items()), base=base, **proof)


# The others are of Debian's interpreter: it reads dist-packages, and has neither libpython nor gdbm here.
KEPT = {
    *("command-python", "command-python-release", "command-pip", "command-pydoc", "command-pydoc-major"),
    *("command-python-config", "prefix", "headers", "zlib", "bz2", "lzma", "sqlite3", "ssl", "ca-certificates"),
    *("hashlib", "ctypes", "readline", "curses", "expat", "threads", "multiprocessing", "utf-8", "time-zones"),
    *("zoneinfo", "services", "compileall", "home", "no-compiler", "no-package-lists", "no-build-tree"),
    *("no-static-libraries", "env-path", "env-python-version", "env-uv", "env-others", "cmd", "entrypoint", "user"),
    *("workdir", "ports", "volumes"),
}
ASKED = """
import json, os, sys, sysconfig
names = ("prefix", "INCLUDEPY", "CC", "CXX", "AR")
compiled = os.path.exists(json.__cached__)
print(sys.prefix, compiled, *(sysconfig.get_config_var(name).split()[0] for name in names))
"""


# As it says of its own build, and as it does in the image.
BUILT = {"BINDIR": "/install/bin", "CFLAGS": "-I/install/include -O3", "CC": "clang -pthread", "CXX": "clang++"}
BUILT |= {"AR": "/tools/llvm/bin/llvm-ar", "INSTALL": "/usr/bin/install", "SHELL": "/bin/sh"}
MOVED = {
    "BINDIR": "/usr/local/bin",
    "CFLAGS": "-I/usr/local/include -O3",
    "CC": "cc -pthread",
    "CXX": "c++",
    "AR": "ar",
}


def test_an_archive_is_fetched_for_this_machine_unpacked_and_proved(client: Any, project: Path, tmp_path: Path) -> None:
    (tmp_path / "lib/python9.9").mkdir(parents=True)
    said = f"build_time_vars = {json.dumps(BUILT, indent=1)}\n"
    (tmp_path / "lib/python9.9/_sysconfigdata__toy.py").write_text(said, encoding="utf-8")
    lines = ["#!/bin/sh", *(f"echo '{key}={value}'" for key, value in ANSWERS.items()), ""]
    (tmp_path / "python").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "python").chmod(0o755)
    with tarfile.open(tmp_path / FILE, "w:gz") as tar:
        tar.add(tmp_path / "python", "python/bin/python9")
        tar.add(tmp_path / "lib", "python/lib")
    with served(client, tmp_path) as url:
        sums = {OTHER: "1" * 64, MACHINE: sum_of(tmp_path)}
        add_archive(project, "toy-archive", sums, NOWHERE, f"{url}python-{{machine}}.tar.gz")
        (image,) = build(client, project, "toy-archive")
    assert image.outcome.state is State.OK, image.outcome.reason
    log = log_of(project, "toy-archive")
    assert f"interlock: tried {NOWHERE.format(machine=MACHINE)}: " in log
    assert f"interlock: source {FILE} from {url}{FILE}\n" in log
    said = run(client, image.image_id, "cat", "/usr/local/lib/python9.9/_sysconfigdata__toy.py")
    assert json.loads(said.partition(" = ")[2]) == BUILT | MOVED
    assert run(client, image.image_id, "ls", "/usr/local/bin").split() == ["python", "python9"]
    (again,) = build(client, project, "toy-archive")
    assert again.reused


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_a_relocated_interpreter_becomes_an_image_that_keeps_the_contract(
    client: Any, catalog: Catalog, quick: Built, project: Path, archive: Path
) -> None:
    one = catalog.variants[quick.variant]
    proof = {"version": one.version, "optimisation": one.proof.optimisation}
    sums = {OTHER: "1" * 64, MACHINE: sum_of(archive)}
    with served(client, archive) as url:
        add_archive(project, "toy-prebuilt", sums, NOWHERE, f"{url}python-{{machine}}.tar.gz", base="trixie", **proof)
        (image,) = build(client, project, "toy-prebuilt")
    assert image.outcome.state is State.OK, image.outcome.reason
    found = contract.examine(client, catalogs.load(project).variants["toy-prebuilt"], image.image_id)
    kept = {finding.check for finding in found if finding.verdict is contract.ContractState.OK}
    assert KEPT - kept == set(), [finding for finding in found if finding.check in KEPT - kept]
    said = run(client, image.image_id, "python", "-c", ASKED)
    assert said == "/usr/local True /usr/local /usr/local/include/python3.13 cc c++ ar"


@pytest.mark.usefixtures("mirror")
def test_an_archive_that_no_place_has_or_of_another_machine_is_unavailable(client: Any, project: Path) -> None:
    add_archive(project, "toy-away", {MACHINE: "1" * 64}, NOWHERE)
    add_archive(project, "toy-of-another-machine", {OTHER: "1" * 64}, NOWHERE)
    away, of_another = build(client, project, "toy-away", "toy-of-another-machine")
    assert (away.outcome.state, of_another.outcome.state) == (State.UNAVAILABLE, State.UNAVAILABLE)
    assert away.outcome.reason.startswith("127.0.0.1:1: ")
    assert MACHINE in of_another.outcome.reason
