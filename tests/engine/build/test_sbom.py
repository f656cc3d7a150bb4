"""The bill of materials: what every variant is made of, valid CycloneDX, and the same text for the same image."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from interlock.catalog import project as catalogs
from interlock.engine.build import sbom
from interlock.engine.build.sbom import METADATA, ImageContents, debian_packages
from tests.builders import ROOT

KNOWN = catalogs.load(ROOT)
CONTENTS = ImageContents(
    tag="localhost/interlock/python:x",
    image_id=f"sha256:{'e' * 64}",
    digest=None,
    created=datetime(2025, 6, 11, tzinfo=UTC),
    debian=[("libc6", "2.41-12", "amd64"), ("libstdc++6", "14.2.0-19", "amd64")],
    distributions=[("pip", "25.1"), ("My_Package", "1.0")],
    packed=[("libssl.so.3", "a" * 64)],
)
STATUS = b"""\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.41-12
Description: GNU C Library
 Version: 9

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""


def components_of(text: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(text)["components"]}


@pytest.mark.parametrize("name", KNOWN.variants)
def test_the_document_of_every_variant_is_valid(name: str) -> None:
    text = sbom.document(KNOWN.variants[name], CONTENTS)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert sbom.document(KNOWN.variants[name], CONTENTS) == text


def test_the_interpreter_and_its_libraries_have_their_sources_with_their_sums() -> None:
    variant = KNOWN.variants["cpython-2.7-pth"]
    found = components_of(sbom.document(variant, CONTENTS))
    for name, source in (("cpython", variant.interpreter), ("pth", variant.libraries[0])):
        assert source is not None
        (reference,) = found[name]["externalReferences"]
        assert reference["url"] in source.places
        assert reference["hashes"] == [{"alg": "SHA-256", "content": source.sha256}]
    assert found["cpython"]["purl"] == f"pkg:generic/python@{variant.version}"
    assert found["pth"]["version"] == "2.0.7"


def test_packages_are_what_the_image_has() -> None:
    found = components_of(sbom.document(KNOWN.variants["cpython-3.14"], CONTENTS))
    assert found["libc6"]["purl"] == "pkg:deb/debian/libc6@2.41-12?arch=amd64"
    assert found["libstdc++6"]["version"] == "14.2.0-19"
    assert found["My_Package"]["purl"] == "pkg:pypi/my-package@1.0"
    assert found["libssl.so.3"]["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]


def test_an_interpreter_of_debians_is_in_its_list_alone() -> None:
    assert "cpython" not in components_of(sbom.document(KNOWN.variants["debian-3.13"], CONTENTS))


def test_what_dpkg_says_is_installed_is_read() -> None:
    assert debian_packages(STATUS) == [("libc6", "2.41-12", "amd64")]


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("lib/python3.14/site-packages/pip-25.1.dist-info/METADATA", True),
        ("lib/python2.7/site-packages/six-1.16.egg-info/PKG-INFO", True),
        ("lib/python2.5/site-packages/six-1.16.egg-info", True),
        ("lib/python3.14/site-packages/pip-25.1.dist-info/RECORD", False),
        ("lib/python3.14/ensurepip/_bundled/METADATA", False),
    ],
)
def test_distributions_are_those_beside_the_standard_library(path: str, is_one: bool) -> None:
    assert bool(METADATA.search(path)) == is_one
