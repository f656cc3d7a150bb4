"""The command that tries a user's own Dockerfile on variants: trial."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from interlock.analysis.trials import Condition, faults, judge, own_failure
from interlock.catalog.workloads import Workload
from interlock.cli import progress
from interlock.cli.announcing import DryRun, announce, building, missing_of, require_writable
from interlock.cli.images import build_options, fail_on_failed_builds
from interlock.cli.options import (
    Json,
    Quiet,
    Results,
    Seed,
    open_project,
    parse_duration,
    split_names,
    takes,
)
from interlock.cli.progress import DecidedRows
from interlock.cli.report import load_experiment, write_report
from interlock.cli.settings import are_same, new_seed, resumed_place, unfinished
from interlock.engine.docker import DockerEngine, connect
from interlock.engine.protocol import UserSurroundings
from interlock.engine.run.user_containers import require_memory, require_network
from interlock.engine.run.user_images import find_builder
from interlock.errors import TrialError, UsageError, WorkloadError
from interlock.measure.assignment import Assignment, UsersImages, planned_rounds
from interlock.measure.ending import Ending
from interlock.measure.resumable import require_same_modes
from interlock.measure.watching import Observers
from interlock.report.tables import rounds_text
from interlock.results.commands import command_line, option_words
from interlock.results.experiments import Experiment
from interlock.results.settings import Settings, Where, duration_text, duration_word
from interlock.results.trials import OWN, Trial
from interlock.trial import options as trial_options
from interlock.trial import planning
from interlock.trial.builds import require_builder
from interlock.trial.running import TrialRequest, run_trial
from interlock.trial.sums import keyed_sum
from interlock.trial.workloads import Checks, ServicePlace, workload_of

BUDGET_S = 600.0
# What of a trial's record says how its rows are built and run, and the option that it is from; the sum has the
# environment's names too. Images tell other builds apart.
OF_ROWS = {
    "target": "--target",
    "stage": "--stage",
    "build_args": "the names of --build-arg",
    "environment_sum": "the values of --env",
    "test": "--cmd",
    "load": "--load",
    "service_cpus": "--cpus",
    "memory": "--memory",
    "network": "--network",
}
# The option of a setting that has another name.
OF_SETTINGS = {"rounds_limit": "--rounds", "profiled": "--no-syscalls"}


@dataclass(frozen=True, kw_only=True)
class DockerfileOptions:
    """How the user's Dockerfile is built."""

    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Dockerfile (default: that of the folder).")] = None
    target: Annotated[str | None, typer.Option(metavar="STAGE", help="Stage to build, as for `docker build`.")] = None
    stage: Annotated[
        str | None, typer.Option(metavar="STAGE", help="Stage whose image is replaced (default: every one on Python).")
    ] = None
    build_arg: Annotated[
        list[str] | None, typer.Option(metavar="NAME[=VALUE]", help="Build argument, as for `docker build`.")
    ] = None
    secret: Annotated[
        list[str] | None, typer.Option(metavar="SECRET", help="Build secret, as for `docker build` (BuildKit).")
    ] = None
    keep: Annotated[bool, typer.Option("--keep", help="Keep the built images as interlock/trial-FOLDER:VARIANT.")] = (
        False
    )


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
            metavar="[HOST]:PORT/PATH",
            help="Where a healthy service answers 2xx, for instance :8000/health (default: its EXPOSEd port).",
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=VALUE]", help="Environment variable of the service and its tests."),
    ] = None
    network: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Docker or Podman network to join, for instance that of a database."),
    ] = None
    cpus: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of CPUs of the service (default: all but one).")
    ] = None
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Measure on 1, 2 and 4 CPUs, if there are so many, instead of --cpus.")
    ] = False
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
        if not (self.load or self.cmd or self.http):
            raise UsageError(found="no --load, --cmd or --http given", todo="Give at least one of them.")
        if self.sweep and not self.load:
            raise UsageError(key="--sweep", found="needs a service under load", todo="Give --load too.")
        return Checks(
            address=trial_options.parse_address(self.http) if self.http else None,
            load=trial_options.load_words(self.load) if self.load else None,
            test=self.cmd,
            environment=trial_options.settings_of("--env", self.env or [], os.environ),
            healthy_within_s=self.healthy_within,
            deadline_s=self.deadline,
        )

    def surroundings(
        self, containers: DockerEngine, places: Sequence[ServicePlace], environment: Mapping[str, str]
    ) -> UserSurroundings:
        """Return where the images run; UsageError for what the engine does not have."""
        if self.network is not None:
            require_network(containers.client, self.network)
        if self.memory is not None:
            require_memory(self.memory)
        return UserSurroundings(self.network, places[-1].cpus, self.memory, environment=environment)


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
    why: Annotated[bool, typer.Option("--why", help="Record where the service waits, in a separate pass.")] = False

    def settings(self, labels: Sequence[str], workloads: int = 1, results: Path | None = None) -> Settings:
        """Return the settings of the experiment, whose workloads are made from the user's service."""
        least, limit = planned_rounds(quick=False, wanted=self.rounds)
        usual_s = None if self.rounds else workloads * BUDGET_S
        return Settings(
            quick=False,
            rounds=least,
            rounds_limit=limit,
            seed=new_seed(self.seed),
            baseline=OWN,
            variants=[OWN, *labels],
            workloads=[],
            profiled=self.syscalls,
            why=self.why,
            budget_s=parse_duration(self.budget, "--budget") if self.budget else usual_s,
            where=Where(results=str(results.absolute()) if results else ""),
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
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the experiment and its folder (default: from the date).")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Unfinished trial to continue; give its other options again."),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITIONS",
            help="Exit with 1 if a variant meets one: slower, undecided, failed, more-FIGURE=N%, "
            "less-throughput=N%; as in 'slower|undecided|more-memory=10%'.",
        ),
    ] = None,
    as_json: Json = False,
    results: Results = None,
    dry_run: DryRun = False,
    _quiet: Quiet = False,
) -> None:
    """Run your own Dockerfile on several variants and compare them.

    Builds, starts, tests and loads the service on each variant, and says whether to switch.
    """
    resume, results = resumed_place(resume, results, name=name)
    given = dockerfile.build_arg or [], dockerfile.secret or [], dockerfile.target
    recipe = planning.find_recipe(context, dockerfile.file, *given)
    checks, conditions = service.checks(), trial_options.conditions_of(fail_on) if fail_on else []
    paths, known = open_project()
    containers = connect()
    builder = find_builder(containers.client)
    require_builder(builder, recipe)
    places = trial_options.places_of(containers.facts()["cpus"], service.cpus, sweep=service.sweep)
    surroundings = service.surroundings(containers, places, checks.environment)
    choice = planning.Variants(containers, paths, known)
    labels = choice.labels(split_names(variants))
    settings = measured.settings(labels, len(places), results)
    into = results or paths.results
    require_writable(into, name)
    asked = _asked(context, recipe.dockerfile, dockerfile, service, surroundings, paths.cache)
    workloads = [workload_of(context, checks, place) for place in places]
    assignment = Assignment(
        known,
        paths.root,
        into,
        built=[],
        settings=settings,
        command=_repeat(context, recipe.dockerfile, settings, service, dockerfile, measured),
        name=name,
        resumes=_began(into, resume, settings, measured.seed, asked, workloads) if resume else None,
    )
    if assignment.resumes:
        require_same_modes(assignment.resumes, assignment.modes)
        choice = replace(choice, known=known.at(assignment.resumes.versions))
    copies = choice.copies(labels, recipe, dockerfile.stage, takes_contexts=builder.takes_contexts)
    users = UsersImages(asked, surroundings)
    ending = Ending(settings.budget_s)
    missing = missing_of(containers, choice.known, list(copies), build_options(paths))
    limit = f"at most {duration_text(ending.budget_s)}" if ending.budget_s else rounds_text(settings.rounds)
    own = f"builds {recipe.dockerfile} {len(copies) + 1} times, as `docker build` does; measuring {limit}"
    announce(building(paths, choice.known, missing), own, dry_run=dry_run, as_json=as_json)
    with progress.open_display(as_json) as display:
        candidates = choice.candidates(labels, copies, progress.BuildProgress(display, len(copies), {}))
        request = TrialRequest(
            assignment, paths.cache, recipe, builder, candidates, checks, users, places, dockerfile.keep
        )
        rows = DecidedRows(display, OWN)
        on_progress = progress.MeasureProgress(display, len(places), lambda: rows.counts, ending.left_s)
        on_build = progress.BuildProgress(display, len(copies) + 1, {})
        watching = Observers(on_progress, rows, ending, on_disturbed=rows.on_disturbed)
        folder = run_trial(containers, request, on_build, watching)
    described = write_report(folder, as_json=as_json)
    if ending.exit_code:
        raise typer.Exit(ending.exit_code)
    for cell in described.cells:
        if cell.label == OWN and (failure := own_failure(cell.outcome)):
            raise WorkloadError(file=str(folder), found=failure, todo="Correct the service, or the load.")
    fail_on_failed_builds([candidate.built for candidate in candidates])
    _require(folder, conditions)


