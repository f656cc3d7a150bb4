"""Builds variants into proved, tagged images: what is unchanged is left alone, the rest is built side by side."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from docker.errors import APIError, DockerException, ImageNotFound

from interlock.engine.base import ensure_base
from interlock.engine.client import no_space
from interlock.engine.context import content_hash, read_context, tar_of
from interlock.engine.proof import QUESTION, parse_facts, require_proof
from interlock.errors import BuildError, EngineError, InterlockError, SourceUnavailableError
from interlock.model import BaseImage, Built, Catalog, Facts, Outcome, State, Variant

HASH_LABEL = "interlock.hash"
MIRROR = "INTERLOCK_SOURCE_MIRROR"
# Exit codes of build.sh: the source is nowhere; what came has another sum.
UNAVAILABLE, WRONG_SUM = 69, 65
# Two stages that all variants share: built once before the variants are built side by side.
SHARED_STAGES = ("toolchain", "runtime")
STEP = re.compile(r"^interlock: step (.+)$", re.MULTILINE)
TRIED = re.compile(r"^interlock: tried (\S+): (?:curl: \(\d+\) )?(.+)$", re.MULTILINE)

Say = Callable[[str, str], None]


@dataclass(frozen=True)
class Plan:
    """One image to build: its context, what it is built from, and what identifies the result."""

    variant: Variant
    profile: str
    files: dict[str, bytes]
    base: BaseImage
    content_hash: str

    @property
    def tag(self) -> str:
        return self.variant.image_tag(self.profile)


@dataclass(frozen=True)
class Options:
    """Where to build from and how."""

    root: Path
    cache: Path
    profile: str = "standard"
    force: bool = False


def build(client: Any, catalog: Catalog, names: list[str], options: Options, say: Say) -> list[Built]:
    """Every named variant as a proved, tagged image; failures and missing sources are outcomes, not exceptions.

    `say(variant, step)` is called for each step, from the building threads. EngineError is raised when the engine
    itself, or the base that all need, is missing.
    """
    results: dict[str, Built] = {}
    todo: list[Plan] = []
    for name in names:
        variant = catalog.variants[name]
        if options.profile not in variant.profiles:
            results[name] = _ended(variant, options.profile, State.UNSUPPORTED, f"no profile '{options.profile}'")
            continue
        plan = make_plan(client, catalog, variant, options, say)
        found = None if options.force else find_built(client, plan)
        if found is None:
            todo.append(plan)
        else:
            results[name] = found
            say(name, "unchanged")
    for result in _build_side_by_side(client, todo, options, say):
        results[result.variant] = result
    return [results[name] for name in names]


def make_plan(client: Any, catalog: Catalog, variant: Variant, options: Options, say: Say) -> Plan:
    """What would be built now. The base is made here if it is missing."""
    base = ensure_base(client, catalog.bases[variant.base], options.cache, lambda text: say("base", text))
    files = read_context(options.root / "dockerfiles" / variant.name)
    if "Dockerfile" not in files:
        raise BuildError(
            file=f"dockerfiles/{variant.name}/Dockerfile", found="the file is missing", todo="Run `interlock render`."
        )
    return Plan(variant, options.profile, files, base, content_hash(files, base.image_id, options.profile))


def find_built(client: Any, plan: Plan) -> Built | None:
    """The image of this plan if its tag carries this very content hash."""
    try:
        image = client.images.get(plan.tag)
    except ImageNotFound:
        return None
    if image.labels.get(HASH_LABEL) != plan.content_hash:
        return None
    return _built(plan, image, duration_s=0.0, reused=True)


def worker_count(plans: int) -> int:
    """Builds at the same time: configure and install use one core, so two builds fill two cores better than one."""
    return max(1, min(plans, os.cpu_count() or 1, 4))


def make_jobs(workers: int) -> int:
    """make -j of each build: together at most about twice the cores."""
    cores = os.cpu_count() or 1
    return max(1, min(cores, -(-2 * cores // workers)))


def _build_side_by_side(client: Any, plans: list[Plan], options: Options, say: Say) -> Iterator[Built]:
    """Daemon threads, so that Ctrl-C ends the process at once: the engine cancels a build whose client is gone."""
    if not plans:
        return
    workers = worker_count(len(plans))
    _build_shared_stages(client, plans[0], say)
    todo = deque(plans)
    done: SimpleQueue[Built | BaseException] = SimpleQueue()

    def work() -> None:
        while todo:
            try:
                plan = todo.popleft()
            except IndexError:
                return
            try:
                done.put(build_one(client, plan, options, make_jobs(workers), say))
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
        log: list[str] = []
        arguments = {"BASE": plan.base.reference}
        if run_build(client, plan.files, log, lambda _: None, buildargs=arguments, target=stage) is None:
            raise engine_failure("".join(log), f"the {stage} stage", f"dockerfiles/{plan.variant.name}/Dockerfile")


def build_one(client: Any, plan: Plan, options: Options, jobs: int, say: Say) -> Built:
    """One variant, built, proved and tagged."""
    started = time.monotonic()
    name = plan.variant.name
    say(name, "starting")
    try:
        image_id = _build_image(client, plan, options, jobs, say)
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
        result = _tag(client, plan, image_id, time.monotonic() - started)
    say(name, result.outcome.state.value)
    return result.model_copy(update={"duration_s": time.monotonic() - started})


def ask_facts(client: Any, image_id: str) -> Facts:
    """What the interpreter in the image says of itself; BuildError if it does not even start."""
    try:
        output = client.containers.run(
            image_id, ["python", "-c", QUESTION], remove=True, network_mode="none", labels={"interlock.proof": "1"}
        )
        return parse_facts(output.decode())
    except (DockerException, ValueError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        raise BuildError(
            found=f"the built interpreter does not answer: {' '.join(last)}",
            todo="See the build's log for what went wrong.",
        ) from None


def _build_image(client: Any, plan: Plan, options: Options, jobs: int, say: Say) -> str:
    mirror, sources = source_mirror(plan.variant)
    arguments = {
        "BASE": plan.base.reference,
        "PROFILE": plan.profile,
        "JOBS": str(jobs),
        MIRROR: mirror,
        "REBUILD": str(time.time_ns()) if options.force else "",
    }
    name = plan.variant.name
    log: list[str] = []
    image_id = run_build(
        client,
        plan.files | sources,
        log,
        lambda step: say(name, step),
        buildargs=arguments,
        labels={HASH_LABEL: plan.content_hash},
    )
    path = _keep_log(options.cache, f"{name}-{plan.profile}", log)
    if image_id is None:
        raise _build_failure("".join(log), plan.variant, path)
    return image_id


def source_mirror(variant: Variant) -> tuple[str, dict[str, bytes]]:
    """What build.sh is told of INTERLOCK_SOURCE_MIRROR, and the files that a local one puts into the context."""
    mirror = os.environ.get(MIRROR, "")
    if not mirror or "://" in mirror:
        return mirror, {}
    folder = Path(mirror)
    if not folder.is_dir():
        raise EngineError(
            key=MIRROR, found=f"'{mirror}' is neither a URL nor a directory", todo="Correct it or unset it."
        )
    files = [part.file for part in variant.parts if (folder / part.file).is_file()]
    return "file:///interlock", {f"sources/{file}": (folder / file).read_bytes() for file in files}


def run_build(
    client: Any, files: Mapping[str, bytes], log: list[str], on_step: Callable[[str], None], **options: Any
) -> str | None:
    """Runs one build to its end; the image's id, or None if it failed. The log grows as it goes."""
    image_id = None
    try:
        stream = client.api.build(
            fileobj=tar_of(files), custom_context=True, rm=True, forcerm=True, decode=True, **options
        )
        for event in stream:
            text = event.get("stream") or event.get("error", "")
            log.append(text if text.endswith("\n") or "stream" in event else text + "\n")
            for step in STEP.findall(text):
                on_step(step)
            if "error" in event:
                code = event.get("errorDetail", {}).get("code")
                log.append(f"interlock: exit code {code}\n" if code else "")
                return None
            image_id = event.get("aux", {}).get("ID", image_id)
    except DockerException as error:
        log.append(f"{error}\n")
        return None
    return image_id


