"""Builder images: a variant's interpreter beside the tools that its image must not have, to build packages for it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from docker.errors import APIError, ImageNotFound

from interlock.engine.context import content_hash, read_context
from interlock.engine.image import HASH_LABEL, build_aside, find_image
from interlock.model import Base, Built, SourceKind, Variant

# setuptools-scm and its like ask git for a project's version, and pip fetches what a git URL names.
GIT = "git"
INSTALL = "RUN apt-get update && apt-get install -y --no-install-recommends {} && rm -rf /var/lib/apt/lists/*"
# What is built from a source has all of itself in /usr/local: it goes onto the stage that all variants share.
ON_TOOLCHAIN = f"""\
ARG TOOLCHAIN
ARG VARIANT
FROM ${{VARIANT}} AS variant
FROM ${{TOOLCHAIN}}
{INSTALL.format(GIT)}
COPY --from=variant /usr/local /usr/local
RUN ldconfig
ENV LANG=C.UTF-8 PATH=/usr/local/bin:$PATH
"""
ON_IMAGE = f"""\
ARG VARIANT
FROM ${{VARIANT}}
USER root
{INSTALL.format("{}")}
"""


def ensure_builder(client: Any, root: Path, image: Built, variant: Variant, base: Base) -> str:
    """The id of the builder of a variant's image, built if there is none of this very image."""
    context = read_context(root / "dockerfiles" / variant.name) if variant.kind is SourceKind.SOURCE else {}
    dockerfile = ON_TOOLCHAIN if context else ON_IMAGE.format(" ".join([*base.build_packages, GIT]))
    known_by = content_hash({**context, "builder": dockerfile.encode()}, image.image_id, image.profile)
    tag = f"interlock/builder:{image.tag.rpartition(':')[2]}"
    found = find_image(client, tag, known_by)
    if found is not None:
        return str(found.id)
    arguments = {"VARIANT": image.image_id, **_toolchain(client, context, image)}
    replaced = _id_of(client, tag)
    image_id = build_aside(
        client,
        {"Dockerfile": dockerfile.encode()},
        f"the builder of {variant.name}",
        f"dockerfiles/{variant.name}/Dockerfile",
        buildargs=arguments,
        labels={HASH_LABEL: known_by},
        tag=tag,
    )
    if replaced not in {None, image_id}:
        with suppress(APIError):  # something still uses it
            client.images.remove(replaced)
    return image_id


def _toolchain(client: Any, context: dict[str, bytes], image: Built) -> dict[str, str]:
    """The shared stage, from the engine's cache if the variant was built here."""
    if not context:
        return {}
    arguments = {"BASE": image.base.reference} if image.base else {}
    file = f"dockerfiles/{image.variant}/Dockerfile"
    return {
        "TOOLCHAIN": build_aside(client, context, "the toolchain stage", file, buildargs=arguments, target="toolchain")
    }


def _id_of(client: Any, tag: str) -> str | None:
    try:
        return str(client.images.get(tag).id)
    except ImageNotFound:
        return None
