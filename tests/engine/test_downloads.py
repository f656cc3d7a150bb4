"""What goes into a build's context of the files that it needs: from the user's folder, and from pip's index."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine import downloads
from interlock.errors import EngineError
from interlock.model import Variant
from tests.builders import make_download, make_source, make_variant, make_wheel

MIRROR = "INTERLOCK_SOURCE_MIRROR"
WHEEL = "toy-1.0-cp39-cp39-manylinux2014_x86_64.whl"
RELEASE = "pip/toy==1.0"


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MIRROR, raising=False)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is all that pip knows of."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def needs(sha256: str, file: str = WHEEL, place: str = RELEASE) -> Variant:
    """A variant whose finish needs one file."""
    download = make_download(file, sha256=sha256, places=[place])
    return make_variant(finish={"steps": ["a.sh"], "downloads": [download]})


@pytest.mark.parametrize("mirror", ["https://mirror.example/sources", "file:///srv/sources"])
def test_a_mirror_that_is_a_url_is_what_builds_are_told_and_nothing_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mirror: str
) -> None:
    monkeypatch.setenv(MIRROR, mirror)
    assert downloads.mirror_url() == mirror
    assert downloads.local_files(make_variant(), tmp_path) == {}


@pytest.mark.parametrize("mirror", [None, ""])
def test_without_a_mirror_builds_are_told_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mirror: str | None
) -> None:
    if mirror is not None:
        monkeypatch.setenv(MIRROR, mirror)
    assert downloads.mirror_url() == ""
    assert downloads.local_files(make_variant(), tmp_path) == {}


def test_a_mirror_that_is_a_folder_goes_into_the_context_with_what_the_variant_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = {"name": "pth", **make_source("pth.tgz").model_dump()}
    missing = {"name": "other", **make_source("other.tgz").model_dump()}
    for name in ("pth.tgz", "Python-3.13.1.tgz", "unrelated.tgz", "wheel.whl"):
        (tmp_path / name).write_bytes(name.encode())
    monkeypatch.setenv(MIRROR, str(tmp_path))
    finish = {"steps": ["a.sh"], "downloads": [make_download("wheel.whl")]}
    variant = make_variant(libraries=[library, missing], finish=finish)
    assert downloads.mirror_url() == ""
    assert downloads.local_files(variant, tmp_path / "cache") == {
        "sources/pth.tgz": b"pth.tgz",
        "sources/Python-3.13.1.tgz": b"Python-3.13.1.tgz",
        "finish-sources/wheel.whl": b"wheel.whl",
    }


def test_a_mirror_that_is_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(MIRROR, f"{tmp_path}/nowhere")
    with pytest.raises(EngineError) as caught:
        downloads.local_files(make_variant(), tmp_path)
    assert str(caught.value) == (
        f"key 'INTERLOCK_SOURCE_MIRROR': '{tmp_path}/nowhere' is neither a URL nor a directory. Correct it or unset it."
    )


@pytest.mark.parametrize(
    "file",
    [
        WHEEL,
        "toy-1.0-py3-none-any.whl",
        "toy-1.0-py2.py3-none-any.whl",
        "toy-1.0-py3-none-manylinux2010_x86_64.whl",
        "toy-1.0-cp39-cp39-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "toy-1.0-cp313-cp313t-musllinux_1_2_aarch64.whl",
    ],
)
def test_a_wheel_of_pips_index_is_found_whichever_interpreter_it_is_for_and_then_kept(
    index: Path, tmp_path: Path, file: str
) -> None:
    sha256 = make_wheel(index, file)
    variant, cache, data = needs(sha256, file), tmp_path / "cache", (index / file).read_bytes()
    assert downloads.local_files(variant, cache) == {f"finish-sources/{file}": data}
    (index / file).unlink()
    assert downloads.local_files(variant, cache) == {f"finish-sources/{file}": data}, "from the cache"
    assert [path.name for path in (cache / "downloads").iterdir()] == [sha256], "and nothing else is left there"


def test_a_wheel_that_pips_index_lacks_is_left_to_the_build(index: Path, tmp_path: Path) -> None:
    assert downloads.local_files(needs("0" * 64), tmp_path / "cache") == {}
    assert list((tmp_path / "cache/downloads").iterdir()) == []


def test_a_wheel_with_another_sum_is_left_to_the_build_and_not_kept(index: Path, tmp_path: Path) -> None:
    make_wheel(index, WHEEL)
    assert downloads.local_files(needs("0" * 64), tmp_path / "cache") == {}
    assert list((tmp_path / "cache/downloads").iterdir()) == []


@pytest.mark.parametrize("file", ["toy-1.0.tar.gz", "toy.zip", "toy-1.0-cp39-cp39-linux_x86_64.tar"])
def test_what_is_no_wheel_is_left_to_the_build(index: Path, tmp_path: Path, file: str) -> None:
    (index / file).write_bytes(b"")
    assert downloads.local_files(needs("0" * 64, file), tmp_path / "cache") == {}


def test_pip_is_not_asked_for_what_has_another_place(index: Path, tmp_path: Path) -> None:
    sha256 = make_wheel(index, WHEEL)
    assert downloads.local_files(needs(sha256, place=f"https://sources.invalid/{WHEEL}"), tmp_path / "cache") == {}
    assert not (tmp_path / "cache").exists()


def test_the_users_folder_comes_before_pips_index(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = make_wheel(index, WHEEL)
    (tmp_path / WHEEL).write_bytes(b"the user's own")
    monkeypatch.setenv(MIRROR, str(tmp_path))
    assert downloads.local_files(needs(sha256), tmp_path / "cache") == {f"finish-sources/{WHEEL}": b"the user's own"}


TAG = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
TAGS = st.lists(TAG, min_size=1, max_size=3).map(".".join)
PYTHONS = st.lists(st.from_regex(r"(cp|py|pp)[0-9]{1,3}", fullmatch=True), min_size=1, max_size=3).map(".".join)


@given(PYTHONS, TAGS, TAGS)
def test_pip_is_told_the_first_of_each_of_the_three_tags_of_a_wheels_name(python: str, abi: str, platform: str) -> None:
    options = downloads._tags(f"toy-1.0-{python}-{abi}-{platform}.whl")
    assert options[::2] == list(downloads.TAGS)
    assert options[1::2] == [
        python.split(".", maxsplit=1)[0][2:],
        abi.split(".", maxsplit=1)[0],
        platform.split(".", maxsplit=1)[0],
    ]
