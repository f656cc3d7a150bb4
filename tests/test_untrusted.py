"""What others wrote is read up to a limit; a FIFO, device, socket or cycle of links is one error, and nothing waits."""

from __future__ import annotations

import errno
import io
import lzma
import os
import socket
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from interlock import untrusted
from interlock.catalog import defaults, trained
from interlock.catalog import project as project_files
from interlock.cli.options import PlainConsole
from interlock.engine.packages import dependency_files
from interlock.errors import InterlockError, StoreError, WorkloadError
from interlock.results import store, sums
from interlock.results.answers import RecordedFigures
from interlock.results.experiments import BuildRecord, Experiment
from interlock.swap import writing
from interlock.untrusted import parse_json, printable
from tests.builders import make_experiment

pytestmark = pytest.mark.promise


def test_a_file_is_read_up_to_its_limit_and_through_a_link_if_that_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345\r\n")
    (tmp_path / "link").symlink_to("a")
    assert untrusted.read_bytes(tmp_path / "link", 7) == b"12345\r\n"
    assert untrusted.read_text(tmp_path / "a") == "12345\n"
    with pytest.raises(OSError, match="MiB") as caught:
        untrusted.read_bytes(tmp_path / "a", 6)
    assert caught.value.errno == errno.EFBIG
    with pytest.raises(OSError, match="not a regular file"):
        untrusted.read_bytes(tmp_path / "link", follow=False)


def into_fifo(path: Path) -> None:
    os.mkfifo(path)


def into_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def into_socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as one:
        one.bind(str(path))


def into_cycle(path: Path) -> None:
    path.symlink_to(path.name)


# What reads a file that a user or a stranger wrote, by the file: the project's, those that a command names, results.
READERS: dict[str, Callable[[Path], object]] = {
    "variants/cpython-3.13.toml": lambda path: project_files.load(path.parents[1]),
    "variants/bases.toml": lambda path: project_files.load(path.parents[1]),
    "workloads/locks.toml": lambda path: project_files.load(path.parents[1]),
    "workloads/claims.toml": lambda path: project_files.load_claims(path.parents[1]),
    "mine.toml": lambda path: project_files.load_claims(path.parent, path),
    "dockerfiles/Dockerfile.j2": lambda path: project_files.read_texts(path.parents[1]),
    "variants/profiles/a.tar.xz": lambda path: trained.read_archive(path.parents[2], path.name),
    "interlock.toml": defaults.read_defaults,
    "variants/keys/a.asc": lambda path: project_files.read_texts(path.parents[2]),
    "requirements.txt": lambda path: dependency_files.read([str(path)], untrusted.read_text, Path.exists),
    "Dockerfile": writing.read_file,
    "x/experiment.json": lambda path: store.read_experiment(path.parent),
    "x/builds.json": lambda path: store.read_json(path, BuildRecord),
    "x/figures.json": lambda path: store.read_json(path, RecordedFigures),
    "x/SHA256SUMS": lambda path: sums.read_sums(path.parent),
    "x/host.json": store.read_values,
    "x/runs.json": store.read_runs,
}


