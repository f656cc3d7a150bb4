"""Builds variants into proved, tagged images: what is unchanged is left alone, the rest is built side by side."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from docker.errors import DockerException

from interlock.engine.base import ensure_base, find_pulled, pull, short
from interlock.engine.context import content_hash, read_context
from interlock.engine.finished import describe, take_tag
from interlock.engine.image import Options, Plan, Say, ask_facts, build_aside, build_image, find_image
from interlock.engine.prefix import find_prefix, identity, packed_files
from interlock.engine.proof import require_proof
from interlock.engine.registry_pull import pull as pull_built
from interlock.engine.registry_pull import pull_base
from interlock.errors import BuildError, InterlockError, SourceUnavailableError
from interlock.model import BaseImage, Built, Catalog, Outcome, SourceKind, State, Variant

# Two stages that all variants share: built once before the variants are built side by side.
SHARED_STAGES = ("toolchain", "runtime")


def build(client: Any, catalog: Catalog, names: list[str], options: Options, say: Say) -> list[Built]:
    """Every named variant as a proved, tagged image; failures and missing sources are outcomes, not exceptions.

    `say(variant, step)` is called for each step, from the building threads. EngineError is raised when the engine
    itself, or the base that all need, is missing.
    """
    results: dict[str, Built] = {}
    todo: list[Plan] = []
    for name in names:
        plan = plan_or_end(client, catalog, catalog.variants[name], options, say)
        if isinstance(plan, Built):
            results[name] = plan
            continue
        found = None if options.rebuild else find_built(client, plan) or _pull_built(client, plan, options, say)
        if found is None:
            todo.append(plan)
        else:
            results[name] = found
            say(name, "pulled" if found.pulled_from else "unchanged")
    # What shares another's build comes after it: the engine then has that build in its cache.
    for borrows in (False, True):
        wave = [plan for plan in todo if (plan.variant.lender is not None) == borrows]
        for result in _build_side_by_side(client, wave, options, say):
            results[result.variant] = result
    return [results[name] for name in names]


def make_plan(client: Any, catalog: Catalog, variant: Variant, options: Options, say: Say) -> Plan:
    """What would be built now. The base is made here if it is missing; SourceUnavailableError says what is not here."""
    files = read_context(options.root / "dockerfiles" / variant.name)
    if "Dockerfile" not in files:
        raise BuildError(
            file=f"dockerfiles/{variant.name}/Dockerfile", found="the file is missing", todo="Run `interlock render`."
        )
    parent = _parent(client, catalog, variant, options, say)
    prefix = find_prefix(variant, variant.prefix) if variant.prefix else None
    packed = {"prefix": identity(prefix, packed_files(prefix)).encode()} if prefix else {}
    identified = content_hash(files | packed, parent.image_id, options.profile)
    return Plan(variant, options.profile, files, parent, identified, prefix)


def _parent(client: Any, catalog: Catalog, variant: Variant, options: Options, say: Say) -> BaseImage:
    if variant.image is None:
        base = catalog.bases[variant.base]
        found = pull_base(client, base, options.registry, say) if options.registry else None
        return found or ensure_base(
            client, base, options.cache, lambda text: say("base", text), bootstraps=not options.pulls_only
        )
    reference = variant.image.reference
    found = find_pulled(client, reference)
    if found is not None:
        return found
    say(variant.name, f"pulling {reference}")
    try:
        return pull(client, reference)
    except DockerException as error:
        raise SourceUnavailableError(
            file=f"variants/{variant.name}.toml",
            key="image.reference",
            found=f"no registry has {reference}: {short(error).rsplit(': ', 1)[-1]}",
            todo="Make the registry reachable.",
        ) from None


def look_up(client: Any, catalog: Catalog, names: list[str], options: Options) -> list[Built]:
    """The images that the variants have now; of the others why there is none. Nothing is built."""
    return [_look_up(client, catalog, catalog.variants[name], options) for name in names]


def _look_up(client: Any, catalog: Catalog, variant: Variant, options: Options) -> Built:
    plan = plan_or_end(client, catalog, variant, options, lambda *_: None)
    if isinstance(plan, Built):
        return plan
    reason = "no image of it as its file is now"
    return find_built(client, plan) or _ended(variant, options.profile, State.UNAVAILABLE, reason)


def plan_or_end(client: Any, catalog: Catalog, variant: Variant, options: Options, say: Say) -> Plan | Built:
    """What would be built now, or why the variant ends before anything is."""
    if options.profile not in variant.profiles:
        return _ended(variant, options.profile, State.UNSUPPORTED, f"no profile '{options.profile}'")
    try:
        return make_plan(client, catalog, variant, options, say)
    except SourceUnavailableError as error:
        say(variant.name, State.UNAVAILABLE.value)
        return _ended(variant, options.profile, State.UNAVAILABLE, error.found)


def find_built(client: Any, plan: Plan) -> Built | None:
    """The image of this plan if its tag carries this very content hash."""
    image = find_image(client, plan.tag, plan.content_hash)
    return describe(plan, image, 0.0, reused=True) if image else None


def _pull_built(client: Any, plan: Plan, options: Options, say: Say) -> Built | None:
    """The team's image of this plan; what is not as its name promises is said, and built instead."""
    if options.registry is None:
        return None
    try:
        return pull_built(client, plan, options.registry, say)
    except BuildError as error:
        say(plan.variant.name, f"not taken from {options.registry.name}: {error.found}")
        return None


