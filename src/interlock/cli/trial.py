"""The command that tries a user's own Dockerfile on variants: trial."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli import progress
from interlock.cli.images import fail_on_failed_builds
from interlock.cli.matrix import resumed_place, unfinished
from interlock.cli.options import (
    Json,
    Profile,
    ProfileName,
    Results,
    Seed,
    open_project,
    parse_duration,
    split_names,
    takes,
)
from interlock.cli.progress import DecidedRows
from interlock.cli.report import write_report
from interlock.engine.docker import connect
from interlock.engine.machine import facts
from interlock.engine.run.user_containers import require_memory, require_network
from interlock.errors import UsageError, WorkloadError
from interlock.measure.ending import Ending
from interlock.measure.experiment import Observers, planned_rounds
from interlock.measure.resumable import remaining, require_same_host
from interlock.results import store
from interlock.results.commands import command_line
from interlock.results.experiments import Experiment, Settings, State
from interlock.results.trials import OWN, Trial
from interlock.trial import options as trial_options
from interlock.trial import planning
from interlock.trial.running import TrialRequest, run_trial
from interlock.trial.workloads import Checks

BUDGET_S = 600.0


@dataclass(frozen=True, kw_only=True)
class DockerfileOptions:
    """How the user's Dockerfile is built."""

    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Dockerfile (default: that of the folder).")] = None
    target: Annotated[str | None, typer.Option(metavar="STAGE", help="Stage to build, as for `docker build`.")] = None
    stage: Annotated[str | None, typer.Option(metavar="STAGE", help="Stage to swap (default: all Python stages).")] = (
        None
    )
    build_arg: Annotated[
        list[str] | None, typer.Option(metavar="NAME[=VALUE]", help="Build argument, as for `docker build`.")
    ] = None
    secret: Annotated[
        list[str] | None, typer.Option(metavar="SECRET", help="Build secret, as for `docker build` (BuildKit).")
    ] = None
    keep: Annotated[bool, typer.Option("--keep", help="Keep the built images, under a tag.")] = False


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """What each image must do, and where it runs."""

    cmd: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Tests to run in the built image, for instance 'pytest -q'.")
    ] = None
    load: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="Load to put on the service at {url}, for instance 'wrk -t1 -c16 -d3s {url}/'."
        ),
    ] = None
    http: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST]:PORT/PATH", help="Address where a healthy service answers 2xx, for instance :8000/health."
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=VALUE]", help="Environment variable of the service and its tests."),
    ] = None
    network: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Network of the engine to run in, for instance that of a database."),
    ] = None
    cpus: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of CPUs of the service (default: all but one).")
    ] = None
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory limit of the service, for instance 512m (default: none).")
    ] = None
    healthy_within: Annotated[
        float, typer.Option(min=1, metavar="S", help="Time limit for the service to become healthy, in seconds.")
    ] = 60
    deadline: Annotated[
        float, typer.Option(min=1, metavar="S", help="Time limit of the load or the tests, in seconds.")
    ] = 600

    def checks(self) -> Checks:
        """Return what each image must do; UsageError if that is nothing."""
        found = Checks(
            address=trial_options.parse_address(self.http) if self.http else None,
            load=trial_options.load_words(self.load) if self.load else None,
            test=self.cmd,
            environment=trial_options.settings_of("--env", self.env or [], os.environ),
            healthy_within_s=self.healthy_within,
            deadline_s=self.deadline,
        )
        if not (self.load or self.cmd or self.http):
            raise UsageError(found="no --load, --cmd or --http given", todo="Give at least one of them.")
        return found


@dataclass(frozen=True, kw_only=True)
class RoundOptions:
    """How long is measured, and what is counted after it."""

    rounds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Fixed number of rounds (default: as many as needed, 4 to 20)."),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Time limit for measuring: 90s, 10m, 1h (default: 10m; none with --rounds).",
        ),
    ] = None
    seed: Seed = None
    syscalls: Annotated[bool, typer.Option(help="Count system calls, in a separate pass.")] = True
    why: Annotated[bool, typer.Option("--why", help="Record stacks of waits and wakes, in a separate pass.")] = False

    def settings(self, labels: Sequence[str], profile: str) -> Settings:
        """Return the settings of the experiment."""
        plan = planned_rounds(quick=False, wanted=self.rounds)
        usual_s = None if self.rounds else BUDGET_S
        return Settings(
            quick=False,
            rounds=plan.least,
            rounds_limit=plan.limit,
            seed=random.SystemRandom().randrange(2**32) if self.seed is None else self.seed,
            baseline=OWN,
            profile=profile,
            variants=[OWN, *labels],
            workloads=[],
            profiled=self.syscalls,
            why=self.why,
            budget_s=parse_duration(self.budget, "--budget") if self.budget else usual_s,
        )


