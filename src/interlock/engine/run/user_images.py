"""A user's own Dockerfile, built by their docker or podman command: by BuildKit where they have it.

Their own command has their credentials and their secrets.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.utils import version_gte

from interlock.engine.build.image import keep_log
from interlock.engine.build.one_build import (
    DOCKER,
    MadeFiles,
    build_with_steps_kept,
    buildx_for,
    docker_environment,
    follow,
    last_words,
)
from interlock.engine.client import disk_full, name_of, no_space
from interlock.engine.ownership import labels_of
from interlock.engine.packages.unbuilt import unbuilt_words
from interlock.engine.run import leftovers
from interlock.errors import BuildError, EngineError
from interlock.results.experiments import EngineName

DOCKERFILE = "Dockerfile"
IGNORE = ".dockerignore"
PODMAN = "podman"
# The API version of Docker 23: older BuildKits cannot use one image in place of another.
TAKES_CONTEXTS = "1.42"
# What each builder prints when a step that takes time begins.
STEP = re.compile(
    r"^(?:(?:\[[0-9/]+\] )?Step [0-9]+/[0-9]+ ?: |#[0-9]+ \[[^\]]*[0-9]+/[0-9]+\] )((?:FROM|RUN|COPY|ADD)\b.*)$",
    re.IGNORECASE,
)
# Excludes steps taken from the cache: they belong to another build, which may build upon them right now.
CACHED = r"(?<!---> Using cache\n)(?<!--> Using cache [0-9a-f]{64}\n)"
MADE = re.compile(rf"{CACHED}^(?: -)?--> ([0-9a-f]{{12}})$", re.MULTILINE)


@dataclass(frozen=True)
class Recipe:
    """What is built: the user's folder, their Dockerfile, and what they gave `docker build` with it."""

    context: Path
    dockerfile: Path
    arguments: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    text: str | None = None  # the Dockerfile to build in place of the file's text
    wheel_tag: str = "its interpreter"  # the tag of the wheels that its packages need, as in cp314t


@dataclass(frozen=True)
class UserImage:
    """An image that was built, how long it took, and what else the build left in the engine, the newest first."""

    image_id: str
    duration_s: float
    size_bytes: int
    content_hash: str = ""  # of its content and how it starts, not of who built it and when
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class UserBuilder:
    """What builds users' Dockerfiles in an engine."""

    name: str
    command: tuple[str, ...] = (DOCKER,)
    is_buildkit: bool = False
    takes_contexts: bool = False  # whether it can replace the images that the Dockerfile names, by any variables


CLASSIC = UserBuilder("the engine's classic builder")


@dataclass(frozen=True)
class BuildSetup:
    """What is needed to build the images of a trial: client, builder, folders for copies and logs, and the owner."""

    client: DockerClient
    owner: str
    folder: Path  # for copies of the Dockerfile
    cache: Path  # for logs
    builder: UserBuilder


def find_builder(client: DockerClient) -> UserBuilder:
    """Return the builder for a user's Dockerfile in this engine; EngineError if its command is missing."""
    if name_of(client) is EngineName.PODMAN:
        _require(PODMAN, "apt-get install podman")
        return UserBuilder("Podman", (PODMAN, "--url", client.address.host))
    _require(DOCKER, "apt-get install docker-cli (docker.io before Debian 13)")
    if not (version := buildx_for(client)):
        return CLASSIC
    contexts = version_gte(client.version()["ApiVersion"], TAKES_CONTEXTS)
    return UserBuilder(f"BuildKit by {version}", is_buildkit=True, takes_contexts=contexts)


def _require(command: str, install: str) -> None:
    if shutil.which(command) is None:
        problem = f"the command `{command}`, which builds your Dockerfile, is not installed"
        raise EngineError(found=problem, todo=f"Install it: {install}.")


def build_user_image(workshop: BuildSetup, recipe: Recipe, name: str, on_step: Callable[[str], None]) -> UserImage:
    """Build the user's Dockerfile, or the text in its place; BuildError has the last lines of the log.

    The user's folder is only read.
    """
    log: list[str] = []
    built = recipe if recipe.text is None else _copied(recipe, recipe.text, workshop.folder / name)
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
    answers = MadeFiles(workshop.folder / f"{name}.built", workshop.builder.is_buildkit)
    answers.folder.mkdir(parents=True, exist_ok=True)
    before = _image_ids(workshop.client)
    labels = [word for name, value in labels_of(workshop.owner).items() for word in ("--label", f"{name}={value}")]
    words = [*workshop.builder.command, "build", *labels, *answers.options, "--force-rm", *recipe.options]
    for argument, value in recipe.arguments.items():
        # A value that is in the environment is not passed as a word, to keep it out of the list of processes.
        words += ["--build-arg", argument if os.environ.get(argument) == value else f"{argument}={value}"]
    image_id = None

    def read(line: str) -> str:
        if step := STEP.match(line.rstrip()):
            on_step(step[1])
        return line

    try:
        words += ["--file", str(recipe.dockerfile), str(recipe.context)]
        code = follow(words, log, read, env=docker_environment(workshop.client.address))
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


# The settings of an image that change what it does: the engine runs a health check beside the service, whose CPU time
# it takes. Labels are left out, because they name the trial.
SETTINGS = ("Cmd", "Entrypoint", "Env", "User", "WorkingDir", "ExposedPorts", "Volumes", "StopSignal", "Healthcheck")


def _content_hash(made: Mapping[str, Any]) -> str:
    settings = {name: made.get("Config", {}).get(name) or None for name in SETTINGS}
    layers = made.get("RootFS", {}).get("Layers")
    return hashlib.sha256(json.dumps([layers, settings], sort_keys=True).encode()).hexdigest()


def _left(log: str, before: set[str]) -> tuple[str, ...]:
    """Return the images of steps that the classic builder left, without those that were there before."""
    made = reversed(MADE.findall(log))
    return tuple(image_id for image_id in made if not any(known.startswith(image_id) for known in before))


def _copied(recipe: Recipe, text: str, folder: Path) -> Recipe:
    """Write the Dockerfile to build, and its own ignore rules next to it; return the recipe for this copy."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / DOCKERFILE
    copy.write_bytes(text.encode("utf-8", "surrogateescape"))
    ignored = recipe.dockerfile.with_name(recipe.dockerfile.name + IGNORE)
    if ignored.is_file():
        copy.with_name(DOCKERFILE + IGNORE).write_bytes(ignored.read_bytes())
    return replace(recipe, dockerfile=copy)


def _failure(log: str, recipe: Recipe, path: Path) -> BuildError | EngineError:
    if no_space(log):
        return disk_full(f"building {recipe.dockerfile}")
    why = unbuilt_words(log, recipe.wheel_tag) or last_words(log)
    return BuildError(found=f"it does not build: {why}", todo=f"{path} has the rest.")


def _image_ids(client: DockerClient) -> set[str]:
    return {str(image["Id"]).removeprefix("sha256:") for image in client.api.images(all=True)}
