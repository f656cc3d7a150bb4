"""Images go to a real registry and come back: tags, digests, labels, platforms, logins, and all that can go wrong."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from docker.errors import APIError, ImageNotFound

from interlock.catalog import project as catalogs
from interlock.catalog.variants import Base
from interlock.cli import main
from interlock.engine.build.base import LABEL, local_tag
from interlock.engine.build.builds import ImageBuilder
from interlock.engine.build.image import id_of_tag
from interlock.engine.build.sources import tar_of
from interlock.engine.build.steps import in_few_steps
from interlock.engine.client import HASH_LABEL
from interlock.engine.protocol import BuildOptions
from interlock.engine.registry.api import Api, Entry, RemoteImage, Tagged, index_of, read_image, read_tag
from interlock.engine.registry.names import Registry as Named
from interlock.engine.registry.refusals import MEANINGS
from interlock.engine.registry.transfer import pull_base, push_base
from tests.apart import command
from tests.builders import ROOT, make_base, make_built
from tests.integration import registries
from tests.integration.registries import Registry
from tests.integration.toys import ANSWERS, copy_project, make_toy_base, toy_tarball, toy_variant

REGISTRY_FAILED, BUILD_FAILED, BAD_USAGE = 4, 5, 2


@cache
def answering(**answers: str) -> bytes:
    """A static program that says of itself what an interpreter would: an image of it has a megabyte."""
    lines = "".join(f"{key}={value}\\n" for key, value in (ANSWERS | answers).items())
    with tempfile.TemporaryDirectory() as folder:
        source = f'#include <stdio.h>\nint main(void) {{ return fputs("{lines}", stdout) < 0; }}\n'
        command = ["gcc", "-static", "-s", "-O", "-x", "c", "-", "-o", f"{folder}/python"]
        subprocess.run(command, input=source.encode(), check=True)
        return Path(folder, "python").read_bytes()


@dataclass(frozen=True)
class Done:
    """What came of a command."""

    code: int
    out: str
    err: str


def called(folder: Path) -> Done:
    """The command line in this process: Python starts slowly beside what is tested here."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    code = 0
    with chdir(folder), redirect_stdout(out), redirect_stderr(err):
        try:
            main.main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read())
    return Done(code, *texts)


