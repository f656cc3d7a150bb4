"""Images go to a real registry and come back: their digests, tags and labels, and what is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.published import FILE, HEAD, Published, written
from interlock.engine.build.sources import tar_of
from interlock.engine.client import HASH_LABEL
from interlock.engine.registry import registry_digest, registry_platforms
from tests.cosign import Cosign
from tests.integration.registries import Registry, push
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
        done = interlock(self.root, *words, environment=mirror, code=fails)
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
        push(self.client, self.base, name)
        self.client.images.remove(name)


@pytest.fixture(scope="module")
def variant(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project with one variant that builds in seconds."""
    name, folder = f"toy-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("team")
    project = copy_project(root, folder / "project", [], [])
    toy_variant(project, name, f"{name}.tar.gz", toy_tarball(folder / "mirror", f"{name}.tar.gz"))
    return project, name


@pytest.fixture
def team(client: Any, variant: tuple[Path, str], registry: Registry) -> Iterator[Team]:
    """Its image is there again for each test: the engine has its steps."""
    project, name = variant
    base = make_toy_base(client).reference
    place, tag = f"{registry.address}/team", f"python:{name}-toys"
    made = Team(client, project, name, registry, place, f"localhost/interlock/{tag}", f"{place}/{tag}", base)
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
        assert f"9.9.1, because {team.place} has no image of 9.9.2" in line.move("pull")
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


@pytest.mark.promise(escapes=True)
def test_an_image_that_is_not_what_its_name_promises_is_not_taken(team: Team) -> None:
    hashed = f"{team.place}/python:hash-{team.image.labels[HASH_LABEL][:12]}"
    team.move("push")
    team.replace(hashed)
    team.forget()
    assert hashed in team.move("pull", fails=BUILD_FAILED)
    assert not team.images()


@pytest.mark.promise(escapes=True)
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


@pytest.fixture
def publisher(team: Team, buildx: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    monkeypatch.setenv("DOCKER_CONFIG", str(buildx))
    yield team
    (team.root / FILE).write_text(HEAD)


def read_published(file: Path) -> Published:
    ((name, table),) = tomllib.loads(file.read_text()).items()
    return Published.model_validate({**table, "name": name})


def other_platform(team: Team, folder: Path, one: Published) -> Published:
    """What another machine recorded, which has an image for arm64 in the registry: a file, and nothing that starts."""
    layer = tar_of({"file": b""}).getvalue()
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    config = json.dumps({"os": "linux", "architecture": "arm64", "config": {}, "rootfs": rootfs}).encode()
    name = f"{team.place}/python:arm64"
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    files = {"config.json": config, "layer.tar": layer, "manifest.json": manifest}
    team.client.images.load(tar_of(files).getvalue())
    digest = push(team.client, name, name)
    team.client.images.remove(name)
    other = one.model_copy(update={"platforms": ["linux/arm64"], "digest": digest})
    folder.mkdir()
    (folder / "published.toml").write_text(written({one.name: other}))
    return other


def test_images_of_two_platforms_are_published_as_one_and_pulled_by_its_digest(
    publisher: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team, amd64, arm64 = publisher, tmp_path / "amd64", tmp_path / "arm64"
    cosign = Cosign(tmp_path / "bin", monkeypatch)
    cosign.accept()
    image = team.image
    team.move("push", "--record", str(amd64))
    assert team.digest() is None
    one = read_published(amd64 / "published.toml")
    assert json.loads((amd64 / f"{team.variant}.cdx.json").read_text())["bomFormat"] == "CycloneDX"
    other = other_platform(team, arm64, one)
    team.run("publish", str(amd64), str(arm64), "--key", "team.key")
    found = read_published(team.root / FILE)
    assert (found.platforms, found.signed, found.tag) == (["linux/amd64", "linux/arm64"], True, one.tag)
    assert sorted(registry_platforms(team.client, team.name)) == found.platforms
    tags = (one.tag, team.variant)  # a toy's tag has no version in it
    assert {team.digest(f"{team.place}/python:{tag}") for tag in tags} == {found.digest}
    python = f"{team.place}/python"
    attested = [
        [command, "--yes", "--key", "team.key", "--type", kind, "--predicate", f"{folder}/{team.variant}{end}", name]
        for folder, name in ((amd64, f"{python}@{one.digest}"), (arm64, f"{python}@{other.digest}"))
        for command, kind, end in (
            ("attest", "cyclonedx", ".cdx.json"),
            ("attest", "slsaprovenance1", ".provenance.json"),
        )
    ]
    signed = ["sign", "--yes", "--key", "team.key", "--recursive", f"{python}@{found.digest}"]
    assert cosign.asked == [*attested, signed]
    team.run("publish", str(amd64), str(arm64))
    assert (len(cosign.asked), read_published(team.root / FILE)) == (5, found)
    team.forget()
    (tmp_path / "Dockerfile").write_text("FROM python:3.13-slim\n")
    team.run("swap", str(tmp_path / "Dockerfile"), "--to", team.variant, "--write")
    assert f"\nFROM {found.reference}\n" in (tmp_path / "Dockerfile").read_text()
    assert found.reference in team.run("pull", team.variant)
    assert (team.image.id, f"{python}@{found.digest}" in team.names()) == (image.id, True)
    team.run("swap", str(tmp_path / "Dockerfile"), "--check", "--to", team.variant)


def test_what_is_not_signed_is_not_recorded_or_recorded_so(
    publisher: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cosign = Cosign(tmp_path / "bin", monkeypatch)
    publisher.move("push", "--record", str(tmp_path / "amd64"))
    assert "no matching signatures" in publisher.run("publish", str(tmp_path / "amd64"), fails=REGISTRY_FAILED)
    assert (publisher.root / FILE).read_text() == HEAD
    asked = len(cosign.asked)
    publisher.run("publish", str(tmp_path / "amd64"), "--unsigned")
    assert (len(cosign.asked), read_published(publisher.root / FILE).signed) == (asked, False)
    cosign.accept()
    publisher.run("publish", str(tmp_path / "amd64"))
    assert read_published(publisher.root / FILE).signed


def test_a_published_image_of_other_files_is_not_taken(team: Team, tmp_path: Path) -> None:
    team.move("push", "--record", str(tmp_path / "amd64"))
    one = read_published(tmp_path / "amd64/published.toml")
    team.replace(team.name)
    other = one.model_copy(update={"digest": team.digest()})
    (team.root / FILE).write_text(written({one.name: other}))
    team.forget()
    assert f"@{other.digest}" in team.run("pull", team.variant, fails=BUILD_FAILED)
    assert not team.images()
    gone = one.model_copy(update={"digest": f"sha256:{'0' * 64}"})
    (team.root / FILE).write_text(written({one.name: gone}))
    assert gone.digest in team.run("pull", team.variant, fails=REGISTRY_FAILED)
    (team.root / FILE).write_text(HEAD)
