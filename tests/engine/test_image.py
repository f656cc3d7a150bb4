"""Where an image's sources come from when the user has a mirror."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine import image
from interlock.errors import EngineError
from tests.builders import make_source, make_variant


@pytest.mark.parametrize("mirror", ["", "https://mirror.example/sources", "file:///srv/sources"])
def test_a_mirror_that_is_a_url_or_absent_is_passed_on(monkeypatch: pytest.MonkeyPatch, mirror: str) -> None:
    monkeypatch.setenv("INTERLOCK_SOURCE_MIRROR", mirror)
    assert image.source_mirror(make_variant()) == (mirror, {})


def test_a_mirror_that_is_a_folder_goes_into_the_context_with_what_the_variant_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = {"name": "pth", **make_source("pth.tgz").model_dump()}
    missing = {"name": "other", **make_source("other.tgz").model_dump()}
    for name in ("pth.tgz", "Python-3.13.1.tgz", "unrelated.tgz"):
        (tmp_path / name).write_bytes(name.encode())
    monkeypatch.setenv("INTERLOCK_SOURCE_MIRROR", str(tmp_path))
    assert image.source_mirror(make_variant(libraries=[library, missing])) == (
        "file:///interlock",
        {"sources/pth.tgz": b"pth.tgz", "sources/Python-3.13.1.tgz": b"Python-3.13.1.tgz"},
    )


def test_a_mirror_that_is_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INTERLOCK_SOURCE_MIRROR", f"{tmp_path}/nowhere")
    with pytest.raises(EngineError) as caught:
        image.source_mirror(make_variant())
    assert str(caught.value) == (
        f"key 'INTERLOCK_SOURCE_MIRROR': '{tmp_path}/nowhere' is neither a URL nor a directory. Correct it or unset it."
    )