@dataclass
class Team:
    """A project with one variant that builds in seconds, and a registry that it is pushed to."""

    client: Any
    root: Path
    variant: str
    registry: Registry
    login: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.registry.address}/team"

    @property
    def tag(self) -> str:
        return f"localhost/interlock/python:{self.variant}-toys"

    @property
    def name(self) -> str:
        return f"{self.place}/python:{self.variant}-toys"

    def run(self, *words: str) -> Done:
        """A command in the project's folder, with the engine's store of this team's login."""
        mirror = {"INTERLOCK_SOURCE_MIRROR": str(self.root.parent / "mirror")}
        with mock.patch.dict(os.environ, {**mirror, **self.login}), mock.patch.object(sys, "argv", ["", *words]):
            return called(self.root)

    def must(self, *words: str) -> str:
        done = self.run(*words)
        assert done.code == 0, done
        return done.out

    def push(self, *words: str) -> str:
        return self.must("push", self.variant, "--registry", self.place, *words)

    def fails(self, code: int, *words: str) -> str:
        """The one sentence of a command that ends with this code."""
        done = self.run(*words)
        assert done.code == code, done
        assert done.err.startswith("error: ")
        assert len(done.err.strip().splitlines()) == 1, done
        return done.err

    def edit(self, old: str = "a toy", new: str = "another toy") -> None:
        """The variant's file is another one now, and so is its content hash."""
        path = self.root / "variants" / f"{self.variant}.toml"
        path.write_text(path.read_text().replace(old, new))

    def build(self, **answers: str) -> None:
        """An image with the labels that a build of the project as it is now gives, and a `python` that proves it."""
        catalog, options = catalogs.load(self.root), BuildOptions(self.root, self.root / "cache")
        plan = ImageBuilder(self.client, catalog, options, lambda *_: None).plan(catalog.variants[self.variant])
        labels = {HASH_LABEL: plan.content_hash, "interlock.variant": self.variant, "interlock.profile": "standard"}
        labels |= {"test.build": uuid.uuid4().hex}
        dockerfile = in_few_steps("FROM scratch\nCOPY python /bin/\n", {}, labels, is_shared=False)
        context = tar_of({"Dockerfile": dockerfile.encode(), "python": answering(**answers)}, 0o755)
        self.client.images.build(fileobj=context, custom_context=True, tag=self.tag, rm=True)

    @property
    def image(self) -> Any:
        return self.client.images.get(self.tag)

    def forget(self) -> None:
        """No image of the variant is here any more, as on a colleague's machine."""
        for image in self.client.images.list(filters={"label": f"interlock.variant={self.variant}"}):
            self.client.images.remove(image.id, force=True)

    def local_names(self) -> set[str]:
        images = self.client.images.list(filters={"label": f"interlock.variant={self.variant}"})
        return {name for image in images for name in [*image.tags, *(image.attrs["RepoDigests"] or [])]}

    def there(self, tag: str | None = None) -> Tagged:
        found = self.look_there(tag)
        assert found is not None
        return found

    def look_there(self, tag: str | None = None) -> Tagged | None:
        with mock.patch.dict(os.environ, self.login):
            return read_tag(self.api, "team/python", tag or f"{self.variant}-toys")

    @property
    def api(self) -> Api:
        return Api(self.client, Named(self.registry.address, "team"))

    def remote(self, entry: Entry) -> RemoteImage:
        with mock.patch.dict(os.environ, self.login):
            return read_image(self.api, "team/python", entry)

    def replace_there(self, tag: str, dockerfile: str) -> str:
        """Somebody else pushes an image of their own by this tag; its digest."""
        image = self.client.images.build(fileobj=io.BytesIO(dockerfile.encode()), rm=True)[0]
        # By a tag of their own, so that this engine's name stays what it is.
        repository, theirs = f"{self.place}/python", f"theirs-{uuid.uuid4().hex[:8]}"
        image.tag(repository, theirs)
        self.client.api.push(repository, theirs)
        self.client.images.remove(f"{repository}:{theirs}")
        with suppress(APIError):
            self.client.images.remove(image.id)
        manifest = self.api.manifest("team/python", theirs)
        assert manifest is not None
        self.api.put("team/python", tag, manifest)
        return manifest.digest


@pytest.fixture(scope="session")
def bridge(client: Any) -> str:
    """An address of this machine that is not its loopback, so that engines ask for TLS there."""
    (settings,) = client.networks.get("bridge").attrs["IPAM"]["Config"]
    return str(settings.get("Gateway") or ip_network(settings["Subnet"])[1])


