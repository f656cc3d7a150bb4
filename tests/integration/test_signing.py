"""What is pushed and saved with a key is signed, and a key that is demanded lets nothing else through."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ImageNotFound

from interlock.engine.build.base import local_tag
from interlock.engine.registry.api import index_of
from interlock.engine.registry.keys import read_public_key, read_signing_key
from interlock.engine.registry.names import Registry as Named
from interlock.engine.registry.provenance import BUILD_TYPE
from interlock.engine.registry.signatures import ImageByDigest, is_signed, opened, sign
from interlock.engine.registry.transfer import UNSIGNED, pull_base, push_base
from interlock.errors import SignatureError
from tests.builders import make_base, make_built
from tests.integration.test_registries import REGISTRY_FAILED, Team, made_base, team, with_base
from tests.signing import make_key

__all__ = ["made_base", "team", "with_base"]
NOT_SIGNED = 1


@pytest.fixture
def ours(tmp_path: Path) -> tuple[str, str]:
    private, public = make_key(tmp_path, "ours")
    return str(private), str(public)


@pytest.fixture
def others(tmp_path: Path) -> tuple[str, str]:
    private, public = make_key(tmp_path, "others")
    return str(private), str(public)


def place_of(team: Team, digest: str) -> ImageByDigest:
    return ImageByDigest(team.api, team.registry.address, "team/python", digest)


def test_a_signed_image_is_pulled_by_whoever_demands_its_key(
    team: Team, ours: tuple[str, str], others: tuple[str, str]
) -> None:
    image = team.image
    team.push("--key", ours[0])
    digest = team.there().digest
    team.forget()
    said = team.fails(REGISTRY_FAILED, "pull", team.variant, "--registry", team.place, "--key", others[1])
    assert f"{team.place}/python@{digest}" in said
    assert team.local_names() == set()
    assert "pulled" in team.must("pull", team.variant, "--registry", team.place, "--key", ours[1])
    assert team.image.id == image.id
    assert team.local_names() == {team.tag, team.name, f"{team.place}/python@{digest}"}


def test_an_unsigned_image_is_not_pulled_until_it_is_pushed_with_a_key(team: Team, ours: tuple[str, str]) -> None:
    team.push()
    demanded = ["pull", team.variant, "--registry", team.place, "--key", ours[1]]
    names = team.local_names()
    assert "no signature" in team.fails(REGISTRY_FAILED, *demanded)
    assert team.local_names() == names
    assert "unchanged" in team.push("--key", ours[0])
    team.forget()
    assert "pulled" in team.must(*demanded)


def test_what_is_not_signed_is_built_instead(team: Team, ours: tuple[str, str]) -> None:
    team.push()
    team.forget()
    out = team.must("build", team.variant, "--cache-from", team.place, "--key", ours[1])
    assert f"not taken from {team.place}" in out
    assert f"{team.variant}  ok" in out


def test_the_statement_says_what_the_image_was_made_of(team: Team, ours: tuple[str, str]) -> None:
    team.push("--key", ours[0])
    digest = team.there().digest
    tag = team.api.manifest("team/python", place_of(team, digest).tag("att"))
    assert tag is not None
    (layer,) = json.loads(tag.content)["layers"]
    said = opened(team.api.blob("team/python", layer["digest"]), read_public_key(Path(ours[1])))
    assert said is not None
    found = json.loads(said)
    assert found["subject"] == [{"name": f"{team.place}/python", "digest": {"sha256": digest[len("sha256:") :]}}]
    definition = found["predicate"]["buildDefinition"]
    assert definition["buildType"] == BUILD_TYPE
    assert definition["externalParameters"] == {"variant": team.variant, "profile": "standard"}
    assert definition["internalParameters"]["contentHash"] == team.image.labels["interlock.hash"]
    sums = {one["name"]: one["digest"]["sha256"] for one in definition["resolvedDependencies"] if "digest" in one}
    variant, source = f"variants/{team.variant}.toml", f"{team.variant}.tar.gz"
    for name, path in ((variant, team.root / variant), (source, team.root.parent / "mirror" / source)):
        assert sums[name] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert f"dockerfiles/{team.variant}/Dockerfile" in sums


def test_a_check_of_a_swapped_file_demands_the_key(
    team: Team, ours: tuple[str, str], others: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM python:3.13-slim\n")
    team.push()
    team.must("swap", str(file), "--to", team.variant, "--write")
    check = ["swap", str(file), "--check", "--to", team.variant, "--key"]
    done = team.run(*check, ours[1])
    assert done.code == NOT_SIGNED
    assert f"{file}:2: " in done.err
    assert "no signature" in done.err
    team.push("--key", ours[0])
    team.must(*check, ours[1])
    assert team.run(*check, others[1]).code == NOT_SIGNED
    assert team.run("swap", str(file), "--to", team.variant, "--key", ours[1]).code == 2


def test_a_check_of_a_name_that_no_registry_has_finds_no_signature(
    team: Team, ours: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM python:3.13-slim\n")
    team.must("swap", str(file), "--to", team.variant, "--write", "--local")
    team.must("swap", str(file), "--check")
    done = team.run("swap", str(file), "--check", "--key", ours[1])
    assert done.code == NOT_SIGNED
    assert f"{file}:2: {team.tag} " in done.err


def test_an_index_is_signed_only_if_all_in_it_are(team: Team, ours: tuple[str, str]) -> None:
    """The other platform's image has the same files here: what an index names is not pulled."""
    team.push()
    mine = team.there().entries[0]
    manifest = team.api.manifest("team/python", mine["digest"])
    assert manifest is not None
    other = type(manifest)(manifest.media_type, manifest.content + b" ")
    team.api.put("team/python", other.digest, other)
    entry = {**mine, "digest": other.digest, "size": len(other.content), "platform": {"os": "a", "architecture": "b"}}
    index = index_of([mine, entry])
    team.api.put("team/python", f"{team.variant}-toys", index)
    public = read_public_key(Path(ours[1]))
    assert UNSIGNED.format("a/b") in team.push("--key", ours[0])
    assert is_signed(place_of(team, mine["digest"]), public)
    assert not is_signed(place_of(team, index.digest), public)
    sign(place_of(team, other.digest), read_signing_key(Path(ours[0])))
    assert "(" not in team.push("--key", ours[0])
    assert is_signed(place_of(team, index.digest), public)
    team.edit()
    team.build()
    assert "index of" in team.push("--key", ours[0], "--force")
    assert is_signed(place_of(team, team.there().digest), public)


