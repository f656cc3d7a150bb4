"""`interlock swap` from the command line, where no engine answers: what it prints, writes, leaves and exits with."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.results.json_documents import FailedCommand, Swapped
from tests.apart import command
from tests.builders import ROOT, Entry

TEXT = "FROM python:3.12-slim AS app\r\nRUN python3.12 -V # Gr\udcfc\udcdfe"
TAG = "localhost/interlock/python:3.14t-trixie"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, entry: Entry, tmp_path: Path) -> Entry:
    """Runs it where no engine answers; its exit code, output and errors."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    return functools.partial(entry, "swap")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "Dockerfile"
    path.write_bytes(TEXT.encode("utf-8", "surrogateescape"))
    path.chmod(0o640)
    return path


def test_a_swap_is_shown_and_not_written(run: Entry, file: Path) -> None:
    before = file.read_bytes()
    code, out, err = run(file, "--to", "cpython-3.14t")
    assert code == 0
    assert out.splitlines()[:2] == [f"--- {file}", f"+++ {file}"]
    assert f"+FROM {TAG} AS app" in out
    assert "--write" in err
    assert file.read_bytes() == before


def test_the_diff_is_one_that_patch_applies(run: Entry, file: Path, tmp_path: Path) -> None:
    words = command("swap", str(file), "--to", "cpython-3.14t", "--paths")
    diff = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    run(file, "--to", "cpython-3.14t", "--paths", "--write", "--local")
    written = file.read_bytes()
    file.write_bytes(TEXT.encode("utf-8", "surrogateescape"))
    subprocess.run(["patch", "--binary", "-p0", "-d", "/"], input=diff.stdout, check=True, stdout=subprocess.DEVNULL)
    assert file.read_bytes() == written
    assert b"# interlock: paths were python3.12\r\nRUN python3.14t -V # Gr\xfc\xdfe" in written


def test_write_and_revert_leave_the_file_as_it_was(run: Entry, file: Path) -> None:
    before, mode = file.read_bytes(), file.stat().st_mode
    code, _, err = run(file, "--to", "cpython-3.14t", "--paths", "--write", "--local")
    assert code == 0
    assert f"interlock swap {file} --revert --write" in err
    assert file.read_bytes() != before
    assert run(file, "--revert")[0] == 0
    assert file.read_bytes() != before
    code, _, err = run(file, "--revert", "--write")
    assert code == 0
    assert "--revert" not in err
    assert (file.read_bytes(), file.stat().st_mode) == (before, mode)


def test_a_swap_to_what_is_there_changes_nothing(run: Entry, file: Path) -> None:
    run(file, "--to", "cpython-3.14t", "--write", "--local")
    status = file.stat()
    code, out, err = run(file, "--to", "cpython-3.14t", "--write", "--local")
    assert (code, out) == (0, "")
    assert "--write" not in err
    assert file.stat().st_ino == status.st_ino


def test_warnings_and_paths_name_their_lines(run: Entry, file: Path) -> None:
    _, _, err = run(file, "--to", "cpython-3.14t")
    assert f"may break {file}:1: python3.12 becomes python3.14t" in err
    assert f"path      {file}:2: python3.12 -> python3.14t (stays: without --paths)" in err
    assert "(edited)" in run(file, "--to", "cpython-3.14t", "--paths")[2]


