"""The variants that tests of the engine run on, and their images, built when a test first asks for one."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from interlock.catalog.project import Catalog
from interlock.engine.build.builds import ImageBuilder
from interlock.engine.docker import DockerEngine
from interlock.engine.protocol import BuildOptions
from interlock.results.experiments import Built, State
from tests.integration.toys import make_toy_base

# Debian's own interpreter: nothing is compiled, so that it is ready in half a minute. For what any interpreter shows.
QUICK = "debian-3.13"
# Compiled, each for what it alone can show: an interpreter below /usr/local without threads and pip,
NO_THREADS = "cpython-2.7-nothreads"
# threads of GNU pth, with pip of an old Python,
PTH = "cpython-2.7-pth"
# and threads without a GIL, with pip of a new one.
FREE_THREADED = "cpython-3.13t"


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


def make_what_all_share(client: Any, catalog: Catalog, options: BuildOptions) -> None:
    """Make the base and the stages that all variants have in common."""
    builder = ImageBuilder(client, catalog, options, lambda *_: None)
    with alone(options, "shared"):
        make_toy_base(client)
        builder.workers([builder.plan(catalog.variants[NO_THREADS])])


@contextmanager
def alone(options: BuildOptions, what: str) -> Iterator[None]:
    """While no other worker of these tests makes what both want."""
    options.cache.mkdir(parents=True, exist_ok=True)
    with (options.cache / f"tests-{what}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
