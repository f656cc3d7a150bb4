"""A part of Mercurial's own test suite on each interpreter: what it takes, and what of that is start-up. Prints.

For each interpreter and number of tests at a time: seconds, CPU seconds and commands, with and without chg, the C
client of a command server. Beside that the milliseconds of single processes: Python's start, `hg`, `hg` with
extensions, and as limits git, Perl and a compiled program.

Needs the engine, the package index, Debian's archive, and 30 minutes in which nothing else runs. For each row an
image of its own gets git, a C compiler and chg. INTERLOCK_SUITE="cpython-3.13=7.2.4 ..." names other
variants and releases, INTERLOCK_SUITE_TESTS="add ..." other tests; INTERLOCK_SUITE_ROUNDS (3) is how often each is run.
"""

from __future__ import annotations

import itertools
import os
import random
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.engine.build.sources import tar_of
from interlock.engine.ownership import OWNER_LABEL
from interlock.engine.packages.installer import ImageInstaller
from interlock.engine.protocol import BuildOptions
from interlock.results.experiments import Built, PackageSet
from tests.benchmarks.cell import engine_of, start_idle
from tests.builders import ROOT
from tests.integration.images import Images

OWNER = "mercurial-suite"
# 6.1.4 is the last release that runs on 2.7, 7.2.4 the newest on 3.13 and 3.14.
ROWS = os.environ.get("INTERLOCK_SUITE", "cpython-2.7=6.1.4 cpython-3.9=6.1.4 cpython-3.13=7.2.4 cpython-3.14=7.2.4")
ROUNDS = int(os.environ.get("INTERLOCK_SUITE_ROUNDS", "3"))
SEED = 25_000
WHOLE_SUITE = 25_000  # commands of the suite of 2018
# Tests of commands that people use all day, which pass as root and without a network.
TESTS = os.environ.get(
    "INTERLOCK_SUITE_TESTS", "add diff-unified histedit-fold merge1 rebase-parameters status tag update-branches"
).split()
# Tests at a time, and whether chg runs the commands.
WAYS = {"-j1": (1, False), "-j2": (2, False), "-j12": (12, False), "-j1, chg": (1, True), "-j12, chg": (12, True)}
EXTENSIONS = ("rebase", "histedit", "journal", "strip", "purge", "extdiff", "absorb", "mq", "share", "show")
DOCKERFILE = """\
FROM {image}
RUN apt-get update && apt-get install -y --no-install-recommends git gcc libc6-dev make && rm -rf /var/lib/apt/lists/*
COPY mercurial.tar.gz /
RUN mkdir /hg && tar -xzf /mercurial.tar.gz --strip-components=1 -C /hg && make -C /hg/contrib/chg
ENV PYTHONPATH={site} PATH={site}/bin:/usr/local/bin:/usr/bin:/bin
RUN printf '#!/bin/sh\\necho >> /tmp/commands\\nexec {site}/bin/hg "$@"\\n' > /hg/counted && chmod 755 /hg/counted
"""
SINGLE_RUNS = 20
SINGLE = {
    "a compiled program": "true",
    "perl": "perl -e 1",
    "git version": "git version",
    "python, no site": "python -S -c pass",
    "python": "python -c pass",
    "hg version": "hg version -q",
    "hg version, extensions": f"hg {' '.join(f'--config extensions.{name}=' for name in EXTENSIONS)} version -q",
}


@dataclass(frozen=True)
class Taken:
    """What a command took in a container, its daemons included."""

    wall_s: float
    cpu_s: float


@pytest.fixture
def client() -> Iterator[Any]:
    with engine_of(OWNER) as connected:
        yield connected


def sdist(release: str, folder: Path) -> bytes:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*pip, "--no-build-isolation", "--dest", folder, f"mercurial=={release}"], check=True)
    return (folder / f"mercurial-{release}.tar.gz").read_bytes()


def image_of(client: Any, built: Built, packages: PackageSet, source: bytes) -> str:
    """An image with git, a compiler, chg and Mercurial's tests beside the interpreter."""
    dockerfile = DOCKERFILE.format(image=built.image_id, site=packages.site).encode()
    packed = tar_of({"Dockerfile": dockerfile, "mercurial.tar.gz": source})
    image, _ = client.images.build(fileobj=packed, custom_context=True, rm=True, labels={OWNER_LABEL: OWNER})
    return str(image.id)