@pytest.mark.promise
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("make", [into_fifo, into_device, into_socket, into_cycle, Path.mkdir])
def test_what_is_no_file_is_one_error_and_nothing_waits(
    name: str, make: Callable[[Path], None], project: Path, deadline: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    monkeypatch.chdir(path.parent)  # a socket's path has 107 bytes at most
    make(Path(path.name))
    with pytest.raises(InterlockError) as caught:
        READERS[name](path)
    assert path.name in caught.value.file


@pytest.mark.parametrize("make", [into_fifo, into_device, into_socket, into_cycle, Path.mkdir])
def test_a_pyproject_that_is_no_file_has_no_defaults(
    make: Callable[[Path], None], deadline: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make(Path("pyproject.toml"))
    assert defaults.own_table(tmp_path) is None


def test_no_more_is_asked_for_than_fits() -> None:
    asked = []

    def parts() -> Iterator[bytes]:
        for number in range(10):
            asked.append(number)
            yield b"abc"

    assert untrusted.joined(parts(), 7) == b"abcabca"
    assert asked == [0, 1, 2]


def test_a_record_that_is_too_long_is_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "experiment.json").write_bytes(b" " * 100)
    monkeypatch.setattr(untrusted, "MOST_RECORD", 99)
    with pytest.raises(StoreError, match="MiB"):
        store.read_json(tmp_path / "experiment.json", Experiment)


@pytest.mark.promise
def test_a_record_is_read_from_xz_up_to_its_limit_and_what_is_none_is_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = make_experiment().model_dump_json()
    packed = lzma.compress(text.encode())
    path = tmp_path / "experiment.json"
    path.write_bytes(packed)
    assert store.read_json(path, Experiment) == Experiment.model_validate_json(text)
    for broken in (packed[:-20], packed[:30] + b"\0" * 40, packed[:6], packed[:2]):
        path.write_bytes(broken)
        with pytest.raises(StoreError, match="cannot be read"):
            store.read_json(path, Experiment)
    path.write_bytes(packed)
    monkeypatch.setattr(untrusted, "MOST_RECORD", len(packed))
    with pytest.raises(StoreError, match="MiB"):
        store.read_json(path, Experiment)


ESC = "\x1b"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain, with ä, 漢 and 🐍\tand a tab\n", "plain, with ä, 漢 and 🐍\tand a tab\n"),
        (f"{ESC}[1;31mred{ESC}[0m", "red"),
        ("\x9b2Jcleared", "cleared"),
        (f"{ESC}]0;a title\x07text", "text"),
        (f"{ESC}]8;;https://x.invalid{ESC}\\link{ESC}]8;;{ESC}\\", "link"),
        (f"{ESC}]52;c;aGk=", "52;c;aGk="),
        (f"{ESC}Pq#0;2;0;0;0{ESC}\\picture", "picture"),
        (f"{ESC}c{ESC}(0reset", "reset"),
        (f"{ESC}{ESC}[[31mnested", "31mnested"),
        ("50 %\r100 %\r\ndone\n", "50 %\n100 %\ndone\n"),
        ("a\x00b\x08c\x7fd\x85e", "abcde"),
        ("\u202etxt.exe\u202c \u2066x\u2069", "txt.exe x"),
        ("half \udc9b", "half \ufffd"),
    ],
)
def test_what_steers_a_terminal_is_removed_and_the_rest_stays(text: str, left: str) -> None:
    assert printable(text) == left


@given(st.text(st.characters() | st.sampled_from("\x1b\x9b[]0;mPX\\\x07")))
def test_nothing_is_left_but_characters_that_are_shown(text: str) -> None:
    cleaned = printable(text)
    assert {unicodedata.category(one) for one in cleaned if one not in "\n\t"}.isdisjoint({"Cc", "Cs"})
    assert printable(cleaned) == cleaned
    cleaned.encode()


def test_a_long_text_takes_no_longer_than_its_length() -> None:
    for introducer in ("\x1b]", "\x9d", "\x1b[", "\x1b ", "\x9d" + "a" * 4000, "\x9b" + "0" * 4000):
        text = introducer * (200_000 // len(introducer))
        assert "\x1b" not in printable(text)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_console_prints_no_escape_and_reads_no_markup(terminal: bool) -> None:
    table = Table(f"{ESC}[2Jcolumn [/bold]")
    table.add_row(f"[red]row{ESC}[0m")
    stream = io.StringIO()
    console = PlainConsole(
        file=stream, force_terminal=terminal, color_system="standard" if terminal else None, width=60
    )
    console.print(f"x{ESC}[2J[/y]", highlight=False)
    console.print("[bold]said[/bold] :smile:", highlight=False)
    console.print(Text(f"{ESC}]0;owned{ESC}\\styled", style="red"))
    console.print(table)
    shown = stream.getvalue()
    assert f"{ESC}[2J" not in shown
    assert "owned" not in shown
    assert "\x07" not in shown
    assert (f"{ESC}[31mstyled" in shown) is terminal
    # What styles the terminal is rich's own; without it every word is there as it was given.
    words = printable(shown).split()
    assert words.count("[/bold]") == 1
    assert {"x[/y]", "[bold]said[/bold]", ":smile:", "styled", "column", "[/bold]", "[red]row"} <= set(words)


def test_an_error_has_no_control_character_wherever_it_is_written() -> None:
    error = WorkloadError(key="a\x1b[31m", found="it said \x1b]0;x\x07no", todo="Look.\r\n")
    assert [error.key, error.found, str(error)] == ["a", "it said no", "a: it said no. Look.\n"]


@pytest.mark.parametrize("text", ["", "{", "[" * 20_000, '{"a":' * 20_000, "9" * 5000, b"\xff"])
def test_what_is_no_json_or_nested_without_end_is_one_kind_of_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


def test_an_error_of_a_very_long_name_says_its_beginning_and_its_end() -> None:
    error = WorkloadError(key="k", found=f"'begin{'x' * 80_000}end' is no image", todo="Look.")
    assert len(str(error)) < 10_000
    assert "'begin" in str(error)
    assert "end' is no image. Look." in str(error)
