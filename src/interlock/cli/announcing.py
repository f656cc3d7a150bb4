"""Tells what a command will build and measure before it begins: time on this machine, disk space, `--dry-run`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer

from interlock.catalog.project import Catalog, ProjectPaths
from interlock.cli.options import PlainConsole, console, notes
from interlock.engine import protocol
from interlock.engine.build.builds import NOT_BUILT
from interlock.engine.protocol import BuildOptions
from interlock.errors import StoreError, UsageError
from interlock.measure import lock
from interlock.measure.forecast import of_builds
from interlock.results import store
from interlock.results.experiments import Built, State

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Only say what would be built and run, for how long, with how much disk."),
]


def announce(*lines: str, dry_run: bool, as_json: bool = False, where: PlainConsole = console) -> None:
    """Say what comes; with --dry-run the command ends here.

    With --json, standard output has only the document and standard error only errors, and with --quiet nothing is
    said, except in a dry run, whose answer is the plan.
    """
    if (as_json or notes.quiet) and not dry_run:
        return
    where = notes if as_json else where
    if dry_run:
        where.quiet = False
    for line in (*lines, *_disturbs()):
        where.say(f"plan    {line}")
    if dry_run:
        where.say("plan    nothing of it was done: --dry-run")
        raise typer.Exit


def _disturbs() -> Iterator[str]:
    """Yield measurements that this work would disturb: compilers beside them change figures more than variants do."""
    with suppress(StoreError):  # another user's lock
        if who := lock.holder():
            yield f"disturbs {who}: wait for its end, or its rows have to be measured again"


def missing_of(engine: protocol.Engine, known: Catalog, names: Sequence[str], options: BuildOptions) -> list[str]:
    """Return those of these variants that have to be built: they have no image, and could have one."""
    return missing_in(engine.look_up(known, names, options))


def missing_in(there: Sequence[Built]) -> list[str]:
    """Return the variants that have to be built, of those that were looked up."""
    return [image.variant for image in there if image.outcome.reason == NOT_BUILT]


def left_out_of(there: Sequence[Built]) -> list[str]:
    """Return a line for each variant that was looked up and can neither be built nor used here, with the reason."""
    return [
        f"without {image.variant}: {image.outcome.reason}"
        for image in there
        if image.outcome.state is not State.OK and image.outcome.reason != NOT_BUILT
    ]


def building(paths: ProjectPaths, known: Catalog, missing: Sequence[str]) -> str:
    """Return what is built, how long that takes here and how much disk it needs; or that nothing has to be built."""
    if not missing:
        return "builds nothing: every interpreter that can be built is there"
    takes = of_builds(paths, known, missing).words.removeprefix("building ")
    return f"builds {', '.join(missing)}: {takes}; {disk(paths, missing)}"


def disk(paths: ProjectPaths, names: Sequence[str]) -> str:
    """Return how much disk images take; images without a recorded size count like the others."""
    record = store.latest_builds(paths.reference)
    sizes = {build.variant: build.size_bytes for build in (record.builds if record else []) if build.size_bytes}
    if not sizes:
        return "disk unknown"
    usual = fmean(sizes.values())
    return f"about {sum(sizes.get(name, usual) for name in names) / 1e6:.0f} MB of disk"


def require_writable(results: Path, name: str | None = None) -> None:
    """Raise UsageError if experiments cannot be kept there, to fail before hours of building and not after them.

    StoreError if there is an experiment of this name already.
    """
    try:
        results.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=results).close()
        if name is not None:
            store.require_free(results / name)
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        todo = "Name another folder with --results, or set XDG_DATA_HOME or HOME to a folder of yours."
        raise UsageError(file=str(results), found=problem, todo=todo) from None
