"""What an installation would bring, asked of this machine's own tools and of ones that are played."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interlock.engine import system_packages
from interlock.engine.system_packages import Installation
from tests.builders import make_program

APT_GET = """\
echo "'http://mirror/a_1.0_amd64.deb' a_1.0_amd64.deb 2000000 SHA256:00"
echo "'http://mirror/liba1_2%3a1_amd64.deb' liba1_2%3a1_amd64.deb 500000 SHA256:00"
"""
APT_CACHE = """\
[ "$2" = a ] && exit 0
printf 'Package: a\\nInstalled-Size: 4000\\n\\nPackage: liba1\\nInstalled-Size: 1000\\n'
"""
DPKG_QUERY = "echo 'ii  here'\necho 'hi  held'\necho 'rc  removed'\n"


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose distribution's tools are played."""
    for name, text in {"apt-get": APT_GET, "apt-cache": APT_CACHE, "dpkg-query": DPKG_QUERY}.items():
        make_program(tmp_path / name, text)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(system_packages, "PATH", f"{tmp_path}:/bin:/usr/bin")
    return tmp_path


def test_an_installation_is_told_with_what_it_depends_on_and_its_sizes(played: Path) -> None:
    found = system_packages.installation(["here", "a"])
    assert found == Installation(("a", "liba1"), 2_500_000, 5_120_000)
    assert all(part in found.words for part in ("2 packages", "2 MB", "5 MB", "a, liba1"))


def test_what_is_here_is_not_installed_and_what_was_removed_is_not_here(played: Path) -> None:
    assert system_packages.installation(["here", "held"]).names == ()
    assert system_packages.installed() == {"here", "held"}


def test_dpkg_is_asked_once_however_many_packages_are_wanted(played: Path) -> None:
    asked = played / "asked"
    make_program(played / "dpkg-query", f"echo >> {asked}\n{DPKG_QUERY}")
    assert system_packages.installation(["here", "a", "b", "c"]).names == ("a", "liba1")
    assert asked.read_text().count("\n") == 1


def test_without_its_lists_apt_tells_the_names_that_were_asked_for_alone(played: Path) -> None:
    make_program(played / "apt-get", "exit 100")
    found = system_packages.installation(["a", "b"])
    assert found == Installation(("a", "b"))
    assert "not known" in found.words


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="this machine has no dpkg")
def test_this_machines_own_tools_are_understood() -> None:
    assert {"dpkg", "bash"} <= system_packages.installed()
