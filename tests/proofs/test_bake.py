"""The real buildx reads dockerfiles/docker-bake.json as it is meant.

It runs in a container, as Debian 12 has no package of it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import rendering
from interlock.catalog.project import Catalog
from interlock.engine.build.base import ensure_base
from interlock.engine.build.image import build_aside
from interlock.engine.protocol import BuildOptions

DOCKERFILE = b"""
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends docker-buildx
"""
# The plugin is a program of its own; without an engine it still says what it would build.
BUILDX = "/usr/libexec/docker/cli-plugins/docker-buildx"
PRINT = f"cd /tmp && cat > bake.json <<'END'\n{{text}}END\n{BUILDX} bake --print -f bake.json"


def image_with_buildx(client: Any, catalog: Catalog, options: BuildOptions) -> str:
    """The id of an image that has Debian's package of buildx."""
    base = ensure_base(client, catalog.bases["trixie"], options.cache, print)
    return build_aside(client, {"Dockerfile": DOCKERFILE}, "buildx", "Dockerfile", buildargs={"BASE": base.reference})


def config_with_buildx(client: Any, catalog: Catalog, options: BuildOptions, folder: Path) -> Path:
    """Make a folder a configuration of docker's command that has the plugin, and return it."""
    (folder / "cli-plugins").mkdir()
    made = client.containers.create(image_with_buildx(client, catalog, options))
    subprocess.run(["docker", "cp", f"{made.id}:{BUILDX}", str(folder / "cli-plugins")], check=True)
    made.remove()
    return folder


@pytest.fixture(scope="module")
def baked(client: Any, catalog: Catalog, options: BuildOptions) -> Any:
    """Asks buildx, with these variables in its environment."""
    image = image_with_buildx(client, catalog, options)

    def ask(**variables: str) -> dict[str, Any]:
        command = ["sh", "-c", PRINT.format(text=rendering.bake_file(catalog))]
        said = client.containers.run(image, command, environment=variables, network_mode="none", remove=True)
        answer: dict[str, Any] = json.loads(said)
        return answer

    return ask


def groups(catalog: Catalog) -> Any:
    return json.loads(rendering.bake_file(catalog))["group"]


def test_the_committed_file_is_the_one_that_is_asked_about(root: Path, catalog: Catalog) -> None:
    assert (root / rendering.BAKE_FILE).read_text(encoding="utf-8") == rendering.bake_file(catalog)


def test_buildx_builds_every_variant_by_default_with_local_tags_and_no_cache(baked: Any, catalog: Catalog) -> None:
    printed = baked()
    assert printed["target"].keys() == set(groups(catalog)["default"]["targets"])
    for name, target in printed["target"].items():
        assert target["tags"] == [catalog.variants[target["context"].rsplit("/", 1)[-1]].image_tag], name
        assert target["platforms"] == ["linux/amd64", "linux/arm64"]
        assert not {"cache-from", "cache-to"} & target.keys()


def test_buildx_takes_registry_and_cache_from_the_environment(baked: Any, catalog: Catalog) -> None:
    printed = baked(REGISTRY="registry.example/team", CACHE="registry.example/cache")
    assert printed["target"].keys() == set(groups(catalog)["default"]["targets"])
    target = printed["target"]["cpython-3_14t"]
    assert target["tags"] == ["registry.example/team/interlock/python:3.14t-trixie"]
    assert target["cache-to"] == ["type=registry,ref=registry.example/cache:cpython-3_14t,mode=max"]
    assert target["cache-from"][0] == "type=registry,ref=registry.example/cache:cpython-3_14t"
