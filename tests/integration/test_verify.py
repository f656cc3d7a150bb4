"""Built twice, or on two machines: the same, or the names of the files that differ, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import Catalog
from interlock.engine.build.builds import ImageBuilder
from interlock.engine.build.verifying import AGAIN, verify
from interlock.engine.protocol import BuildOptions
from interlock.errors import BuildError
from interlock.results.experiments import State
from tests.integration.toys import toy_tarball, toy_variant


def test_a_build_that_depends_on_the_time_is_named_with_its_file(
    client: Any, project: Path, mirror: Path, tmp_path: Path
) -> None:
    moody = 'mkdir -p "$prefix/share"; date +%s%N > "$prefix/share/mood"'
    toy_variant(project, "toy-moody", "moody.tgz", toy_tarball(mirror, "moody.tgz", configure=moody))
    known, options = catalogs.load(project), BuildOptions(project, tmp_path / "cache")
    said: list[str] = []
    with pytest.raises(BuildError, match=r" local/share/mood\. ") as caught:
        verify(ImageBuilder(known, options, lambda _, step: said.append(step), client), "toy-moody")
    assert caught.value.file.endswith("toy-moody.toml")
    assert "compiling the interpreter" in said[said.index(AGAIN) :], "it was not taken from the engine's cache"


def test_a_source_that_is_nowhere_makes_the_variant_unavailable_by_host_and_error_and_nothing_is_built_twice(
    client: Any, project: Path, tmp_path: Path
) -> None:
    toy_variant(project, "toy-nowhere", "nowhere.tgz", "0" * 64)
    said: list[str] = []
    options = BuildOptions(project, tmp_path / "cache")
    image = verify(
        ImageBuilder(catalogs.load(project), options, lambda _, step: said.append(step), client), "toy-nowhere"
    )
    assert image.outcome.state is State.UNAVAILABLE
    assert image.outcome.reason == "sources.invalid: Could not resolve host: sources.invalid"
    assert AGAIN not in said


def test_what_is_not_built_from_source_is_not_verified_and_is_said_to_be(
    client: Any, catalog: Catalog, options: BuildOptions
) -> None:
    said: list[str] = []
    image = verify(ImageBuilder(catalog, options, lambda _, step: said.append(step), client), "debian-3.13")
    assert image.outcome.state is State.OK
    assert said[-1].startswith("not verified: ")
    assert AGAIN not in said