@pytest.fixture(scope="module")
def with_base(client: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a registry that has the base of toys: to push it takes longer than all that a test pushes."""
    folder = tmp_path_factory.mktemp("with-base")
    with registries.registry(folder) as started:
        built = make_built("toy").model_copy(update={"base": make_toy_base(client)})
        push_base(client, built, Named(started.address, "team"), lambda *_: None)
    return folder


@pytest.fixture
def team(client: Any, root: Path, with_base: Path, tmp_path: Path) -> Iterator[Team]:
    """With a registry on this machine, which needs no login, and the variant built."""
    name = f"toy-{uuid.uuid4().hex[:8]}"
    project = copy_project(root, tmp_path / "project", [], [])
    file = f"{name}.tar.gz"
    toy_variant(project, name, file, toy_tarball(tmp_path / "mirror", file))
    with registries.registry(tmp_path / "registry", holding=with_base) as started:
        made = Team(client, project, name, started, {"DOCKER_CONFIG": str(tmp_path / "no-login")})
        try:
            made.build()
            yield made
        finally:
            made.forget()


@pytest.fixture
def guarded(team: Team, bridge: str, with_base: Path, tmp_path: Path) -> Iterator[Team]:
    """The same with TLS and a password, which the engine's credential store has."""
    with registries.registry(tmp_path / "guarded", bridge, tls=True, password=True, holding=with_base) as started:
        team.registry = started
        team.login = registries.log_in(tmp_path / "login", started)
        yield team


def test_an_image_goes_with_tls_and_a_login_to_a_registry_and_comes_back_as_it_was(guarded: Team) -> None:
    image = guarded.image
    out = guarded.push()
    there = guarded.there()
    assert f"{guarded.name}@{there.digest}" in out
    remote = guarded.remote(there.entries[0])
    assert remote.labels == image.labels
    assert image.id in remote.ids
    assert guarded.there(f"hash-{image.labels['interlock.hash'][:12]}") == there
    guarded.forget()
    assert "pulled" in guarded.must("pull", guarded.variant, "--registry", guarded.place)
    assert guarded.image.id == image.id
    assert guarded.image.labels == image.labels
    assert "unchanged" in guarded.must("build", guarded.variant)
    assert guarded.local_names() == {guarded.tag, guarded.name, f"{guarded.place}/python@{there.digest}"}


def test_what_swap_writes_names_the_registry_and_the_digest(team: Team, tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM python:3.13-slim\n")
    assert f"+FROM {team.tag}\n" in team.must("swap", str(file), "--to", team.variant)
    team.push()
    there = team.there()
    out = team.must("swap", str(file), "--to", team.variant, "--write")
    assert f"+FROM {team.name}@{there.digest}\n" in out
    assert team.run("swap", str(file), "--check", "--to", team.variant).code == 0


def test_a_team_builds_once(team: Team, tmp_path: Path) -> None:
    image = team.image
    team.push()
    team.forget()
    out = team.must("build", team.variant, "--cache-from", team.place, "--record", str(tmp_path / "record"))
    assert f"pulled from {team.place}" in out
    assert "starting" not in out
    assert team.image.id == image.id
    (built,) = json.loads((tmp_path / "record/builds.json").read_text())["builds"]
    assert (built["pulled_from"], built["reused"], built["image_id"]) == (team.place, True, image.id)
    assert built["digest"] == f"{team.place}/python@{team.there().digest}"
    assert "unchanged" in team.must("build", team.variant, "--cache-from", team.place)


def test_what_the_registry_has_not_is_built(team: Team) -> None:
    team.push()
    team.edit()
    out = team.must("build", team.variant, "--cache-from", team.place)
    assert "pulled" not in out
    assert f"{team.variant}  ok" in out


def as_arm64(client: Any, name: str) -> str:
    """The image once more with another architecture in its configuration; its id. Nothing in it is run."""
    target = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(b"".join(client.images.get(name).save()))) as old,
        tarfile.open(fileobj=target, mode="w") as new,
    ):
        files = {entry.name: stream.read() for entry in old if (stream := old.extractfile(entry)) is not None}
        (manifest,) = json.loads(files["manifest.json"])
        config = json.loads(files[manifest["Config"]])
        files[manifest["Config"]] = json.dumps({**config, "architecture": "arm64"}).encode()
        files["manifest.json"] = json.dumps([{**manifest, "RepoTags": []}]).encode()
        files.pop("repositories", None)  # the older way to name the tags
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            new.addfile(entry, io.BytesIO(data))
    (image,) = client.images.load(target.getvalue())
    assert image.attrs["Architecture"] == "arm64"
    return str(image.id)


