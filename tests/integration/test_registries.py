"""Images go to a real registry and come back: their digests, tags and labels, and what is refused."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.client import HASH_LABEL
from interlock.engine.registry import registry_digest, registry_platforms
from tests.cosign import Cosign
from tests.integration.registries import Registry, registry
from tests.integration.toys import (
    NOWHERE,
    add_channel,
    copy_project,
    interlock,
    make_toy_base,
    toy_of_channel,
    toy_tarball,
    toy_variant,
)

pytestmark = pytest.mark.slow

REGISTRY_FAILED, BUILD_FAILED = 4, 5


@dataclass(frozen=True)
class Team:
    """A project with one variant that builds in seconds, and a registry that it is pushed to."""

    client: Any
    root: Path
    variant: str
    registry: Registry
    place: str  # the registry and the team's namespace
    tag: str  # of the image here
    name: str  # of the image there
    base: str

    @property
    def image(self) -> Any:
        return self.client.images.get(self.tag)

    def run(self, *words: str, fails: int = 0) -> str:
        """What a command says that ends with 0, or the one sentence of one that fails."""
        mirror = {"INTERLOCK_SOURCE_MIRROR": str(self.root.parent / "mirror")}
        done = interlock(self.root, *words, environment=mirror)
        assert done.returncode == fails, done.stdout + done.stderr
        return done.stderr if fails else done.stdout

    def move(self, how: str, *words: str, fails: int = 0) -> str:
        return self.run(how, self.variant, "--registry", self.place, *words, fails=fails)

    def digest(self, name: str = "") -> str | None:
        return registry_digest(self.client, name or self.name)

    def images(self) -> list[Any]:
        return list(self.client.images.list(filters={"label": f"interlock.variant={self.variant}"}))

    def forget(self) -> None:
        """No image of the variant is here any more, as on a colleague's machine."""
        for image in self.images():
            self.client.images.remove(image.id, force=True)

    def names(self) -> set[str]:
        return {*self.image.tags, *self.image.attrs["RepoDigests"]}

    def replace(self, name: str) -> None:
        """Somebody else pushes another image by this name, which this engine does not keep."""
        if name in self.names():
            self.client.images.remove(name)
        self.client.images.get(self.base).tag(*name.rsplit(":", 1))
        self.client.api.push(*name.rsplit(":", 1))
        self.client.images.remove(name)


@pytest.fixture(scope="module")
def variant(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project with one variant that builds in seconds."""
    name, folder = f"toy-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("team")
    project = copy_project(root, folder / "project", [], [])
    toy_variant(project, name, f"{name}.tar.gz", toy_tarball(folder / "mirror", f"{name}.tar.gz"))
    return project, name


@pytest.fixture
def team(client: Any, variant: tuple[Path, str], tmp_path: Path) -> Iterator[Team]:
    """Its image is there again for each test: the engine has its steps."""
    project, name = variant
    base = make_toy_base(client).reference
    with registry(tmp_path / "registry") as started:
        place, tag = f"{started.address}/team", f"python:{name}-toys"
        made = Team(client, project, name, started, place, f"localhost/interlock/{tag}", f"{place}/{tag}", base)
        made.run("build", name)
        yield made
        made.forget()
        for tag in client.images.get(base).tags:
            if tag.startswith(place):
                client.images.remove(tag)


def test_an_image_comes_back_as_it_was_and_is_named_by_its_digest(team: Team, tmp_path: Path) -> None:
    image = team.image
    assert "pushed" in team.move("push")
    digest = str(team.digest())
    assert team.digest(f"{team.place}/python:hash-{image.labels[HASH_LABEL][:12]}") == digest
    assert registry_platforms(team.client, team.name) == ["linux/amd64"]
    names = {team.tag, team.name, f"{team.place}/python@{digest}"}
    assert team.names() == names
    assert f"FROM {team.name}@{digest}" in team.move("push")
    (tmp_path / "Dockerfile").write_text("FROM python:3.13-slim\n")
    assert f"+FROM {team.name}@{digest}\n" in team.run("swap", str(tmp_path), "--to", team.variant, "--write")
    team.forget()
    assert "pulled" in team.move("pull")
    assert (team.image.id, team.image.labels, team.names()) == (image.id, image.labels, names)
    team.run("swap", str(tmp_path), "--check", "--to", team.variant)
    team.forget()
    out = team.run("build", team.variant, "--cache-from", team.place, "--record", str(tmp_path / "record"))
    assert f"pulled from {team.place}" in out
    (built,) = json.loads((tmp_path / "record/builds.json").read_text())["builds"]
    assert (built["pulled_from"], built["reused"], built["image_id"]) == (team.place, True, image.id)
    assert built["digest"] == f"{team.place}/python@{digest}"


def test_an_older_release_is_pulled_and_said_where_the_registry_has_no_newer(team: Team, tmp_path: Path) -> None:
    root, name = tmp_path / "project", "toy-line"
    shutil.copytree(team.root, root)
    add_channel(root, tmp_path / "upstream", NOWHERE)
    toy_of_channel(root, name)
    (tmp_path / "mirror").mkdir()
    shutil.copy(tmp_path / "upstream/toy-9.9.1.tgz", tmp_path / "mirror")
    tag = f"python:{name}-toys"
    line = replace(team, root=root, variant=name, tag=f"localhost/interlock/{tag}", name=f"{team.place}/{tag}")
    try:
        assert "9.9.1, because 9.9.2 can be had nowhere" in line.run("build", name)
        line.move("push")
        line.forget()
        assert "9.9.1, because 9.9.2 can be had nowhere" in line.move("pull")
        assert line.image.labels["org.opencontainers.image.version"] == "9.9.1"
    finally:
        line.forget()


def test_a_tag_that_somebody_moved_is_pushed_over_only_by_force(team: Team) -> None:
    team.move("push")
    digest = team.digest()
    team.replace(team.name)
    moved = team.digest()
    assert str(moved) in team.move("push", fails=REGISTRY_FAILED)
    assert team.digest() == moved != digest
    team.move("push", "--force")
    assert team.digest() == digest


def test_an_image_that_is_not_what_its_name_promises_is_not_taken(team: Team) -> None:
    hashed = f"{team.place}/python:hash-{team.image.labels[HASH_LABEL][:12]}"
    team.move("push")
    team.replace(hashed)
    team.forget()
    assert hashed in team.move("pull", fails=BUILD_FAILED)
    assert not team.images()


def test_a_signature_that_cosign_does_not_find_keeps_an_image_out(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cosign = Cosign(tmp_path / "bin", monkeypatch)
    team.move("push")
    team.forget()
    assert "no matching signatures" in team.move("pull", "--verify", "team.pub", fails=REGISTRY_FAILED)
    assert not team.images()
    cosign.accept()
    team.move("pull", "--verify", "team.pub")
    assert cosign.asked == [["verify", "--key", "team.pub", f"{team.place}/python@{team.digest()}"]] * 2


def test_a_registry_that_is_not_there_is_told_with_its_name(team: Team) -> None:
    team.registry.stop()
    assert team.registry.address in team.move("push", fails=REGISTRY_FAILED)
    assert team.names() == {team.tag}
