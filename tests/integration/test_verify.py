"""Built twice from nothing: the names of the files that differ, and no others; equal layers are in tests/proofs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import Catalog
from interlock.engine.build.builds import AGAIN, ImageBuilder, verify
from interlock.engine.protocol import BuildOptions
from interlock.errors import BuildError
from interlock.results.experiments import State
from tests.integration.toys import toy_tarball, toy_variant


def test_a_build_that_depends_on_the_time_is_named_with_its_file(
    client: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moody = 'mkdir -p "$prefix/share"; date +%s%N > "$prefix/share/mood"'
    toy_variant(project, "toy-moody", "moody.tgz", toy_tarball(tmp_path / "mirror", "moody.tgz", configure=moody))
    monkeypatch.setenv("INTERLOCK_SOURCE_MIRROR", str(tmp_path / "mirror"))
    known, options = catalogs.load(project), BuildOptions(project, tmp_path / "cache")
    said: list[str] = []
    with pytest.raises(BuildError, match=r" local/share/mood\. ") as caught:
        verify(ImageBuilder(client, known, options, lambda _, step: said.append(step)), "toy-moody")
    assert caught.value.file.endswith("toy-moody.toml")
    assert "compiling the interpreter" in said[said.index(AGAIN) :], "it was not taken from the engine's cache"
    client.images.remove(known.variants["toy-moody"].image_tag, force=True)


def test_what_is_not_compiled_here_is_not_built_twice(client: Any, project: Path, tmp_path: Path) -> None:
    toy_variant(project, "toy-nowhere", "nowhere.tgz", "0" * 64)
    said: list[str] = []
    options = BuildOptions(project, tmp_path / "cache")
    image = verify(
        ImageBuilder(client, catalogs.load(project), options, lambda _, step: said.append(step)), "toy-nowhere"
    )
    assert image.outcome.state is State.UNAVAILABLE
    assert AGAIN not in said


def test_what_is_not_built_from_source_is_not_verified_and_is_said_to_be(
    client: Any, catalog: Catalog, options: BuildOptions
) -> None:
    said: list[str] = []
    image = verify(ImageBuilder(client, catalog, options, lambda _, step: said.append(step)), "debian-3.13")
    assert image.outcome.state is State.OK
    assert said[-1].startswith("not verified: ")
    assert AGAIN not in said
