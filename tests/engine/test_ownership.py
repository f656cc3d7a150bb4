"""What a process has made is told from what nobody is at any more, on this machine and on others."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.engine import ownership
from interlock.engine.ownership import HOST, MARK, OWNER_LABEL, PID, STARTED, Life
from tests.builders import ROOT

# What another process has made, which it says in a line; then it waits.
OTHER = """\
import json, pathlib, sys
from interlock.engine import ownership
with ownership.temporary_folder("test", pathlib.Path(sys.argv[1])) as folder:
    print(json.dumps([str(folder), ownership.labels_of("other")]), flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_process(within: Path) -> Iterator[tuple[subprocess.Popen[str], Path, dict[str, str]]]:
    """Another process, its folder and its labels."""
    command = [sys.executable, "-c", OTHER, str(within)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder, labels = json.loads(process.stdout.readline())
        yield process, Path(folder), labels
        process.kill()


def unlabelled(source: str) -> list[int]:
    """The lines on which a container, a volume or a network is made without `labels`."""
    return [
        call.lineno
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and re.search(r"\b(containers|volumes|networks)\.(create|run)$", ast.unparse(call.func))
        and not any(keyword.arg == "labels" for keyword in call.keywords)
    ]


def test_whatever_is_made_in_an_engine_has_an_owner() -> None:
    assert unlabelled("client.volumes.create()\none.client.containers.run('i', labels=x)\nfolder.create()") == [1]
    sources = sorted((ROOT / "src/interlock").rglob("*.py"))
    found = {str(path.relative_to(ROOT)): unlabelled(path.read_text(encoding="utf-8")) for path in sources}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_what_this_process_makes_is_living() -> None:
    labels = ownership.labels_of("me")
    assert (labels[OWNER_LABEL], labels[PID]) == ("me", str(os.getpid()))
    assert ownership.life(labels) is Life.LIVING


def test_what_another_process_made_is_living_until_it_ends(tmp_path: Path) -> None:
    with other_process(tmp_path) as (other, _, labels):
        assert ownership.life(labels) is Life.LIVING
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert ownership.life(labels) is Life.DEAD, "a zombie makes nothing any more"
        other.wait()
        assert ownership.life(labels) is Life.DEAD


def test_a_process_that_got_the_id_of_one_that_ended_is_another() -> None:
    labels = ownership.labels_of("me")
    assert ownership.life({**labels, STARTED: f"{labels[STARTED]}0"}) is Life.DEAD


@pytest.mark.parametrize(
    ("label", "value"),
    [
        *((HOST, value) for value in ("elsewhere 1", "", None)),
        *((PID, value) for value in ("no number", "²", "9" * 5000, "-1", "", None)),
        (STARTED, None),
    ],
)
def test_what_another_machine_or_somebody_else_or_an_older_version_made_is_unknown(
    label: str, value: str | None
) -> None:
    labels: dict[str, str | None] = {**ownership.labels_of("me"), label: value}
    assert ownership.life({name: said for name, said in labels.items() if said is not None}) is Life.UNKNOWN


def test_an_owner_lives_as_long_as_anything_of_it_does() -> None:
    living = ownership.labels_of("me")
    dead, unknown = {**living, STARTED: "then"}, {OWNER_LABEL: "me"}
    made = {"a": [dead, living, unknown], "b": [dead, unknown], "c": [dead, dead]}
    assert ownership.lives_of(made) == {"a": Life.LIVING, "b": Life.UNKNOWN, "c": Life.DEAD}


def test_a_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_and_a_stranger_s_stay(tmp_path: Path) -> None:
    (tmp_path / "interlock-unmarked").mkdir()
    (tmp_path / "interlock-link").symlink_to(tmp_path / "interlock-unmarked")
    (tmp_path / "another").mkdir()
    ownership.mark(tmp_path / "another", "another")
    with other_process(tmp_path) as (other, left, _), ownership.temporary_folder("mine", tmp_path) as mine:
        assert ownership.folders(tmp_path) == {mine: Life.LIVING, left: Life.LIVING}
        other.kill()
        other.wait()
        assert (left / MARK).is_file()
        assert ownership.remove_dead(tmp_path) == [left]
        assert mine.is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["another", "interlock-link", "interlock-unmarked"]
