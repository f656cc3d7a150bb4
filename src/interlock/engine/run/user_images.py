"""A user's own Dockerfile, built by their docker command: by BuildKit where they have it, with their credentials."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from docker import DockerClient

from interlock.engine.build.image import keep_log
from interlock.engine.build.one_build import (
    DOCKER,
    MadeFiles,
    build_with_steps_kept,
    buildx,
    docker_environment,
    follow_docker,
    last_words,
)
from interlock.engine.client import Address, disk_full, no_space
from interlock.engine.ownership import labels_of
from interlock.engine.run import leftovers
from interlock.errors import BuildError, EngineError

DOCKERFILE = "Dockerfile"
IGNORE = ".dockerignore"
CLASSIC = "the engine's classic builder"
# What either builder prints when a step begins that takes time.
STEP = re.compile(
    r"^(?:Step [0-9]+/[0-9]+ : |#[0-9]+ \[[^\]]*[0-9]+/[0-9]+\] )((?:FROM|RUN|COPY|ADD)\b.*)$", re.IGNORECASE
)
# A step taken from the cache is of another build, which may be building on it right now.
MADE = re.compile(r"(?<! ---> Using cache\n)^ ---> ([0-9a-f]{12})$", re.MULTILINE)


@dataclass(frozen=True)
class Recipe:
    """What is built: the user's folder, their Dockerfile, and the options of `docker build` that they gave."""

    context: Path
    dockerfile: Path
    options: tuple[str, ...] = ()

    @property
    def ignore_file(self) -> Path | None:
        """Return the ignore file of this Dockerfile alone, which is read instead of the folder's .dockerignore."""
        path = self.dockerfile.with_name(self.dockerfile.name + IGNORE)
        return path if path.is_file() else None


@dataclass(frozen=True)
class UserImage:
    """An image that was built, how long it took, and what else the build left in the engine, the last first."""

    image_id: str
    duration_s: float
    size_bytes: int
    content_hash: str = ""  # of what it holds and how it starts, whoever built it and when
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildSetup:
    """What builds the images of a trial: client, address, builder, folders of copies and logs, and the owner."""

    client: DockerClient
    address: Address
    owner: str
    folder: Path  # for copies of the Dockerfile
    cache: Path  # for logs
    builder: str


def find_builder() -> str:
    """Return what `docker build` builds with; EngineError if the command is missing."""
    if shutil.which(DOCKER) is None:
        raise EngineError(
            found="the command `docker`, which builds your Dockerfile, is not installed",
            todo="Install it: apt-get install docker-cli (docker.io before Debian 13).",
        )
    return f"BuildKit by {version}" if (version := buildx()) else CLASSIC


def build_user_image(
    workshop: BuildSetup, recipe: Recipe, name: str, text: str | None, on_step: Callable[[str], None]
) -> UserImage:
    """Build the user's Dockerfile, or `text` in its place; BuildError has the last lines of the log.

    The user's folder is only read.
    """
    log: list[str] = []
    built = recipe if text is None else replace(recipe, dockerfile=_write_copy(workshop.folder / name, recipe, text))
    made = build_with_steps_kept(lambda: _build(workshop, built, name, log, on_step), log)
    path = keep_log(workshop.cache, f"trial-{name}", log)
    if made is None:
        raise _failure("".join(log), recipe, path)
    return made


def _build(
    workshop: BuildSetup, recipe: Recipe, name: str, log: list[str], on_step: Callable[[str], None]
) -> UserImage | None:
    """Build once and return the image, None if that fails; the output is appended to `log`."""
    started = time.monotonic()
    answers = MadeFiles(workshop.folder / f"{name}.built", workshop.builder != CLASSIC)
    answers.folder.mkdir(parents=True, exist_ok=True)
    before = _image_ids(workshop.client)
    labels = [word for name, value in labels_of(workshop.owner).items() for word in ("--label", f"{name}={value}")]
    words = [DOCKER, "build", *labels, *answers.options, "--force-rm"]
    image_id = None

    def read(line: str) -> str:
        if step := STEP.match(line.rstrip()):
            on_step(step[1])
        return line

    try:
        words += [*recipe.options, "--file", str(recipe.dockerfile), str(recipe.context)]
        code = follow_docker(docker_environment(workshop.address), words, None, log, read)
        image_id = answers.image_id(workshop.client) if code == 0 else None
    finally:
        left = _left("".join(log), before)
        if image_id is None:
            leftovers.remove_images(workshop.client, left)
    if image_id is None:
        return None
    duration_s = time.monotonic() - started
    made = workshop.client.images.get(image_id).attrs
    return UserImage(image_id, duration_s, made["Size"], _content_hash(made), left)


# What of an image's settings is in what it does; its labels name the trial.
SETTINGS = ("Cmd", "Entrypoint", "Env", "User", "WorkingDir", "ExposedPorts", "Volumes", "StopSignal")


def _content_hash(made: Mapping[str, Any]) -> str:
    settings = {name: made.get("Config", {}).get(name) or None for name in SETTINGS}
    layers = made.get("RootFS", {}).get("Layers")
    return hashlib.sha256(json.dumps([layers, settings], sort_keys=True).encode()).hexdigest()


def _left(log: str, before: set[str]) -> tuple[str, ...]:
    """Return the images of steps that the classic builder left; those that were there before are not ours."""
    made = reversed(MADE.findall(log))
    return tuple(image_id for image_id in made if not any(known.startswith(image_id) for known in before))


def _write_copy(folder: Path, recipe: Recipe, text: str) -> Path:
    """Write the Dockerfile as it is built, and next to it the ignore rules that belong to it."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / DOCKERFILE
    copy.write_bytes(text.encode("utf-8", "surrogateescape"))
    if recipe.ignore_file:
        (folder / f"{DOCKERFILE}{IGNORE}").write_bytes(recipe.ignore_file.read_bytes())
    return copy


def _failure(log: str, recipe: Recipe, path: Path) -> BuildError | EngineError:
    if no_space(log):
        return disk_full(f"building {recipe.dockerfile}")
    return BuildError(found=f"it does not build: {last_words(log)}", todo=f"{path} has the rest.")


def _image_ids(client: DockerClient) -> set[str]:
    return {str(image["Id"]).removeprefix("sha256:") for image in client.api.images(all=True)}