def _require(folder: Path, conditions: Sequence[Condition]) -> None:
    """Raise TrialError if a variant meets a condition."""
    described, tables, _ = load_experiment(folder)
    met = [fault for table in tables for fault in faults(judge(described, table), conditions)]
    if met:
        problem = "; ".join(dict.fromkeys(f"{label}: {words}" for label, words in met))
        raise TrialError(file=str(folder), found=problem, todo="The report has the figures and why.")


def _asked(
    context: Path,
    file: Path,
    dockerfile: DockerfileOptions,
    service: ServiceOptions,
    surroundings: UserSurroundings,
    cache: Path,
) -> Trial:
    """Return the options for the record, without values that may be secrets."""
    return Trial(
        context=str(context),
        dockerfile=str(file),
        builder="",
        target=dockerfile.target,
        stage=dockerfile.stage,
        build_args=_names(dockerfile.build_arg),
        secrets=dockerfile.secret or [],
        environment=list(surroundings.environment),
        environment_sum=keyed_sum(surroundings.environment, cache) if surroundings.environment else "",
        test=service.cmd,
        load=service.load,
        service_cpus=surroundings.cpus,
        memory=service.memory,
        network=service.network,
    )


def _names(given: list[str] | None) -> list[str]:
    """Return the names of NAME=VALUE."""
    return [setting.partition("=")[0] for setting in given or []]