def _keep_log(cache: Path, name: str, log: list[str]) -> Path:
    path = cache / "logs" / f"{name}.log"
    with suppress(OSError):  # a log that cannot be kept must not lose the build
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(log), encoding="utf-8")
    return path


def _build_failure(log: str, variant: Variant, path: Path) -> Exception:
    file = f"variants/{variant.name}.toml"
    tried = "; ".join(f"{_host(url)}: {said}" for url, said in TRIED.findall(log)) or "no place could be asked"
    if no_space(log):
        return engine_failure(log, variant.name, str(path))
    if f"interlock: exit code {UNAVAILABLE}" in log:
        return SourceUnavailableError(file=file, key="places", found=tried, todo=f"Set {MIRROR}.")
    if f"interlock: exit code {WRONG_SUM}" in log:
        return BuildError(
            file=file,
            key="sha256",
            found=f"no place has the source with this sum. Tried: {tried}",
            todo=f"Correct the sum or the places, or put the right file into a folder and set {MIRROR} to it.",
        )
    return engine_failure(log, variant.name, str(path))


def _host(url: str) -> str:
    """The host of a URL; what has none (a file, a pool path) as it stands."""
    return urlsplit(url).netloc or url


def engine_failure(log: str, what: str, path: str) -> Exception:
    if no_space(log):
        return EngineError(
            found=f"building {what}: no space left on the engine's disk", todo="Free some (`docker system df`)."
        )
    last = [line for line in log.splitlines() if line.strip() and not line.startswith("interlock: exit")][-4:]
    return BuildError(file=path, found=f"building {what} failed: {' / '.join(last)}", todo="The log has the rest.")


def _tag(client: Any, plan: Plan, image_id: str, duration_s: float) -> Built:
    """The image takes over the tag; the one that had it goes, unless something still uses it."""
    try:
        replaced = client.images.get(plan.tag).id
    except ImageNotFound:
        replaced = image_id
    image = client.images.get(image_id)
    image.tag(plan.tag)
    if replaced != image.id:
        with suppress(APIError):
            client.images.remove(replaced)
    return _built(plan, image, duration_s, reused=False)


def _built(plan: Plan, image: Any, duration_s: float, reused: bool) -> Built:
    return Built(
        variant=plan.variant.name,
        profile=plan.profile,
        outcome=Outcome(state=State.OK),
        tag=plan.tag,
        image_id=image.id,
        digest=next(iter(image.attrs.get("RepoDigests") or []), None),
        content_hash=plan.content_hash,
        size_bytes=image.attrs["Size"],
        base=plan.base,
        duration_s=duration_s,
        reused=reused,
    )


def _ended(variant: Variant, profile: str, state: State, reason: str) -> Built:
    return Built(variant=variant.name, profile=profile, outcome=Outcome(state=state, reason=reason))