def test_a_path_that_stands_twice_in_a_line_is_listed_once(run: Entry, tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM python:3.12\nRUN python3.12 -m a && python3.12 -m b && pip3.12 list\n")
    _, _, err = run(file, "--to", "cpython-3.14")
    assert err.count("path      ") == 2


def test_a_mode_is_told_and_not_written(run: Entry, file: Path) -> None:
    _, out, err = run(file, "--to", "cpython-3.14t+gil-on")
    assert f"+FROM {TAG} AS app" in out
    assert "ENV PYTHON_GIL=1" in err


def test_an_image_without_profile_guided_optimisation_is_told(run: Entry, file: Path) -> None:
    assert "without profile-guided" not in run(file, "--to", "cpython-3.14t")[2]
    assert "without profile-guided" in run(file, "--to", "cpython-2.5")[2]


def test_check_passes_only_for_the_picked_image(run: Entry, file: Path) -> None:
    run(file, "--to", "cpython-3.14t", "--write", "--local")
    assert run(file, "--check")[0] == 0
    assert run(file, "--check", "--to", "cpython-3.14t")[0] == 0
    code, _, err = run(file, "--check", "--to", "cpython-3.13")
    assert code == 1
    assert f"{file}:2: names {TAG}, not localhost/interlock/python:3.13-trixie" in err


def test_check_fails_where_nothing_was_swapped(run: Entry, file: Path) -> None:
    code, _, err = run(file, "--check")
    assert code == 1
    assert err.startswith(f"error: {file}: ")
    assert run(file, "--check", "--to", "cpython-3.14t")[0] == 1


def test_check_of_a_digest_needs_an_engine(run: Entry, file: Path) -> None:
    file.write_text(f"FROM {TAG}@sha256:{'1' * 64}\n")
    assert run(file, "--check", "--to", "cpython-3.14t")[0] == 4


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["FILE"], 2, "--to"),
        (["FILE", "--to", "cpython-3.14x"], 2, "'cpython-3.14'"),
        (["FILE", "--to", "cpython-3.14t+gil-of"], 2, "'gil-on'"),
        (["FILE", "--to", "cpython-3.14", "--stage", "ap"], 1, "'app'"),
        (["FILE", "--revert"], 1, "Dockerfile"),
        (["FILE", "--revert", "--to", "cpython-3.14"], 2, "--revert"),
        (["FILE", "--check", "--write"], 2, "--check"),
        (["FILE", "--check", "--local"], 2, "--check"),
        (["FILE.no", "--to", "cpython-3.14"], 7, "Dockerfile.no"),
        (["FOLDER", "--to", "cpython-3.14", "--stage", "app"], 2, "--stage"),
        (["FILE", "--revert", "--try"], 2, "--try"),
        (["--to", "cpython-3.14"], 7, "Dockerfile: "),
        (["A" * 300, "--to", "cpython-3.14"], 7, "A" * 300),
        (["FILE/x", "--to", "cpython-3.14", "--write"], 7, "Dockerfile/x: "),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_the_file(
    run: Entry, file: Path, words: list[str], code: int, named: str
) -> None:
    before = file.read_bytes()
    places = {"FOLDER": str(file.parent)}
    found, out, err = run(*(places.get(word, word.replace("FILE", str(file))) for word in words))
    assert (found, out) == (code, "")
    assert named in err
    assert err.count("error: ") == 1
    assert file.read_bytes() == before


