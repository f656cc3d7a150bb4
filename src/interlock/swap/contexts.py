"""The images for which a builder can be given another one, with the file as it is: BuildKit's named contexts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from interlock.swap.dockerfile import read_dockerfile
from interlock.swap.image_names import HUB, ImageName, parse_name

# Where Docker Hub has its official images.
OFFICIAL = "library/"


def context_names(text: str, stages: Collection[int], arguments: Mapping[str, str]) -> list[str]:
    """Return the images of these stages of a Dockerfile, if nothing else in it has their names; otherwise nothing.

    BuildKit gives what `--build-context NAME=...` names to each stage from NAME, to what takes files from it, and in
    place of a stage that is called so. Build arguments count in place of the ARGs' defaults.
    """
    dockerfile = read_dockerfile(text, given=arguments)
    images = [stage for stage in dockerfile.stages if stage.parent is None]
    names = list(dict.fromkeys(stage.image for stage in images if stage.index in stages))
    elsewhere = {stage.image for stage in images if stage.index not in stages}
    elsewhere |= {taken.name for stage in dockerfile.stages for taken in stage.taken if taken.stage is None}
    elsewhere |= {stage.name.lower() for stage in dockerfile.stages if stage.name}
    # A variable without a value here may have any there.
    if any("$" in name for name in (*names, *elsewhere)) or {*map(_normal, names)} & {*map(_normal, elsewhere)}:
        return []
    return names


def _normal(image: str) -> ImageName:
    """Return a name as BuildKit compares it: docker.io/library/python:latest is python."""
    name = parse_name(image)
    if name.registry in HUB:
        name = replace(name, registry="", repository=name.repository.removeprefix(OFFICIAL))
    return replace(name, tag="") if name.tag == "latest" else name
