"""The real b2 client: what of it needs no package. tests/proofs/test_download_b2.py runs it against a server."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.workloads.conftest import Report

CONTENT = b"what the manifest promises"


class Client:
    """Says that all went well, whatever it stored."""

    def __init__(self, folder: Path, stored: bytes | None) -> None:
        self.folder = folder
        self.stored = stored

    def target(self, entry: Any) -> str:
        return str(self.folder / entry.path)

    def fetch(self, entries: list[Any]) -> None:
        for entry in entries:
            if self.stored is not None:
                Path(self.target(entry)).write_bytes(self.stored)


@pytest.fixture
def program(module: Callable[[str], ModuleType]) -> ModuleType:
    return module("download_b2")


def downloading(program: ModuleType, folder: Path, stored: bytes | None) -> Any:
    sha1 = hashlib.sha1(CONTENT).hexdigest()  # noqa: S324
    entry = program.files.Entry(sha1, len(CONTENT), "one.bin")
    return program.Download(Client(folder, stored), [entry])


def test_the_bytes_are_compared_and_then_gone(program: ModuleType, tmp_path: Path) -> None:
    assert downloading(program, tmp_path, CONTENT).timed(2) > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (b"x" + CONTENT[1:], "one.bin: expected SHA-1 "),
        (CONTENT[:-1], f"one.bin: expected bytes {len(CONTENT)}, found {len(CONTENT) - 1}"),
        (None, "one.bin: nothing was stored"),
    ],
)
def test_a_client_that_stored_something_else_is_not_believed(
    program: ModuleType, tmp_path: Path, stored: bytes | None, said: str
) -> None:
    with pytest.raises(program.protocol.WorkNotDone, match=said):
        downloading(program, tmp_path, stored).timed(1)


@pytest.mark.parametrize("kind", ["dist-info", "py2.7.egg-info"])
def test_the_installed_command_is_found_by_what_its_package_says(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / "b2").mkdir()
    (tmp_path / "b2/__init__.py").touch()
    name = "b2-5.0.0.dist-info" if kind == "dist-info" else "b2-5.0.0-py2.7.egg-info"
    (tmp_path / name).mkdir()
    (tmp_path / name / "entry_points.txt").write_text("[console_scripts]\nb2v4 = b2.old:main\nb2 = b2.new:run\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert program.release_of("b2") == "5.0.0"
    assert "from b2.new import run as main" in program.entry_point("5.0.0")


@pytest.mark.parametrize("what", ["sdk-single", "sdk-many", "command-single", "command-sync"])
def test_an_interpreter_without_b2sdk_is_unsupported(serve: Any, report: Report, tmp_path: Path, what: str) -> None:
    server = serve({"single.bin": bytes(1 << 20), "many/000.bin": bytes(1 << 20)})
    arguments = ["--what", what, "--server", f"http://127.0.0.1:{server.server_port}", "--destination", str(tmp_path)]
    sabotage = "import sys; sys.modules['b2sdk'] = None"
    assert "b2sdk cannot be imported" in report("download_b2.py", *arguments, sabotage=sabotage)["unsupported"]
    assert [path.name for path in tmp_path.iterdir()] == ["sabotage"]
