"""The variants that tests of the engine run on, and their images, built when a test first asks for one."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.catalog.project import Catalog
from interlock.engine.docker import DockerEngine
from interlock.engine.protocol import BuildOptions
from interlock.results.experiments import Built, State

# Debian's own interpreter with Debian's pip and headers: nothing is compiled, so that it is ready in half a minute. For
# what any interpreter shows.
QUICK = "debian-3.13"
PIP_AND_HEADERS = ("python3-pip", "libpython3.13-dev")
# Differences of its contract that it no longer has with these, and the one that it has instead.
MENDED = ("headers", "pip")
STATIC = 'no-static-libraries = "Debian has libpython3.13.a beside the headers"'
# Compiled, for tests with the marker `slow`, each for what it alone can show: an interpreter of 2010 below
# /usr/local, without threads and pip,
NO_THREADS = "cpython-2.7-nothreads"
# and threads without a GIL.
FREE_THREADED = "cpython-3.13t"
COMPILED = (NO_THREADS, FREE_THREADED)
# Threads of GNU pth, with pip of an old Python: for proofs alone.
PTH = "cpython-2.7-pth"


@dataclass
class Images:
    """The image of a variant by its name: built now, or found as it was built before."""

    client: Any
    catalog: Catalog
    options: BuildOptions
    found: dict[str, Built] = field(default_factory=dict)

    def __getitem__(self, variant: str) -> Built:
        if variant not in self.found:
            with alone(self.options, variant):
                (image,) = DockerEngine(self.client).build(self.catalog, [variant], self.options, print)
            assert image.outcome.state is State.OK, image.outcome.reason
            self.found[variant] = image
        return self.found[variant]


def make_quick(project: Path) -> None:
    """Let what is compiled be so without optimisation, a tenth of the work, and give the quick one a pip.

    Under tags of the tests' own.
    """
    template = project / "dockerfiles/build.sh.j2"
    template.write_text(template.read_text(encoding="utf-8").replace("-O3 -Wall", "-O0"), encoding="utf-8")
    for path in (project / f"variants/{name}.toml" for name in COMPILED):
        text = path.read_text(encoding="utf-8").replace("[proof]\n", '[proof]\noptimisation = "-O0"\n')
        text = re.sub(r"^\[optimise\]\n(.+\n)*", "", text, flags=re.MULTILINE)
        path.write_text(re.sub(r'^(tag = ".*)"$', r'\1-unoptimised"', text, flags=re.MULTILINE), encoding="utf-8")
    path = project / f"variants/{QUICK}.toml"
    more = "".join(f'"{name}", ' for name in PIP_AND_HEADERS)
    text = path.read_text(encoding="utf-8").replace("names = [", f"names = [{more}")
    text = re.sub(rf"^({'|'.join(MENDED)}) = .*\n", "", text, flags=re.MULTILINE)
    text = text.replace("[differences]\n", f"[differences]\n{STATIC}\n")
    path.write_text(re.sub(r'^(tag = ".*)"$', r'\1-pip"', text, flags=re.MULTILINE), encoding="utf-8")


@contextmanager
def alone(options: BuildOptions, what: str) -> Iterator[None]:
    """While no other worker of these tests makes what both want."""
    options.cache.mkdir(parents=True, exist_ok=True)
    with (options.cache / f"tests-{what}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
