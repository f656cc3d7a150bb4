"""The sessions that judge what another program says."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.builders import ROOT, module_at
from tests.fakes import Answer, Asked, as_json, serving
from tests.test_docs import options_of

nox = pytest.importorskip("nox")
GOOD = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "1", "vulns": [{"id": "PYSEC-1"}]}
# Of pip-audit 2.9 where nothing answers: it says 'No known vulnerabilities found' and ends with 0.
UNKNOWN = {"name": "c", "skip_reason": "Dependency not found on PyPI and could not be audited: c (1)"}


@cache
def noxfile() -> ModuleType:
    return module_at(ROOT / "noxfile.py")


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


def test_a_machine_without_uv_is_told_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    noxfile()
    with caplog.at_level("INFO", logger="nox"):
        nox.virtualenv.uv_version("no-such-uv")
        nox.virtualenv.logger.info("other news")
    assert caplog.messages == ["other news"]


class StoppedError(Exception):
    """What a session raises that fails."""


class Session:
    """A session of nox that notes what it would run; nothing has to be installed."""

    def __init__(self, *words: str) -> None:
        self.posargs, self.commands, self.warnings = list(words), list[tuple[str, ...]](), list[str]()

    def install(self, *_: str) -> None:
        """All of it is there."""

    def run(self, *command: str, **_: Any) -> None:
        self.commands.append(command)

    def warn(self, words: str) -> None:
        self.warnings.append(words)

    def error(self, words: str) -> None:
        raise StoppedError(words)


class AuditSession(Session):
    """A session whose programs are those of this environment."""

    def __init__(self, folder: Path, *words: str) -> None:
        super().__init__("--vulnerability-service", "osv", "--osv-url", *words)
        self.folder, self.said = folder, ""

    def create_tmp(self) -> str:
        return str(self.folder)

    def run(self, *command: str, success_codes: Sequence[int] = (0,), **_: Any) -> None:
        argv = [str(Path(sys.executable).parent / command[0]), *command[1:]]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode in success_codes, done.stderr
        self.said += done.stdout


def advised(asked: Asked) -> Answer:
    """What an advisory service says that speaks as OSV does, and knows of one vulnerable release."""
    known = [{"id": "PYSEC-1", "summary": "s", "details": "d", "affected": [], "aliases": []}]
    return as_json({"vulns": known} if json.loads(asked.body)["package"]["name"] == "bad" else {})


@pytest.fixture
def service() -> Iterator[str]:
    with serving(advised) as port:
        yield f"http://127.0.0.1:{port}/v1/query"


@pytest.mark.promise(escapes=True)
@pytest.mark.parametrize(("name", "said"), [("good", ""), ("bad", "known vulnerabilities: bad")])
def test_a_vulnerable_dependency_is_named_and_all_licences_are_listed(
    name: str, said: str, service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r.txt").write_text(f"{name}==1.0 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setattr(noxfile(), "files_to_audit", lambda: [str(tmp_path / "r.txt")])
    session = AuditSession(tmp_path, service)
    with pytest.raises(StoppedError, match=said) if said else nullcontext():
        noxfile().advisories.func(session)
    assert re.search(r"^\| pydantic +\| [\d.]+ +\| MIT", session.said, re.MULTILINE)


def test_an_advisory_service_that_does_not_answer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.txt").write_text(f"good==1.0 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setattr(noxfile(), "files_to_audit", lambda: [str(tmp_path / "r.txt")])
    with pytest.raises(StoppedError, match="1 of 1 dependencies"):
        noxfile().advisories.func(AuditSession(tmp_path, "http://127.0.0.1:1/v1/query"))


def test_advisories_are_asked_for_of_all_that_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    files = noxfile().files_to_audit()

    def named(some: Iterable[str]) -> set[str]:
        return {word for file in some for word in (ROOT / file).read_text().split() if "==" in word}

    assert named(files) == named(noxfile().LOCKED)
    assert len(files) < len(noxfile().LOCKED)


IMAGES = [("train", "a"), ("build", "--cache-from"), ("check", "a"), ("push", "--record")]


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (["host.example/team", "folder", "a", "b", "--key=k"], [*IMAGES, ("publish", "--key=k")]),
        (["--push-only", "host.example/team", "folder", "a", "b"], IMAGES),
        (["--join", "folder", "other", "--unsigned"], [("publish", "--unsigned")]),
    ],
    ids=["one platform", "one of several", "the last step"],
)
def test_publishing_calls_commands_with_options_that_they_have(words: list[str], steps: list[tuple[str, str]]) -> None:
    session = Session(*words)
    noxfile().publish.func(session)
    assert [command[1] for command in session.commands] == [name for name, _ in steps]
    assert all(word in command for command, (_, word) in zip(session.commands, steps, strict=True))
    for program, name, *rest in session.commands:
        assert program == "interlock"
        assert {word.partition("=")[0] for word in rest if word.startswith("--")} <= options_of(name)
        assert ("folder" in rest) == (name in {"push", "publish"})


def test_publishing_says_what_it_has_to_be_told() -> None:
    with pytest.raises(StoppedError, match="HOST/NAMESPACE"):
        noxfile().publish.func(Session("host.example/team", "folder"))


class SessionHere(Session):
    """A session of nox whose commands run here, without an environment of their own."""

    def run(
        self, *command: str, env: dict[str, str] | None = None, success_codes: Sequence[int] = (0,), **_: Any
    ) -> None:
        super().run(*command)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        plain |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}  # one in place of eight
        done = subprocess.run(
            [sys.executable, "-m", *command], env=plain | (env or {}), capture_output=True, check=False
        )
        if done.returncode not in success_codes:
            raise StoppedError(done.returncode)


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


@pytest.mark.parametrize("code", [0, 1])
def test_who_may_not_install_is_not_asked_for_a_password(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sudo = tmp_path / "bin/sudo"
    sudo.parent.mkdir()
    sudo.write_text(f'#!/bin/sh\n[ "$1" = -n ] && exit {code}\necho it asks; exit 9\n')
    sudo.chmod(0o755)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", f"{sudo.parent}:{os.environ['PATH']}")
    assert noxfile().may_install() == (code == 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not noxfile().may_install()


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


JOB = f"""#!{sys.executable}
import signal, sys, time
def report(number, _):
    signal.signal(number, lambda *_: sys.exit('a second signal'))
    time.sleep(1)
    print('report')
    sys.exit(128 + number)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, report)
print('measuring', flush=True)
time.sleep(30)
"""


def main_job(folder: Path, *options: str) -> subprocess.Popen[str]:
    """Start the main job by the real nox, with a program in Interlock's place."""
    program = folder / "interlock"
    program.write_text(JOB, encoding="utf-8")
    program.chmod(0o755)
    command = [sys.executable, "-m", "nox", "-f", str(ROOT / "noxfile.py"), "--no-venv", "-s", "matrix", *options]
    environment = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_what_ends_the_main_job_ends_it_with_its_report_and_exit_code(
    number: signal.Signals, send: Callable[[int, int], None], tmp_path: Path
) -> None:
    """A terminal and `timeout` send a signal to all of a group, others to the process that they have started."""
    with main_job(tmp_path, "--no-install") as job:
        assert job.stdout is not None
        assert "measuring\n" in iter(job.stdout.readline, "")
        send(job.pid, number)
        assert job.stdout.read() == "report\n"
    assert job.returncode == 128 + number


def test_nothing_is_measured_where_nox_only_installs(tmp_path: Path) -> None:
    with main_job(tmp_path, "--no-install", "--install-only") as job:
        assert job.stdout is not None
        assert "measuring" not in job.stdout.read()
    assert job.returncode == 0
