"""What an image is built from, and what it is called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from interlock import catalog, render
from interlock.engine.context import content_hash, tar_of
from interlock.engine.image import BASE_ARGUMENT, Options, Plan
from interlock.model import BaseImage, SourceKind
from tests.builders import FROM_IMAGE, FROM_PACKAGES, FROM_PREFIX, ROOT, make_variant

KINDS: dict[SourceKind, dict[str, Any]] = {
    SourceKind.SOURCE: {},
    SourceKind.IMAGE: FROM_IMAGE,
    SourceKind.PREFIX: FROM_PREFIX,
    SourceKind.PACKAGES: FROM_PACKAGES,
}


@pytest.mark.parametrize("kind", SourceKind)
def test_the_parent_is_handed_to_the_argument_that_the_dockerfile_of_its_kind_has(kind: SourceKind) -> None:
    known = catalog.load(ROOT)
    files = render.render(make_variant(**KINDS[kind]), known.bases["trixie"], known.profiles, catalog.texts(ROOT))
    before_the_first_stage, _, _ = files["Dockerfile"].partition("\nFROM ")
    assert re.findall(r"^ARG (\w+)=", before_the_first_stage, re.MULTILINE) == [BASE_ARGUMENT[kind]]
    assert f"\nFROM ${{{BASE_ARGUMENT[kind]}}}" in files["Dockerfile"]


@pytest.mark.parametrize(
    ("profile", "expected"), [("standard", "interlock/python:3.13-trixie"), ("release", None), ("debug", None)]
)
def test_a_plan_has_the_tag_of_its_variant_in_its_profile(profile: str, expected: str | None) -> None:
    base = BaseImage(reference="trixie", origin="registry", image_id="sha256:base")
    plan = Plan(make_variant(), profile, {}, base, content_hash({}, base.image_id, profile))
    assert plan.tag == (expected or f"interlock/python:3.13-trixie-{profile}")
    assert plan.prefix is None


def test_what_is_not_ordered_otherwise_is_standard_and_takes_what_the_engine_has() -> None:
    options = Options(Path("project"), Path("cache"))
    assert (options.profile, options.rebuild) == ("standard", "")


def test_files_of_this_machine_change_no_bytes_of_a_context_without_them() -> None:
    files = {"Dockerfile": b"FROM x\n"}
    assert tar_of(files | {}).read() == tar_of(files).read()
