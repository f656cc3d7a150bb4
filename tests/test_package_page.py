"""What the package brings and what its page links to: the page of git's remote, or nothing."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from hatch_build import REPORTED, data_files, pack_record, page_of, records, text_elsewhere, urls_below
from interlock import untrusted
from interlock.catalog import project as catalogs
from interlock.report import overview
from tests.builders import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = "https://forge.example/team/interlock"


def clone_of(folder: Path, remote: str) -> Path:
    for words in (["init", "-q"], ["remote", "add", "origin", remote]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize(
    "remote",
    [
        PAGE,
        f"{PAGE}.git",
        f"{PAGE}/",
        "https://job:secret@forge.example/team/interlock.git",
        "git@forge.example:team/interlock.git",
        "ssh://git@forge.example/team/interlock",
    ],
)
def test_the_page_is_that_of_the_remote_without_what_is_secret(tmp_path: Path, remote: str) -> None:
    assert page_of(clone_of(tmp_path, remote)) == PAGE


@pytest.mark.parametrize("remote", ["/srv/interlock.git", "../interlock", "file:///srv/interlock", "host:interlock"])
def test_a_remote_that_no_browser_opens_is_no_page(tmp_path: Path, remote: str) -> None:
    assert page_of(clone_of(tmp_path, remote)) is None


def test_an_archive_has_no_page_though_another_clone_is_around_it(tmp_path: Path) -> None:
    archive = clone_of(tmp_path, PAGE) / "unpacked"
    archive.mkdir()
    assert page_of(archive) is None
    clone_of(archive, "../other")
    assert page_of(archive) is None


def links_of(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset|href)="([^"]+)"', text)


def test_every_link_of_the_readme_leads_to_a_file_below_the_page() -> None:
    links = links_of(text_elsewhere(README, PAGE))
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    inside = [link.partition("#")[0].split("/", 7)[7] for link in links if link.startswith(PAGE)]
    assert {"docs/pick.md", "docs/overview-dark.svg"} <= set(inside)
    linked = [*inside, *(url.split("/", 7)[7] for name, url in urls_below(PAGE).items() if name != "Source")]
    assert [path for path in linked if not (ROOT / path).exists()] == []


def test_without_a_page_nothing_is_linked_and_no_word_is_lost() -> None:
    alone = text_elsewhere(README, None)
    assert [link for link in links_of(alone) if not link.startswith("https://")] == []
    assert "<img" not in alone
    words = re.sub(r"\]\([^)\s]+\)|<picture>.*?</picture>|<img[^>]*>|[\[\]\s]", "", README, flags=re.DOTALL)
    assert words == re.sub(r"\]\([^)\s]+\)|[\[\]\s]", "", alone)


def test_the_values_that_come_with_the_package_are_of_the_experiment_that_the_readme_shows() -> None:
    assert Path(REPORTED).name == overview.EXPERIMENT
    assert f"{REPORTED}/report.md" in README


def test_what_the_package_brings_besides_its_code_is_small_and_says_what_the_clone_says(tmp_path: Path) -> None:
    packed = {path: pack_record(ROOT / path, tmp_path) for path in records(ROOT)}
    assert len(set(packed.values())) == len(packed) == 25 + len([*ROOT.glob("results/services/*.json")])
    for path, made in packed.items():
        assert json.loads(untrusted.record_of(made.read_bytes(), made)) == json.loads(
            (ROOT / path).read_text(encoding="utf-8")
        )
    assert sum(made.stat().st_size for made in packed.values()) < 250e3
    sizes = {path: (ROOT / path).stat().st_size for path in data_files(ROOT)}
    profiles = {path: size for path, size in sizes.items() if str(path).endswith(".tar.xz")}
    # Builds of what is installed follow the stored profiles of optimisation too, those of the core set.
    catalog = catalogs.load(ROOT)
    core = {profile.file for profile in catalog.trained.values() if catalog.variants[profile.variant].core}
    assert {path.name for path in profiles} == core
    assert sum(profiles.values()) < 2.5e6
    assert sum(sizes.values()) - sum(profiles.values()) < 650e3
    # What is installed renders each build context when it builds.
    contexts = {f"dockerfiles/{name}" for name in catalog.variants}
    assert [path for path in sizes if contexts & {str(parent) for parent in path.parents}] == []