def test_two_platforms_share_a_tag_by_an_index(team: Team, tmp_path: Path) -> None:
    """A second machine's files differ here, so that its content hash does, as another base's would."""
    amd64 = team.image.id
    team.push()
    first = team.there()
    team.edit()
    team.build()
    arm64 = as_arm64(team.client, team.tag)
    team.client.images.get(arm64).tag(team.tag)
    assert "pushed (index of linux/arm64, linux/amd64)" in team.push()
    index = team.there()
    assert [one["platform"]["architecture"] for one in index.entries] == ["amd64", "arm64"]
    assert index.entries[0] == first.entries[0]
    for entry, image_id in zip(index.entries, (amd64, arm64), strict=True):
        assert image_id in team.remote(entry).ids
    file = tmp_path / "Dockerfile"
    file.write_text("FROM python:3.13-slim\n")
    assert f"+FROM {team.name}@{index.digest}\n" in team.must("swap", str(file), "--to", team.variant)
    told = {}
    for asked in ("linux/arm64", "linux/s390x", "$TARGETPLATFORM"):
        file.write_text(f"FROM --platform={asked} python:3.13-slim\n")
        done = team.run("swap", str(file), "--to", team.variant)
        told[asked] = [line for line in done.err.splitlines() if "linux/amd64" in line]
    assert [asked for asked, lines in told.items() if lines] == ["linux/s390x"]
    (missing,) = told["linux/s390x"]
    assert missing.startswith("breaks")
    assert all(part in missing for part in (f"{file}:1: ", "linux/s390x", "linux/amd64 and linux/arm64"))
    assert "unchanged" in team.push()
    team.forget()
    assert "pulled" in team.must("pull", team.variant, "--registry", team.place)
    assert team.image.id == arm64, "whose files the project has now"
    team.forget()
    for entry, image_id in zip(index.entries, (amd64, arm64), strict=True):
        platform = f"linux/{entry['platform']['architecture']}"
        repository, tag = team.name.rsplit(":", 1)
        team.client.api.pull(repository, tag, platform=platform)
        assert team.client.images.get(team.name).id == image_id


def test_an_image_of_an_index_is_replaced_alone(team: Team) -> None:
    team.push()
    amd64 = team.there()
    team.client.images.get(as_arm64(team.client, team.tag)).tag(team.tag)
    team.push("--force")
    team.edit("a toy", "a newer toy")
    team.build()
    assert "index of linux/amd64, linux/arm64" in team.push("--force")
    index = team.there()
    assert team.image.id in team.remote(index.entries[0]).ids
    assert len(index.entries) == 2
    assert index.entries[0] != amd64.entries[0]


def test_after_another_machine_joined_the_tag_a_push_brings_the_digest_of_the_index(team: Team) -> None:
    team.push()
    ours = team.there().entries[0]
    index = index_of([ours, {**ours, "platform": {"os": "linux", "architecture": "arm64"}}])
    team.api.put("team/python", f"{team.variant}-toys", index)
    assert f"FROM {team.name}@{index.digest}\n" in team.push()
    assert team.there().digest == index.digest
    assert team.local_names() == {team.tag, team.name, f"{team.place}/python@{index.digest}"}


def test_pushing_again_changes_nothing(team: Team) -> None:
    team.push()
    before = team.there()
    assert "unchanged" in team.push()
    assert team.there() == before


def test_the_same_content_of_another_build_is_left_and_can_be_taken(team: Team) -> None:
    """A pinned digest stays current, whoever builds the same files once more."""
    theirs = team.image.id
    team.push()
    before = team.there()
    team.build()
    team.client.images.remove(team.name)
    assert team.image.id != theirs
    assert f"`interlock pull {team.variant}` takes that image" in " ".join(team.push().split())
    assert team.there() == before
    team.must("pull", team.variant, "--registry", team.place)
    assert team.image.id == theirs


def test_a_tag_that_somebody_moved_is_not_pushed_over_unless_forced(team: Team) -> None:
    team.push()
    before = team.there()
    now = team.replace_there(f"{team.variant}-toys", f"FROM {team.tag}\nLABEL interlock.hash=other\n")
    team.edit()
    team.build()
    said = team.fails(REGISTRY_FAILED, "push", team.variant, "--registry", team.place)
    assert now in said
    assert before.digest in said
    assert team.there().digest == now
    assert "pushed" in team.push("--force")
    assert team.there().digest != now


