"""The code of the command `pick`, which is only loaded when the command runs: its help needs none of it."""

from __future__ import annotations

import datetime
import os
import shlex
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from interlock import untrusted
from interlock.analysis.pick import advice
from interlock.analysis.pick.advice import ImageHere, ThisMachine
from interlock.analysis.pick.criteria import (
    Criteria,
    parse_month,
    parse_phases,
    parse_size,
    parse_version,
    parse_weights,
)
from interlock.analysis.pick.evidence import (
    START_UP,
    Evidence,
    RecordedExperiment,
    answering,
    choose_experiment,
    shares_of,
    usual_question,
)
from interlock.analysis.pick.exclusions import LocalImage, image_to_name
from interlock.analysis.pick.figures import recorded_figures
from interlock.analysis.services import like_text, most_like, words_in
from interlock.catalog.project import Catalog, ProjectPaths, data_folder
from interlock.catalog.types import split_label
from interlock.cli import main, progress
from interlock.cli.images import build_options
from interlock.cli.options import console, open_project, split_names
from interlock.cli.pick_options import PickOptions
from interlock.engine import machine
from interlock.engine.docker import DockerEngine, connect
from interlock.engine.names import find_tagged
from interlock.engine.packages import dependency_files
from interlock.engine.packages.audit import audit
from interlock.engine.packages.dependency_files import Dependencies
from interlock.errors import EngineError, InterlockError, PickError, UsageError, nearest, require_known
from interlock.report import pick
from interlock.results import services, store
from interlock.results.answers import Decision, Pick, RecordedFigures, VariantAudit, Whose
from interlock.results.commands import option_words, runnable
from interlock.results.experiments import EXPERIMENT_FILE
from interlock.trial.own_dockerfile import own_dockerfile
from interlock.trial.own_service import find_service


def run(options: PickOptions) -> None:
    """Print the answer of a pick; PickError if no image meets the constraints."""
    host = machine.facts()
    criteria = Criteria(
        weights=parse_weights(options.workload or []),
        cpus=options.cpus or host["cores"] or 1,
        max_rss_bytes=None if options.max_rss is None else parse_size(options.max_rss),
        min_python=None if options.min_python is None else parse_version(options.min_python),
        supported_until=None if options.supported_until is None else parse_month(options.supported_until),
        allowed=parse_phases(split_names(options.allow) or []),
        baseline=options.baseline,
        needs=tuple(map(str, options.needs or [])),
    )
    packages = dependency_files.read(criteria.needs, untrusted.read_text, os.path.exists) if options.needs else None
    paths, known = open_project()
    labels = [label for variant in known.variants.values() for label in variant.labels]
    if options.baseline is not None:
        require_known(labels, options.baseline, "variant", "--baseline")
    shipped = _read_all(paths.reference, Whose.PROJECT)
    own = _own(paths, options.results)
    recorded = _recorded(paths, options.whose, own, shipped)
    if not options.workload:
        criteria = usual_question(recorded, criteria, known)
    evidence = _evidence(choose_experiment(recorded, criteria, known), criteria, known)
    containers, engine = _engine(required=packages is not None)
    ranked = advice.decide(evidence)
    if packages is not None and containers is not None:
        with progress.open_display(options.as_json) as display:
            steps = progress.StepProgress(display, "needs")
            tested = partial(_audited, containers, paths, known, packages, steps)
            evidence, ranked = advice.decide_with_audits(evidence, tested)
    other_evidence = _others(evidence, shipped) if ranked.chosen or evidence.measured_otherwise else []
    image = _image(evidence, ranked, containers)
    also = "; ".join(filter(None, [_also(evidence.recorded, own, options.results, paths), _asked_by()]))
    here = ThisMachine(host, engine, own_dockerfile(Path.cwd()), also)
    picked = advice.advise(evidence, ranked, here, image, other_evidence)
    picked = picked.model_copy(update={"like": _like(paths, options.like, criteria.cpus)})
    if options.as_json:
        sys.stdout.write(picked.model_dump_json(indent=1) + "\n")
    else:
        _print(picked, why=options.why)
    if picked.decision is Decision.NOTHING:
        shown = "the reasons for each image are above" if options.why or options.as_json else "--why shows the reasons"
        raise PickError(found=picked.answer, todo=f"Relax a constraint; {shown}.")


def _print(picked: Pick, *, why: bool) -> None:
    for line in map(runnable, pick.first_lines(picked)):
        # A terminal would break words; a line with a command is copied whole.
        console.say(line, style="bold" if line.startswith(tuple(picked.named)) else "")
    if why:
        console.print(Text(), pick.terminal(picked, console.width), sep="\n")
        for line in pick.closing(picked):
            console.say(runnable(line))


def _own(paths: ProjectPaths, results: Path | None) -> list[RecordedExperiment]:
    """Return the user's experiments: this folder's, then those measured outside any project."""
    here, elsewhere = results or paths.results, data_folder() / "results"
    read = _read_all(here, Whose.HERE)
    if results is None and elsewhere.resolve() != here.resolve():
        read += _read_all(elsewhere, Whose.ELSEWHERE)
    return read


def _recorded(
    paths: ProjectPaths, whose: str | None, own: list[RecordedExperiment], shipped: list[RecordedExperiment]
) -> list[RecordedExperiment]:
    """Return the experiments to choose from: all, those of one kind, or the named one.

    The shipped ones are one body of evidence: naming one of them asks all of them, and gives the same answer.
    """
    if whose is None or whose in list(Whose):
        return [candidate for candidate in [*own, *shipped] if whose in {None, candidate.whose}]
    if (Path(whose) / EXPERIMENT_FILE).is_file():
        place, known = Path(whose).resolve(), {candidate.folder.resolve(): candidate.whose for candidate in own}
        is_shipped = place.parent == paths.reference.resolve()
        return shipped if is_shipped else [_read(Path(whose), known.get(place, Whose.ELSEWHERE))]
    if any(candidate.folder.name == whose for candidate in shipped):
        return shipped
    if named := [candidate for candidate in own if candidate.folder.name == whose]:
        return named[:1]
    names = [*Whose, *(candidate.folder.name for candidate in [*own, *shipped])]
    problem = f"'{whose}' is neither {', '.join(Whose)} nor an experiment"
    raise UsageError(key="--from", found=problem, todo=nearest(whose, names))


