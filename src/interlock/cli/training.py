"""`interlock train`: trains variants, and stores what was counted for all their builds."""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path
from typing import Annotated

import typer

from interlock.catalog import project, trained
from interlock.catalog.project import Catalog, FileTexts
from interlock.catalog.rendering import profiles_of
from interlock.catalog.trained import TrainedProfile
from interlock.cli import progress
from interlock.cli.announcing import DryRun, announce
from interlock.cli.images import build_options, write_generated
from interlock.cli.options import Variants, console, open_clone
from interlock.engine.build.training import Training
from interlock.engine.docker import connect
from interlock.errors import UsageError, nearest
from interlock.results.experiments import Built
from interlock.results.files import write_atomically

WRITTEN = "# Written by `interlock train {name}`; never edited by hand.\n"
DEFAULT_TRAINING = "the version's own"


def train_command(
    names: Variants = None,
    again: Annotated[bool, typer.Option("--again", help="Train those too that have a profile.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Train variants that have no profile of optimisation.

    Stores what a training counts in variants/profiles/: builds of the same source, flags and compiler then need none,
    and are the same bit for bit. A training takes about five minutes on two cores.
    """
    paths, known = open_clone()
    texts = project.read_texts(paths.root)
    owners = dict.fromkeys(_owner(known, name) for name in names or _trainable(known))
    engine, options = connect(), build_options(paths)
    with progress.Display(console) as display:
        plans = engine.to_train(known, [*owners], options, progress.BuildProgress(display, len(owners), {}))
    for unavailable in (plan for plan in plans if isinstance(plan, Built)):
        console.say(f"left    {unavailable.variant}: {unavailable.outcome.reason}")
    todo = [plan for plan in plans if not isinstance(plan, Built) and (again or plan.trains)]
    listed = ", ".join(f"{plan.variant.name} {plan.variant.version}" for plan in todo)
    costs = f"trains {listed}: about {5 * len(todo)} minutes on two cores and 1 GB of disk"
    announce(costs if todo else "trains nothing: each has a profile (--again trains it anew)", dry_run=dry_run)
    for plan in todo:
        with progress.Display(console) as display:
            training = engine.train(plan, options, progress.BuildProgress(display, 1, {}))
        profile = _store(paths.root, training, texts)
        console.say(f"stored  {trained.FOLDER}/{profile.file}: {len(training.packed) / 1e3:.0f} kB")
    _remove_unused(paths.root, texts)
    write_generated(paths, project.load(paths.root))


def _owner(known: Catalog, name: str) -> str:
    """Return the variant whose build this one shares, or itself; UsageError unless the build uses a profile."""
    trainable = _trainable(known)
    if name not in trainable:
        raise UsageError(found=f"no variant '{name}' follows a profile", todo=nearest(name, trainable))
    return known.variants[name].build_name


def _trainable(known: Catalog) -> list[str]:
    return [name for name, variant in known.variants.items() if variant.is_trained]


def _store(root: Path, training: Training, texts: FileTexts) -> TrainedProfile:
    """Write the results of a training. The archive comes first, because a table without its archive is refused."""
    variant = training.variant
    recipe = trained.recipe_of(variant, {"patches": texts.patches, "steps": texts.steps})
    assert recipe is not None  # noqa: S101  for the type checker: it was trained
    name = f"{variant.build_name}-{variant.version}-{training.machine.replace('_', '-')}"
    profile = TrainedProfile(
        **recipe.model_dump(),
        name=name,
        variant=variant.build_name,
        version=variant.version,
        compiler=training.compiler,
        machine=training.machine,
        training=variant.optimise.training or DEFAULT_TRAINING,
        trained=datetime.datetime.now(datetime.UTC).date().isoformat(),
        sha256=hashlib.sha256(training.packed).hexdigest(),
    )
    write_atomically(root / trained.FOLDER / profile.file, training.packed)
    write_atomically(root / trained.FOLDER / f"{name}.toml", _toml(profile))
    return profile


def _toml(profile: TrainedProfile) -> str:
    """Return a profile's table. Texts and lists of texts in JSON are valid TOML."""
    values = profile.model_dump(exclude={"name", "files"})
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in values.items()]
    files = [f"{json.dumps(file)} = {json.dumps(sha256)}\n" for file, sha256 in profile.files.items()]
    return "".join([WRITTEN.format(name=profile.variant), *lines, *(["\n[files]\n"] if files else []), *files])


def _remove_unused(root: Path, texts: FileTexts) -> None:
    """Remove the profiles that no version of any variant can use."""
    known = project.load(root)
    sources = [variant.at(version) for variant in known.variants.values() for version in variant.versions]
    used = {profile.name for source in sources for profile in profiles_of(source, known, texts)}
    for profile in known.trained.values():
        if profile.name not in used:
            for path in (root / trained.FOLDER / f"{profile.name}.toml", root / trained.FOLDER / profile.file):
                path.unlink()
            console.say(f"removed {trained.FOLDER}/{profile.file}: nothing is built by it")
