"""Sources whose signature nobody checks here: Debian's index, which its archive's key signed, names the same sums."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from interlock.catalog import project as catalogs
from interlock.engine.build.base import debian_mirrors
from tests.builders import ROOT

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITES = ["bullseye", "bookworm", "trixie", "sid"]
POOL = "pool/"


def pooled() -> dict[str, tuple[str, str]]:
    """Of each source that is in Debian's pool: the name of its package, and the declared sum."""
    found = {}
    for variant in catalogs.load(ROOT).variants.values():
        for part in variant.downloads:
            for place in part.places:
                if place.startswith(POOL):
                    *_, package, file = place.split("/")
                    found[file] = (package, part.sha256)
    return found


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What apt takes for its configuration: indexes of sources alone, each signed by the key of Debian's archive."""
    if not KEYRING.is_file():
        pytest.skip("this system has no keyring of Debian's archive")
    folder = tmp_path_factory.mktemp("apt")
    mirror, _ = debian_mirrors()
    lines = [f"deb-src [signed-by={KEYRING}] {mirror} {suite} main\n" for suite in SUITES]
    (folder / "sources.list").write_text("".join(lines))
    (folder / "lists/partial").mkdir(parents=True)
    folder.chmod(0o755)
    settings = {
        "Dir::Etc::sourcelist": str(folder / "sources.list"),
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": str(folder / "lists"),
        "Dir::Cache": str(folder),
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    said = apt(settings, "apt-get", "update", "-o", "APT::Update::Error-Mode=any")
    assert "W:" not in said, said
    return settings


def apt(settings: Mapping[str, str], program: str, *words: str) -> str:
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    done = subprocess.run([program, *options, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("file", pooled())
def test_debians_signed_index_names_the_declared_sum(file: str, indexes: Mapping[str, str]) -> None:
    package, declared = pooled()[file]
    listing = apt(indexes, "apt-cache", "showsrc", package)
    sums = {
        line.split()[0] for line in listing.splitlines() if line.endswith(f" {file}") and len(line.split()[0]) == 64
    }
    if not sums:
        pytest.skip(f"none of {', '.join(SUITES)} has {file} any more")
    assert sums == {declared}
