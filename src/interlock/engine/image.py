"""One image: run its build in the engine, and ask the interpreter in it what it is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import DockerException, ImageNotFound

from interlock.engine.context import tar_of
from interlock.engine.log import EXIT_CODE, MIRROR, STEP, build_failure, engine_failure
from interlock.engine.proof import QUESTION, parse_facts
from interlock.errors import BuildError, EngineError
from interlock.model import BaseImage, Facts, Variant

HASH_LABEL = "interlock.hash"

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


def build_image(client: Any, plan: Plan, options: Options, jobs: int, say: Say) -> str:
    """The id of the image, not yet proved and without a tag; what went wrong as an error."""
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
        raise build_failure("".join(log), plan.variant, str(path))
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
