"""Asks an image what interlock.contract wants to know: runs inside/contract.py in it and reads its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

from interlock import contract
from interlock.engine.cells import remove
from interlock.errors import EngineError
from interlock.model import Variant

PROGRAM = files("interlock").joinpath("inside/contract.py").read_text(encoding="utf-8")
# Whichever name the interpreter still has: that one is missing is for the program to say.
START = 'exec "$(command -v python || command -v python3 || command -v python2)" -c "$0"'
DEADLINE_S = 300  # pip and venv without byte code take seconds; minutes where builds fill every core


@dataclass(frozen=True)
class Run:
    """A way in which people start a container of the image."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


# As it comes, and as a cluster with a strict policy starts it: nobody's user, and nothing to write to but /tmp.
RUNS = (
    Run("as the image is"),
    Run(
        "as user 1000 on a read-only root",
        {"user": "1000:1000", "read_only": True, "tmpfs": {"/tmp": "exec"}, "environment": {"HOME": "/tmp"}},  # noqa: S108
    ),
)


def examine(client: Any, variant: Variant, image_id: str) -> list[contract.Finding]:
    """Every finding about the image; EngineError if the engine has no such image or cannot run it."""
    try:
        attributes = client.images.get(image_id).attrs
    except ImageNotFound:
        raise EngineError(
            key=variant.name, found=f"there is no image {image_id}", todo=f"Run `interlock build {variant.name}`."
        ) from None
    config = contract.parse_config(attributes["Config"])
    runs = {run.name: contract.parse_answers(_answer(client, image_id, run)) for run in RUNS}
    return contract.judge(variant, config, runs)


def _answer(client: Any, image_id: str, run: Run) -> str:
    """What the program printed; less than all of it if the interpreter broke down or was too slow."""
    try:
        container = client.containers.create(
            image_id,
            ["sh", "-c", START, PROGRAM],
            entrypoint=[],
            network_mode="none",
            labels={"interlock.proof": "1"},
            **run.options,
        )
        try:
            container.start()
            with suppress(RequestException):  # at the deadline, what was said until then counts
                container.wait(timeout=DEADLINE_S)
            return str(container.logs(stdout=True, stderr=False).decode(errors="replace"))
        finally:
            remove(container)
    except DockerException as error:
        raise EngineError(found=f"the image cannot be run {run.name}: {error}", todo="See the engine's log.") from None
