"""The charts as files for READMEs."""

from __future__ import annotations

import struct
from xml.etree import ElementTree

import pytest

from interlock.html import pictures
from tests.reports import VARIANTS, example

FILES = dict(pictures.pictures(*example()))
SVG = "{http://www.w3.org/2000/svg}"


def test_each_chart_is_an_svg_and_a_png() -> None:
    stems = {name.rpartition(".")[0] for name in FILES}
    assert {f"{stem}.{kind}" for stem in stems for kind in ("svg", "png")} == set(FILES)
    assert {"heat-map", "summary", "ratio-locks-queue", "calls-locks-uncontended", "memory"} <= stems


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".svg")])
def test_an_svg_is_whole_and_knows_no_css(name: str) -> None:
    root = ElementTree.fromstring(FILES[name])  # noqa: S314  our own file
    assert root.tag == f"{SVG}svg"
    assert b"var(" not in FILES[name]
    assert b"http" not in FILES[name].replace(b"http://www.w3.org/", b"")


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".png")])
def test_a_png_has_two_pixels_for_each_of_its_svg(name: str) -> None:
    content = FILES[name]
    assert content.startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", content[16:24])
    root = ElementTree.fromstring(FILES[name.replace(".png", ".svg")])  # noqa: S314
    assert (width, height) == (2 * round(float(root.attrib["width"])), 2 * round(float(root.attrib["height"])))


def test_a_picture_tells_by_itself_what_it_shows() -> None:
    root = ElementTree.fromstring(FILES["heat-map.svg"])  # noqa: S314
    texts = [" ".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    assert "Variants and benchmarks" in texts
    assert any("Time per unit of work as a multiple of cpython-3.13's" in text for text in texts)
    assert set(VARIANTS) <= set(texts)


def test_a_picture_that_is_made_again_is_the_same() -> None:
    again = dict(pictures.pictures(*example()))
    assert again["summary.svg"] == FILES["summary.svg"]
    assert again["heat-map.png"] == FILES["heat-map.png"]