def _began(
    results: Path, named: str, settings: Settings, seed: int | None, asked: Trial, workloads: Sequence[Workload]
) -> Experiment:
    """Return the trial to go on with; UsageError if it cannot go on here, or was started with other options.

    Without `seed` the one in `settings` is random and is not compared, because nobody asked for it.
    """
    began = unfinished(results, named, is_trial=True)
    may_differ = ["workloads", "budget_s", "where", *(["seed"] if seed is None else [])]
    settings = settings.model_copy(update={name: getattr(began.settings, name) for name in may_differ})
    others = [key for key in Settings.model_fields if getattr(settings, key) != getattr(began.settings, key)]
    differ = [OF_SETTINGS.get(key, f"--{key}") for key in others]
    differ += [option for key, option in OF_ROWS.items() if not are_same(asked, began.trial, key)]
    before = _of_workloads(list(began.workloads.values()))
    differ += [option for option, value in _of_workloads(workloads).items() if value != before[option]]
    if differ:
        raise UsageError(
            key="--resume",
            found=f"{named} was started with other options ({', '.join(dict.fromkeys(differ))}): {began.command}",
            todo="Give the same ones.",
        )
    return began


def _of_workloads(workloads: Sequence[Workload]) -> dict[str, object]:
    """Return by option what of a trial's workloads is from it, and nowhere else in its record.

    An address at which any answer will do is none of --http, but the port that the image EXPOSEs.
    """
    first = workloads[0]
    user = first.of_user
    return {
        "FOLDER or --sweep": {workload.name for workload in workloads},
        "--http": None if user.address is None or user.address.any_answer else user.address,
        "--healthy-within": user.healthy_within_s,
        "--deadline": first.deadline_s,
    }


def _repeat(
    context: Path,
    file: Path,
    settings: Settings,
    service: ServiceOptions,
    dockerfile: DockerfileOptions,
    measured: RoundOptions,
) -> str:
    """Return the command that repeats a trial, with everything that was found out as an option.

    It takes values that may be secrets from the environment.
    """
    given = {**vars(service), **vars(dockerfile), **vars(measured)}
    given |= {"env": _names(service.env), "build_arg": _names(dockerfile.build_arg), "keep": None, "syscalls": None}
    given |= {
        "no_syscalls": not settings.profiled,
        "seed": settings.seed,
        "budget": duration_word(settings.budget_s),
        "file": file,
        "variants": ",".join(settings.variants[1:]),
    }
    return command_line("trial", str(context), *option_words(given), *settings.where.words)
