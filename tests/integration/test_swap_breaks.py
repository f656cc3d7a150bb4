"""What `swap` says breaks does break, with the Python that it names; what it says to do instead works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.results.experiments import Built
from tests.builders import Entry
from tests.integration.images import FREE_THREADED, QUICK, Images
from tests.integration.test_swap import output_of
from tests.swap.samples import CORPUS

pytestmark = pytest.mark.slow

# Debian's own python3.13 under names of images that a swap leaves alone: they contain more than Python.
STAYING = ("localhost/distroless/python3-debian13:latest", "localhost/bitnami/python:3.13")


@pytest.fixture(scope="module")
def staying(client: Any, quick: Built) -> Iterator[None]:
    for name in STAYING:
        client.images.get(quick.tag).tag(*name.rsplit(":", 1))
    yield
    for name in STAYING:
        client.images.remove(name)


def placed(folder: Path, name: str, base: str = "") -> Path:
    """A file of the corpus as the Dockerfile of a folder, on a base that this engine has."""
    file = folder / "Dockerfile"
    file.write_text((CORPUS / f"{name}.Dockerfile").read_text().replace("debian:trixie-slim", base))
    return file


def warned(err: str, line: int) -> str:
    """What is said of a line to break."""
    (found,) = [said for said in err.splitlines() if said.startswith("breaks") and f"Dockerfile:{line}: " in said]
    return found


@pytest.mark.usefixtures("staying")
@pytest.mark.parametrize(
    ("name", "line", "both"), [("compiled-for-distroless", 6, "1"), ("compiled-by-a-python-that-stays", 5, "deps")]
)
def test_what_is_compiled_for_one_python_does_not_load_in_another(
    swap: Entry, client: Any, built: Images, tmp_path: Path, name: str, line: int, both: str
) -> None:
    """In either direction; what is said to do is to swap the other stage too."""
    assert built[FREE_THREADED]
    file = placed(tmp_path, name)
    before = file.read_text()
    code, _, err = swap(file, "--to", FREE_THREADED, "--write", "--local")
    assert code == 0
    assert "python3.13" in warned(err, line)
    assert f"--stage {both}" in warned(err, line)
    with pytest.raises(Exception, match=r"cannot import name .*_lsprof"):
        output_of(client, tmp_path)
    code, _, err = swap(file, "--to", FREE_THREADED, "--stage", both, "--write", "--local")
    assert code == 0
    assert not [said for said in err.splitlines() if said.startswith("breaks")]
    assert "/app/fast/_lsprof.cpython-313t" in output_of(client, tmp_path)
    assert swap(file, "--revert", "--write")[0] == 0
    assert file.read_text() == before


def test_debians_interpreter_does_not_find_packages_where_the_official_one_does(
    swap: Entry, client: Any, built: Images, tmp_path: Path
) -> None:
    assert built[QUICK]
    assert built[FREE_THREADED]
    file = placed(tmp_path, "packages-in-the-image")
    _, _, err = swap(file, "--to", QUICK, "--write", "--local")
    assert "use cpython-3.13" in warned(err, 2)
    with pytest.raises(Exception, match=r"No module named .*mod"):
        output_of(client, tmp_path)
    # The variant that is named is compiled for tests/proofs alone; this one has the same layout under its own version.
    _, _, err = swap(file, "--to", FREE_THREADED, "--paths", "--write", "--local")
    assert "breaks" not in err
    assert output_of(client, tmp_path) == ("42 /usr/local/lib/python3.13t/site-packages/mod.py")


def test_an_interpreter_in_one_binary_has_no_library_to_copy(
    swap: Entry, client: Any, built: Images, tmp_path: Path
) -> None:
    image = built[FREE_THREADED]
    assert image.base
    file = placed(tmp_path, "libpython-copied", image.base.reference)
    _, _, err = swap(file, "--to", FREE_THREADED, "--paths", "--write", "--local")
    assert "needs libpython" in warned(err, 5)
    with pytest.raises(Exception, match=r"libpython3\.13t\.so\.1\.0"):
        output_of(client, tmp_path)
