"""The core set without containers: what stands for what only containers have, and what is left out and why."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import Catalog
from interlock.catalog.variants import Variant
from interlock.engine.host import core, toolchain
from interlock.engine.host.core import core_here
from interlock.engine.protocol import CoreSet
from tests.builders import FROM_IMAGE, FROM_PACKAGES, ROOT, make_program, make_variant

ANSWERS = (
    "version={} implementation=cpython thread_flavour=pthread gil=on loaded_libraries=libc.so.6 prefix=/usr "
    "optimisation=-O3"
)


def interpreter(folder: Path, version: str) -> Path:
    """A folder with an interpreter that says it is of this version."""
    (folder / "bin").mkdir(parents=True)
    make_program(folder / "bin/python3", "\n".join(f"echo {word}" for word in ANSWERS.format(version).split()))
    return folder


def stand_in(name: str, version: str, place: Path, stands_for: str) -> Variant:
    return make_variant(
        name,
        version=version,
        interpreter=None,
        prefix={"places": [str(place)], "python": "python3"},
        stands_for=stands_for,
    )


def here(tmp_path: Path, *variants: Variant) -> CoreSet:
    known = catalogs.load(ROOT)
    catalog = known.model_copy(update={"variants": {one.name: one for one in variants}})
    return core_here(catalog, tmp_path / "cache")


@pytest.fixture(autouse=True)
def _compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "missing", lambda _: [])


BUILT = make_variant("built", core=True)
OF_DEBIAN = make_variant("of-debian", core=True, **FROM_PACKAGES)


def test_the_systems_own_interpreter_stands_for_debians_the_newest_one_that_is_there(tmp_path: Path) -> None:
    stand_ins = [
        stand_in("system-3.9", "3.9.2", interpreter(tmp_path / "a", "3.9.2"), "of-debian"),
        stand_in("system-3.11", "3.11.2", interpreter(tmp_path / "b", "3.11.2"), "of-debian"),
        stand_in("system-3.12", "3.12.3", tmp_path / "none", "of-debian"),
    ]
    assert here(tmp_path, BUILT, OF_DEBIAN, *stand_ins) == CoreSet(["built", "system-3.11"], [])


def test_an_interpreter_that_is_another_one_than_is_declared_does_not_stand_for_it(tmp_path: Path) -> None:
    other = stand_in("system-3.11", "3.11.2", interpreter(tmp_path / "a", "3.11.9"), "of-debian")
    found = here(tmp_path, BUILT, OF_DEBIAN, other)
    assert found.labels == ["built"]
    ((label, reason),) = found.left_out
    assert label == "of-debian"
    assert "needs a container engine" in reason
    assert "system-3.11" in reason
    assert "'3.11.9', not '3.11.2'" in reason


def test_what_needs_containers_and_has_no_stand_in_is_left_out_with_its_reason(tmp_path: Path) -> None:
    found = here(tmp_path, BUILT, make_variant("official", core=True, **FROM_IMAGE))
    assert found == CoreSet(["built"], [("official", "a variant of kind 'image' needs a container engine")])


def test_without_a_compiler_what_others_built_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "missing", lambda needs: [one for one in needs if one.what in {"gcc", "make"}])
    own = stand_in("system-3.11", "3.11.2", interpreter(tmp_path / "a", "3.11.2"), "of-debian")
    found = here(tmp_path, BUILT, OF_DEBIAN, own)
    assert found.labels == ["system-3.11"]
    assert [label for label, _ in found.left_out] == ["built"]
    assert "no gcc, make" in found.left_out[0][1]


@pytest.mark.skipif(not Path("/usr/bin/python3.11").exists(), reason="needs Debian 12's python3")
def test_debian_12s_own_python_is_what_its_file_says() -> None:
    known: Catalog = catalogs.load(ROOT)
    assert core.why_not(known.variants["system-3.11"], Path(sys.prefix)) == ""