def test_the_file_is_dockerfile_without_a_name_and_others_are_suggested(
    run: Entry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("--to", "cpython-3.14t")[1].startswith("--- Dockerfile\n")
    file.rename(tmp_path / "compose.yaml")
    assert "interlock swap compose.yaml --to cpython-3.14t" in run("--to", "cpython-3.14t")[2]
    assert "interlock swap compose.yaml --revert" in run("--revert")[2]


def test_a_folder_that_may_not_be_read_is_one_sentence(run: Entry, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refuse)
        code, out, err = run(file.parent, "--to", "cpython-3.14t")
    assert (code, out, err.count("\n")) == (7, "", 1)
    assert err.startswith(f"error: {file.parent}: ")


def test_commands_that_are_printed_can_be_run_as_they_are(
    run: Entry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, program = tmp_path / "a b" / "Dockerfile", ".nox/matrix/bin/interlock"
    file.parent.mkdir()
    file.write_text("FROM python:3.12 AS x\nFROM python:3.12 AS y\n")
    monkeypatch.setattr("interlock.results.commands._executable", lambda: program)
    _, _, err = run(file, "--to", "cpython-3.14t", "--stage", "x", "--write", "--local")
    assert f"`{program} swap '{file}' --revert --write --stage x`" in err
    _, _, err = run(file, "--check", "--to", "cpython-3.13", "--stage", "x")
    assert f" {program} swap '{file}' --to cpython-3.13 --stage x --write" in err


def test_a_stage_that_shares_its_arg_is_told_so_when_it_is_to_be_reverted_alone(run: Entry, file: Path) -> None:
    file.write_text("ARG BASE=python:3.12\nFROM $BASE AS a\nFROM $BASE AS b\nFROM node AS c\n")
    original = run(file, "--revert", "--stage", "a")[2]
    run(file, "--to", "cpython-3.14t", "--write", "--local")
    code, out, err = run(file, "--revert", "--stage", "a", "--write")
    assert (code, out) == (1, "")
    assert " ARG " in err
    assert "--stage" in err
    assert " ARG " not in original + run(file, "--revert", "--stage", "c")[2]
    assert run(file, "--revert", "--write")[0] == 0


def test_in_a_folder_of_its_own_the_project_is_where_the_command_was_installed_from(
    run: Entry, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.chdir("/")
    assert f"+FROM {TAG} AS app" in run(file, "--to", "cpython-3.14t")[1]


def test_a_swap_is_taken_back_where_there_is_no_project(
    run: Entry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Dockerfile").write_text(f"# interlock: was python:3.12\nFROM {TAG}\n")
    assert run("--revert", "--write")[0] == 0
    assert (tmp_path / "Dockerfile").read_text() == "FROM python:3.12\n"


def test_a_name_that_only_this_machine_has_is_written_only_if_that_is_asked_for(run: Entry, file: Path) -> None:
    before = file.read_bytes()
    code, out, err = run(file, "--to", "cpython-3.14t", "--write")
    assert code == 1
    assert f"+FROM {TAG} AS app" in out
    assert "--local" in err
    assert file.read_bytes() == before


FILES = {
    "api/Dockerfile": "FROM python:3.12-slim\nRUN python3.12 -V\n",
    "compose.yaml": "services:\n  api: {build: api}\n  job:\n    image: python:3.12-slim\n",
    ".github/workflows/ci.yml": "on: [push]\njobs:\n  t:\n    container: python:3.12-slim\n    steps: []\n",
    ".devcontainer/devcontainer.json": '{\n  "image": "python:3.12"\n}\n',
}
LEFT = {
    "web/Dockerfile": "FROM node:22\n",
    "chart/templates/job.yaml": "spec:\n  {{- if .x }}\n  image: python:3.12\n",
    "node_modules/x/Dockerfile": "FROM python:3.12-slim\n",
    "values.yaml": "a: 1\n",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in {**FILES, **LEFT}.items():
        path = tmp_path / "repository" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "repository"


def contents(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in (*FILES, *LEFT)}


def test_a_whole_repository_is_one_diff_one_check_and_one_revert(run: Entry, repository: Path) -> None:
    code, out, err = run(repository, "--to", "cpython-3.14t", "--paths")
    assert code == 0
    diffed = {line.split()[1] for line in out.splitlines() if line.startswith("+++ ")}
    assert diffed == {str(repository / name) for name in FILES}
    said = [line for line in err.splitlines() if TAG in line]
    assert said
    assert not [line for line in said for name in FILES if name in line], "what is true of the image is said once"
    assert f"left      {repository}/chart/templates/job.yaml:" in err
    assert contents(repository) == {**FILES, **LEFT}
    assert run(repository, "--check", "--to", "cpython-3.14t")[0] == 1
    assert run(repository, "--to", "cpython-3.14t", "--write", "--local")[0] == 0
    assert {name for name, text in contents(repository).items() if TAG in text} == set(FILES)
    assert run(repository, "--check", "--to", "cpython-3.14t")[0] == 0
    assert run(repository, "--check")[0] == 0
    assert run(repository, "--check", "--to", "cpython-3.13")[0] == 1
    assert run(repository, "--revert", "--write")[0] == 0
    assert contents(repository) == {**FILES, **LEFT}
    assert run(repository, "--revert", "--write")[0] == 1


def test_a_revert_of_a_folder_takes_back_what_it_can_and_names_the_rest(run: Entry, repository: Path) -> None:
    swapped = [repository / name for name in FILES]
    assert run(repository, "--to", "cpython-3.14t", "--write", "--local")[0] == 0
    damaged = repository / "api" / "Dockerfile"
    damaged.write_text(damaged.read_text().replace("FROM ", "ENV "))
    kept, left = damaged.read_text(), repository / "api" / ".Dockerfile.interlock-abcdefgh"
    left.write_text("FROM python:3.12-slim\n")
    code, _, err = run(repository, "--revert", "--write")
    assert code == 1
    assert f"left      {damaged}:1: " in err
    assert damaged.read_text() == kept
    assert not left.exists(), "what a killed swap left"
    assert [path.read_text() for path in swapped if path != damaged] == [
        text for name, text in FILES.items() if name != "api/Dockerfile"
    ]


def test_a_swap_is_json_for_programs_whatever_is_done(run: Entry, file: Path) -> None:
    code, out, err = run(file, "--to", "cpython-3.14t", "--paths", "--json")
    shown = Swapped.model_validate_json(out)
    assert (code, err, shown.written) == (0, "", False)
    (change,) = shown.changes
    assert change.file == str(file)
    assert f"+FROM {TAG} AS app" in change.diff
    assert [(one.line, one.old, one.edited) for one in change.versions] == [(2, "python3.12", True)]
    assert shown.caveats
    assert Swapped.model_validate_json(run(file, "--to", "cpython-3.14t", "--write", "--local", "--json")[1]).written
    assert TAG in file.read_text(errors="replace")
    code, out, _ = run(file, "--check", "--to", "cpython-3.14t", "--json")
    (line,) = Swapped.model_validate_json(out).lines
    assert (code, line.image, line.problem) == (0, TAG, "")
    reverted = Swapped.model_validate_json(run(file, "--revert", "--write", "--json")[1])
    assert reverted.written
    assert file.read_bytes() == TEXT.encode("utf-8", "surrogateescape")


def test_a_check_that_fails_is_json_on_both_streams(run: Entry, file: Path) -> None:
    run(file, "--to", "cpython-3.14t", "--write", "--local")
    code, out, err = run(file, "--check", "--to", "cpython-3.13", "--json")
    (line,) = Swapped.model_validate_json(out).lines
    assert code == FailedCommand.model_validate_json(err).error.exit_code == 1
    assert TAG in line.problem


ODD_NAMES = [b"a b", b"new\nline", b"lat\xe9n", b'quo"te\\', "Größe".encode()]


@pytest.fixture
def odd_names(tmp_path: Path) -> Path:
    """A repository whose folders have odd names, with a FIFO and a symbolic link to itself."""
    folder = tmp_path / "repository"
    for name in ODD_NAMES:
        place = folder / os.fsdecode(name)
        place.mkdir(parents=True)
        (place / "Dockerfile").write_text("FROM python:3.12-slim\n")
    os.mkfifo(folder / "Dockerfile.fifo")
    (folder / "Dockerfile").symlink_to("Dockerfile")
    (folder / "a b" / "up").symlink_to("..")
    return folder


@pytest.mark.skipif(shutil.which("patch") is None, reason="no patch")
def test_names_of_any_bytes_are_printed_on_one_line_and_patch_reads_them(odd_names: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "interlock", "swap", str(odd_names), "--to", "cpython-3.14t"]
    environment = os.environ | {"DOCKER_HOST": f"unix://{tmp_path}/none.sock", "PYTHONUTF8": "1"}
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    named = [line for line in shown.stderr.decode("utf-8").splitlines() if "/repository/" in line]
    assert len(named) == len(ODD_NAMES) + 1, "the FIFO is named too"
    assert any(line.startswith("left ") and "Dockerfile.fifo: is not" in line for line in named)
    subprocess.run(["patch", "-p0", "-d", "/"], input=shown.stdout, check=True, capture_output=True)
    assert [path.read_text().count("interlock: was") for path in odd_names.glob("*/Dockerfile")] == [1] * len(ODD_NAMES)


@pytest.mark.promise(escapes=True)
def test_a_diff_steers_no_terminal_even_through_a_pipe(run: Entry, file: Path) -> None:
    file.write_text("FROM python:3.12\nRUN echo \x1b[31mred\x9b0m\n")
    out = run(file, "--to", "cpython-3.14t")[1]
    assert "RUN echo \\x1b[31mred\\x9b0m" in out
    assert not {"\x1b", "\x9b"} & {*out}


@pytest.mark.parametrize("name", ["Dockerfile.fifo", "Dockerfile"])
def test_a_fifo_is_not_waited_for(run: Entry, odd_names: Path, name: str) -> None:
    assert run(odd_names / name, "--to", "cpython-3.14t")[0] == 7


def test_json_has_an_escape_for_a_byte_that_is_no_utf8(run: Entry, odd_names: Path) -> None:
    _, out, _ = run(odd_names, "--to", "cpython-3.14t", "--json")
    changes = Swapped.model_validate_json(out).changes
    assert sorted(Path(one.file).parent.name for one in changes) == sorted(
        os.fsdecode(name).encode("utf-8", "backslashreplace").decode("utf-8") for name in ODD_NAMES
    )


def test_a_revert_where_nothing_was_swapped_is_one_sentence(run: Entry, file: Path) -> None:
    code, _, err = run(file, "--revert")
    assert code == 1
    assert err.removeprefix(f"error: {file}: ").count(".") <= 1
    assert len(err.splitlines()) == 1