def test_an_image_of_another_maker_is_not_pushed_over(team: Team) -> None:
    """A mirror of the official images has tags like ours: python:3.14-trixie."""
    now = team.replace_there(f"{team.variant}-toys", "FROM scratch\nLABEL other=1\n")
    said = team.fails(REGISTRY_FAILED, "push", team.variant, "--registry", team.place)
    assert f"{team.name}: " in said
    assert team.there().digest == now


def test_a_tag_of_other_content_is_not_pulled(team: Team) -> None:
    team.push()
    before = team.there()
    now = team.replace_there(f"{team.variant}-toys", f"FROM {team.tag}\nLABEL interlock.hash=other\n")
    team.edit()
    names = team.local_names()
    said = team.fails(REGISTRY_FAILED, "pull", team.variant, "--registry", team.place)
    assert f"{team.name} is {now}" in said
    assert before.digest in said
    assert team.local_names() == names


def hashed(team: Team) -> str:
    return f"hash-{team.image.labels['interlock.hash'][:12]}"


def test_a_hash_that_is_another_image_is_refused_and_built_instead(team: Team) -> None:
    tag, source = hashed(team), team.tag
    team.replace_there(tag, f"FROM {source}\nLABEL interlock.hash=other\n")
    team.forget()
    said = team.fails(BUILD_FAILED, "pull", team.variant, "--registry", team.place)
    assert f"{team.place}/python:{tag}: " in said
    assert "'other'" in said
    assert team.local_names() == set()
    out = team.must("build", team.variant, "--cache-from", team.place)
    (refused,) = [line for line in out.splitlines() if team.place in line]
    assert "'other'" in refused
    assert f"{team.variant}  ok" in out


def test_an_image_that_is_not_what_the_variant_declares_is_refused(team: Team) -> None:
    tag = hashed(team)
    team.build(gil="off")
    team.replace_there(tag, f"FROM {team.tag}\n")
    team.forget()
    said = team.fails(BUILD_FAILED, "pull", team.variant, "--registry", team.place)
    assert re.search(r"key 'proof\.gil': .*'on'.*'off'", said)
    assert team.local_names() == set()


def refusal(cause: str) -> str:
    """A pattern of what is said of a registry for this cause."""
    return re.escape(MEANINGS[cause][1]).replace(re.escape("{words}"), ".*")


def both(team: Team, cause: str, more: str = "") -> None:
    """Push and pull name the cause, and leave no name behind."""
    names = team.local_names()
    for words in (["push"], ["pull"], ["build", "--cache-from"]):
        option = ["--registry", team.place] if len(words) == 1 else [words.pop(), team.place]
        if words == ["build"]:
            team.edit()  # else it would not ask
        said = team.fails(REGISTRY_FAILED, *words, team.variant, *option)
        assert re.search(rf"error: {re.escape(team.registry.address)}: .*{refusal(cause)}.*{more}", said), said
        assert team.local_names() == names


def test_without_a_login_the_one_that_is_needed_is_named(guarded: Team, tmp_path: Path) -> None:
    guarded.login = {"DOCKER_CONFIG": str(tmp_path / "nowhere")}
    both(guarded, "no login", f"docker login {guarded.registry.address}\n")


def test_a_wrong_password_is_told(guarded: Team, tmp_path: Path) -> None:
    guarded.login = registries.log_in(tmp_path / "wrong", guarded.registry, "wrong")
    both(guarded, "wrong login", f"docker login {guarded.registry.address}\n")


def test_a_credential_helper_is_asked_and_one_that_fails_is_told(guarded: Team, tmp_path: Path) -> None:
    helper = tmp_path / "bin/docker-credential-toy"
    helper.parent.mkdir()
    kept = json.dumps({"Username": registries.USER, "Secret": guarded.registry.password})
    helper.write_text(f"#!/bin/sh\necho '{kept}'\n")
    helper.chmod(0o755)
    folder = tmp_path / "helped"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"credHelpers": {guarded.registry.address: "toy"}}))
    path = {"PATH": f"{helper.parent}:/usr/sbin:/usr/bin:/sbin:/bin"}
    guarded.login = {"DOCKER_CONFIG": str(folder), **path}
    guarded.push()
    helper.write_text("#!/bin/sh\necho 'the keyring is locked' >&2\nexit 1\n")
    both(guarded, "credential store")


