"""What several commands do: find the project, render, build with progress, report; and where they print."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from interlock import bake, catalog, claims, compare, doctor, progress, report, store, variants_page
from interlock.engine import build as building
from interlock.engine import verify as verifying
from interlock.engine.client import connect
from interlock.engine.host import prefixes
from interlock.engine.image import Options
from interlock.engine.running import OnHost
from interlock.errors import BuildError, EngineError, UsageError, WorkloadError
from interlock.model import Built, Catalog, Claim, EngineName, Experiment, State
from interlock.places import Places
from interlock.registries import Registry
from interlock.render import generated_files
from interlock.skipped import failures

PAGE_FILE = "report.html"
Told = tuple[Experiment, list[compare.Table], list[claims.Finding]]

# Where the width is unknown (a pipe, a log) lines are long rather than folded.
console = Console(width=None if Console().is_terminal or "COLUMNS" in os.environ else 160)


def project() -> tuple[Places, Catalog]:
    """Where things are, and everything that the project's files say."""
    places = Places.here()
    return places, catalog.load(places.root)


def folder_of(folder: Path | None, results: Path | None) -> Path:
    """The experiment's folder that was named, or the latest one."""
    return folder or store.latest_experiment(results or project()[0].results)


def split_names(names: str | None) -> list[str] | None:
    """Comma-separated names; None if there is no such option."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def profile_name(release: bool) -> str:
    """The optimisation profile that --release chooses."""
    return "release" if release else "standard"


def show(checks: list[doctor.Check]) -> None:
    """A line for each check of the doctor."""
    for check in checks:
        mend = f"  -> {check.mend}" if check.mend else ""
        console.print(Text(f"{check.verdict.value:8} {check.subject}: {check.found}{mend}"), soft_wrap=True)


def generated(places: Places, known: Catalog) -> dict[str, str]:
    """Every generated file, by path below the root."""
    builds = store.latest_builds(places.results / "reference", "standard")
    page = variants_page.page(known, builds)
    files = generated_files(known, catalog.texts(places.root))
    return {**files, bake.PATH: bake.bake_file(known), variants_page.PATH: page}


def write_generated(places: Places, known: Catalog) -> None:
    """The generated files as variants/ says, each changed one named."""
    for path in store.sync(places.root, generated(places, known)):
        console.print(Text(f"render  {path}"))


def build_options(
    places: Places, release: bool, force: bool = False, registry: Registry | None = None, pulls_only: bool = False
) -> Options:
    """How to build; with `force` what is unchanged too, from nothing; with a registry what it has is pulled instead."""
    rebuild = str(time.time_ns()) if force else ""
    return Options(places.root, places.cache, profile_name(release), rebuild, registry, pulls_only)


def build_variants(
    client: Any, known: Catalog, names: list[str], options: Options, verify: bool = False
) -> list[Built]:
    """The named variants, built with progress; with `verify` each a second time."""
    known_s = store.read_durations(options.cache, options.profile)
    usual_s = {name: known_s[name] for name in names if name in known_s}
    with progress.Display(console) as display:
        say = progress.BuildProgress(display, len(names), usual_s)
        if isinstance(client, OnHost):
            place = prefixes.Place(options.root, options.cache, options.profile, force=bool(options.rebuild))
            built = prefixes.build(known, names, place, say)
        else:
            built = building.build(client, known, names, options, say)
        if verify:
            built = [verifying.verify(client, known, name, options, say) for name in names]
    fresh = {image.variant: image.duration_s for image in built if not image.reused and image.image_id}
    store.write_durations(options.cache, options.profile, {**known_s, **fresh})
    return built


def ground(places: Places, engine: EngineName | None) -> Any:
    """What builds and measures: the client of a container engine, or this machine if it was named or none answers."""
    if engine is EngineName.HOST:
        return OnHost(places.root, places.cache)
    try:
        return connect(engine)
    except EngineError as error:
        if engine is not None or "DOCKER_HOST" in os.environ:
            raise
        console.print(Text(f"engine  host: {error.found}; what needs containers is unsupported (docs/engines.md)"))
        return OnHost(places.root, places.cache)


def fail_on_failed_builds(built: list[Built]) -> None:
    """BuildError for the first variant that failed; one that is unavailable did not."""
    for image in built:
        if image.outcome.state is State.FAILED:
            raise BuildError(found=image.outcome.reason, todo="The other variants are not affected.")


def fail_on_failed_cells(folder: Path, described: Experiment) -> None:
    """WorkloadError for the first cell that failed."""
    for cell in failures([*described.cells, *described.limits]):
        raise WorkloadError(
            file=str(folder),
            key=f"{cell.label} / {cell.workload}",
            found=cell.outcome.reason,
            todo="The other cells are not affected.",
        )


def load(folder: Path) -> tuple[Experiment, list[compare.Table]]:
    """An experiment and its tables."""
    described = store.read_experiment(folder)
    values, profiles = store.read_cells(folder, described)
    return described, compare.tables(described, values, profiles)


def write_report(folder: Path) -> Experiment:
    """report.md and report.html beside the values, and the tables on the terminal."""
    told = _told(folder)
    described, tables, _ = told
    store.write_whole(folder / "report.md", report.markdown(described, tables))
    console.print(report.terminal(described, tables))
    console.print(f"\nFull report: {_write_page(told, folder / PAGE_FILE)}", highlight=False, soft_wrap=True)
    return described


def write_page(folder: Path, path: Path | None = None) -> Path:
    """The report as one HTML file: `path`, or report.html beside the values."""
    return _write_page(_told(folder), path or folder / PAGE_FILE)


def _write_page(told: Told, path: Path) -> Path:
    from interlock.html import page  # noqa: PLC0415  Altair takes a third of a second, which most commands do without

    store.write_whole(path, page.page(*told))
    return path


def write_charts(folder: Path, into: Path) -> list[Path]:
    """Each chart of the report as SVG and as PNG."""
    from interlock.html import pictures  # noqa: PLC0415

    written = []
    for name, content in pictures.pictures(*_told(folder)):
        store.write_whole(into / name, content)
        written.append(into / name)
    return written


def _published() -> list[Claim]:
    try:
        root = Places.here().root
    except UsageError:
        return []
    return catalog.load_claims(root) if (root / catalog.CLAIMS).is_file() else []


def _told(folder: Path) -> Told:
    """An experiment, its tables, and what it says of the project's claims, if there is a project that has some."""
    described = store.read_experiment(folder)
    values, profiles = store.read_cells(folder, described)
    found = claims.evaluate(_published(), described, values, profiles)
    return described, compare.tables(described, values, profiles), found