def test_a_base_that_the_key_has_not_signed_is_not_taken(
    client: Any, team: Team, made_base: Any, ours: tuple[str, str]
) -> None:
    image_id = client.images.get(local_tag(made_base)).id
    described = make_base(reference=local_tag(made_base), image_id=image_id)
    built = make_built("toy").model_copy(update={"base": described})
    address = Named(team.registry.address, "team", read_public_key(Path(ours[1])))
    push_base(client, built, address, lambda *_: None)
    client.images.remove(local_tag(made_base))
    with pytest.raises(SignatureError):
        pull_base(client, made_base, address, lambda *_: None)
    assert pull_base(client, made_base, Named(team.registry.address, "team"), lambda *_: None) is not None
    push_base(client, built, address, lambda *_: None, read_signing_key(Path(ours[0])))
    client.images.remove(local_tag(made_base))
    found = pull_base(client, made_base, address, lambda *_: None)
    assert found is not None
    assert found.image_id == image_id


@pytest.fixture
def archive(team: Team, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "images.tar"
    with suppress(ImageNotFound):
        team.client.images.remove(team.tag)


def test_an_archive_is_loaded_by_its_signature(
    team: Team, archive: Path, ours: tuple[str, str], others: tuple[str, str]
) -> None:
    image = team.image
    team.must("save", str(archive), team.variant, "--key", ours[0])
    team.client.images.remove(team.tag)
    team.fails(REGISTRY_FAILED, "load", str(archive), "--key", others[1])
    assert team.local_names() == set()
    assert team.tag in team.must("load", str(archive), "--key", ours[1])
    assert team.image.id == image.id
    with tarfile.open(archive, "a") as tar:
        tar.addfile(tarfile.TarInfo("more"))
    team.fails(REGISTRY_FAILED, "load", str(archive), "--key", ours[1])
    archive.with_name("images.tar.sig").unlink()
    assert "images.tar.sig is missing" in team.fails(REGISTRY_FAILED, "load", str(archive), "--key", ours[1])


def test_a_key_that_cannot_sign_is_said_before_anything_is_pushed(team: Team, ours: tuple[str, str]) -> None:
    said = team.fails(3, "push", team.variant, "--registry", team.place, "--key", ours[1])
    assert ours[1] in said
    assert team.look_there() is None
