"""What bootstrap.sh brings for the tests starts nothing on the machine; tests/proofs/door.py looks at new machines."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.builders import ROOT

INSTALLED = re.compile(r"\binstall_debian_packages ((?:[a-z0-9 -]|\\\n)+)")
# What starts with a machine: a unit that is made to be enabled, or a script of before systemd.
UNIT, SCRIPT = re.compile(r"/systemd/system/[^/]+$"), re.compile(r"/etc/init\.d/")


def packages() -> set[str]:
    text = (ROOT / "bootstrap.sh").read_text(encoding="utf-8")
    return {word for words in INSTALLED.findall(text) for word in words.replace("\\\n", " ").split()}


def starts_of(package: str) -> list[str]:
    """The files that start something, of a package that is installed and was not there before."""
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Essential}", package], capture_output=True, text=True, check=False
    )
    if asked.stdout == "yes":
        return []
    listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False).stdout.split()
    units = [path for path in listed if UNIT.search(path) and "[Install]" in Path(path).read_text(encoding="utf-8")]
    return units + [path for path in listed if SCRIPT.search(path)]


@pytest.mark.skipif(not Path("/var/lib/dpkg").is_dir(), reason="bootstrap.sh installs nothing here")
def test_no_package_that_is_installed_for_the_tests_starts_a_service() -> None:
    assert {"gcc", "mmdebstrap", "podman", "python3"} <= packages()
    # Podman is for the proof that is about it.
    assert {package: starts for package in packages() - {"podman"} if (starts := starts_of(package))} == {}
