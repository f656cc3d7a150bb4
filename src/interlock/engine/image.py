"""One image: run its build in the engine, and ask the interpreter in it what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import DockerException, ImageNotFound

from interlock.engine import provenance
from interlock.engine.context import tar_of
from interlock.engine.downloads import local_files, mirror_url
from interlock.engine.log import EXIT_CODE, MIRROR, STEP, build_failure, engine_failure
from interlock.engine.prefix import pack, packed_files
from interlock.engine.proof import QUESTION, parse_facts
from interlock.errors import BuildError
from interlock.model import BaseImage, Facts, SourceKind, Variant
from interlock.registries import Registry

HASH_LABEL = "interlock.hash"

# What a Dockerfile calls its parent image.
BASE_ARGUMENT = {kind: "IMAGE" if kind is SourceKind.IMAGE else "BASE" for kind in SourceKind}

Say = Callable[[str, str], None]


@dataclass(frozen=True)
class Plan:
    """One image to build: its context, what it is built from, and what identifies the result."""

    variant: Variant
    profile: str
    files: dict[str, bytes]
    base: BaseImage
    content_hash: str
    prefix: Path | None = None  # of this machine, if the variant is packed from one

    @property
    def tag(self) -> str:
        return self.variant.image_tag(self.profile)


@dataclass(frozen=True)
class Options:
    """Where to build from and how."""

    root: Path
    cache: Path
    profile: str = "standard"
    # A new one builds again what is unchanged; the same for all variants, so that a shared build is done once.
    rebuild: str = ""
    # Where a team keeps what it has built: what it has is pulled instead of built.
    registry: Registry | None = None
    pulls_only: bool = False  # what would have to be made here is missing then


def build_image(client: Any, plan: Plan, options: Options, jobs: int, say: Say) -> str:
    """The id of the image, not yet proved and without a tag; what went wrong as an error."""
    arguments = {
        BASE_ARGUMENT[plan.variant.kind]: plan.base.reference,
        "PROFILE": plan.profile,
        "JOBS": str(jobs),
        MIRROR: mirror_url(),
        "REBUILD": options.rebuild,
    }
    packed = {"prefix.tar": pack(plan.prefix, packed_files(plan.prefix))} if plan.prefix else {}
    name = plan.variant.name
    log: list[str] = []
    image_id = run_build(
        client,
        plan.files | local_files(plan.variant, options.cache) | packed,
        log,
        lambda step: say(name, step),
        buildargs=arguments,
        labels={HASH_LABEL: plan.content_hash, **provenance.labels(options.root, plan.base)},
    )
    path = _keep_log(options.cache, f"{name}-{plan.profile}", log)
    if image_id is None:
        raise build_failure("".join(log), plan.variant, str(path))
    return image_id


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
                log.append(f"{EXIT_CODE.format(code)}\n" if code else "")
                return None
            image_id = event.get("aux", {}).get("ID", image_id)
    except DockerException as error:
        log.append(f"{error}\n")
        return None
    return image_id


def find_image(client: Any, tag: str, content_hash: str) -> Any:
    """The image that has this tag if it was built from this very content, or None."""
    try:
        image = client.images.get(tag)
    except ImageNotFound:
        return None
    return image if image.labels.get(HASH_LABEL) == content_hash else None


def build_aside(client: Any, files: Mapping[str, bytes], what: str, dockerfile: str, **options: Any) -> str:
    """The id of an image that is no variant's: a shared stage or a helper. BuildError or EngineError if it fails."""
    log: list[str] = []
    image_id = run_build(client, files, log, lambda _: None, **options)
    if image_id is None:
        raise engine_failure("".join(log), what, dockerfile)
    return image_id


def _keep_log(cache: Path, name: str, log: list[str]) -> Path:
    path = cache / "logs" / f"{name}.log"
    with suppress(OSError):  # a log that cannot be kept must not lose the build
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(log), encoding="utf-8")
    return path


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
