"""Builds variants into what an engine runs them from: what is unchanged is left alone, the rest is built and proved."""

from __future__ import annotations

import datetime
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from docker import DockerClient
from docker.errors import APIError, DockerException

from interlock import __version__
from interlock.catalog import project, rendering
from interlock.catalog.project import Catalog, FileTexts
from interlock.catalog.trained import TrainedProfile
from interlock.catalog.variants import SourceKind, Variant
from interlock.engine import machine, symbols
from interlock.engine.build.base import ensure_base, find_base, find_pulled, pull
from interlock.engine.build.helper_images import begin_helpers
from interlock.engine.build.image import (
    BuildPlan,
    ImagePlan,
    ask_facts,
    build_aside,
    build_image,
    content_hash,
    describe_image,
    find_image,
    require_proof,
    take_tag,
)
from interlock.engine.build.one_build import has_buildkit
from interlock.engine.build.places import Answers
from interlock.engine.build.sources import find_prefix, identity, packed_files
from interlock.engine.client import engine_words
from interlock.engine.protocol import BuildOptions, Engine, OnStep
from interlock.engine.registry import pull as pull_built
from interlock.engine.registry import pull_base
from interlock.engine.side_by_side import side_by_side, worker_count
from interlock.errors import BuildError, InterlockError, NoProfileError, SourceUnavailableError
from interlock.results import store
from interlock.results.engines import EngineName
from interlock.results.experiments import BaseImage, BuildRecord, Built, Outcome, PassedOver, State

# The stages that variants of one base share, and the one that those with the same packages share too.
BASE_STAGES, TOOLS_STAGE = ("toolchain", "runtime"), "tools"
NOT_BUILT = "not built, or built from an older file"
# Measured on two cores.
TRAINS = "it trains one first, about 5 minutes more"
Planned = TypeVar("Planned", bound=BuildPlan)
# Looks for what was built by a plan.
Find = Callable[[Planned], Built | None]


@dataclass(frozen=True)
class Builder(ABC, Generic[Planned]):
    """How one engine builds: a plan says what would be built now, and identifies it."""

    known: Catalog
    options: BuildOptions
    on_step: OnStep
    answers: Answers = field(default_factory=Answers, kw_only=True)

    @cached_property
    def texts(self) -> FileTexts:
        """Return what the files of builds are rendered from."""
        return project.read_texts(self.options.root)

    @abstractmethod
    def plan(self, variant: Variant) -> Planned:
        """Return what would be built now; SourceUnavailableError says what is not here."""

    @abstractmethod
    def find(self, plan: Planned) -> Built | None:
        """Return what was built by this very plan, if it is here or in a team's registry."""

    @abstractmethod
    def make(self, plan: Planned) -> Built:
        """Build and prove it; BuildError if that fails."""

    @abstractmethod
    def workers(self, plans: Sequence[Planned]) -> int:
        """Prepare what the plans share, and return how many of them can be built at the same time."""

    def lacks_profile(self, variant: Variant, serves: Callable[[TrainedProfile], bool]) -> bool:
        """Return whether a build needs a profile of optimisation and no stored one of the variant `serves` here."""
        return variant.is_trained and not any(map(serves, rendering.profiles_of(variant, self.known, self.texts)))

    def plan_or_end(self, variant: Variant) -> Planned | Built:
        """Return what would be built now, or why the variant ends before anything is built."""
        try:
            return self.plan(variant)
        except SourceUnavailableError as error:
            self.on_step(variant.name, State.UNAVAILABLE.value)
            return ended(variant, State.UNAVAILABLE, error.found)

    def plans_or_end(self, variant: Variant) -> list[Planned] | Built:
        """Return what would be built of each version, or why the variant ends before anything is built."""
        plans: list[Planned] = []
        for version in variant.versions:
            plan = self.plan_or_end(variant.at(version))
            if isinstance(plan, Built):
                return plan
            plans.append(plan)
        return plans

    def found_or_plan(self, variant: Variant, find: Find[Planned], passed: Sequence[PassedOver]) -> Planned | Built:
        """Return what `find` has of a version, else its plan, or why there is none; newer versions were passed over."""
        plan = self.plan_or_end(variant)
        if isinstance(plan, Built):
            return plan
        plan = replace(plan, passed_over=tuple(passed))
        try:
            return find(plan) or plan
        except BuildError as error:
            self.on_step(variant.name, State.FAILED.value)
            return ended(variant, State.FAILED, str(error))

    def find_unchanged(self, plan: Planned) -> Built | None:
        """Return what need not be built, and say so."""
        image = None if self.options.rebuild else self.find(plan)
        if image is not None:
            unbuilt = "pulled" if image.pulled_from else "unchanged"
            self.on_step(image.variant, unbuilt if image.outcome.state is State.OK else image.outcome.state.value)
        return image

    def build_wave(self, plans: Sequence[Planned]) -> Iterator[Built]:
        """Build variants, side by side where that is quicker, and yield each once it has ended."""
        workers = self.workers(plans) if plans else 0
        if workers > 1:
            # The engine cancels a build whose client is gone.
            yield from side_by_side(self.build_one, plans, workers)
            return
        yield from map(self.build_one, plans)

    def build_one(self, plan: Planned) -> Built:
        """Build and prove one variant; what goes wrong with it alone is its outcome."""
        started = time.monotonic()
        name = plan.variant.name
        self.on_step(name, "starting")
        try:
            result = self.make(plan)
        except SourceUnavailableError as error:
            result = ended(plan.variant, State.UNAVAILABLE, error.found)
        except BuildError as error:
            result = ended(plan.variant, State.FAILED, str(error))
        self.on_step(name, result.outcome.state.value)
        return result.model_copy(update={"duration_s": time.monotonic() - started})


