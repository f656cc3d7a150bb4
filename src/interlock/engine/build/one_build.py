"""Runs one build of a Dockerfile to its end: by BuildKit where `docker` has it, else by the engine's own builder.

Podman has its own, and Docker without the plugin buildx the classic one, which makes a container and a layer of each
step (`engine/build/steps.py`).
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from docker import DockerClient
from docker.errors import ImageNotFound, NullResource

from interlock import untrusted
from interlock.engine.build.sources import tar_of
from interlock.engine.build.steps import in_few_steps, remaining
from interlock.engine.client import (
    SEE_LOG,
    Address,
    engine_errors,
    environment_for,
    name_of,
    require_answer,
)
from interlock.engine.ended import end_session, run_here
from interlock.errors import EngineError
from interlock.results.experiments import EngineName
from interlock.untrusted import parse_json

DOCKER = "docker"
EXIT_CODE = "interlock: exit code {}"
STEP = re.compile(r"^interlock: step (.+)$", re.MULTILINE)
# As moby words it.
STEP_REMOVED = re.compile('failed to set parent|unknown parent image ID|unable to find image "sha256:')
# What BuildKit puts before each line that a step prints: the step's number and its seconds.
FROM_STEP = re.compile(r"^#[0-9]+ [0-9.]+ ")
ENDED_WITH = re.compile(r"^(?:#[0-9]+ )?ERROR: .*exit code: ([0-9]+)", re.MULTILINE)
# BuildKit repeats the output of the failed step between two rules.
FAILED_STEP, NAMED, RULE = re.compile(r"^------\n > ", re.MULTILINE), ":\n", re.compile(r"^------$", re.MULTILINE)
TIME = re.compile(r"^#?[0-9. ]+ (?=\S)")
CAUSE = re.compile(r"error|fatal|cannot|failed|not found|no such", re.IGNORECASE)
NOISE = ("[notice]", " ---> ", "Removing intermediate", "note: This", "DEPRECATED: The legacy")
LAST_LINES, SEARCHED_LINES = 4, 40
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Options of docker's SDK, and of docker's command.
OPTIONS = {"target": "--target", "tag": "--tag", "network_mode": "--network"}
KILLED_S = 10

Made = TypeVar("Made")
# Programs that build now. They would go on if only this process ended.
_running: set[subprocess.Popen[bytes]] = set()
_starting = threading.Lock()


def buildx_for(client: DockerClient) -> str:
    """Return the name and version of the plugin buildx, by which docker's command builds for this engine.

    Empty where docker has none, where the user wants none, and for Podman. docker is asked once for each client.
    """
    if not hasattr(client, "buildx"):
        client.buildx = _buildx() if name_of(client) is EngineName.DOCKER else ""
    return str(client.buildx)


def _buildx() -> str:
    if os.environ.get("DOCKER_BUILDKIT") == "0":
        return ""
    said = run_here([DOCKER, "buildx", "version"])
    return " ".join(said.stdout.split()[:2]) if said.ok else ""


def has_buildkit(client: DockerClient) -> bool:
    """Return whether builds for this engine are BuildKit's."""
    # A client that is not from `open_client` does not say where docker's command finds its engine.
    return hasattr(client, "address") and bool(buildx_for(client))


def run_build(
    client: DockerClient,
    files: Mapping[str, bytes],
    log: list[str],
    on_step: Callable[[str], None],
    **options: Any,
) -> str | None:
    """Run one build to its end and return the image's id, or None if it failed; its output is appended to `log`.

    The options are those of docker's SDK: buildargs, labels, target, tag, network_mode. EngineError if the engine
    itself fails, or ends the step because it is being stopped.
    """
    build = _by_buildkit if has_buildkit(client) else _by_engine
    return build_with_steps_kept(lambda: build(client, files, log, on_step, **options), log)


def written_for(
    client: DockerClient,
    dockerfile: str,
    arguments: Mapping[str, str],
    labels: Mapping[str, str],
    *,
    is_shared: bool = False,
) -> tuple[bytes, dict[str, dict[str, str]]]:
    """Return a Dockerfile as this engine's builder needs it, and the arguments and labels to pass with it."""
    if has_buildkit(client):
        return dockerfile.encode(), {"buildargs": dict(arguments), "labels": dict(labels)}
    short = in_few_steps(dockerfile, arguments, labels, is_shared=is_shared)
    return short.encode(), {"buildargs": remaining(arguments, short), "labels": {}}


def build_with_steps_kept(build: Callable[[], Made | None], log: list[str]) -> Made | None:
    """Return what `build` makes, None if it fails; it appends its output to `log`.

    It builds once more if somebody removed the image of a step that was being built upon.
    """
    made = build()
    if made is None and STEP_REMOVED.search("".join(log)):
        log.clear()
        made = build()
    return made


def _by_engine(
    client: DockerClient, files: Mapping[str, bytes], log: list[str], on_step: Callable[[str], None], **options: Any
) -> str | None:
    with engine_errors("the container engine failed within a build"):
        image_id = _follow(
            client.api.build(fileobj=tar_of(files), custom_context=True, rm=True, forcerm=True, decode=True, **options),
            log,
            on_step,
        )
    if image_id is None:
        require_answer(client)
    if image_id == "":
        raise EngineError(found="the container engine ended the build without a message", todo=SEE_LOG)
    return image_id


def _follow(stream: Iterable[Mapping[str, Any]], log: list[str], on_step: Callable[[str], None]) -> str | None:
    """Return the id of the image that a build's events name, empty if none does; None after an event with an error."""
    image_id, length = "", 0
    for event in stream:
        text = event.get("stream") or event.get("error", "")
        log.append(text if text.endswith("\n") or "stream" in event else text + "\n")
        length = keep_last(log, length + len(text))
        for step in STEP.findall(text):
            on_step(step)
        if "error" in event:
            code = event.get("errorDetail", {}).get("code")
            log.append(f"{EXIT_CODE.format(code)}\n" if code else "")
            return None
        image_id = event.get("aux", {}).get("ID", image_id)
    return image_id