def test_a_registry_that_does_not_answer_is_told(team: Team) -> None:
    team.registry.stop()
    both(team, "unreachable")


def test_a_certificate_that_nobody_trusts_is_told_with_the_place_to_put_its_authority(guarded: Team) -> None:
    registries.distrust(guarded.registry)
    both(guarded, "untrusted certificate", f"/etc/docker/certs.d/{guarded.registry.address}/ca.crt")


def test_the_engine_takes_any_certificate_on_this_machine_and_so_does_the_client(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting that is common in companies' images made the client verify after all, and then speak plain HTTP."""
    (authorities := tmp_path / "authorities.crt").write_bytes(Path("/etc/ssl/certs/ca-certificates.crt").read_bytes())
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authorities))
    with registries.registry(tmp_path / "tls", tls=True, password=True) as started:
        registries.distrust(started)
        team.registry, team.login = started, registries.log_in(tmp_path / "login", started)
        assert f"FROM {team.name}@sha256:" in team.push()
        assert team.look_there() is not None


def test_a_registry_without_tls_elsewhere_than_here_is_told(team: Team, bridge: str, tmp_path: Path) -> None:
    with registries.registry(tmp_path / "plain", bridge) as started:
        team.registry = started
        both(team, "no TLS")


def test_a_read_only_registry_takes_nothing_and_still_gives(team: Team) -> None:
    team.push()
    before = team.there()
    team.registry.restart(storage={"maintenance": {"readonly": {"enabled": True}}})
    team.edit()
    team.build()
    names = team.local_names()
    said = team.fails(REGISTRY_FAILED, "push", team.variant, "--registry", team.place)
    assert re.search(refusal("read-only"), said)
    assert team.there() == before
    assert team.local_names() == names
    team.edit("another toy", "a toy")
    assert "pulled" in team.must("pull", team.variant, "--registry", team.place)


def test_a_token_service_is_asked_and_a_namespace_that_it_denies_is_told(
    team: Team, with_base: Path, tmp_path: Path
) -> None:
    """With an index, which is put with the same kind of token."""
    folder = tmp_path / "hub"
    folder.mkdir()
    service = registries.token_service(folder, "team")
    settings = registries.token_settings(folder, service)
    try:
        with registries.registry(folder, holding=with_base, **settings) as started:
            team.registry = started
            team.push()
            team.client.images.get(as_arm64(team.client, team.tag)).tag(team.tag)
            assert "index of" in team.push("--force")
            team.login = registries.keep_identity(tmp_path / "identity", started)
            assert "unchanged" in team.push()
            place = f"{started.address}/others"
            said = team.fails(REGISTRY_FAILED, "push", team.variant, "--registry", place)
            assert re.search(refusal("denied"), said)
    finally:
        service.shutdown()


def test_variants_that_are_unknown_not_built_or_not_there_are_told(team: Team) -> None:
    said = team.fails(BAD_USAGE, "push", team.variant[:-1], "--registry", team.place)
    assert f"Did you mean '{team.variant}'?" in said
    said = team.fails(REGISTRY_FAILED, "pull", team.variant, "--registry", team.place)
    assert f"{team.variant}: " in said
    assert team.place in said
    said = team.fails(REGISTRY_FAILED, "pull", "--registry", team.place)
    assert f"{team.place}: " in said
    team.push()
    for number in range(3):
        others = f"{team.variant}-{number}.tgz"
        toy_variant(team.root, f"{team.variant}-{number}", others, toy_tarball(team.root.parent / "mirror", others))
    lines = team.must("pull", "--registry", team.place).splitlines()
    (skipped,) = [line for line in lines if "skip" in line]
    assert "3 of 4" in skipped
    team.edit()
    said = team.fails(BUILD_FAILED, "push", team.variant, "--registry", team.place)
    assert f"Run `interlock build {team.variant}`" in said
    said = team.fails(BUILD_FAILED, "push", "--registry", team.place)
    assert "interlock build" in said


