"""variants/published.toml: what is written is read again, what is wrong is one error, and no two images share a tag."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from interlock.catalog import project, published
from interlock.catalog.project import Catalog
from interlock.errors import CatalogError
from tests.builders import ROOT, make_published


@cache
def catalog() -> Catalog:
    return project.load(ROOT)


def read(folder: Path, text: str) -> dict[str, published.Published]:
    (folder / "variants").mkdir()
    (folder / published.FILE).write_text(text)
    return published.load_published(folder, catalog().variants)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    both = {
        "cpython-3.14t": make_published("cpython-3.14t", platforms=["linux/amd64", "linux/arm64"]),
        "debian-3.13": make_published("debian-3.13", tag="3.13-debian-trixie", version="3.13.5", signed=False),
    }
    assert read(tmp_path, published.written(both)) == both


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("sha256:d", "sha256:D", "cpython-3.14t.digest"),
        ('["cpython-3.14t"]', '["cpython-3.99"]', "cpython-3.99"),
        ("3.14t-trixie", "3.13t-trixie", "cpython-3.14t.tag"),
        ("registry.example:5000/team", "team", "cpython-3.14t.registry"),
        ('["linux/amd64"]', "[]", "cpython-3.14t.platforms"),
        ("signed = true", "signed = 2", "cpython-3.14t.signed"),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_key(old: str, new: str, key: str, tmp_path: Path) -> None:
    text = published.written({"cpython-3.14t": make_published("cpython-3.14t")})
    assert old in text
    with pytest.raises(CatalogError) as caught:
        read(tmp_path, text.replace(old, new))
    assert (caught.value.file, caught.value.key) == (published.FILE, key)


def test_a_published_image_has_tags_with_and_without_its_patch_release_and_base() -> None:
    variant = catalog().variants["cpython-3.14t"].model_copy(update={"version": "3.14.9"})
    assert published.tags_of(variant) == ["3.14t-trixie", "3.14.9t-trixie", "3.14t", "3.14.9t"]


def test_no_two_variants_are_published_by_one_tag() -> None:
    variants = catalog().variants.values()
    every = Counter(tag for one in variants for tag in published.tags_of(one))
    assert [tag for tag, count in every.items() if count > 1] == []