def keep_last(log: list[str], length: int) -> int:
    """Keep a log's last part, which says why a step that prints without end failed; return the log's length."""
    if length <= untrusted.MOST_SAID:
        return length
    log[:] = ["".join(log)[-untrusted.MOST_SAID // 2 :]]
    return len(log[0])


def _by_buildkit(
    client: DockerClient, files: Mapping[str, bytes], log: list[str], on_step: Callable[[str], None], **options: Any
) -> str | None:
    arguments = {name: value for name, value in options.get("buildargs", {}).items() if value}
    labels = [f"{name}={value}" for name, value in options.get("labels", {}).items()]
    with tempfile.TemporaryDirectory() as folder:
        made = MadeFiles(Path(folder))
        words = [DOCKER, "build", *made.options]
        # A value stays out of the list of processes: the address of a mirror may have a password.
        words += [word for name in arguments for word in ("--build-arg", name)]
        words += [word for label in labels for word in ("--label", label)]
        words += [word for name, option in OPTIONS.items() if options.get(name) for word in (option, options[name])]
        with Path(folder, "context.tar").open("w+b") as context:
            context.write(tar_of(files).getbuffer())
            context.seek(0)
            environment = docker_environment(client.address) | arguments
            code = follow([*words, "-"], log, on_line(on_step), env=environment, stdin=context)
        image_id = made.image_id(client) if code == 0 else None
    if image_id is not None:
        return image_id
    require_answer(client)
    log += [f"{EXIT_CODE.format(code)}\n" for code in ENDED_WITH.findall("".join(log))[-1:]]
    return None


@dataclass(frozen=True)
class MadeFiles:
    """The files of a folder into which docker's command writes what BuildKit, or the classic builder, has made."""

    folder: Path
    by_buildkit: bool = True

    @property
    def options(self) -> list[str]:
        """Return the options that ask for these files."""
        metadata = ["--metadata-file", str(self.folder / "metadata.json")] if self.by_buildkit else []
        return ["--iidfile", str(self.folder / "id"), *metadata]

    def image_id(self, client: DockerClient) -> str | None:
        """Return the id by which the engine has the image; None if nothing was made.

        containerd's store calls an image by the digest of its manifest, the others by that of its configuration, which
        is what docker's command writes either way.
        """
        said = self._read("metadata.json")
        known = parse_json(said.encode()) if said else {}
        for name in (self._read("id"), str(known.get("containerimage.digest", ""))):
            with suppress(ImageNotFound, NullResource):
                return str(client.images.get(name).id)
        return None

    def _read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def on_line(on_step: Callable[[str], None]) -> Callable[[str], str]:
    """Return a function that reads a line of a build: it reports our steps, and returns what the step printed."""

    def read(line: str) -> str:
        said = FROM_STEP.sub("", line)
        for step in STEP.findall(said):
            on_step(step)
        return said

    return read


def follow(words: Sequence[str], log: list[str], read: Callable[[str], str], **options: Any) -> int:
    """Run a build's command to its end and return its exit code; the log gets what `read` returns for each line.

    The options are Popen's. An interrupt ends the command, and in a session of its own all that it has started: a
    compiler may work for minutes.
    """
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options}
    with _starting:
        process: subprocess.Popen[bytes] = subprocess.Popen(words, **given)
        _running.add(process)
    length = 0
    try:
        for line in process.stdout or ():
            log.append(read(COLOUR.sub("", line.decode("utf-8", "replace"))))
            length = keep_last(log, length + len(log[-1]))
        return process.wait()
    except BaseException:
        if options.get("start_new_session"):
            end_session(process, KILLED_S)
        else:
            _end(process)
        raise
    finally:
        _running.discard(process)


def end_all() -> None:
    """End all builds whose command this process runs, because an interrupt does not reach their threads."""
    with _starting:
        for process in list(_running):
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_S)
    process.kill()


def docker_environment(address: Address) -> dict[str, str]:
    """Return the user's environment with this engine and its own builder, which has the images that are here.

    An attestation would be a part of the image: two equal builds would have different ids.
    """
    kept = {name: value for name, value in environment_for(address).items() if name != "BUILDX_BUILDER"}
    return {**kept, "BUILDKIT_PROGRESS": "plain", "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}


def _failed_steps(log: str) -> Iterator[str]:
    """Yield the output of failed steps; each part of the log is looked at once."""
    at = 0
    while start := FAILED_STEP.search(log, at):
        said = log.find(NAMED, start.end()) + len(NAMED)
        end = RULE.search(log, said) if said >= len(NAMED) else None
        if end is None:
            return
        yield log[said : end.start()]
        at = end.end()


def last_words(log: str) -> str:
    """Return why a build failed in its own words: the last lines that name a cause, and the very last line."""
    log = "".join(line for line in log.splitlines(keepends=True) if not line.startswith(EXIT_CODE.format("")))
    step = list(_failed_steps(log))
    lines = [TIME.sub("", line) for line in (step[-1] if step else log).splitlines()[-SEARCHED_LINES:]]
    said = [line.strip() for line in lines if line.strip() and not line.startswith(NOISE)]
    very_last = log.strip().splitlines()[-1:] if step else said[-1:]
    causes = [line for line in said if CAUSE.search(line)] or said
    return " / ".join(dict.fromkeys([*causes[-LAST_LINES:], *very_last])) or "its log is empty"
