"""Builds a user's own Dockerfile with their docker command: BuildKit where they have it, and their credentials."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from docker import DockerClient
from docker.errors import DockerException
from docker.utils.build import tar as tar_context

from interlock.engine.client import OWNER_LABEL, Address, environment_for, no_space
from interlock.errors import BuildError, EngineError

DOCKER, DOCKERFILE = "docker", "Dockerfile"
IGNORE = ".dockerignore"
CLASSIC = "the engine's classic builder"
# What either builder prints when a step begins that takes time.
STEP = re.compile(
    r"^(?:Step [0-9]+/[0-9]+ : |#[0-9]+ \[[^\]]*[0-9]+/[0-9]+\] )((?:FROM|RUN|COPY|ADD)\b.*)$", re.IGNORECASE
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MADE = re.compile(r"^ ---> ([0-9a-f]{12})$", re.MULTILINE)
# BuildKit repeats what the failed step said between two rules.
FAILED_STEP = re.compile(r"^------\n > .*?:\n(.*?)^------$", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"^#?[0-9. ]+ (?=\S)")
CAUSE = re.compile(r"error|fatal|cannot|failed|not found|no such", re.IGNORECASE)
NOISE = ("[notice]", " ---> ", "Removing intermediate", "note: This", "DEPRECATED: The legacy", " " * 12)
LAST_LINES, SEARCHED_LINES = 4, 40
KILLED_S = 10


@dataclass(frozen=True)
class Recipe:
    """What is built: the user's folder, their Dockerfile, and the options of `docker build` that they gave."""

    context: Path
    dockerfile: Path
    options: tuple[str, ...] = ()

    @property
    def ignore_file(self) -> Path | None:
        """The ignore file of this Dockerfile alone, which is read instead of the folder's .dockerignore."""
        path = self.dockerfile.with_name(self.dockerfile.name + IGNORE)
        return path if path.is_file() else None


@dataclass(frozen=True)
class UserImage:
    """An image that was built, how long it took, and what else the build left in the engine, the last first."""

    image_id: str
    duration_s: float
    size_bytes: int
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workshop:
    """Where images of a trial are built, and who owns them."""

    client: DockerClient
    address: Address
    owner: str
    folder: Path  # for copies of the Dockerfile
    logs: Path
    builder: str


