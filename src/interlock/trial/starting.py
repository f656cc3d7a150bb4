"""A changed Dockerfile, built and started once before anybody relies on it: a trial without tests and load."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from interlock.catalog.types import slug
from interlock.engine.docker import DockerEngine
from interlock.engine.run import trials
from interlock.engine.run.trials import Recipe, Workshop

# A service that cannot import what it needs has said so by then.
WATCHED_S = 5.0


def build_and_start(
    engine: DockerEngine, dockerfile: Path, text: str, logs: Path, on_step: Callable[[str], None]
) -> str:
    """Build a text in the place of a Dockerfile, in its folder, and start it; return how it went on.

    BuildError if it does not build, WorkloadError if it ends with an error. Nothing of it stays.
    """
    owner = f"swap-{slug(dockerfile.name.lower())}-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="interlock-swap-") as folder:
        shop = Workshop(engine.client, engine.address, owner, Path(folder), logs, trials.find_builder())
        image = trials.build_user_image(shop, Recipe(dockerfile.parent, dockerfile), "swapped", text, on_step)
        try:
            return trials.start_alone(engine.client, owner, image.image_id, WATCHED_S)
        finally:
            engine.remove_untagged([image.image_id, *image.left])
