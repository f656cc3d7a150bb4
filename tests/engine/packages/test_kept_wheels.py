"""What leaves a builder is one wheel of its package, and what is kept is what was built."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from docker.errors import NotFound

from interlock.engine.build.sources import tar_of
from interlock.engine.packages import kept_wheels
from interlock.engine.packages.kept_wheels import CACHE, KeptWheels, take_out
from interlock.engine.run.archives import ContentError
from tests.builders import extract, make_container
from tests.integration import wheelhouse

NAME, DATA = wheelhouse.wheel("toy-app", {"toy_app.py": ""})
OUT = "/audit/out"


class Container:
    """The two calls of a container that never runs, on a folder of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get_archive(self, path: str) -> tuple[Iterator[bytes], dict[str, Any]]:
        place = self.root / path.lstrip("/")
        if not place.exists():
            raise NotFound(path)
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as tar:
            tar.add(place, place.name)
        return iter([stream.getvalue()]), {}

    def put_archive(self, path: str, data: IO[bytes]) -> None:
        with tarfile.open(fileobj=data) as tar:
            extract(tar, self.root / path.lstrip("/"))


@pytest.fixture
def container(tmp_path: Path) -> Any:
    return Container(tmp_path / "root")


@pytest.fixture
def out(container: Any) -> Path:
    """The builder's folder for wheels, which is empty."""
    folder = Path(container.root / "audit/out")
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "into").mkdir()
    return tmp_path / "into"


def test_the_one_wheel_of_the_package_is_taken_out(container: Any, out: Path, into: Path) -> None:
    (out / NAME).write_bytes(DATA)
    wheel = take_out(container, OUT, "toy-app", into)
    assert (wheel.name, wheel.read_bytes()) == (NAME, DATA)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {NAME: DATA, NAME.replace("1.0", "2.0"): DATA},
        {NAME.replace("toy_app", "another"): DATA},
        {"toy_app.whl": DATA},
        {NAME: b"poisoned"},
    ],
    ids=["none", "two", "another package's", "without a version", "no archive"],
)
def test_anything_else_that_a_build_leaves_is_a_failure_of_its_package(
    files: dict[str, bytes], container: Any, out: Path, into: Path
) -> None:
    for name, data in files.items():
        (out / name).write_bytes(data)
    with pytest.raises(ContentError):
        take_out(container, OUT, "toy-app", into)


def test_a_link_is_no_wheel_wherever_it_leads(container: Any, out: Path, into: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(DATA)
    (out / NAME).symlink_to(tmp_path / "secret")
    with pytest.raises(ContentError):
        take_out(container, OUT, "toy-app", into)
    assert list(into.iterdir()) == []


def test_a_folder_that_is_not_there_is_a_failure_of_its_package(container: Any, into: Path) -> None:
    with pytest.raises(ContentError):
        take_out(container, "/audit/nowhere", "toy-app", into)


@pytest.mark.promise
def test_what_is_too_large_is_not_read_to_its_end(
    container: Any, out: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_wheels, "MOST_BYTES", 1000)
    (out / NAME).write_bytes(DATA + bytes(10_000))
    with pytest.raises(ContentError):
        take_out(container, OUT, "toy-app", into)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes(DATA)
    return tmp_path / NAME


def test_a_kept_wheel_is_the_one_that_was_built_with_its_seconds(container: Any, wheel: Path, into: Path) -> None:
    kept = KeptWheels(container)
    assert kept.take("key", into) is None
    kept.keep("key", wheel, 2.5)
    found = kept.take("key", into)
    assert found is not None
    assert (found[0].name, found[0].read_bytes(), found[1]) == (NAME, DATA, 2.5)
    assert kept.take("another", into) is None


@pytest.mark.parametrize("spoiled", ["*.whl", "record.json"])
@pytest.mark.parametrize("data", [b"poisoned", b"", b"{}", b"[1, 2]"])
def test_a_kept_wheel_that_has_changed_is_none(
    spoiled: str, data: bytes, container: Any, wheel: Path, into: Path
) -> None:
    kept = KeptWheels(container)
    kept.keep("key", wheel, 2.5)
    (path,) = (container.root / CACHE.lstrip("/") / "key").rglob(spoiled)
    path.write_bytes(data)
    assert kept.take("key", into) is None
    kept.keep("key", wheel, 3.5)
    assert kept.take("key", into) is not None


NAMELESS = [tar_of({name: b""}).read() for name in ("..", "a/..", "", "/")]


@pytest.mark.parametrize("data", [b"", bytes(1024), b"no tar", gzip.compress(b"no tar"), b"[" * 20_000, *NAMELESS])
def test_an_archive_without_a_record_or_with_what_is_no_name_of_a_file_has_no_wheel(data: bytes, into: Path) -> None:
    assert KeptWheels(make_container(data)).take("key", into) is None
    assert list(into.iterdir()) == []
