"""The sessions that judge what another program says."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.builders import ROOT

pytest.importorskip("nox")
GOOD = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "1", "vulns": [{"id": "PYSEC-1"}]}
# Of pip-audit 2.9 where nothing answers: it says 'No known vulnerabilities found' and ends with 0.
UNKNOWN = {"name": "c", "skip_reason": "Dependency not found on PyPI and could not be audited: c (1)"}


@cache
def noxfile() -> ModuleType:
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("audited", "words"),
    [([GOOD, BAD], "b"), ([GOOD, UNKNOWN], "1 of 2"), ([UNKNOWN, UNKNOWN], "2 of 2"), ([], "0 of 0")],
)
def test_a_dependency_of_which_nothing_is_known_is_a_problem_as_a_known_vulnerability_is(
    audited: list[dict[str, Any]], words: str
) -> None:
    assert words in noxfile().problem_of(audited)


def test_dependencies_without_a_known_vulnerability_are_none() -> None:
    assert noxfile().problem_of([GOOD, GOOD]) == ""


def test_advisories_are_asked_for_of_all_that_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    files = noxfile().files_to_audit()

    def named(some: Iterable[str]) -> set[str]:
        return {word for file in some for word in (ROOT / file).read_text().split() if "==" in word}

    assert named(files) == named(noxfile().LOCKED)
    assert len(files) < len(noxfile().LOCKED)


class StoppedError(Exception):
    """What a session raises that fails."""


class SessionHere:
    """A session of nox whose commands run here, without an environment of their own."""

    def __init__(self) -> None:
        self.posargs: list[str] = []
        self.commands: list[tuple[str, ...]] = []
        self.warnings: list[str] = []

    def run(self, *command: str, env: dict[str, str] | None = None, success_codes: Sequence[int] = (0,)) -> None:
        self.commands.append(command)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        plain |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}  # one in place of eight
        done = subprocess.run(
            [sys.executable, "-m", *command], env=plain | (env or {}), capture_output=True, check=False
        )
        if done.returncode not in success_codes:
            raise StoppedError(done.returncode)

    def warn(self, words: str) -> None:
        self.warnings.append(words)

    def error(self, words: str) -> None:
        raise StoppedError(words)


FAIL_ONCE = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_fails_once(number):
    mark = Path(f"tried-{{number}}")
    tried = mark.exists()
    mark.touch()
    assert tried
"""


def tried_in(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, workers: int = 0, *, browser: bool = True
) -> SessionHere:
    (folder / "test_it.py").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(shutil, "which", lambda name: name if browser else None)
    session = SessionHere()
    noxfile().run_pytest(session, f"-n{workers}")
    return session


def test_a_test_that_fails_once_is_tried_again_alone_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = tried_in(tmp_path, FAIL_ONCE.format(tests=2), monkeypatch, workers=2)
    names = ("test_it.py::test_fails_once[0]", "test_it.py::test_fails_once[1]")
    assert session.commands[1:] == [("pytest", *names)]
    assert names[0] in session.warnings[0]


def test_where_no_browser_can_be_had_the_tests_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "playwright.py").write_text("raise SystemExit('Download failed')")
    session = tried_in(tmp_path, "def test_passes(): pass", monkeypatch, browser=False)
    assert [command[0] for command in session.commands] == ["playwright", "pytest"]


def test_what_failed_in_an_earlier_run_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = tmp_path / noxfile().FAILED
    last.parent.mkdir(parents=True)
    last.write_text('{"test_of_before.py::test_gone": true}')
    assert len(tried_in(tmp_path, "def test_passes(): pass", monkeypatch).commands) == 1


@pytest.mark.parametrize(
    "text",
    ["def test_fails(): assert False", FAIL_ONCE.format(tests=6), "import nothing_of_that_name"],
    ids=["fails again", "six", "not collected"],
)
def test_what_the_change_is_to_blame_for_fails(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoppedError):
        tried_in(tmp_path, text, monkeypatch)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_ends_the_main_job_ends_it_with_its_report(number: signal.Signals, tmp_path: Path) -> None:
    """At a terminal Ctrl-C is sent to all, anything else to nox alone."""
    job = tmp_path / "interlock"
    job.write_text(
        f"#!{sys.executable}\nimport signal, sys, time\n"
        "def report(*_):\n    time.sleep(1)\n    print('report')\n    sys.exit(3)\n"
        f"signal.signal({number:d}, report)\nprint('measuring', flush=True)\ntime.sleep(30)\n"
    )
    job.chmod(0o755)
    command = [sys.executable, "-m", "nox", "-f", str(ROOT / "noxfile.py"), "--no-venv", "--no-install", "-s", "matrix"]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        command,
        env=os.environ | {"PATH": path},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as nox:
        assert nox.stdout is not None
        assert "measuring\n" in iter(nox.stdout.readline, "")
        (os.killpg if number is signal.SIGINT else os.kill)(nox.pid, number)
        assert "report\n" in nox.stdout.read()
    assert nox.returncode != 0
