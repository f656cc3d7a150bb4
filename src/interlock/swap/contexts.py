"""The images that BuildKit's named contexts can replace without a change of the file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from interlock.swap.dockerfile import read_dockerfile
from interlock.swap.image_names import HUB, ImageName, parse_name

# Docker Hub's namespace of official images.
OFFICIAL = "library/"


def context_names(text: str, stages: Collection[int], arguments: Mapping[str, str]) -> list[str]:
    """Return the images of these stages of a Dockerfile, if nothing else in it has their names; otherwise nothing.

    BuildKit uses what `--build-context NAME=...` names for each stage from NAME, for what takes files from NAME, and in
    place of a stage called NAME. Build arguments count in place of the ARGs' defaults.
    """
    dockerfile = read_dockerfile(text, given=arguments)
    images = [stage for stage in dockerfile.stages if stage.parent is None]
    names = list(dict.fromkeys(stage.image for stage in images if stage.index in stages))
    elsewhere = {stage.image for stage in images if stage.index not in stages}
    elsewhere |= {taken.name for stage in dockerfile.stages for taken in stage.taken if taken.stage is None}
    elsewhere |= {stage.name.lower() for stage in dockerfile.stages if stage.name}
    # A variable without a value here may have any value in the build.
    if any("$" in name for name in (*names, *elsewhere)) or {*map(_normal, names)} & {*map(_normal, elsewhere)}:
        return []
    return names


def _normal(image: str) -> ImageName:
    """Return a name as BuildKit compares it: docker.io/library/python:latest is python."""
    name = parse_name(image)
    if name.registry in HUB:
        name = replace(name, registry="", repository=name.repository.removeprefix(OFFICIAL))
    return replace(name, tag="") if name.tag == "latest" else name
