"""Which image to run: pick."""

from __future__ import annotations

import datetime
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from interlock import host, progress, requirements, store
from interlock.commands.options import Release, Results
from interlock.engine import build as building
from interlock.engine.audit import audit
from interlock.engine.client import connect, engine_facts
from interlock.engine.local import find_tagged
from interlock.errors import EngineError, PickError, UsageError, nearest
from interlock.model import DEFAULT_BASELINE, Built, Catalog, Decision, Values, VariantAudit, split_label
from interlock.pick import advice, demands, page, weighing
from interlock.pick.machines import Here
from interlock.pick.material import START, Material
from interlock.pick.risks import Local, image_of
from interlock.pick.weighing import Recorded
from interlock.places import Places
from interlock.requirements import Requirements
from interlock.routines import build_options, console, profile_name, project, split_names


def pick_command(
    workload: Annotated[
        list[str] | None,
        typer.Option(help="What runs on it, `download=3` or `download/many=2`, with its weight (1); may be repeated."),
    ] = None,
    needs: Annotated[
        list[Path] | None,
        typer.Option(help="Requirements file that is tried on what would be picked; may be repeated."),
    ] = None,
    max_rss: Annotated[str | None, typer.Option(help="The most memory that a process may take, as in 200MB.")] = None,
    min_python: Annotated[str | None, typer.Option(help="The oldest Python that will do, as in 3.11.")] = None,
    supported_until: Annotated[
        str | None, typer.Option(help="A month or day until which upstream supports it, as in 2027-06.")
    ] = None,
    allow: Annotated[
        str | None, typer.Option(help="Support phases that are excluded otherwise: end-of-life, prerelease.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Take the benchmarks that were measured with so many threads.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="What runs now; the experiment's baseline without this option.")
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(help="Its name or folder; the latest that has what is asked for, else a shipped one."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a terminal's table.")] = False,
    release: Release = False,
    results: Results = None,
) -> None:
    """Say which image to run, or to stay: what is excluded and why, the ranking, the FROM line, costs and risks."""
    wanted = demands.Demands(
        weights=demands.parse_weights(workload or []),
        max_rss_bytes=None if max_rss is None else demands.parse_size(max_rss),
        min_python=None if min_python is None else demands.parse_version(min_python),
        supported_until=None if supported_until is None else demands.parse_month(supported_until),
        threads=threads,
        allowed=demands.parse_phases(split_names(allow) or []),
        profile=profile_name(release),
        baseline=baseline,
        needs=tuple(map(str, needs or [])),
    )
    packages = requirements.read(wanted.needs, _text, Path.exists) if needs else None
    places, known = project()
    _check_baseline(known, baseline)
    recorded = weighing.choose(_recorded(places, results, experiment), wanted, known.workloads)
    material = Material(recorded, _values(recorded, wanted, known), known, wanted, today())
    client, engine = _engine(required=packages is not None)
    ranked = advice.decide(material)
    if packages is not None:
        with progress.Display(Console(stderr=True) if as_json else console) as display:
            material, ranked = advice.settle(material, Trying(client, places, known, packages, release, display).audit)
    image, local_state = _image(material, ranked, client)
    picked = advice.advise(material, ranked, Here(host.facts(), engine), image, local_state)
    if as_json:
        sys.stdout.write(picked.model_dump_json(indent=1) + "\n")
    else:
        console.print(page.terminal(picked))
        for line in page.closing(picked):
            console.print(line, soft_wrap=True, highlight=False, markup=False)
    if picked.decision is Decision.NOTHING:
        raise PickError(
            found=picked.answer, todo="The reasons of each are given: give up the demand that matters least."
        )


def _check_baseline(known: Catalog, baseline: str | None) -> None:
    """UsageError for a variant or mode that does not exist."""
    labels = [label for variant in known.variants.values() for label in variant.labels]
    if baseline is not None and baseline not in labels:
        raise UsageError(key="--baseline", found=f"there is no variant '{baseline}'", todo=nearest(baseline, labels))


def _recorded(places: Places, results: Path | None, name: str | None) -> list[Recorded]:
    """The experiment that was named; else all of the user's, the latest first, and then the shipped ones.

    They were taken for different ends: those to the usual baseline go first, of them the one with the most variants.
    """
    shipped = places.results / "reference"
    if name is not None:
        return [_named(name, [results or places.results, shipped], shipped)]
    own = [_read(one, shipped) for one in _folders(results or places.results)]
    known = [_read(one, shipped) for one in _folders(shipped)]
    return [
        *sorted(own, key=lambda one: one.experiment.started, reverse=True),
        *sorted(known, key=_usefulness, reverse=True),
    ]


def _usefulness(shipped: Recorded) -> tuple[bool, int, str]:
    settings = shipped.experiment.settings
    return settings.baseline == DEFAULT_BASELINE, len(settings.variants), shipped.experiment.started


def _folders(results: Path) -> list[Path]:
    return [path.parent for path in results.glob(f"*/{store.EXPERIMENT_FILE}")]


def _read(folder: Path, shipped: Path) -> Recorded:
    """Its folder as a person would name it from here."""
    here = Path.cwd()
    named = folder.relative_to(here) if folder.is_relative_to(here) else folder
    return Recorded(named, store.read_experiment(folder), folder.resolve().parent == shipped.resolve())


def _named(name: str, folders: list[Path], shipped: Path) -> Recorded:
    """By its folder, or by its name among the user's and the shipped ones."""
    for folder in (Path(name), *(one / name for one in folders)):
        if (folder / store.EXPERIMENT_FILE).is_file():
            return _read(folder, shipped)
    known = [folder.name for one in folders for folder in _folders(one)]
    raise UsageError(key="--experiment", found=f"there is no experiment '{name}'", todo=nearest(name, known))


def _values(recorded: Recorded, wanted: demands.Demands, known: Catalog) -> Values:
    """Of all cells of the workloads that count, and of starts: what nobody asks about is not read."""
    experiment, folder = recorded.experiment, recorded.experiment.host["folder"]
    workloads = {workload for workload, _ in weighing.shares_of(experiment, wanted, known.workloads)} | {START[0]}
    return {
        (cell.label, cell.workload): store.read_values(
            store.cell_path(recorded.folder, folder, cell.variant, cell.mode, cell.workload)
        )
        for cell in experiment.cells
        if cell.workload in workloads
    }


@dataclass(frozen=True)
class Trying:
    """What dependencies are tried with."""

    client: Any
    places: Places
    known: Catalog
    packages: Requirements
    release: bool
    display: progress.Display

    def say(self, variant: str, step: str) -> None:
        (self.display.show if self.display.redraws else self.display.log)(f"needs   {variant}  {step}")

    def audit(self, name: str) -> VariantAudit:
        """What came of them in a variant, which is built if it is not here."""
        options = build_options(self.places, self.release)
        images = building.build(self.client, self.known, [name], options, self.say)
        (found,) = audit(self.client, self.known, self.places.root, images, self.packages, self.say)
        return found


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _engine(*, required: bool) -> tuple[Any, dict[str, Any] | None]:
    """The engine and its facts, if one answers: figures need none, but to try dependencies one is required."""
    try:
        client = connect()
    except EngineError:
        if required:
            raise
        return None, None
    return client, engine_facts(client)


def _image(material: Material, ranked: advice.Ranked, client: Any) -> tuple[Built | None, Local]:
    """The chosen one's, and what this engine has of it."""
    if ranked.chosen is None:
        return None, Local.UNKNOWN
    name = split_label(ranked.chosen.label)[0]
    measured, tag = material.images[name], material.catalog.variants[name].image_tag(material.demands.profile)
    here = find_tagged(client, measured.model_copy(update={"tag": tag})) if client else None
    return image_of(measured, tag, here, answers=client is not None)


def today() -> datetime.date:
    """By the clock of this machine: what ends today is still supported."""
    return datetime.date.today()
