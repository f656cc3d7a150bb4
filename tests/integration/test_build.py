"""Builds in the real engine: what is proved, reused, refused and cleaned up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.engine.build.image import ask_facts, require_proof
from interlock.engine.docker import DockerEngine
from interlock.engine.protocol import BuildOptions
from interlock.errors import BuildError
from tests.integration.images import PTH, QUICK, Images
from tests.integration.toys import interlock, toy_tarball, toy_variant


def test_a_configure_that_ignores_with_pth_is_caught_by_the_proof(client: Any, catalog: Catalog, built: Images) -> None:
    # What configure makes of --with-pth on a modern glibc, unless its probes are answered, has POSIX threads.
    facts = ask_facts(client, built[QUICK].image_id)
    ignored = facts.model_copy(update={"version": catalog.variants[PTH].version})
    with pytest.raises(BuildError, match=rf"{PTH}.toml, key 'proof.thread_flavour'.*gnu-pth.*pthread"):
        require_proof(catalog.variants[PTH], ignored)


def test_labels_and_tag_say_which_variant_it_is(client: Any, built: Images) -> None:
    image = client.images.get("localhost/interlock/python:3.13-debian-pip-trixie")
    assert image.id == built[QUICK].image_id
    assert image.labels["interlock.variant"] == QUICK
    assert len(image.labels["interlock.hash"]) == 64


def test_an_unchanged_variant_is_not_built_again(
    client: Any, catalog: Catalog, options: BuildOptions, built: Images
) -> None:
    before = built[QUICK]
    (again,) = DockerEngine(client).build(catalog, [QUICK], options, lambda *_: None)
    assert (again.reused, again.image_id) == (True, before.image_id)


def test_one_changed_file_builds_that_variant_alone(project: Path, mirror: Path) -> None:
    sums = {name: toy_tarball(mirror, f"{name}.tar.gz") for name in ("toy-a", "toy-b")}
    for name, sha256 in sums.items():
        toy_variant(project, name, f"{name}.tar.gz", sha256)
    interlock(project, "build", "toy-a", "toy-b")
    changed = project / "variants" / "toy-b.toml"
    changed.write_text(changed.read_text().replace("a toy", "another toy"))
    second = interlock(project, "build", "toy-a", "toy-b")
    rows = [line.split() for line in second.stdout.splitlines() if "localhost/interlock/python" in line]
    assert {row[0]: row[-1] for row in rows} == {"toy-a": "unchanged", "toy-b": "ok"}


def test_a_wrong_sum_everywhere_is_one_error_with_all_that_was_tried(project: Path, mirror: Path) -> None:
    found = toy_tarball(mirror, "toy.tar.gz")
    toy_variant(project, "toy-wrong", "toy.tar.gz", "0" * 64)
    done = interlock(project, "build", "toy-wrong", code=BuildError.exit_code)
    assert done.stderr.count("error:") == 1
    assert "variants/toy-wrong.toml, key 'sha256'" in done.stderr
    assert found in done.stderr
    assert "sources.invalid: Could not resolve host" in done.stderr


def test_an_image_that_is_not_what_was_declared_gets_no_tag(client: Any, project: Path, mirror: Path) -> None:
    sha256 = toy_tarball(mirror, "toy.tar.gz", answers={"gil": "off"})
    toy_variant(project, "toy-liar", "toy.tar.gz", sha256)
    done = interlock(project, "build", "toy-liar", code=BuildError.exit_code)
    assert re.search(r"variants/toy-liar\.toml, key 'proof\.gil': .*'on'.*'off'", done.stderr)
    assert client.images.list(filters={"reference": "localhost/interlock/python:toy-liar-toys"}) == []
