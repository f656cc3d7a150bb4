"""What a volume of packages is known by, and what is read from the names of wheels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.packages.installer import planned, versions_of

LINES = st.lists(st.text(min_size=1), min_size=1, unique=True)


def test_the_names_of_wheels_tell_packages_and_versions() -> None:
    places = [
        "/audit/wheels/Backports.functools_lru_cache-1.6.6-py2.py3-none-any.whl",
        "/audit/wheels/mercurial-7.2.4-1-cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    ]
    assert versions_of(places) == {"backports-functools-lru-cache": "1.6.6", "mercurial": "7.2.4"}


@given(st.text(min_size=1), LINES)
def test_the_same_image_and_lines_have_the_same_volume(image: str, lines: list[str]) -> None:
    assert planned(image, lines) == planned(image, list(lines))


@given(st.text(min_size=1), LINES, st.text(min_size=1))
def test_another_image_or_line_has_another_volume(image: str, lines: list[str], more: str) -> None:
    assert planned(image, lines).volume != planned(image + more, lines).volume
    assert planned(image, lines).volume != planned(image, [*lines, more]).volume


def test_a_cell_finds_modules_below_the_place() -> None:
    found = planned("sha256:1", ["six"])
    assert found.site == f"{found.mount_path}/site"
    assert found.mount_path.startswith("/packages/")