def _also(taken: RecordedExperiment, own: list[RecordedExperiment], results: Path | None, paths: ProjectPaths) -> str:
    """Return which figures there are besides those taken, and how to ask for them or measure them."""
    if not taken.shipped:
        return "the project's: --from project"
    if not own:
        return f"yours: none in {_in_home(results or paths.results)}"
    asked = shlex.join(["interlock", "pick", "--from", own[0].whose, *option_words({"results": results})])
    return f"yours: {len(own)} experiment{'s' * (len(own) > 1)}; see `{asked}`"


def _like(paths: ProjectPaths, asked: str | None, cpus: int) -> str:
    """Return what is known of the program most like the described service, or this folder's; empty if nothing is.

    UsageError if the description was given and no program has any of its words.
    """
    # A clone of Interlock is no service, though it has dependencies.
    if asked is None and paths.is_clone and Path.cwd() == paths.root:
        return ""
    records = services.read_services(paths.root)
    try:
        words = words_in(asked) if asked is not None else find_service(Path.cwd()).packages
    except InterlockError:  # `trial` says what is wrong with it
        return ""
    likeness = most_like(words, records)
    if likeness is None and asked is not None:
        titles = "; ".join(record.title for record in records) or "none"
        nothing = f"no program that was tried is like '{asked}'"
        raise UsageError(key="--like", found=nothing, todo=f"There are: {titles}.")
    return like_text(*likeness, cpus) if likeness else ""


def _asked_by() -> str:
    """Return which file gave the workloads or CPUs, if no option did: in another folder it is another question."""
    given = main.given
    return f"asked by {given.file}" if {"--workload", "--cpus"} & given.keys.keys() else ""


def _in_home(folder: Path) -> str:
    home = os.environ.get("HOME", "")
    return f"~{str(folder).removeprefix(home)}" if home and folder.is_relative_to(home) else str(folder)


def _evidence(recorded: RecordedExperiment, criteria: Criteria, known: Catalog) -> Evidence:
    return Evidence(recorded, _figures(recorded, criteria, known), known, criteria, today())


def _others(evidence: Evidence, shipped: list[RecordedExperiment]) -> list[Evidence]:
    """Return the other shipped experiments with figures for the same question and baseline, the best first."""
    criteria = replace(evidence.criteria, baseline=evidence.baseline)
    rest = [other for other in shipped if other.folder != evidence.recorded.folder]
    return [_evidence(recorded, criteria, evidence.catalog) for recorded in answering(rest, criteria, evidence.catalog)]


def _read_all(results: Path, whose: Whose) -> list[RecordedExperiment]:
    return [_read(path.parent, whose) for path in results.glob(f"*/{EXPERIMENT_FILE}")]


def _read(folder: Path, whose: Whose) -> RecordedExperiment:
    """Read an experiment; its folder is given relative to the current one if possible."""
    here = Path.cwd()
    named = folder.relative_to(here) if folder.is_relative_to(here) else folder
    return RecordedExperiment(named, store.read_experiment(folder), whose)


def _figures(recorded: RecordedExperiment, criteria: Criteria, known: Catalog) -> RecordedFigures:
    """Read a shipped experiment's figures, or compute those of another that count, and those of start-up."""
    if (recorded.folder / store.FIGURES_FILE).is_file():
        return store.read_json(recorded.folder / store.FIGURES_FILE, RecordedFigures)
    experiment = recorded.experiment
    workloads = {workload for workload, _ in shares_of(experiment, criteria, known.workloads)} | {START_UP[0]}
    return recorded_figures(experiment, store.read_cell_values(recorded.folder, experiment, workloads))


def _audited(
    containers: DockerEngine,
    paths: ProjectPaths,
    known: Catalog,
    packages: Dependencies,
    on_step: progress.StepProgress,
    name: str,
) -> VariantAudit:
    """Return the audit of the requirements on a variant, which is built if necessary."""
    images = containers.build(known, [name], build_options(paths), on_step)
    (audited,) = audit(containers.client, known, paths.root, images, packages, on_step)
    return audited


def _engine(*, required: bool) -> tuple[DockerEngine | None, dict[str, Any] | None]:
    """Return the engine and its facts, or None twice if none answers; EngineError if one is required."""
    try:
        containers = connect()
    except EngineError as error:
        if required:
            raise EngineError(file=error.file, found=error.found, todo=f"{error.todo} Or leave out --needs.") from None
        return None, None
    return containers, containers.facts()


def _image(evidence: Evidence, ranked: advice.Ranking, containers: DockerEngine | None) -> ImageHere:
    """Return the chosen image, and whether this engine has it."""
    if ranked.chosen is None:
        return ImageHere(None, LocalImage.UNKNOWN)
    name = split_label(ranked.chosen.label)[0]
    measured, tag = evidence.images[name], evidence.catalog.variants[name].image_tag
    here = find_tagged(containers.client, measured.model_copy(update={"tag": tag})) if containers else None
    return ImageHere(*image_to_name(measured, tag, here, answers=containers is not None))


def today() -> datetime.date:
    """Return today's date; support that ends today still counts."""
    return datetime.date.today()