def row(client: Any, catalog: Catalog, built: Built, release: str, source: bytes) -> Any:
    """A container of this interpreter and release."""
    packages = ImageInstaller(client, catalog, ROOT, print).ensure(built, [f"mercurial=={release}"])
    assert packages.volume, packages.outcome
    volumes = {packages.volume: {"bind": packages.mount_path, "mode": "ro"}}
    return start_idle(client, OWNER, image_of(client, built, packages, source), tmpfs={"/tmp": "exec"}, volumes=volumes)


def cpu_ns(container: Any) -> int:
    return int(container.stats(stream=False, one_shot=True)["cpu_stats"]["cpu_usage"]["total_usage"])


def timed(container: Any, script: str) -> Taken:
    """CPU time is the container's, as its control group counts it: a daemon's is in it too."""
    before_ns = cpu_ns(container)
    wrapped = f"start=$(date +%s%N); {script} > /tmp/said 2>&1; code=$?; echo $(($(date +%s%N) - start)); exit $code"
    code, output = container.exec_run(["sh", "-c", wrapped])
    assert code == 0, container.exec_run(["tail", "-n", "40", "/tmp/said"]).output.decode()
    return Taken(int(output) / 1e9, (cpu_ns(container) - before_ns) / 1e9)


def suite(at_once: int, hg: str, *, chg: bool) -> str:
    words = [f"-j{at_once}", f"--with-hg={hg}", "--tmpdir=/tmp/tests", "--timeout=600"]
    words += ["--with-chg=/hg/contrib/chg/chg"] if chg else []
    tests = " ".join(f"test-{name}.t" for name in TESTS)
    return f"rm -rf /tmp/tests; cd /hg/tests && python run-tests.py {' '.join(words)} {tests}"


def measured(container: Any, way: str) -> Taken:
    at_once, chg = WAYS[way]
    return timed(container, suite(at_once, "$(command -v hg)", chg=chg))


def single_ms(container: Any, what: str) -> float:
    """Milliseconds of CPU time of one process."""
    loop = f"for i in $(seq {SINGLE_RUNS}); do {SINGLE[what]}; done"
    return timed(container, loop).cpu_s / SINGLE_RUNS * 1e3


def counted(container: Any) -> int:
    """How many commands the tests start."""
    timed(container, suite(2, "/hg/counted", chg=False))
    return int(container.exec_run(["sh", "-c", "wc -l < /tmp/commands"]).output)


def shown(values: list[float], unit: str) -> str:
    return f"{f'{statistics.median(values):.1f} [{min(values):.1f}, {max(values):.1f}] {unit}':>30}"


def test_a_part_of_the_suite(client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Interpreters and ways follow each other in any order, in each round."""
    catalog = catalogs.load(ROOT)
    images = Images(client, catalog, BuildOptions(ROOT, ProjectPaths.find().cache))
    releases = dict(row.split("=") for row in ROWS.split())
    sources = {release: sdist(release, tmp_path) for release in set(releases.values())}
    containers = {
        name: row(client, catalog, images[name], release, sources[release]) for name, release in releases.items()
    }
    commands = {name: counted(container) for name, container in containers.items()}
    taken: dict[tuple[str, str], list[Taken]] = defaultdict(list)
    single: dict[tuple[str, str], list[float]] = defaultdict(list)
    shuffle = random.Random(SEED)
    for _ in range(ROUNDS):
        for name, way in shuffle.sample(pairs := list(itertools.product(containers, WAYS)), len(pairs)):
            taken[name, way].append(measured(containers[name], way))
        for name, what in shuffle.sample(pairs := list(itertools.product(containers, SINGLE)), len(pairs)):
            single[name, what].append(single_ms(containers[name], what))
    with capsys.disabled():
        print(f"\n\nOf Mercurial's suite {', '.join(TESTS)}; median [least, most] of {ROUNDS} rounds")
        for name, release in releases.items():
            print(f"\n{name}, Mercurial {release}: {commands[name]} commands")
            for way in WAYS:
                of = taken[name, way]
                print(
                    f"  {way:24}", shown([one.wall_s for one in of], "s"), shown([one.cpu_s for one in of], "s of CPU")
                )
            for what in SINGLE:
                print(f"  {what:24}", shown(single[name, what], "ms of CPU"))
            cpu_s = statistics.median(one.cpu_s for one in taken[name, "-j1"])
            for what in ("python", "hg version"):
                ms = statistics.median(single[name, what])
                print(f"  {what}: {commands[name] * ms / 1e3 / cpu_s:.0%} of the CPU time of -j1", end="; ")
                print(f"{WHOLE_SUITE:,} of them: {WHOLE_SUITE * ms / 1e3:,.0f} s of CPU")
