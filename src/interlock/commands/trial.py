"""A user's own Dockerfile, run across variants: trial."""

from __future__ import annotations

import os
import random
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from interlock import catalog, progress, store, user_files
from interlock.commands.options import Release, Results
from interlock.engine import build as building
from interlock.engine.client import connect
from interlock.engine.trial import require_memory, require_network
from interlock.engine.user_build import DOCKERFILE, Recipe
from interlock.errors import UsageError, nearest
from interlock.model import Built, Catalog, Outcome, State, TrialSettings, Variant, split_label
from interlock.places import Places
from interlock.routines import (
    build_options,
    console,
    fail_on_failed_builds,
    profile_name,
    project,
    split_names,
)
from interlock.trial import asked, tables
from interlock.trial.builds import Contestant
from interlock.trial.conduct import Assignment, Seen, conduct
from interlock.trial.copies import Copy, copy_for
from interlock.trial.visits import Demands

LEAST_ROUNDS, ROUNDS_LIMIT, HALF_WIDTH = 5, 20, 0.025
REPORT_FILE = "trial.md"


def trial_command(
    context: Annotated[Path, typer.Argument(help="The service's folder: what `docker build` would be given.")],
    cmd: Annotated[str | None, typer.Option(help="Tests, run by a shell in the built image: 'pytest -q'.")] = None,
    load: Annotated[
        str | None, typer.Option(help="Load on the service, {url} its address: 'wrk -t1 -c16 -d3s {url}/'.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            help="Where the service answers 2xx when it is healthy, :8000/health; HOST:8000/health to name it."
        ),
    ] = None,
    variants: Annotated[
        str | None, typer.Option(help="Comma-separated, each `variant` or `variant+mode`; what is missing is built.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="The Dockerfile; by default that of the folder.")] = None,
    target: Annotated[str | None, typer.Option(help="The stage to build, as of `docker build`.")] = None,
    stage: Annotated[str | None, typer.Option(help="The stage to swap; by default all Python stages.")] = None,
    build_arg: Annotated[list[str] | None, typer.Option(help="NAME=VALUE or NAME, as of `docker build`.")] = None,
    secret: Annotated[list[str] | None, typer.Option(help="A secret, as of `docker build` (BuildKit).")] = None,
    env: Annotated[list[str] | None, typer.Option(help="NAME=VALUE or NAME for the service and its tests.")] = None,
    network: Annotated[
        str | None, typer.Option(help="The engine's network to run in, where for instance a database is.")
    ] = None,
    cpus: Annotated[int | None, typer.Option(min=1, help="CPUs of the service; all but one by default.")] = None,
    memory: Annotated[str | None, typer.Option(help="The service's limit, as in 512m.")] = None,
    healthy_within: Annotated[float, typer.Option(min=1, help="Seconds until it must be healthy.")] = 60,
    deadline: Annotated[float, typer.Option(min=1, help="Seconds that a load or the tests may take.")] = 600,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Exactly so many; by default 5 to 20, until ±2.5 %.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the order of the rounds; a new one by default.")] = None,
    profile: Annotated[bool, typer.Option(help="Count syscalls in a pass of its own.")] = True,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the images that were built, under a tag.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a terminal's tables.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="Folder for trial.json; one of its own in results/ without.")
    ] = None,
    release: Release = False,
    results: Results = None,
) -> None:
    """Try a service's own Dockerfile on variants: build, start, test and load each, and say whether to switch."""
    recipe, text = _recipe(context, file, _docker_options(build_arg, secret, target))
    demands = Demands(
        address=asked.parse_address(http) if http else None,
        load=asked.load_words(load) if load else None,
        test=cmd,
        environment=asked.settings_of("--env", env or [], os.environ),
        healthy_within_s=healthy_within,
        deadline_s=deadline,
    )
    if not (load or cmd or http):
        raise UsageError(found="nothing is asked of the service", todo="Give --load, --cmd or --http.")
    places, known = project()
    client = connect()
    if network is not None:
        require_network(client, network)
    if memory is not None:
        require_memory(memory)
    service_cpus, load_cpus = asked.cpus_of(client.info()["NCPU"], cpus)
    shown = Console(stderr=True) if as_json else console
    with progress.Display(shown) as display:
        labels = _labels(client, places, known, split_names(variants), release)
        names = list(dict.fromkeys(split_label(label)[0] for label in labels))
        copies = {name: _copy(known.variants[name], recipe, text, stage, release) for name in names}
        built = _built(client, places, known, names, release, display)
        chosen_seed = random.SystemRandom().randrange(2**32) if seed is None else seed
        settings = TrialSettings(
            context=str(context),
            dockerfile=str(recipe.dockerfile),
            profile=profile_name(release),
            target=target,
            stage=stage,
            secrets=secret or [],
            build_args=[one.partition("=")[0] for one in build_arg or []],
            environment=list(demands.environment),
            test=cmd,
            load=load,
            http=http,
            rounds=rounds or LEAST_ROUNDS,
            rounds_limit=None if rounds else ROUNDS_LIMIT,
            half_width=None if rounds else HALF_WIDTH,
            seed=chosen_seed,
            service_cpus=service_cpus,
            load_cpus=load_cpus,
            memory=memory,
            network=network,
            profiled=profile,
        )
        assignment = Assignment(
            root=places.root,
            cache=places.cache,
            results=results or places.results,
            output=output,
            base=next(iter(known.bases.values())),
            recipe=recipe,
            contestants=[_contestant(known, label, built, copies) for label in labels],
            demands=demands,
            settings=settings,
            starts_service=load is not None,
            keep=keep,
            command=_repeat(settings, labels, release, cpus, healthy_within, deadline),
        )
        steps = progress.BuildProgress(display, len(names) + 1, {})
        folder, tried = conduct(client, assignment, Seen(steps, progress.MeasureProgress(display, 1)))
    store.write_whole(folder / REPORT_FILE, tables.markdown(tried))
    if as_json:
        sys.stdout.write(tables.as_json(tried) + "\n")
    else:
        console.print(tables.terminal(tried))
        console.print(f"\nFull report: {folder / REPORT_FILE}", highlight=False, soft_wrap=True)
    fail_on_failed_builds(list(built.values()))


def _recipe(context: Path, file: Path | None, options: tuple[str, ...]) -> tuple[Recipe, str]:
    """What is built, and the Dockerfile's text; a file is looked for here and then in the folder."""
    if not context.is_dir():
        raise UsageError(file=str(context), found="there is no such folder", todo="Name the folder of your service.")
    places = [context / DOCKERFILE] if file is None else [file, context / file]
    path = next((one for one in places if one.is_file()), None)
    if path is None:
        raise UsageError(file=str(places[0]), found="there is no such Dockerfile", todo="Name it with --file.")
    return Recipe(context, path, options), user_files.read(path)


def _docker_options(build_args: list[str] | None, secrets: list[str] | None, target: str | None) -> tuple[str, ...]:
    """Words for `docker build`, in pairs."""
    asked.settings_of("--build-arg", build_args or [], os.environ)
    words = [word for one in build_args or [] for word in ("--build-arg", one)]
    words += [word for one in secrets or [] for word in ("--secret", one)]
    return (*words, *(("--target", target) if target else ()))


def _labels(client: Any, places: Places, known: Catalog, wanted: list[str] | None, release: bool) -> list[str]:
    """What to try: what was named, or of the usual variants those that are built."""
    if wanted is None:
        found = building.look_up(client, known, asked.usual_variants(known.variants), build_options(places, release))
        ready = [one.variant for one in found if one.outcome.state is State.OK]
        if not ready:
            raise UsageError(
                key="--variants",
                found="is missing, and no variant is built yet",
                todo="Name some, which are built then: --variants cpython-3.14,cpython-3.14t.",
            )
        return ready
    for name in (split_label(label)[0] for label in wanted):
        if name not in {*known.variants, catalog.EVERYTHING}:
            raise UsageError(
                key="--variants", found=f"there is no variant '{name}'", todo=nearest(name, known.variants)
            )
    return catalog.select_labels(known.variants, wanted)


def _copy(variant: Variant, recipe: Recipe, text: str, stage: str | None, release: bool) -> Copy:
    """The Dockerfile on a variant's image; SwapError, before anything is built, if there can be none."""
    return copy_for(text, variant, profile_name(release), stage, str(recipe.dockerfile))


def _built(
    client: Any, places: Places, known: Catalog, names: list[str], release: bool, display: progress.Display
) -> dict[str, Built]:
    """The variants' images; what is missing is built."""
    say = progress.BuildProgress(display, len(names), {})
    return {one.variant: one for one in building.build(client, known, names, build_options(places, release), say)}


def _contestant(known: Catalog, label: str, built: Mapping[str, Built], copies: Mapping[str, Copy]) -> Contestant:
    name, mode_name = split_label(label)
    variant, image = known.variants[name], built[name]
    mode = next((one for one in variant.modes if one.name == mode_name), None)
    if image.outcome.state is State.OK:
        return Contestant(label, variant, mode, image, copies[name])
    missing = Outcome(state=State.UNAVAILABLE, reason=f"there is no image of it: {image.outcome.reason}")
    return Contestant(label, variant, mode, image.model_copy(update={"outcome": missing}), None)


def _repeat(
    settings: TrialSettings, labels: Sequence[str], release: bool, cpus: int | None, healthy_s: float, deadline_s: float
) -> str:
    """The command that repeats a trial, with what was chosen by default written out; values that may be secrets not."""
    options: list[tuple[str, object]] = [
        ("--file", settings.dockerfile),
        ("--cmd", settings.test),
        ("--load", settings.load),
        ("--http", settings.http),
        ("--variants", ",".join(labels)),
        ("--target", settings.target),
        ("--stage", settings.stage),
        *(("--build-arg", name) for name in settings.build_args),
        *(("--secret", one) for one in settings.secrets),
        *(("--env", name) for name in settings.environment),
        ("--network", settings.network),
        ("--cpus", cpus),
        ("--memory", settings.memory),
        ("--healthy-within", f"{healthy_s:g}"),
        ("--deadline", f"{deadline_s:g}"),
        ("--rounds", None if settings.rounds_limit else settings.rounds),
        ("--seed", settings.seed),
    ]
    words = [word for name, value in options if value is not None for word in (name, str(value))]
    words += [] if settings.profiled else ["--no-profile"]
    return shlex.join(["interlock", "trial", settings.context, *words, *(["--release"] if release else [])])
