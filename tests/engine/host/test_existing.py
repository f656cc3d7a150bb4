"""Interpreters that others built: an archive is fetched by its sum, proved and used, and links lead to the system's."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.variants import Variant
from interlock.engine.build import builds
from interlock.engine.host import existing
from interlock.engine.host.core import why_not
from interlock.engine.host.prefixes import DONE, PrefixBuilder
from interlock.engine.protocol import BuildOptions
from interlock.results.experiments import Built, State
from tests.builders import ROOT, make_variant
from tests.fakes import files_of, serving
from tests.integration.toys import ANSWERS, toy_tarball

FILE = f"python-{platform.machine()}.tar.gz"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The address of a server of tmp_path/served."""
    (tmp_path / "served").mkdir()
    with serving(files_of(tmp_path / "served")) as port:
        yield f"http://127.0.0.1:{port}"


def packed(folder: Path) -> str:
    """Write an archive whose only folder has an interpreter and its library, and return its sum."""
    toy_tarball(folder, FILE)
    unpacked = folder / "toy"
    subprocess.run(["tar", "-xzf", FILE], cwd=folder, check=True)
    for below in ("bin", "lib/python9.9"):
        (unpacked / below).mkdir(parents=True)
    (unpacked / "python9").rename(unpacked / "bin/python9")
    subprocess.run(["tar", "-czf", FILE, "toy"], cwd=folder, check=True)
    return hashlib.sha256((folder / FILE).read_bytes()).hexdigest()


def variant(sha256: str, *places: str, here: str = "/nowhere/python") -> Variant:
    archive = {
        "file": "python-{machine}.tar.gz",
        "sha256": {platform.machine(): sha256},
        "sum_from": "this test",
        "unsigned": "it needs none",
        "places": [f"{place}/python-{{machine}}.tar.gz" for place in places],
    }
    return make_variant(
        "one",
        version=ANSWERS["version"],
        interpreter=None,
        prefix={"places": [here], "archive": archive},
    )


def builder(one: Variant, tmp_path: Path) -> PrefixBuilder:
    known = catalogs.load(ROOT).model_copy(update={"variants": {one.name: one}})
    return PrefixBuilder(known, BuildOptions(ROOT, tmp_path / "cache"), lambda *_: None)


def build(one: Variant, tmp_path: Path) -> Built:
    (built,) = builds.build(builder(one, tmp_path), [one.name])
    return built


def test_an_archive_is_fetched_proved_and_not_fetched_again(served: str, tmp_path: Path) -> None:
    one = variant(packed(tmp_path / "served"), "http://127.0.0.1:1", served)
    assert why_not(one, tmp_path / "cache") == ""
    built = build(one, tmp_path)
    assert built.outcome.state is State.OK, built.outcome.reason
    assert (Path(built.image_id) / "bin/python").is_file()
    (tmp_path / "served" / FILE).unlink()
    again = build(one, tmp_path)
    assert (again.reused, again.image_id) == (True, built.image_id)


def test_an_archive_with_another_sum_is_refused_and_nothing_of_it_stays(served: str, tmp_path: Path) -> None:
    packed(tmp_path / "served")
    built = build(variant("1" * 64, served), tmp_path)
    assert built.outcome.state is State.FAILED
    assert "wanted 1111" in built.outcome.reason
    assert not list((tmp_path / "cache").rglob(DONE))


def test_an_archive_that_nobody_answers_for_is_told_before_it_is_expected(tmp_path: Path) -> None:
    reason = why_not(variant("1" * 64, "http://127.0.0.1:1"), tmp_path / "cache")
    assert reason.startswith("it cannot be fetched: 127.0.0.1:1: ")


def test_the_users_own_mirror_comes_first(served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = packed(tmp_path / "mirror")
    monkeypatch.setenv("INTERLOCK_SOURCE_MIRROR", str(tmp_path / "mirror"))
    assert build(variant(sha256, served), tmp_path).outcome.state is State.OK


def installed(tmp_path: Path, python: str) -> tuple[Path, Variant]:
    """A folder that has an interpreter of this name, and the variant that declares it."""
    packed(tmp_path / "served")
    place = tmp_path / "served/toy"
    (place / "bin/python9").rename(place / "bin" / python)
    declared = {"places": [str(place)], "python": python}
    return place, make_variant("one", version=ANSWERS["version"], interpreter=None, prefix=declared)


def test_what_others_installed_outlives_a_build_that_is_forced(tmp_path: Path) -> None:
    place, one = installed(tmp_path, "python")
    before = sorted(place.rglob("*"))
    forced = replace(builder(one, tmp_path), options=BuildOptions(ROOT, tmp_path / "cache", rebuild="1"))
    (built,) = builds.build(forced, [one.name])
    assert sorted(place.rglob("*")) == before
    assert (built.outcome.state, built.image_id, built.reused) == (State.OK, str(place), True)


def test_an_interpreter_without_the_plain_name_is_used_by_links(tmp_path: Path) -> None:
    place, one = installed(tmp_path, "python9.9")
    built = build(one, tmp_path)
    assert built.outcome.state is State.OK, built.outcome.reason
    assert Path(built.image_id).is_relative_to(tmp_path / "cache")
    assert (Path(built.image_id) / "bin/python").resolve() == place / "bin/python9.9"


def test_links_that_lead_to_the_interpreter_stay_and_others_are_made_anew(tmp_path: Path) -> None:
    links = [tmp_path / "bin/python", tmp_path / "bin/python3"]
    existing.link(tmp_path, Path("/one/python"))
    for path in links:
        os.utime(path, (0, 0), follow_symlinks=False)
    existing.link(tmp_path, Path("/one/python"))
    assert [path.lstat().st_mtime for path in links] == [0, 0]
    existing.link(tmp_path, Path("/two/python"))
    assert [path.readlink() for path in links] == [Path("/two/python")] * 2
