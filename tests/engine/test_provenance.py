"""What an image says of where it comes from, in real git repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from interlock import __version__
from interlock.engine.provenance import TRACKED, labels, revision
from interlock.model import BaseImage

DIGEST = f"sha256:{'a' * 64}"
IMAGE_ID = f"sha256:{'b' * 64}"
PULLED = BaseImage(reference=f"debian:trixie-slim@{DIGEST}", origin="registry", image_id=IMAGE_ID)
MADE = BaseImage(reference="interlock/base:trixie-0123456789ab", origin="debootstrap", image_id=IMAGE_ID)


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A committed project."""
    root = tmp_path / "clone"
    (root / TRACKED).parent.mkdir(parents=True)
    (root / TRACKED).write_text("[trixie]\n")
    (root / ".gitignore").write_text("results/\n")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
    return root


def test_the_revision_is_the_commit(clone: Path) -> None:
    assert revision(clone) == git(clone, "rev-parse", "HEAD")


def test_a_changed_file_makes_the_revision_dirty(clone: Path) -> None:
    (clone / TRACKED).write_text("[bookworm]\n")
    assert revision(clone) == f"{git(clone, 'rev-parse', 'HEAD')}-dirty"


def test_a_variant_that_is_not_committed_makes_the_revision_dirty(clone: Path) -> None:
    (clone / "variants/new.toml").write_text("")
    assert revision(clone) == f"{git(clone, 'rev-parse', 'HEAD')}-dirty"


def test_what_git_ignores_leaves_the_revision_clean(clone: Path) -> None:
    (clone / "results").mkdir()
    (clone / "results/experiment.json").write_text("{}")
    assert revision(clone) == git(clone, "rev-parse", "HEAD")


def test_a_folder_outside_git_has_no_revision(tmp_path: Path) -> None:
    assert revision(tmp_path) is None


def test_a_repository_without_a_commit_has_no_revision(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert revision(tmp_path) is None


def test_a_copy_inside_another_repository_does_not_take_that_ones_commit(clone: Path) -> None:
    copy = clone / "results/copy"
    (copy / TRACKED).parent.mkdir(parents=True)
    (copy / TRACKED).write_text("[trixie]\n")
    assert revision(copy) is None


def test_a_machine_without_git_has_no_revision(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert revision(clone) is None


def test_the_labels_name_commit_parent_and_builder(clone: Path) -> None:
    assert labels(clone, PULLED) == {
        "org.opencontainers.image.revision": git(clone, "rev-parse", "HEAD"),
        "org.opencontainers.image.base.name": "debian:trixie-slim",
        "org.opencontainers.image.base.digest": DIGEST,
        "interlock.version": __version__,
    }


def test_outside_git_the_label_of_the_revision_is_left_out(tmp_path: Path) -> None:
    assert "org.opencontainers.image.revision" not in labels(tmp_path, PULLED)


def test_a_base_that_debootstrap_made_is_named_by_its_local_tag_and_id(tmp_path: Path) -> None:
    found = labels(tmp_path, MADE)
    assert found["org.opencontainers.image.base.name"] == "interlock/base:trixie-0123456789ab"
    assert found["org.opencontainers.image.base.digest"] == IMAGE_ID