@takes
def trial_command(
    context: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the service, as for `docker build`.")],
    service: ServiceOptions,
    dockerfile: DockerfileOptions,
    measured: RoundOptions,
    variants: Annotated[
        str | None,
        typer.Option(
            metavar="A,B+MODE",
            help="Variants, plain or in a mode; missing ones are built (default: built, supported ones).",
        ),
    ] = None,
    profile: Profile = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the experiment and its folder (default: from the date).")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name or folder of an unfinished trial to continue, with its other options."),
    ] = None,
    as_json: Json = False,
    results: Results = None,
) -> None:
    """Run your own Dockerfile on several variants and compare them.

    Builds, starts, tests and loads the service on each variant, and says whether to switch.
    """
    store.require_name(name)
    resume, results = resumed_place(resume, results)
    store.require_name(resume, "--resume")
    words = planning.docker_options(dockerfile.build_arg or [], dockerfile.secret or [], dockerfile.target)
    recipe, text = planning.find_recipe(context, dockerfile.file, words)
    checks = service.checks()
    paths, known = open_project()
    containers = connect()
    if service.network is not None:
        require_network(containers.client, service.network)
    if service.memory is not None:
        require_memory(service.memory)
    service_cpus = trial_options.cpus_of(containers.facts()["cpus"], service.cpus)
    choice = planning.Variants(containers, paths, known, profile)
    labels = choice.labels(split_names(variants))
    settings = measured.settings(labels, profile or ProfileName.RELEASE)
    began = _began(results or paths.results, resume, settings, name) if resume else None
    copies = choice.copies(labels, text, dockerfile.stage, recipe.dockerfile)
    known_options = {"file": recipe.dockerfile, "variants": ",".join(labels)}
    with progress.open_display(as_json) as display:
        built = choice.build(labels, progress.BuildProgress(display, len(copies), {}))
        request = TrialRequest(
            root=paths.root,
            cache=paths.cache,
            results=results or paths.results,
            name=name,
            catalog=known,
            recipe=recipe,
            planned=[choice.planned(label, built, copies) for label in labels],
            checks=checks,
            asked=Trial(
                context=str(context),
                dockerfile=str(recipe.dockerfile),
                builder="",
                target=dockerfile.target,
                stage=dockerfile.stage,
                build_args=[one.partition("=")[0] for one in dockerfile.build_arg or []],
                secrets=dockerfile.secret or [],
                environment=list(checks.environment),
                test=service.cmd,
                load=service.load,
                service_cpus=service_cpus,
                memory=service.memory,
                network=service.network,
            ),
            settings=settings,
            starts_service=service.load is not None,
            keep=dockerfile.keep,
            command=_repeat(context, known_options, settings, service, dockerfile, measured),
            began=began,
        )
        ending, rows = Ending(settings.budget_s), DecidedRows(display, OWN)
        on_progress = progress.MeasureProgress(display, 1, lambda: rows.counts)
        on_build = progress.BuildProgress(display, len(copies) + 1, {})
        folder = run_trial(containers, request, on_build, Observers(on_progress, rows, ending))
        rows.end()
    described = write_report(folder, as_json=as_json)
    if ending.exit_code:
        raise typer.Exit(ending.exit_code)
    for cell in described.cells:
        if cell.label == OWN and cell.outcome.state is State.FAILED:
            found = f"your own Dockerfile, unchanged, failed after it had worked: {cell.outcome.reason}"
            raise WorkloadError(file=str(folder), found=found, todo="Correct the service, or the load.")
    fail_on_failed_builds(list(built.values()))


def _began(results: Path, named: str, settings: Settings, name: str | None) -> Experiment:
    """Return the trial to go on with; UsageError if it cannot go on here, or was started with other options."""
    if name:
        raise UsageError(key="--name", found="is not for --resume", todo="Leave out one of them.")
    began = unfinished(results, named)
    if began.trial is None:
        raise UsageError(key="--resume", found=f"{named} is no trial", todo=f"Continue it: {began.resume_command}")
    further = {"workloads": began.settings.workloads, "budget_s": began.settings.budget_s}
    if settings.model_copy(update=further) != began.settings:
        raise UsageError(
            key="--resume",
            found=f"{named} was started with other options: {began.command}",
            todo="Give the same ones.",
        )
    require_same_host(began, facts())
    remaining(began)
    return began


# Their values may be secrets: the command that repeats a trial takes them from the environment.
NAMED = ("build_arg", "env")


def _repeat(context: Path, known: Mapping[str, object], settings: Settings, *groups: object) -> str:
    """Return the command that repeats a trial, with what was found out written out."""
    budget = None if settings.budget_s is None else f"{settings.budget_s:g}s"
    standard = "standard" if settings.profile == "standard" else None
    given = {name: value for group in groups for name, value in vars(group).items() if name != "keep"}
    given |= {"seed": settings.seed, "budget": budget, "profile": standard, **known}
    return command_line("trial", str(context), *(word for one in given.items() for word in _words(*one)))


def _words(name: str, value: object) -> list[str]:
    """Return an option as it is typed; nothing for one that was not given."""
    option = f"--{name.replace('_', '-')}"
    if name == "syscalls":
        return [] if value else ["--no-syscalls"]
    if value is None or isinstance(value, bool):
        return [option] if value else []
    if isinstance(value, list):
        return [word for one in value for word in (option, one.partition("=")[0] if name in NAMED else one)]
    return [option, f"{value:g}" if isinstance(value, float) else str(value)]
