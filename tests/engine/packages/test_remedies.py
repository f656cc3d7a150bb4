"""What helps without a wheel: the nearest release that has one, and Debian's package, by what real builds print."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine.ended import Ended
from interlock.engine.packages.pip_container import PipContainer
from interlock.engine.packages.remedies import nearest_release, release_with_wheel, system_package


@pytest.mark.parametrize(
    ("version", "releases", "nearest"),
    [
        ("2.23.4", ["2.46.0", "2.41.0", "2.9.0"], "2.41.0"),
        ("2.41.0", ["2.46.0", "2.41.0"], "2.41.0"),
        ("3.0", ["2.0", "1.0"], "2.0"),
        ("", ["2.0", "1.0"], "1.0"),
        ("1.0", ["2.0rc1", "3.0", "no version"], "3.0"),
        ("1.0", ["2.0rc1"], "2.0rc1"),
        ("1.0", [], ""),
    ],
)
def test_the_nearest_release_is_the_oldest_from_there_on_else_the_newest_before(
    version: str, releases: list[str], nearest: str
) -> None:
    assert nearest_release(version, releases) == nearest


@pytest.mark.parametrize(
    ("output", "package"),
    [
        ("      Error: pg_config executable not found.\n\n      pg_config is required to build psycopg2", "libpq-dev"),
        ("Modules/common.h:15:10: fatal error: lber.h: No such file or directory", "libldap-dev"),
        ("Package 'mysqlclient', required by 'virtual:world', not found", "libmariadb-dev-compat"),
        ('../meson.build:31:12: ERROR: Dependency "cairo" not found, tried pkgconfig', "libcairo2-dev"),
        ("/usr/bin/ld: cannot find -lpq: No such file or directory", "libpq-dev"),
        ("Error: Please make sure the libxml2 and libxslt development packages are installed.", "libxml2-dev"),
        ("Cargo, the Rust package manager, is not installed or is not on PATH.", "cargo"),
        ("error: can't find Rust compiler", "rustc"),
        ("src/x.c:1:10: fatal error: my-mysql.h: No such file or directory", ""),
        ("libpq-dev cairo pg_config", ""),
        ("", ""),
    ],
)
def test_debians_package_is_told_by_what_a_build_says_it_lacks(output: str, package: str) -> None:
    assert system_package(output) == package


class Index(PipContainer):
    """A container whose pip finds a wheel at this address alone."""

    def pip(self, *words: str, deadline_s: float, **_: str) -> Ended:
        there = words[-1] == "https://me:secret@example.org/simple"
        return Ended(0, "Found link https://example.org/foo-1-py3-none-any.whl (from x), version: 1" if there else "")


def test_an_index_is_asked_with_the_variables_of_its_address_filled_in() -> None:
    nothing: Any = None
    options = ["--no-binary :all:", "--extra-index-url https://${TOKEN}@example.org/simple"]
    assert release_with_wheel(Index(nothing, {"TOKEN": "me:secret"}), "foo", "1", options) == "1"
