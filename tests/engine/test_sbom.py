"""debsbom reads dpkg's records from a tar, the same bytes each time; what is no record is said in one line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from interlock.engine.context import tar_of
from interlock.engine.sbom import METADATA, debian_packages
from interlock.errors import EngineError

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
