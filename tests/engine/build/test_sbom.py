"""The bill of materials: what every variant is made of, valid SPDX, and the same text for the same image."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import tarfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import FileTexts
from interlock.catalog.variants import Download, Finish, Library, Packages, Prefix, Variant
from interlock.engine.build import bundled, sbom
from interlock.engine.build.bundled import Bundled
from interlock.engine.build.sbom import METADATA, Contents, debian_packages
from interlock.engine.build.sources import tar_of
from interlock.errors import EngineError
from tests.builders import ROOT, make_source, make_variant

KNOWN, REAL = catalogs.load(ROOT), catalogs.read_texts(ROOT)
TEXTS = FileTexts(templates={}, patches={"fix.patch": "--- a\n+++ b\n"}, steps={"freeze.sh": "true\n"})
SUM = "c" * 64
PATCH_SUM = hashlib.sha256(TEXTS.patches["fix.patch"].encode()).hexdigest()
INTERPRETER, IMAGE = sbom.INTERPRETER, sbom.IMAGE


def make_debian(*names: str) -> dict[str, Any]:
    """What debsbom writes of an image with these packages."""
    system = {"SPDXID": "SPDXRef-Debian", "name": "Debian", "primaryPackagePurpose": "OPERATING_SYSTEM"}
    packages = [
        {"SPDXID": f"SPDXRef-{name}-amd64", "name": name, "primaryPackagePurpose": "LIBRARY", "versionInfo": "1-2"}
        for name in names
    ]
    return {
        "SPDXID": "SPDXRef-DOCUMENT",
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "name": "Debian",
        "documentNamespace": "https://spdx.org/spdxdocs/debian",
        "creationInfo": {"created": "2025-06-11T15:36:57Z", "creators": ["Tool: debsbom-0.10.2"]},
        "packages": [{"downloadLocation": "NOASSERTION", "filesAnalyzed": False, **one} for one in (system, *packages)],
        "relationships": [
            sbom._relationship(("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Debian")),
            *(sbom._relationship((str(one["SPDXID"]), "PACKAGE_OF", "SPDXRef-Debian")) for one in packages),
        ],
    }


CONTENTS = Contents(
    labels={
        "interlock.hash": "f" * 64,
        "interlock.profile": "standard",
        "org.opencontainers.image.base.name": "debian:trixie-slim",
        "org.opencontainers.image.base.digest": f"sha256:{'a' * 64}",
    },
    created=datetime(2025, 6, 11, 15, 36, 57, tzinfo=UTC),
    debian=make_debian("libc6", "zlib1g", "python3.13"),
    distributions=[("pip", "25.1.1"), ("typing_extensions", "4.14.0")],
    packed=[],
)


def packages_of(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {str(one["SPDXID"]): one for one in made["packages"]}


def relations_of(made: dict[str, Any]) -> set[tuple[str, ...]]:
    return {(one["spdxElementId"], one["relationshipType"], one["relatedSpdxElement"]) for one in made["relationships"]}


def sums_of(package: dict[str, Any]) -> list[str]:
    return [one["checksumValue"] for one in package["checksums"]]


def complaints(made: dict[str, Any], folder: Path) -> list[str]:
    """What the reference implementation of SPDX finds wrong."""
    path = folder / "made.spdx.json"
    path.write_text(json.dumps(made), encoding="utf-8")
    # They take a third of a second to load, for each worker that collects this file.
    from spdx_tools.spdx.parser.parse_anything import parse_file  # noqa: PLC0415
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document  # noqa: PLC0415

    return [found.validation_message for found in validate_full_spdx_document(parse_file(str(path)))]


@pytest.mark.parametrize("name", KNOWN.variants)
def test_the_document_of_every_variant_is_valid_spdx(name: str, tmp_path: Path) -> None:
    assert complaints(sbom.document(KNOWN.variants[name], REAL, CONTENTS), tmp_path) == []


@pytest.mark.parametrize("name", KNOWN.variants)
def test_every_source_of_every_variant_is_in_its_document_with_its_sum(name: str) -> None:
    variant = KNOWN.variants[name]
    files = {
        one["packageFileName"]: sums_of(one)
        for one in sbom.document(variant, REAL, CONTENTS)["packages"]
        if "packageFileName" in one
    }
    assert files == {download.file: [download.sha256] for download in variant.downloads}


def test_what_the_source_brings_is_there_unless_the_systems_is_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    brought = [Bundled("expat", "2.7.5"), Bundled("hacl-star", "a" * 40), Bundled("mimalloc", "2.1.2")]
    monkeypatch.setattr(bundled, "known", {SUM: brought}.get)
    variant = make_variant(interpreter=make_source("Python-3.13.1.tgz", sha256=SUM))
    packages = packages_of(sbom.document(variant, TEXTS, CONTENTS))
    expat = packages["SPDXRef-interlock-bundled-expat"]
    assert expat["versionInfo"] == "2.7.5"
    assert {one["referenceLocator"] for one in expat["externalRefs"]} == {
        "pkg:generic/expat@2.7.5",
        "cpe:2.3:a:libexpat_project:libexpat:2.7.5:*:*:*:*:*:*:*",
    }
    assert "comment" not in packages[INTERPRETER]
    made = sbom.document(variant, TEXTS, replace(CONTENTS, linked=frozenset({"expat"})))
    found = {one["name"] for one in made["packages"] if "-bundled-" in one["SPDXID"]}
    assert found == {"hacl-star", "mimalloc"}
    assert (INTERPRETER, "CONTAINS", "SPDXRef-interlock-bundled-mimalloc") in relations_of(made)
    without = make_variant(interpreter=make_source("Python-3.13.1.tgz", sha256=SUM, configure=["--without-mimalloc"]))
    assert "SPDXRef-interlock-bundled-mimalloc" not in packages_of(sbom.document(without, TEXTS, CONTENTS))


def test_a_linked_library_is_found_in_programs_and_modules_alone() -> None:
    """Their archive is read twice, for distributions and for what is linked."""
    files = {
        "lib/python3.14/lib-dynload/pyexpat.so": b"\x7fELF\0libexpat.so.1\0",
        "lib/python3.14/a.py": b"libz.so libmpdec.so",
        "lib/python3.14/site-packages/toy-1.dist-info/METADATA": b"Name: toy\nVersion: 1\n",
    }
    with tarfile.open(fileobj=tar_of(files)) as tar:
        assert sbom._distributions(tar) == [("toy", "1")]
        assert sbom._links_of(tar) == {"expat"}


def test_a_source_that_nobody_has_read_is_said_to_be_unknown() -> None:
    variant = make_variant(interpreter=make_source("Python-3.13.1.tgz", sha256="0" * 64))
    assert packages_of(sbom.document(variant, TEXTS, CONTENTS))[INTERPRETER]["comment"] == sbom.UNREAD


def test_an_image_that_a_registry_has_is_named_by_its_digest(tmp_path: Path) -> None:
    digest = f"sha256:{'d' * 64}"
    pushed = replace(CONTENTS, image_id=f"sha256:{'e' * 64}", digest=f"registry.example:5000/team/python@{digest}")
    made = sbom.document(make_variant(), TEXTS, pushed)
    image = packages_of(made)[IMAGE]
    assert sums_of(image) == ["d" * 64]
    (locator,) = [one["referenceLocator"] for one in image["externalRefs"]]
    assert locator == (f"pkg:oci/python@sha256%3A{'d' * 64}?repository_url=registry.example%3A5000/team/python")
    assert f"sha256:{'e' * 64}" in image["comment"]
    assert complaints(made, tmp_path) == []
    assert "checksums" not in packages_of(sbom.document(make_variant(), TEXTS, CONTENTS))[IMAGE]


def test_the_interpreter_has_its_version_and_was_generated_from_its_source() -> None:
    source = make_source("Python-3.13.1.tgz", sha256=SUM, places=["pool/p.tgz", "https://example.org/p.tgz"])
    made = sbom.document(make_variant(version="3.13.1", interpreter=source), TEXTS, CONTENTS)
    packages = packages_of(made)
    assert (packages[INTERPRETER]["name"], packages[INTERPRETER]["versionInfo"]) == ("cpython", "3.13.1")
    archive = packages["SPDXRef-interlock-source-Python-3.13.1.tgz"]
    assert (archive["name"], archive["versionInfo"], sums_of(archive)) == ("Python", "3.13.1", [SUM])
    assert archive["downloadLocation"] == "https://example.org/p.tgz"
    assert "pool/p.tgz" in archive["comment"]
    assert {
        ("SPDXRef-DOCUMENT", "DESCRIBES", IMAGE),
        (IMAGE, "CONTAINS", INTERPRETER),
        (INTERPRETER, "GENERATED_FROM", archive["SPDXID"]),
    } <= relations_of(made)


def test_the_interpreter_is_named_as_scanners_for_vulnerabilities_look_it_up() -> None:
    made = sbom.document(make_variant(version="3.13.1"), TEXTS, CONTENTS)
    locators = {one["referenceLocator"] for one in packages_of(made)[INTERPRETER]["externalRefs"]}
    assert locators == {"pkg:generic/python@3.13.1", "cpe:2.3:a:python:python:3.13.1:*:*:*:*:*:*:*"}


def test_a_library_is_contained_and_the_interpreter_depends_on_it() -> None:
    library = Library.model_validate({**make_source("pth-2.0.7.tar.gz", sha256=SUM).model_dump(), "name": "pth"})
    made = sbom.document(make_variant(libraries=[library]), TEXTS, CONTENTS)
    identity, archive = "SPDXRef-interlock-library-pth", "SPDXRef-interlock-source-pth-2.0.7.tar.gz"
    assert packages_of(made)[identity]["versionInfo"] == "2.0.7"
    assert sums_of(packages_of(made)[archive]) == [SUM]
    assert {
        (IMAGE, "CONTAINS", identity),
        (INTERPRETER, "DEPENDS_ON", identity),
        (identity, "GENERATED_FROM", archive),
    } <= relations_of(made)


def test_a_patch_was_applied_to_its_source_and_a_script_helped_to_build() -> None:
    source = make_source("Python-3.13.1.tgz", patches=["fix.patch"], prepare=["freeze.sh"])
    made = sbom.document(make_variant(interpreter=source), TEXTS, CONTENTS)
    patch, script = (
        "SPDXRef-interlock-file-variants-patches-fix.patch",
        "SPDXRef-interlock-file-variants-steps-freeze.sh",
    )
    assert sums_of(packages_of(made)[patch]) == [PATCH_SUM]
    assert {
        (patch, "PATCH_APPLIED", "SPDXRef-interlock-source-Python-3.13.1.tgz"),
        (script, "BUILD_TOOL_OF", INTERPRETER),
    } <= relations_of(made)


def test_a_wheel_that_finishes_an_image_is_what_the_image_was_generated_from() -> None:
    file = "pip-25.1.1-py3-none-any.whl"
    wheel = Download(file=file, sha256=SUM, places=["pip/pip==25.1.1"])
    made = sbom.document(make_variant(finish=Finish(steps=["freeze.sh"], downloads=[wheel])), TEXTS, CONTENTS)
    archive = packages_of(made)[f"SPDXRef-interlock-source-{file}"]
    assert (archive["name"], archive["versionInfo"], sums_of(archive)) == ("pip", "25.1.1", [SUM])
    assert archive["downloadLocation"] == "NOASSERTION"
    assert (IMAGE, "GENERATED_FROM", archive["SPDXID"]) in relations_of(made)


def test_the_pure_python_packages_of_an_image_have_their_package_urls() -> None:
    packages = packages_of(sbom.document(make_variant(), TEXTS, CONTENTS))
    found = packages["SPDXRef-interlock-python-typing-extensions-4.14.0"]
    assert found["externalRefs"][0]["referenceLocator"] == "pkg:pypi/typing-extensions@4.14.0"


def of_debian() -> Variant:
    return make_variant(interpreter=None, packages=Packages(names=["python3.13"], python="/usr/bin/python3.13"))


def test_an_interpreter_that_debian_packages_is_that_package_and_no_other() -> None:
    made = sbom.document(of_debian(), TEXTS, CONTENTS)
    assert (IMAGE, "CONTAINS", "SPDXRef-python3.13-amd64") in relations_of(made)
    assert INTERPRETER not in packages_of(made)


def test_an_interpreter_of_this_machine_has_a_version_and_no_source() -> None:
    made = sbom.document(make_variant(interpreter=None, prefix=Prefix(places=["/opt/python"])), TEXTS, CONTENTS)
    assert packages_of(made)[INTERPRETER]["versionInfo"] == "3.13.1"
    assert not [one for one in relations_of(made) if one[1] == "GENERATED_FROM"]


def test_a_library_that_came_with_an_interpreter_is_contained_with_its_sum() -> None:
    variant = make_variant(interpreter=None, prefix=Prefix(places=["/opt/python"]))
    made = sbom.document(variant, TEXTS, replace(CONTENTS, packed=[("libssl.so.1.1", SUM)]))
    identity = "SPDXRef-interlock-packed-libssl.so.1.1"
    assert sums_of(packages_of(made)[identity]) == [SUM]
    assert {(IMAGE, "CONTAINS", identity), (INTERPRETER, "DEPENDS_ON", identity)} <= relations_of(made)


def test_the_parent_image_is_named_with_its_digest() -> None:
    made = sbom.document(make_variant(), TEXTS, CONTENTS)
    base = packages_of(made)[sbom.BASE]
    assert (base["name"], base["versionInfo"]) == ("debian:trixie-slim", f"sha256:{'a' * 64}")
    assert (IMAGE, "DESCENDANT_OF", sbom.BASE) in relations_of(made)


def test_an_image_without_the_labels_of_its_parent_still_has_a_document(tmp_path: Path) -> None:
    made = sbom.document(make_variant(), TEXTS, replace(CONTENTS, labels={}))
    assert sbom.BASE not in packages_of(made)
    assert complaints(made, tmp_path) == []


def test_all_that_debian_packages_is_kept() -> None:
    made = sbom.document(make_variant(), TEXTS, CONTENTS)
    assert packages_of(CONTENTS.debian).keys() <= packages_of(made).keys()
    assert ("SPDXRef-zlib1g-amd64", "PACKAGE_OF", "SPDXRef-Debian") in relations_of(made)
    assert (IMAGE, "CONTAINS", "SPDXRef-Debian") in relations_of(made)


def test_the_document_describes_the_image_alone() -> None:
    made = relations_of(sbom.document(make_variant(), TEXTS, CONTENTS))
    assert [one for one in made if one[1] == "DESCRIBES"] == [("SPDXRef-DOCUMENT", "DESCRIBES", IMAGE)]


@pytest.mark.parametrize("name", KNOWN.variants)
def test_every_relationship_is_between_elements_that_the_document_has(name: str) -> None:
    made = sbom.document(KNOWN.variants[name], REAL, CONTENTS)
    ends = {end for left, _, right in relations_of(made) for end in (left, right)}
    assert ends <= {"SPDXRef-DOCUMENT", *packages_of(made)}


def test_the_same_image_gives_the_same_text_in_whatever_order_its_packages_were_read() -> None:
    turned = {key: value[::-1] if isinstance(value, list) else value for key, value in CONTENTS.debian.items()}
    made = [sbom.document(of_debian(), TEXTS, one) for one in (CONTENTS, replace(CONTENTS, debian=turned))]
    assert json.dumps(made[0]) == json.dumps(made[1])


def test_the_date_is_the_images_own() -> None:
    assert sbom.document(make_variant(), TEXTS, CONTENTS)["creationInfo"]["created"] == "2025-06-11T15:36:57Z"


def test_another_content_hash_or_another_package_gives_another_namespace() -> None:
    others = (
        CONTENTS,
        replace(CONTENTS, labels=CONTENTS.labels | {"interlock.hash": "e" * 64}),
        replace(CONTENTS, debian=make_debian("libc6", "zlib1g")),
    )
    namespaces = {sbom.document(make_variant(), TEXTS, one)["documentNamespace"] for one in others}
    assert len(namespaces) == 3


def test_the_profile_of_the_image_is_in_its_name() -> None:
    contents = replace(CONTENTS, labels={"interlock.profile": "release"})
    variant = make_variant(tag="3.13", release={"configure": ["--enable-optimizations"]})
    assert sbom.document(variant, TEXTS, contents)["name"] == "localhost/interlock/python:3.13-trixie-release"


CREATED = datetime(2025, 6, 11, 15, 36, 57, tzinfo=UTC)
STATUS = "".join(
    f"Package: {name}\nStatus: install ok installed\nVersion: {version}\nArchitecture: amd64\n"
    f"Maintainer: Somebody <nobody@example.org>\nDescription: a package\n\n"
    for name, version in (("dpkg", "1.22.21"), ("libc6", "1:2.41-12"), ("zlib1g", "1.3"))
)
RECORDS = tar_of({"var/lib/dpkg/status": STATUS.encode()}).getvalue()


def test_each_package_has_its_whole_version() -> None:
    packages = {one["name"]: one for one in debian_packages(RECORDS, CREATED)["packages"] if "versionInfo" in one}
    assert packages["libc6"]["versionInfo"] == "1:2.41-12"
    assert {"dpkg", "libc6", "zlib1g"} <= packages.keys()


def test_the_document_is_the_same_each_time_and_has_the_date_it_is_given() -> None:
    first = debian_packages(RECORDS, CREATED)
    assert first == debian_packages(RECORDS, CREATED)
    assert first["creationInfo"]["created"] == "2025-06-11T15:36:57Z"


def test_a_root_without_dpkgs_records_is_an_error_that_says_so() -> None:
    with pytest.raises(EngineError, match=r"dpkg's records cannot be read: .*status"):
        debian_packages(tar_of({"etc/os-release": b"ID=other\n"}).getvalue(), CREATED)


@pytest.mark.parametrize(
    "path",
    [
        "lib/python3.13/site-packages/pip-25.1.dist-info/METADATA",
        "lib/python2.7/site-packages/old-1.0.egg-info/PKG-INFO",
        "lib/python2.7/site-packages/older-1.0.egg-info",
        "lib/pypy3.11/dist-packages/pip-25.1.dist-info/METADATA",
    ],
)
def test_the_metadata_of_a_python_distribution_is_known_by_its_place(path: str) -> None:
    assert METADATA.search(path)


@pytest.mark.parametrize(
    "path",
    [
        "lib/python3.13/site-packages/pip/_vendor/rich-1.dist-info/METADATA",
        "lib/python3.13/METADATA",
        "lib/python3.13/site-packages/pip-25.1.dist-info/RECORD",
    ],
)
def test_what_is_vendored_or_no_metadata_is_not_taken_for_a_distribution(path: str) -> None:
    assert not METADATA.search(path)


@pytest.mark.parametrize(
    "data", [b"", b"no tar", tar_of({"a": b"b" * 2000}).read()[:900], gzip.compress(bytes(10_240))]
)
def test_an_image_whose_files_are_no_archive_is_refused(data: bytes) -> None:
    container: Any = SimpleNamespace(get_archive=lambda _: (iter([data]), {}))
    for read in (sbom._date, sbom._linked, sbom._read_packed, sbom._records):
        with pytest.raises(EngineError, match="cannot be read"):
            read(container)


def test_an_image_whose_files_have_no_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sbom, "MOST_BYTES", 10_000)
    container: Any = SimpleNamespace(get_archive=lambda _: (itertools.repeat(bytes(1000)), {}))
    with pytest.raises(EngineError, match="more than"):
        sbom._linked(container)