def build(builder: Builder[Planned], names: Sequence[str]) -> list[Built]:
    """Build every named variant; failures and missing sources are outcomes, not exceptions.

    `on_step(variant, step)` is called for each step, from the building threads. EngineError is raised when the engine
    itself, or the base that all need, is missing.
    """
    decided = decide(builder, names, builder.find_unchanged)
    results = {image.variant: image for image in decided if isinstance(image, Built)}
    todo = [plan for plan in decided if not isinstance(plan, Built)]
    for plan in todo:
        if plan.trains:
            builder.on_step(plan.variant.name, f"no profile is stored for {plan.variant.version}: {TRAINS}")
        if plan.passed_over:
            newest = plan.passed_over[0].version
            builder.on_step(plan.variant.name, f"{plan.variant.version}, because {newest} cannot be had")
    # A variant that shares another's build comes after it, when the engine has that build in its cache.
    for borrows in (False, True):
        wave = [plan for plan in todo if (plan.variant.shared_build is not None) == borrows]
        for result in builder.build_wave(wave):
            results[result.variant] = result
    return [results[name] for name in names]


def decide(builder: Builder[Planned], names: Sequence[str], find: Find[Planned]) -> list[Planned | Built]:
    """Return for each variant what `find` has, else the plan of what is to be built, or why there is none.

    This is where a version is chosen: the newest that is here, or that some place answers for. Places are asked only if
    the newest is not here; if none answers, an older version that is here is taken. What is passed over is recorded.
    """
    variants = {name: builder.known.variants[name] for name in names}
    decided = {name: builder.found_or_plan(variant.at(variant.version), find, ()) for name, variant in variants.items()}
    waiting = [
        variant for variant in variants.values() if variant.fallbacks and not isinstance(decided[variant.name], Built)
    ]
    sources = [source for variant in waiting for source in (variant.interpreter, *variant.fallbacks) if source]
    lacking = builder.answers.lacking(sources, builder.options.cache)
    for variant in waiting:
        newest = decided[variant.name]
        if not isinstance(newest, Built):
            decided[variant.name] = _older(builder, variant, newest, find, lacking)
    return list(decided.values())


