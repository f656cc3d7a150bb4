"""Trains a variant: builds it so that it counts, lets it do the work of its training, and keeps what was counted."""

from __future__ import annotations

from dataclasses import dataclass

from docker import DockerClient

from interlock.catalog.variants import Variant
from interlock.engine.build.image import PROFILE_STAGE, ImagePlan, build_image
from interlock.engine.protocol import BuildOptions, OnStep
from interlock.engine.run.archives import image_archive
from interlock.errors import BuildError

# Where the stage `profile` of a Dockerfile keeps the results of a training (dockerfiles/optimise.sh).
FOLDER = "/profile"
MOST_BYTES = 64 << 20
LOOK = "See the build's log in the cache's folder logs/."


@dataclass(frozen=True)
class Training:
    """What a training of a variant left: the archive with the counts, and the compiler and machine that it serves."""

    variant: Variant
    packed: bytes
    compiler: str
    machine: str


def train(client: DockerClient, plan: ImagePlan, options: BuildOptions, on_step: OnStep) -> Training:
    """Train what the plan would build; BuildError if that fails, SourceUnavailableError without its source."""
    image_id = build_image(client, plan, options, on_step, PROFILE_STAGE)
    try:
        with image_archive(client, image_id, FOLDER, MOST_BYTES, "train") as tar:
            files = {name: tar.extractfile(f"profile/{name}") for name in ("profile.tar.xz", "trained-with")}
            packed, trained_with = (file.read() if file else b"" for file in files.values())
    except KeyError as error:
        raise BuildError(file=plan.variant.file, found=f"its training left no profile: {error}", todo=LOOK) from None
    finally:
        client.images.remove(image_id, force=True)
    compiler, _, machine = trained_with.decode().strip().rpartition(", ")
    return Training(plan.variant, packed, compiler, machine)
