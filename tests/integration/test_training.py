"""A toy is trained in the real engine: without a profile its build trains itself and says so, with one it does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog import trained
from interlock.engine.build import builds
from interlock.engine.build.builds import ImageBuilder
from interlock.engine.protocol import BuildOptions
from interlock.results.experiments import Built, State
from tests.integration.resources import run
from tests.integration.toys import MAKEFILE, interlock, toy_tarball, toy_variant

TRAINED = """
profile-run-stamp:
\techo "# counted $(PROFILE_TASK)" > a.gcda
\ttouch $@
profile-opt:
\tcat a.gcda >> python9
"""
# build.sh reads what a compiler calls itself: of the toys' base make can be asked.
OPTIMISED = """environment = { CC = "make" }
[optimise]
configure = ["--enable-optimizations"]
training = "-m toys"
"""
TOY = "toy-trained"


@pytest.fixture
def trained_toy(project: Path, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a toy that follows a profile, and none that is stored."""
    makes = ": > Makefile.pre; mkdir -p Modules"
    packed = toy_tarball(mirror, "trained.tgz", configure=makes, makefile=MAKEFILE + TRAINED)
    toy_variant(project, TOY, "trained.tgz", packed)
    with (project / f"variants/{TOY}.toml").open("a") as file:
        file.write(OPTIMISED)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return project


def build(client: Any, project: Path, cache: Path) -> tuple[Built, list[str]]:
    """Return what was built, and its steps."""
    said: list[str] = []
    builder = ImageBuilder(
        catalogs.load(project), BuildOptions(project, cache), lambda _, step: said.append(step), client
    )
    (built,) = builds.build(builder, [TOY])
    assert built.outcome.state is State.OK, built.outcome.reason
    return built, said


def label_of(client: Any, built: Built) -> str:
    return str(client.images.get(built.image_id).labels["interlock.training"])


def interpreter_of(client: Any, built: Built) -> str:
    return run(client, built.image_id, "/usr/bin/cat", "/usr/local/bin/python9")


def test_a_build_without_a_profile_trains_itself_and_says_so(client: Any, trained_toy: Path, tmp_path: Path) -> None:
    built, said = build(client, trained_toy, tmp_path / "cache")
    assert [step for step in said if step.endswith(builds.TRAINS)]
    assert (built.training, label_of(client, built)) == ("here", "here")
    assert interpreter_of(client, built).endswith("# counted -m toys")


def test_what_was_trained_once_is_built_by_it_everywhere(client: Any, trained_toy: Path, tmp_path: Path) -> None:
    interlock(trained_toy, "train", TOY)
    (profile,) = trained.load(trained_toy).values()
    assert (profile.version, profile.training) == ("9.9.1", "-m toys")
    built, said = build(client, trained_toy, tmp_path / "cache")
    assert not [step for step in said if step.startswith("training") or step.endswith(builds.TRAINS)]
    assert (built.training, label_of(client, built)) == ("stored", "stored")
    assert interpreter_of(client, built).endswith("# counted -m toys")
    again, _ = build(client, trained_toy, tmp_path / "cache")
    assert (again.reused, again.training) == (True, "stored")
    assert "nothing" in interlock(trained_toy, "train", TOY).stdout, "it has a profile"


def test_a_profile_of_another_compiler_is_not_followed(client: Any, trained_toy: Path, tmp_path: Path) -> None:
    interlock(trained_toy, "train", TOY)
    (path,) = (trained_toy / trained.FOLDER).glob("*.toml")
    path.write_text(re.sub(r'compiler = "GNU Make [^"]*"', 'compiler = "GNU Make 0.1"', path.read_text()))
    interlock(trained_toy, "render")
    built, said = build(client, trained_toy, tmp_path / "cache")
    assert [step for step in said if "no profile is stored for GNU Make" in step]
    assert (built.training, label_of(client, built)) == ("here", "here")