def _older(
    builder: Builder[Planned], variant: Variant, newest: Planned, find: Find[Planned], lacking: Mapping[str, str]
) -> Planned | Built:
    """Return the first version that is here or can be had; the newest if there is none, whose build says why."""
    passed: list[PassedOver] = []
    for version in variant.versions:
        candidate = variant.at(version)
        why = lacking[candidate.interpreter.sha256] if candidate.interpreter else ""
        decided = builder.found_or_plan(candidate, find, passed) if passed else newest
        if isinstance(decided, Built) or not why:
            return decided
        passed.append(PassedOver(version=version, reason=why))
    return newest


def look_up(builder: Builder[Planned], names: Sequence[str]) -> list[Built]:
    """Return what the variants have now, or why they have nothing. Nothing is built or pulled.

    What is not built has the content hash that it would have.
    """

    def find(plan: Planned) -> Built | None:
        try:
            return builder.find(plan)
        except BuildError as error:
            return ended(plan.variant, State.UNAVAILABLE, error.found)

    decided = decide(builder, names, find)
    return [
        one if isinstance(one, Built) else ended(one.variant, State.UNAVAILABLE, NOT_BUILT, one.content_hash)
        for one in decided
    ]


def ended(variant: Variant, state: State, reason: str, content_hash: str = "") -> Built:
    """Return what is recorded of a variant that was not built."""
    return Built(variant=variant.name, outcome=Outcome(state=state, reason=reason), content_hash=content_hash)


@dataclass(frozen=True)
class ImageBuilder(Builder[ImagePlan]):
    """Builds variants into tagged images of a container engine."""

    client: DockerClient
    looks_only: bool = False  # neither an image nor what it is made of is pulled or made

    @cached_property
    def machine(self) -> str:
        """Return the engine's machine, as `uname -m` names it."""
        return str(self.client.info()["Architecture"])

    def plan(self, variant: Variant) -> ImagePlan:
        """Return what would be built now. The base is made here if it is missing."""
        files = rendering.context(variant, self.known, self.texts)
        parent = self._parent(variant)
        prefix = find_prefix(variant, variant.prefix) if variant.prefix and not variant.archives else None
        packed = {"prefix": identity(prefix, packed_files(prefix)).encode()} if prefix else {}
        return ImagePlan(
            variant=variant,
            files=files,
            content_hash=content_hash(files | packed, parent.chain_id),
            prefix=prefix,
            base=parent,
            trains=self.lacks_profile(variant, lambda profile: profile.machine == self.machine),
            is_shared=any(other.shared_build == variant.build_name for other in self.known.variants.values()),
        )

    def _parent(self, variant: Variant) -> BaseImage:
        client, options = self.client, self.options
        if self.looks_only:
            base, image = self.known.bases[variant.base], variant.image
            parent = find_pulled(client, image.reference) if image else find_base(client, base)
            if parent is None:
                raise SourceUnavailableError(file=variant.file, found=NOT_BUILT, todo="Build it.")
            return parent
        if variant.image is None:
            base = self.known.bases[variant.base]
            parent = pull_base(client, base, options.registry, self.on_step) if options.registry else None
            return parent or ensure_base(
                client, base, options.cache, lambda text: self.on_step("base", text), bootstraps=not options.pulls_only
            )
        reference = variant.image.reference
        parent = find_pulled(client, reference)
        if parent is not None:
            return parent
        self.on_step(variant.name, f"pulling {reference}")
        try:
            return pull(client, reference)
        except DockerException as error:
            raise SourceUnavailableError(
                file=variant.file,
                key="image.reference",
                found=f"no registry has {reference}: {engine_words(error).rsplit(': ', 1)[-1]}",
                todo="Correct the name there, or make the registry reachable.",
            ) from None

    def find(self, plan: ImagePlan) -> Built | None:
        """Return the image here with the plan's tag and content hash, or the team's.

        None if the team's image is not what its name promises: then the variant is built.
        """
        image = find_image(self.client, plan.tag, plan.content_hash)
        if image is not None:
            return describe_image(plan, image, reused=True)
        registry = self.options.registry
        if registry is None or self.looks_only:
            return None
        try:
            return pull_built(self.client, plan, registry, self.on_step)
        except BuildError as error:
            self.on_step(plan.variant.name, f"not taken from {registry.name}: {error.found}")
            return None

    def make(self, plan: ImagePlan) -> Built:
        """Build, prove and tag one image."""
        try:
            image_id = build_image(self.client, plan, self.options, self.on_step)
        except NoProfileError as error:
            self.on_step(plan.variant.name, f"{error.found}: {TRAINS}")
            plan = replace(plan, trains=True)
            image_id = build_image(self.client, plan, self.options, self.on_step)
        self.on_step(plan.variant.name, "proving")
        try:
            require_proof(plan.variant, ask_facts(self.client, image_id))
        except InterlockError:
            with suppress(APIError):  # it may be gone, which may be why the proof failed
                self.client.images.remove(image_id, force=True)
            raise
        if plan.variant.kind is SourceKind.SOURCE:
            kept = build_image(self.client, plan, self.options, self.on_step, symbols.STAGE)
            take_tag(self.client, kept, symbols.symbols_tag(plan.tag))
        return describe_image(plan, take_tag(self.client, image_id, plan.tag), reused=False)

    def workers(self, plans: Sequence[ImagePlan]) -> int:
        """Build the stages that variants share, and return how many variants are then built side by side."""
        compiled = [plan for plan in plans if plan.variant.kind is SourceKind.SOURCE]
        begin_helpers(self.client, self.options.root, self.options.helpers, (compiled or plans)[0].base)
        # BuildKit runs a step that several builds have only once by itself.
        for stage, plan in () if has_buildkit(self.client) else shared_stages(compiled):
            self.on_step("base", f"preparing the {stage} stage")
            dockerfile = f"dockerfiles/{plan.variant.name}/Dockerfile"
            arguments = {"BASE": plan.base.reference}
            with suppress(BuildError):  # then each variant that needs the stage fails, and says why
                build_aside(
                    self.client, plan.files, f"the {stage} stage", dockerfile, buildargs=arguments, target=stage
                )
        return worker_count(len(plans))