def find_builder() -> str:
    """Return what `docker build` builds with; EngineError if the command is missing."""
    try:
        found = subprocess.run([DOCKER, "buildx", "version"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise EngineError(
            found="there is no `docker` command, and a user's Dockerfile is built with it",
            todo="Install it: apt-get install docker-cli (docker.io before Debian 13).",
        ) from None
    if found.returncode != 0 or os.environ.get("DOCKER_BUILDKIT") == "0":
        return CLASSIC
    return f"BuildKit by {' '.join(found.stdout.split()[:2])}"


def build(workshop: Workshop, recipe: Recipe, name: str, text: str | None, on_step: Callable[[str], None]) -> UserImage:
    """Build the user's Dockerfile, or `text` in its place; BuildError has the last lines of the log.

    The user's folder is only read.
    """
    started = time.monotonic()
    dockerfile = recipe.dockerfile if text is None else _write_copy(workshop.folder / name, recipe, text)
    answer = workshop.folder / f"{name}.id"
    before, log = _image_ids(workshop.client), list[str]()
    words = [DOCKER, "build", "--label", f"{OWNER_LABEL}={workshop.owner}", "--iidfile", str(answer), "--force-rm"]
    done = False
    try:
        with _context(workshop, recipe, dockerfile) as (context, stdin):
            code = _run(workshop.address, [*words, *recipe.options, *context], stdin, log, on_step)
        done = code == 0 and answer.is_file()
    finally:
        left = _left("".join(log), before)
        if not done:
            remove_images(workshop.client, left)
    path = _keep(workshop.logs / f"trial-{name}.log", "".join(log))
    if not done:
        raise _failure("".join(log), recipe, path)
    image_id, duration_s = answer.read_text(encoding="utf-8").strip(), time.monotonic() - started
    return UserImage(image_id, duration_s, workshop.client.images.get(image_id).attrs["Size"], left)


def _left(log: str, before: set[str]) -> tuple[str, ...]:
    """Return the images of steps that the classic builder left; those that were there before are not ours."""
    return tuple(one for one in reversed(MADE.findall(log)) if not any(known.startswith(one) for known in before))


def _write_copy(folder: Path, recipe: Recipe, text: str) -> Path:
    """Write the Dockerfile as it is built, and next to it the ignore rules that belong to it."""
    folder.mkdir(parents=True)
    copy = folder / DOCKERFILE
    copy.write_bytes(text.encode("utf-8", "surrogateescape"))
    if recipe.ignore_file:
        (folder / f"{DOCKERFILE}{IGNORE}").write_bytes(recipe.ignore_file.read_bytes())
    return copy


@contextmanager
def _context(workshop: Workshop, recipe: Recipe, dockerfile: Path) -> Iterator[tuple[list[str], IO[bytes] | None]]:
    """Yield the last arguments of the command, and its standard input.

    The classic builder does not know a Dockerfile's own ignore file: there the context is packed by its rules.
    """
    if workshop.builder != CLASSIC or recipe.ignore_file is None:
        yield ["--file", str(dockerfile), str(recipe.context)], None
        return
    lines = recipe.ignore_file.read_text(encoding="utf-8").splitlines()
    rules = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    name = f".interlock-{workshop.owner}.Dockerfile"
    # Packed with gzip, because the docker command takes a tar whose first header is an extended one for a Dockerfile.
    text = dockerfile.read_bytes().decode("utf-8", "replace")
    packed = tar_context(str(recipe.context), exclude=rules, dockerfile=(name, text), gzip=True)
    with packed:
        yield ["--file", name, "-"], packed


def _run(
    address: Address, words: Sequence[str], stdin: IO[bytes] | None, log: list[str], on_step: Callable[[str], None]
) -> int:
    """Run a command to its end and return its exit code; its output is appended to the log. An interrupt ends it."""
    process = subprocess.Popen(
        words,
        stdin=stdin or subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(address),
    )
    try:
        for line in process.stdout or ():
            text = COLOUR.sub("", line.decode("utf-8", "replace"))
            log.append(text)
            step = STEP.match(text.rstrip())
            if step:
                on_step(step[1])
        return process.wait()
    except BaseException:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(KILLED_S)
        process.kill()
        raise


def _environment(address: Address) -> dict[str, str]:
    """Return the user's environment with the trial's engine and its own builder, which has the variants' images."""
    kept = {name: value for name, value in environment_for(address).items() if name != "BUILDX_BUILDER"}
    return {**kept, "BUILDKIT_PROGRESS": "plain"}


def _keep(path: Path, log: str) -> str:
    with suppress(OSError):  # a log that cannot be kept must not lose the build
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(log, encoding="utf-8")
    return str(path)


def _failure(log: str, recipe: Recipe, path: str) -> BuildError | EngineError:
    if no_space(log):
        return EngineError(
            found=f"building {recipe.dockerfile}: no space left on the engine's disk",
            todo="Free some (`docker system df`).",
        )
    return BuildError(found=f"it does not build: {last_words(log)}", todo=f"{path} has the rest.")


def last_words(log: str) -> str:
    """Return why a build failed in its own words: the last lines that name a cause, and the very last line."""
    step = FAILED_STEP.findall(log)
    lines = [TIME.sub("", line) for line in (step[-1] if step else log).splitlines()[-SEARCHED_LINES:]]
    said = [line.strip() for line in lines if line.strip() and not line.startswith(NOISE)]
    very_last = log.strip().splitlines()[-1:] if step else said[-1:]
    causes = [line for line in said if CAUSE.search(line)] or said
    return " / ".join(dict.fromkeys([*causes[-LAST_LINES:], *very_last])) or "its log is empty"


def _image_ids(client: DockerClient) -> set[str]:
    return {str(image["Id"]).removeprefix("sha256:") for image in client.api.images(all=True)}


def remove_images(client: DockerClient, image_ids: Sequence[str]) -> None:
    """Remove the images that have no tag and that nothing needs; one that is already gone is fine."""
    for one in image_ids:
        with suppress(DockerException):
            if not client.images.get(one).tags:
                client.images.remove(one)
