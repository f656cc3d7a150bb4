"""Debian's package of buildx, in an image, as Debian 12 has none."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from interlock.catalog.project import Catalog
from interlock.engine.build.base import ensure_base
from interlock.engine.build.image import build_aside
from interlock.engine.protocol import BuildOptions

DOCKERFILE = b"""
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends docker-buildx
"""
BUILDX = "/usr/libexec/docker/cli-plugins/docker-buildx"


def config_with_buildx(client: Any, catalog: Catalog, options: BuildOptions, folder: Path) -> Path:
    """Make a folder a configuration of docker's command that has the plugin, and return it."""
    (folder / "cli-plugins").mkdir()
    base = ensure_base(client, catalog.bases["trixie"], options.cache, print)
    image = build_aside(client, {"Dockerfile": DOCKERFILE}, "buildx", "Dockerfile", buildargs={"BASE": base.reference})
    made = client.containers.create(image)
    subprocess.run(["docker", "cp", f"{made.id}:{BUILDX}", str(folder / "cli-plugins")], check=True)
    made.remove()
    return folder