def shared_stages(plans: Sequence[ImagePlan]) -> list[tuple[str, ImagePlan]]:
    """Return the stages that are built before the plans are built side by side, each with a plan that has it.

    Variants that are packed or come from Debian share a base's stages too; tools are built where several plans have
    them. Without this, two builds that run a step at the same time leave two images of it. The engine then takes the
    newer one for both, and compiles one of the variants once more for its symbols.
    """
    plans_of: dict[tuple[str, str, tuple[str, ...]], list[ImagePlan]] = {}
    for plan in plans:
        packages = tuple(plan.variant.build_packages)
        stages = [*((stage, ()) for stage in BASE_STAGES), *([(TOOLS_STAGE, packages)] if packages else [])]
        for stage, installed in stages:
            plans_of.setdefault((plan.base.reference, stage, installed), []).append(plan)
    return [
        (stage, sharing[0]) for (_, stage, _), sharing in plans_of.items() if stage in BASE_STAGES or len(sharing) > 1
    ]


def build_command(names: Sequence[str] | None, *, force: bool = False) -> str:
    """Return the command that repeats a build."""
    return shlex.join(["interlock", "build", *(names or []), *(["--force"] if force else [])])


def write_record(engine: Engine, folder: Path, built: list[Built], command: str, duration_s: float) -> Path:
    """Write builds.json into the folder, with the present time as the command's end, and return its path."""
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=duration_s)
    record = BuildRecord(
        name=folder.name,
        tool_version=__version__,
        command=command,
        started=started.isoformat(timespec="seconds"),
        duration_s=round(duration_s, 1),
        side_by_side=1 if engine.name is EngineName.HOST else worker_count(len(built)),
        host={**machine.facts(), "engine": engine.facts()},
        builds=built,
    )
    path = folder / store.BUILDS_FILE
    store.write_json(path, record)
    return path