def worker_count(plans: int) -> int:
    """Builds at the same time: configure and install use one core, so two builds fill two cores better than one."""
    return max(1, min(plans, os.cpu_count() or 1, 4))


def make_jobs() -> int:
    """make -j of each build, however many there are: it is a part of what the engine's cache knows a build by."""
    return os.cpu_count() or 1


def _build_side_by_side(client: Any, plans: list[Plan], options: Options, say: Say) -> Iterator[Built]:
    """Daemon threads, so that Ctrl-C ends the process at once: the engine cancels a build whose client is gone."""
    if not plans:
        return
    workers = worker_count(len(plans))
    compiled = [plan for plan in plans if plan.variant.kind is SourceKind.SOURCE]
    if compiled:
        _build_shared_stages(client, compiled[0], say)
    todo = deque(plans)
    done: SimpleQueue[Built | BaseException] = SimpleQueue()

    def work() -> None:
        while todo:
            try:
                plan = todo.popleft()
            except IndexError:
                return
            try:
                done.put(build_one(client, plan, options, make_jobs(), say))
            except BaseException as error:
                done.put(error)

    for _ in range(workers):
        threading.Thread(target=work, daemon=True).start()
    for _ in plans:
        yield _next(done)


def _next(done: SimpleQueue[Built | BaseException]) -> Built:
    while True:
        # A wait without limit would not be interrupted by Ctrl-C on every platform.
        with suppress(Empty):
            item = done.get(timeout=0.5)
            if isinstance(item, BaseException):
                raise item
            return item


def _build_shared_stages(client: Any, plan: Plan, say: Say) -> None:
    for stage in SHARED_STAGES:
        say("base", f"preparing the {stage} stage")
        dockerfile = f"dockerfiles/{plan.variant.name}/Dockerfile"
        arguments = {"BASE": plan.base.reference}
        build_aside(client, plan.files, f"the {stage} stage", dockerfile, buildargs=arguments, target=stage)


def build_one(client: Any, plan: Plan, options: Options, jobs: int, say: Say) -> Built:
    """One variant, built, proved and tagged."""
    started = time.monotonic()
    name = plan.variant.name
    say(name, "starting")
    try:
        image_id = build_image(client, plan, options, jobs, say)
        say(name, "proving")
        try:
            require_proof(plan.variant, ask_facts(client, image_id))
        except InterlockError:
            client.images.remove(image_id, force=True)
            raise
    except SourceUnavailableError as error:
        result = _ended(plan.variant, plan.profile, State.UNAVAILABLE, error.found)
    except BuildError as error:
        result = _ended(plan.variant, plan.profile, State.FAILED, str(error))
    else:
        result = describe(plan, take_tag(client, image_id, plan.tag), time.monotonic() - started, reused=False)
    say(name, result.outcome.state.value)
    return result.model_copy(update={"duration_s": time.monotonic() - started})


def _ended(variant: Variant, profile: str, state: State, reason: str) -> Built:
    return Built(variant=variant.name, profile=profile, outcome=Outcome(state=state, reason=reason))
