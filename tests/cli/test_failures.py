"""Whatever happens ends in one sentence: 4 for the engine and the network, 70 for what no code foresees."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.cli import failures, main
from interlock.errors import EngineError, StoreError, UnexpectedError, UsageError
from tests.apart import command
from tests.builders import present
from tests.cli.conftest import Run
from tests.fakes import Answer, Asked, as_json, serving

pytestmark = pytest.mark.promise

VERSION = {"ApiVersion": "1.41", "Version": "20.10.24", "Components": [{"Name": "Engine"}]}
# By name, what an engine answers to everything after its ping and its version.
STRANGE = {
    "an error": as_json({"message": "database is locked"}, 500),
    "an error without words": Answer(500),
    "an error that is a page": Answer(502, b"<html><body>Bad Gateway</body></html>", {"Content-Type": "text/html"}),
    "an error that is a list": as_json(["no"], 500),
    "a refusal": as_json({"message": "authorization denied by plugin"}, 403),
    "no JSON": Answer(200, b"OK"),
    "half of JSON": Answer(200, b'[{"Id": "a", "Na'),
    "nothing": Answer(200),
    "null": as_json(None),
    "a number": as_json(3),
    "a text": as_json("images"),
    "a list of numbers": as_json([1, 2]),
    "other fields": as_json({"Id": "a"}),
    "a list of empty objects": as_json([{}]),
    "nested brackets": Answer(200, b"[" * 100_000),
    "bytes": Answer(200, bytes(range(256)) * 4),
    "a hang-up": Answer(closes=True),
    "another protocol": Answer(raw=b"SSH-2.0-OpenSSH_9.2\r\n"),
    "a wrong length": Answer(200, b"[]", {"Content-Length": "5", "Connection": "close"}),
    "a wrong encoding": Answer(200, b"not gzip", {"Content-Encoding": "gzip"}),
    "a redirect to itself": Answer(302, headers={"Location": "/v1.41/info"}),
    "escape codes": as_json({"message": "\x1b[2J\x1b]0;owned\x07gone\r\nerror: all is well"}, 500),
}


def engine_that_says(answer: Answer, asked: Asked) -> Answer:
    if asked.path.endswith("/_ping"):
        return Answer(200, b"OK")
    return as_json(VERSION) if asked.path.endswith("/version") else answer


CLEAN, SBOM = ["clean", "x", "--engine", "docker"], ["sbom", "cpython-3.13"]


@pytest.mark.parametrize(
    ("name", "words"), [*((name, CLEAN) for name in STRANGE), ("an error", SBOM), ("other fields", SBOM)]
)
def test_whatever_an_engine_answers_is_one_sentence_and_the_engines_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, words: list[str]
) -> None:
    with serving(lambda asked: engine_that_says(STRANGE[name], asked)) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        code, said = run(*words)
    assert "Traceback" not in said
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert "\x1b" not in said
    # A field that we look for and that is not there may as well be a defect of ours.
    codes = {EngineError.exit_code, UnexpectedError.exit_code} if name == "other fields" else {EngineError.exit_code}
    assert code in codes, said


@pytest.mark.parametrize("answer", [STRANGE["no JSON"], STRANGE["null"], STRANGE["a hang-up"], Answer(200, b"hello")])
def test_what_answers_a_ping_otherwise_is_no_engine(run: Run, monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    with serving(lambda _: answer) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        code, said = run(*CLEAN)
    assert (code, said.count("\n")) == (EngineError.exit_code, 1), said


def engine_without_anything(asked: Asked) -> Answer:
    empty: object = {"Volumes": []} if "/volumes" in asked.path else {} if asked.path.endswith("/info") else []
    return engine_that_says(as_json(empty), asked)


@pytest.mark.parametrize("engine", ["docker", "host"])
def test_clean_with_a_name_that_nothing_has_names_it_and_ends_with_2(
    run: Run, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    asked: list[Asked] = []
    with serving(engine_without_anything, asked) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        code, said = run("clean", "nosuch", "--engine", engine)
    assert (code, said.count("\n")) == (UsageError.exit_code, 1), said
    assert said.startswith("error: ")
    assert "'nosuch'" in said
    assert bool(asked) is (engine == "docker")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_defect_of_ours_ends_with_70_and_names_a_log_with_its_traceback_and_no_value(
    run: Run, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def fail() -> None:
        raise LookupError("a\x1b[31m b")

    monkeypatch.setattr(main, "load_command", lambda _: fail())
    code, said = run("build", "--mirror=secret-1", "secret-2", *["--json"] * as_json)
    if as_json:
        error = json.loads(said)["error"]
        assert (error["kind"], error["exit_code"]) == ("UnexpectedError", 70)
        said = error["message"]
    log = present(re.search(r"\S+/error-\S+\.log", said))
    assert (code, UnexpectedError.exit_code) == (70, 70)
    text = Path(log[0]).read_text(encoding="utf-8")
    assert "Traceback" in text
    assert "LookupError: a b" in text
    assert "--mirror" in text
    assert "secret" not in text
    assert stat.S_IMODE(Path(log[0]).stat().st_mode) == 0o600


def test_the_newest_logs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    written = [failures.keep_log(LookupError(str(number)), ["interlock"]) for number in range(failures.KEPT + 5)]
    kept = {path for path in written if path is not None and path.exists()}
    assert len(kept) == failures.KEPT
    assert written[-1] in kept


def test_a_log_goes_elsewhere_where_the_cache_takes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    log = present(failures.keep_log(LookupError(), ["interlock"]))
    assert log.parent == tmp_path
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file"))
    assert failures.keep_log(LookupError(), ["interlock"]) is None


# What Typer prints, what it and rich print, and what is written at once.
PRINTING = (["--version"], ["--help"], ["pick"], ["pick", "--json"], ["claims", "--markdown"])


# A reader who has seen enough, and a terminal that is gone before its hangup comes, or that is disowned.
@pytest.mark.parametrize(("ends", "code"), [(os.pipe, 141), (os.openpty, 0)], ids=["pipe", "terminal"])
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_an_output_that_nobody_reads_is_no_failure_to_talk_about(
    words: list[str], ends: Callable[[], tuple[int, int]], code: int
) -> None:
    reading, writing = ends()
    os.close(reading)
    done = subprocess.run([*command(), *words], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, "error" in done.stderr) == (code, False), done.stderr


@pytest.mark.promise
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_what_a_full_disk_does_not_take_is_one_sentence(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*command(), *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 74
    said = json.loads(done.stderr)["error"]["message"] if "--json" in words else done.stderr.splitlines()[-1]
    assert "cannot be written: No space left on device" in said
    assert "defect" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code"), [*((words, 0) for words in PRINTING), (["pick", "--workload", "nothing=1", "--json"], 2)]
)
def test_a_closed_output_ends_no_command_and_changes_no_exit_code(words: list[str], code: int) -> None:
    done = subprocess.run(["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command(), *words], check=False)
    assert done.returncode == code


def test_a_closed_input_is_an_empty_one() -> None:
    program = "import sys\nfrom interlock.cli import main\ntry:\n    main.main()\nfinally:\n    sys.stdin.isatty()"
    words = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", program, "--version"]
    assert subprocess.run(words, check=False, capture_output=True).returncode == 0


WITHOUT_UTF_8 = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.mark.promise
@pytest.mark.parametrize("encoding", ["", "latin-1"])
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_locale_without_utf_8_ends_no_command(words: list[str], encoding: str) -> None:
    where = {**os.environ, **(WITHOUT_UTF_8 if not encoding else {"PYTHONIOENCODING": encoding})}
    done = subprocess.run([*command(), *words], env=where, capture_output=True, check=False)
    assert (done.returncode, b"error" in done.stderr, bool(done.stdout)) == (0, False, True)


def test_json_is_utf_8_in_any_locale(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("# caf\u00e9 \u2603\nFROM python:3.13-slim\n", encoding="utf-8")
    words = [*command(), "swap", "Dockerfile", "--to", "cpython-3.14", "--json"]
    where = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(words, cwd=tmp_path, env=where, capture_output=True, check=True)
    assert "caf\u00e9 \u2603" in json.loads(done.stdout)["changes"][0]["diff"]


def test_a_cache_that_cannot_be_made_is_one_sentence_with_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file/below"))
    for path in ("file/below/interlock/x", "file"):
        found = failures.foreseen(
            NotADirectoryError(20, "Not a directory", str(tmp_path / path)), ["interlock", "build"]
        )
        assert found.exit_code == 2
        assert "XDG_CACHE_HOME" in found.todo
    assert failures.foreseen(NotADirectoryError(20, "Not a directory", "/elsewhere"), []).exit_code == 70


@pytest.mark.parametrize("words", [["pick"], ["report"], ["build"]], ids=" ".join)
def test_a_folder_that_is_gone_is_no_defect(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *command(), *words],
        cwd=tmp_path / "gone",
        # As a program that is installed, Interlock looks for no module in the current folder.
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (UsageError.exit_code, 1), done.stderr
    assert not (tmp_path / "interlock").exists()  # no log


def test_a_full_disk_is_no_defect_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the cache the advice was to set XDG_CACHE_HOME, elsewhere to report a defect."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for places in ((), (str(tmp_path / "interlock/x"),), ("/elsewhere",)):
        found = failures.foreseen(OSError(errno.ENOSPC, "No space left on device", *places), [])
        assert (found.exit_code, found.file) == (StoreError.exit_code, "".join(places))
        assert "df -h" in found.todo
