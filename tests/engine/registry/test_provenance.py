"""What is stated of an image: what it was made of, with a sum for each."""

from __future__ import annotations

import hashlib

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog import rendering
from interlock.engine.build.image import ImagePlan
from interlock.engine.registry.provenance import PREDICATE, STATEMENT, statement
from tests.builders import ROOT, make_base

KNOWN = catalogs.load(ROOT)
BASE = make_base(reference=f"debian:trixie-slim@sha256:{'b' * 64}", origin="registry", image_id="sha256:0")
LABELS = {
    "org.opencontainers.image.revision": "abc-dirty",
    "org.opencontainers.image.base.name": "debian:trixie-slim",
    "org.opencontainers.image.base.digest": f"sha256:{'b' * 64}",
    "interlock.version": "1.2.3",
}
DIGEST = f"sha256:{'d' * 64}"


@pytest.mark.parametrize("name", sorted(KNOWN.variants))
def test_every_source_file_and_parent_of_every_variant_has_its_sum(name: str) -> None:
    variant = KNOWN.variants[name]
    files = rendering.context(variant, KNOWN, catalogs.read_texts(ROOT))
    plan = ImagePlan(variant=variant, profile="standard", files=files, content_hash="c" * 64, base=BASE)
    found = statement(plan, LABELS, ROOT, "registry.example/team/python", DIGEST)
    assert (found["_type"], found["predicateType"]) == (STATEMENT, PREDICATE)
    assert found["subject"] == [{"name": "registry.example/team/python", "digest": {"sha256": "d" * 64}}]
    assert found["predicate"]["runDetails"]["builder"]["version"] == {"interlock": "1.2.3"}
    made_of = found["predicate"]["buildDefinition"]["resolvedDependencies"]
    sums = {one["name"]: one["digest"]["sha256"] for one in made_of if "digest" in one}
    expected = {f"dockerfiles/{name}/{path}": hashlib.sha256(data).hexdigest() for path, data in files.items()}
    expected |= {one.file: one.sha256 for one in variant.downloads}
    expected |= {"base": "b" * 64, variant.file: hashlib.sha256((ROOT / variant.file).read_bytes()).hexdigest()}
    assert sums == expected
    assert all(one["uri"] for one in made_of)
    (project,) = [one for one in made_of if one["name"] == "project"]
    assert project["annotations"] == {"revision": "abc-dirty"}


def test_what_the_labels_do_not_say_is_not_stated() -> None:
    variant = KNOWN.variants["cpython-3.14"]
    plan = ImagePlan(variant=variant, profile="release", files={}, content_hash="c" * 64, base=BASE)
    found = statement(plan, {}, ROOT, "registry.example/team/python", DIGEST)
    made_of = found["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert [one["name"] for one in made_of] == ["base", variant.file, variant.interpreter.file]  # type: ignore[union-attr]
    assert "digest" not in made_of[0]