@pytest.fixture
def made_base(client: Any) -> Iterator[Base]:
    """The stub wheel of a base that no registry has, as mmdebstrap leaves one."""
    digest = f"{uuid.uuid4().hex}{uuid.uuid4().hex}"
    base = Base(reference=f"nowhere:0@sha256:{digest}", suite="toy", build_packages=[], runtime_packages=[])
    dockerfile = f"FROM scratch\nLABEL {LABEL}={base.reference}\n"
    client.images.build(fileobj=io.BytesIO(dockerfile.encode()), tag=local_tag(base), rm=True)
    yield base
    with suppress(ImageNotFound):
        client.images.remove(local_tag(base))


def test_a_base_that_was_made_here_goes_along_so_that_others_find_the_same_hashes(
    client: Any, team: Team, made_base: Base
) -> None:
    image_id = client.images.get(local_tag(made_base)).id
    described = make_base(reference=local_tag(made_base), image_id=image_id)
    built = make_built("toy").model_copy(update={"base": described})
    place = Named(team.registry.address, "team")
    assert push_base(client, built, place, lambda *_: None) == ""
    client.images.remove(local_tag(made_base))
    last = "1" if made_base.reference.endswith("0") else "0"
    pinned_anew = made_base.model_copy(update={"reference": made_base.reference[:-1] + last})
    assert pull_base(client, pinned_anew, place, lambda *_: None) is None
    assert id_of_tag(client, local_tag(made_base)) is None
    found = pull_base(client, made_base, place, lambda *_: None)
    assert found == described.model_copy(update={"size_bytes": 0})
    assert client.images.get(local_tag(made_base)).tags == [local_tag(made_base)]
    other = f"FROM scratch\nLABEL {LABEL}={made_base.reference} other=1\n"
    client.images.build(fileobj=io.BytesIO(other.encode()), tag=local_tag(made_base), rm=True)
    assert push_base(client, built, place, lambda *_: None).startswith(f"{place.host}/{place.namespace}/base:")


def test_debians_registry_works_as_the_documentation_configures_it(team: Team, tmp_path: Path) -> None:
    text = (ROOT / "docs/registries.md").read_text(encoding="utf-8")
    lines = text.partition("```yaml\n")[2].partition("```")[0]
    with registries.registry(tmp_path / "documented", password=True) as started:
        started.stop()
        for old, new in {
            "/var/lib/docker-registry": started.folder / "storage",
            "127.0.0.1:5000": started.address,
            "/etc/docker/registry/htpasswd": started.folder / "htpasswd",
        }.items():
            assert old in lines
            lines = lines.replace(old, str(new))
        started.start_as(lines)
        team.registry = started
        team.fails(REGISTRY_FAILED, "push", team.variant, "--registry", team.place)
        team.login = registries.log_in(tmp_path / "login", started)
        team.push()
        assert team.look_there() is not None


def test_the_walk_through_of_the_documentation_is_true(team: Team) -> None:
    """Its very lines, with the toy in the place of the variant: others may be using that one's image."""
    text = (ROOT / "docs/registries.md").read_text(encoding="utf-8").partition("## A walk through it")[2]
    (block,) = re.findall(r"```sh\n(.*?)```", text.partition("\n## ")[0], re.DOTALL)
    for old, new in (("cpython-2.7-nothreads", team.variant), ("2.7-nothreads-trixie", f"{team.variant}-toys")):
        block = block.replace(old, new)
    program = team.root.parent / "bin/interlock"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(command())} "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, **team.login, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    script = block.replace("127.0.0.1:5000", team.registry.address)
    done = subprocess.run(
        ["sh", "-euxc", script], cwd=team.root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"pulled from {team.place}" in done.stdout
    assert (team.root / "Dockerfile.swapped").read_text().endswith(f"FROM {team.name}@{team.there().digest}\n")
