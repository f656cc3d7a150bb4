"""variants/sources.toml: releases, channels with their fallbacks, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import sources
from interlock.errors import CatalogError

SUM = "a" * 64


def make_source(release: str = "3.13.18", **changes: Any) -> dict[str, Any]:
    name = f"Python-{release}.tar.xz"
    place = f"https://www.python.org/ftp/python/{release}/{name}"
    return {"file": name, "sha256": SUM, "sum_from": "an index", "places": [place], "unsigned": "nobody"} | changes


def make_fork(version: str = "1.0.0", **changes: Any) -> dict[str, Any]:
    return make_source(version, version=version, **changes)


def make_tables(channels: dict[str, list[str]] | None = None, **named: dict[str, Any]) -> dict[str, Any]:
    every = {name: make_source(name) for name in ("3.13.18", "3.13.15", "3.13.9")}
    return {"channels": channels or {"3.13": ["3.13.18", "3.13.15"]}, "sources": every | named}


def test_a_channel_names_its_releases_and_a_source_itself() -> None:
    known = sources.parse(Path(), make_tables())
    assert [one.version for one in known.releases("3.13")] == ["3.13.18", "3.13.15"]
    assert [one.version for one in known.releases("3.13.9")] == ["3.13.9"]
    assert known.releases("3.99") == []


def test_a_source_with_another_name_says_its_version() -> None:
    known = sources.parse(Path(), make_tables(**{"fork-3.9": make_fork(version="3.9.10")}))
    assert known.sources["fork-3.9"].version == "3.9.10"


@pytest.mark.parametrize(
    ("place", "host"),
    [
        ("https://me:secret@mirror.example:8443/a.tgz", "mirror.example:8443"),
        ("https://example.org/a.tgz", "example.org"),
        ("pool/main/a.tgz", "apt's mirror"),
        ("pip/a.whl", "pip's index"),
    ],
)
def test_whom_a_place_is_asked_from_is_said_without_a_password(place: str, host: str) -> None:
    assert sources.host_of(place) == host


def make_signature() -> dict[str, Any]:
    return {"key": "a.asc", "places": ["https://example.org/a.asc"]}


REFUSED = [
    (make_tables({"3.13": ["3.13.18", "3.13.7"]}), "'3.13.7'"),
    (make_tables({"3.13": ["3.13.15", "3.13.18"]}), "'3.13.18' after '3.13.15'"),
    (make_tables({"3.13": ["3.13.9", "3.13.18"]}), "'3.13.18' after '3.13.9'"),  # by number, not by letters
    (make_tables({"3.13": ["3.13.18", "3.13.18"]}), "'3.13.18' twice"),
    (make_tables({"3.13.18": ["3.13.18"]}), "a channel and a source"),
    (make_tables(x=make_fork(signature=make_signature())), "signature and unsigned"),
    (make_tables(x=make_fork(unsigned=None)), "found none"),
]


@pytest.mark.parametrize(("tables", "found"), REFUSED)
def test_what_contradicts_itself_is_refused(tables: dict[str, Any], found: str) -> None:
    with pytest.raises(CatalogError) as error:
        sources.parse(Path(), tables)
    assert found in error.value.found
    assert error.value.file == "variants/sources.toml"


def test_an_error_names_the_source_and_its_key() -> None:
    with pytest.raises(CatalogError) as error:
        sources.parse(Path(), make_tables(x=make_fork(sha256="ff")))
    assert error.value.key == "sources.x.sha256"


@pytest.mark.parametrize("tables", [{"sources": 3}, {"channels": 3}, {"sources": {"3.13.18": 3}}, {"other": {}}])
def test_what_is_no_table_is_refused(tables: dict[str, Any]) -> None:
    with pytest.raises(CatalogError):
        sources.parse(Path(), tables)


def test_a_user_adds_sources_and_replaces_channels_by_name(tmp_path: Path) -> None:
    text = '[channels]\n"3.13" = ["{0}"]\n[sources."{0}"]\nfile = "a.tgz"\nsha256 = "{1}"\nsum_from = "me"\n'
    text += 'places = ["https://example.org/a.tgz"]\nunsigned = "mine"\n'
    for folder, version in ((tmp_path, "3.13.15"), (tmp_path / "own", "3.13.20")):
        (folder / "variants").mkdir(parents=True)
        (folder / "variants/sources.toml").write_text(text.format(version, SUM))
    known = sources.load(tmp_path)
    assert [one.version for one in known.releases("3.13")] == ["3.13.20"]
    assert known.sources.keys() == {"3.13.15", "3.13.20"}


def test_a_name_that_does_not_exist_is_told_with_the_nearest() -> None:
    with pytest.raises(CatalogError) as error:
        sources.parse(Path(), make_tables()).require("3.31", "variants/x.toml", "source")
    assert error.value.file == "variants/x.toml"
    assert "3.13" in error.value.todo
