"""A user's folder adds to what is installed, or overrides it by name; which file won is said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interlock.catalog import overlay
from interlock.catalog import project as catalogs
from interlock.catalog.project import ProjectPaths
from interlock.errors import CatalogError
from tests.builders import ROOT


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder outside of any clone, which is the current one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "service"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def put(service: Path, name: str, text: str) -> Path:
    (service / name).parent.mkdir(exist_ok=True)
    (service / name).write_text(text)
    return service / name


def test_outside_a_clone_the_project_is_what_is_installed(service: Path, tmp_path: Path) -> None:
    paths = ProjectPaths.find()
    assert paths.root == ROOT
    assert paths.results == tmp_path / "data" / "interlock" / "results"
    assert paths.cache == tmp_path / "cache" / "interlock"
    assert paths.reference == ROOT / "results" / "reference"
    assert not paths.is_clone
    assert paths.own == ()


def test_in_a_clone_all_lies_in_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "variants")
    paths = ProjectPaths.find()
    assert (paths.root, paths.results, paths.is_clone) == (project, project / "results", True)


def test_a_variant_of_ones_own_is_added_and_one_of_the_same_name_wins(service: Path) -> None:
    text = (ROOT / "variants/cpython-3.14.toml").read_text()
    put(service, "variants/mine.toml", text.replace('tag = "3.14"', 'tag = "mine"'))
    put(service, "variants/cpython-3.14.toml", text.replace('tag = "3.14"', 'tag = "3.14-mine"'))
    (service / "inner").mkdir()
    paths = ProjectPaths.find()
    known = catalogs.load(paths.root).variants
    assert known.keys() == {*catalogs.load(ROOT).variants, "mine"}
    assert known["cpython-3.14"].tag == "3.14-mine"
    assert {one.name: one.replaces for one in paths.own} == {
        "variants/cpython-3.14.toml": True,
        "variants/mine.toml": False,
    }
    assert paths.results == service / "results"
    assert paths.reference.is_dir()


def test_tables_of_ones_own_are_read_besides_those_that_are_installed(service: Path) -> None:
    put(service, "variants/families.toml", (ROOT / "variants/families.toml").read_text().replace("[", "[my-", 1))
    paths = ProjectPaths.find()
    added = catalogs.load(paths.root).families.keys() - catalogs.load(ROOT).families.keys()
    assert len(added) == 1
    assert paths.own[0].name in overlay.TABLES
    assert paths.own[0].words.startswith(str(paths.own[0].path))


def test_a_folder_with_bases_and_workloads_of_its_own_is_no_clone(service: Path) -> None:
    put(service, "variants/bases.toml", (ROOT / "variants/bases.toml").read_text().replace("[", "[my-", 1))
    (service / "workloads").mkdir()
    paths = ProjectPaths.find()
    assert not paths.is_clone
    added = catalogs.load(paths.root).bases.keys() - catalogs.load(ROOT).bases.keys()
    assert [name[:3] for name in added] == ["my-"]


def test_a_slip_in_tables_of_ones_own_is_reported_of_ones_own_file(service: Path) -> None:
    mine = put(service, "variants/bases.toml", "[mine\n")
    with pytest.raises(CatalogError) as caught:
        catalogs.load(ProjectPaths.find().root)
    assert caught.value.file == str(mine.resolve())


def test_claims_of_ones_own_are_read_besides_those_that_are_installed(service: Path) -> None:
    shipped = [*catalogs.load_claims(ROOT).claims.values()]
    text = (ROOT / "workloads/claims.toml").read_text()
    claim = text[text.index(f"[claims.{shipped[0].name}]") :].partition("\n\n")[0]
    own = claim.replace(shipped[0].name, "mine").replace('source = "gnu-pth"', 'source = "ours"')
    put(service, "workloads/claims.toml", f'[sources.ours]\nauthor = "a"\ntitle = "b"\ndate = "2026"\n{own}\n')
    known = catalogs.load_claims(ProjectPaths.find().root)
    assert known.claims.keys() == {*(one.name for one in shipped), "mine"}
    assert known.claims["mine"].source.author == "a"


def test_a_file_that_is_changed_afterwards_is_read_as_it_is(service: Path) -> None:
    text = (ROOT / "variants/cpython-3.14.toml").read_text()
    mine = put(service, "variants/mine.toml", text.replace('tag = "3.14"', 'tag = "mine"'))
    first = ProjectPaths.find().root
    mine.write_text(mine.read_text().replace('tag = "mine"', 'tag = "other"'))
    assert ProjectPaths.find().root == first
    assert catalogs.load(first).variants["mine"].tag == "other"


def test_programs_of_ones_own_are_there_beside_those_that_are_installed(service: Path) -> None:
    put(service, "workloads/mine.py", "print(1)\n")
    put(service, "workloads/mine.toml", (ROOT / "workloads/startup.toml").read_text())
    root = ProjectPaths.find().root
    assert (root / "workloads/mine.py").read_text() == "print(1)\n"
    assert (root / "workloads/protocol.py").read_bytes() == (ROOT / "workloads/protocol.py").read_bytes()
    assert (root / "dockerfiles/fetch.sh").is_file()
    assert (root / "playbooks/host.yml").is_file()


def test_two_processes_may_lay_the_same_folder(tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(ROOT / "variants" / "steps", own / "variants" / "steps")
    first = overlay.lay(ROOT, own, tmp_path / "cache")
    overlay._make(first, {"a": own})
    assert overlay.lay(ROOT, own, tmp_path / "cache") == first
    assert [path.name for path in first.parent.iterdir()] == [first.name]
