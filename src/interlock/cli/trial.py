"""The command that runs a user's own Dockerfile on variants: trial."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from interlock.analysis.verdicts import LOOKS, MOST_ROUNDS
from interlock.catalog import project
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.catalog.types import split_label
from interlock.cli import progress
from interlock.cli.images import build_options, by_profile, fail_on_failed_builds
from interlock.cli.options import (
    Json,
    Profile,
    ProfileName,
    Results,
    Seed,
    console,
    open_project,
    parse_duration,
    split_names,
)
from interlock.engine.docker import DockerEngine, connect
from interlock.engine.run.trials import DOCKERFILE, Recipe, require_memory, require_network
from interlock.errors import UsageError, nearest
from interlock.measure.ending import exit_code_of
from interlock.report.why import flame_svg
from interlock.results import store
from interlock.results.answers import Trial, TrialSettings
from interlock.results.commands import command_line
from interlock.results.experiments import Built, Outcome, State
from interlock.swap.writing import read_file
from interlock.trial import options as trial_options
from interlock.trial import tables
from interlock.trial.builds import Copy, PlannedCandidate, copy_for
from interlock.trial.rounds import Checks
from interlock.trial.running import Assignment, ProgressCallbacks, run_trial

LEAST_ROUNDS, ROUNDS_LIMIT = min(LOOKS), MOST_ROUNDS
REPORT_FILE = "trial.md"
BUDGET_S = 600.0


def trial_command(
    context: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the service, as for `docker build`.")],
    cmd: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Tests to run in the built image, for instance 'pytest -q'.")
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="Load to put on the service at {url}, for instance 'wrk -t1 -c16 -d3s {url}/'."
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST]:PORT/PATH", help="Address where a healthy service answers 2xx, for instance :8000/health."
        ),
    ] = None,
    variants: Annotated[
        str | None,
        typer.Option(
            metavar="A,B+MODE",
            help="Variants, plain or in a mode; missing ones are built (default: built, supported ones).",
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Dockerfile (default: that of the folder).")] = None,
    target: Annotated[str | None, typer.Option(metavar="STAGE", help="Stage to build, as for `docker build`.")] = None,
    stage: Annotated[
        str | None, typer.Option(metavar="STAGE", help="Stage to swap (default: all Python stages).")
    ] = None,
    build_arg: Annotated[
        list[str] | None, typer.Option(metavar="NAME[=VALUE]", help="Build argument, as for `docker build`.")
    ] = None,
    secret: Annotated[
        list[str] | None, typer.Option(metavar="SECRET", help="Build secret, as for `docker build` (BuildKit).")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=VALUE]", help="Environment variable of the service and its tests."),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Network of the engine to run in, for instance that of a database."),
    ] = None,
    cpus: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of CPUs of the service (default: all but one).")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory limit of the service, for instance 512m (default: none).")
    ] = None,
    healthy_within: Annotated[
        float, typer.Option(min=1, metavar="S", help="Time limit for the service to become healthy, in seconds.")
    ] = 60,
    deadline: Annotated[
        float, typer.Option(min=1, metavar="S", help="Time limit of the load or the tests, in seconds.")
    ] = 600,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Fixed number of rounds (default: as many as needed, 4 to 20)."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Time limit for the rounds: 90s, 10m, 1h (default: 10m; none with --rounds).",
        ),
    ] = None,
    seed: Seed = None,
    syscalls: Annotated[bool, typer.Option(help="Count system calls, in a separate pass.")] = True,
    why: Annotated[bool, typer.Option("--why", help="Record stacks of waits and wakes, in a separate pass.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the built images, under a tag.")] = False,
    as_json: Json = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for trial.json (default: a new one in results/).")
    ] = None,
    profile: Profile = None,
    results: Results = None,
) -> None:
    """Run your own Dockerfile on several variants and compare them.

    Builds, starts, tests and loads the service on each variant, and says whether to switch.
    """
    recipe, text = _recipe(context, file, _docker_options(build_arg, secret, target))
    checks = Checks(
        address=trial_options.parse_address(http) if http else None,
        load=trial_options.load_words(load) if load else None,
        test=cmd,
        environment=trial_options.settings_of("--env", env or [], os.environ),
        healthy_within_s=healthy_within,
        deadline_s=deadline,
    )
    if not (load or cmd or http):
        raise UsageError(found="no --load, --cmd or --http given", todo="Give at least one of them.")
    paths, known = open_project()
    containers = connect()
    if network is not None:
        require_network(containers.client, network)
    if memory is not None:
        require_memory(memory)
    service_cpus, load_cpus = trial_options.cpus_of(containers.facts()["cpus"], cpus)
    settings = TrialSettings(
        context=str(context),
        dockerfile=str(recipe.dockerfile),
        profile=profile or ProfileName.RELEASE,
        target=target,
        stage=stage,
        secrets=secret or [],
        build_args=[one.partition("=")[0] for one in build_arg or []],
        environment=list(checks.environment),
        test=cmd,
        load=load,
        http=http,
        rounds=rounds or LEAST_ROUNDS,
        rounds_limit=None if rounds else ROUNDS_LIMIT,
        budget_s=parse_duration(budget, "--budget") if budget else None if rounds else BUDGET_S,
        seed=random.SystemRandom().randrange(2**32) if seed is None else seed,
        service_cpus=service_cpus,
        load_cpus=load_cpus,
        memory=memory,
        network=network,
        profiled=syscalls,
        why=why,
    )
    with progress.open_display(as_json) as display:
        planned, built = _plan_candidates(
            containers, paths, known, split_names(variants), recipe, text, settings, profile, display
        )
        labels = [one.label for one in planned]
        assignment = Assignment(
            root=paths.root,
            cache=paths.cache,
            results=results or paths.results,
            output=output,
            base=next(iter(known.bases.values())),
            recipe=recipe,
            planned=planned,
            checks=checks,
            settings=settings,
            starts_service=load is not None,
            keep=keep,
            command=_repeat(settings, labels, cpus, healthy_within, deadline),
        )
        steps = progress.BuildProgress(display, len(built) + 1, {})
        callbacks = ProgressCallbacks(steps, progress.MeasureProgress(display, 1))
        folder, tried = run_trial(containers, assignment, callbacks)
    _write_result(folder, tried, as_json)
    if exit_code_of(tried.ended_by):
        raise typer.Exit(exit_code_of(tried.ended_by))
    fail_on_failed_builds(list(built.values()))


def _plan_candidates(
    containers: DockerEngine,
    paths: ProjectPaths,
    known: Catalog,
    chosen: list[str] | None,
    recipe: Recipe,
    text: str,
    settings: TrialSettings,
    wanted: str | None,
    display: progress.Display,
) -> tuple[list[PlannedCandidate], dict[str, Built]]:
    """Return what to try, and the images of its variants, which are built if they are missing.

    SwapError, before anything is built, if the Dockerfile cannot have the image of a variant.
    """
    labels = _labels(containers, paths, known, chosen, wanted)
    names = list(dict.fromkeys(split_label(label)[0] for label in labels))
    file = str(recipe.dockerfile)
    variants = [known.variants[name] for name in names]
    copies = {one.name: copy_for(text, one, one.profile_for(wanted), settings.stage, file) for one in variants}
    built = _built(containers, paths, known, names, wanted, display)
    return [_planned(known, label, built, copies) for label in labels], built


def _write_result(folder: Path, tried: Trial, as_json: bool) -> None:
    """Write the report beside trial.json, and print the result."""
    write_report(folder, tried)
    if as_json:
        sys.stdout.write(tables.as_json(tried) + "\n")
    else:
        console.print(tables.terminal(tried))
        console.print(f"\nFull report: {folder / REPORT_FILE}", highlight=False, soft_wrap=True)


def write_report(folder: Path, tried: Trial) -> None:
    """Write the report and the flame graphs beside trial.json."""
    store.write_atomically(folder / REPORT_FILE, tables.markdown(tried))
    for label, found in tables.explained(tried).items():
        store.write_atomically(
            folder / f"why-{label}.svg", flame_svg(f"{label}: time in calls that wait or wake", found)
        )


def _recipe(context: Path, file: Path | None, options: tuple[str, ...]) -> tuple[Recipe, str]:
    """Return what to build and the text of the Dockerfile: --file here or in the folder, or the folder's own.

    UsageError if there is none.
    """
    if not context.is_dir():
        raise UsageError(file=str(context), found="no such folder", todo="Give the folder of your service.")
    places = [context / DOCKERFILE] if file is None else [file, context / file]
    path = next((one for one in places if one.is_file()), None)
    if path is None:
        raise UsageError(file=str(places[0]), found="no such file", todo="Give your Dockerfile with --file.")
    return Recipe(context, path, options), read_file(path)


def _docker_options(build_args: list[str] | None, secrets: list[str] | None, target: str | None) -> tuple[str, ...]:
    """Return the options for `docker build`."""
    trial_options.settings_of("--build-arg", build_args or [], os.environ)
    words = [word for one in build_args or [] for word in ("--build-arg", one)]
    words += [word for one in secrets or [] for word in ("--secret", one)]
    return (*words, *(("--target", target) if target else ()))


def _labels(
    containers: DockerEngine, paths: ProjectPaths, known: Catalog, chosen: list[str] | None, wanted: str | None
) -> list[str]:
    """Return the named variants and modes, or those of the usual variants that are built."""
    if chosen is None:
        usual = trial_options.usual_variants(known.variants)
        found = [
            one
            for profile, names in by_profile(known, usual, wanted)
            for one in containers.look_up(known, names, build_options(paths, profile == "release"))
        ]
        ready = [one.variant for one in found if one.outcome.state is State.OK]
        if not ready:
            raise UsageError(
                key="--variants",
                found="missing option --variants, and no variant is built yet",
                todo="Name variants to build and try: --variants cpython-3.14,cpython-3.14t.",
            )
        return ready
    for name in (split_label(label)[0] for label in chosen):
        if name not in {*known.variants, project.EVERYTHING}:
            raise UsageError(
                key="--variants", found=f"there is no variant '{name}'", todo=nearest(name, known.variants)
            )
    return project.select_labels(known.variants, chosen)


def _built(
    containers: DockerEngine,
    paths: ProjectPaths,
    known: Catalog,
    names: list[str],
    wanted: str | None,
    display: progress.Display,
) -> dict[str, Built]:
    """Return the images of the variants, each in its profile, and build those that are missing."""
    on_step = progress.BuildProgress(display, len(names), {})
    return {
        one.variant: one
        for profile, some in by_profile(known, names, wanted)
        for one in containers.build(known, some, build_options(paths, profile == "release"), on_step)
    }


def _planned(known: Catalog, label: str, built: Mapping[str, Built], copies: Mapping[str, Copy]) -> PlannedCandidate:
    name, mode_name = split_label(label)
    variant, image = known.variants[name], built[name]
    mode = next((one for one in variant.modes if one.name == mode_name), None)
    if image.outcome.state is State.OK:
        return PlannedCandidate(label, variant, mode, image, copies[name])
    missing = Outcome(state=State.UNAVAILABLE, reason=f"there is no image of it: {image.outcome.reason}")
    return PlannedCandidate(label, variant, mode, image.model_copy(update={"outcome": missing}), None)


def _repeat(
    settings: TrialSettings, labels: Sequence[str], cpus: int | None, healthy_s: float, deadline_s: float
) -> str:
    """Return the command that repeats a trial, with defaults written out and values that may be secrets left out."""
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
        ("--budget", None if settings.budget_s is None else f"{settings.budget_s:g}s"),
        ("--seed", settings.seed),
    ]
    words = [word for name, value in options if value is not None for word in (name, str(value))]
    words += [] if settings.profiled else ["--no-syscalls"]
    words += ["--why"] if settings.why else []
    words += ["--profile", "standard"] if settings.profile == "standard" else []
    return command_line("trial", settings.context, *words)
