"""`interlock update` in a copy of the project, against a server that plays upstream and Debian's mirror."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.catalog import update, upstream
from interlock.catalog.sources import FILE
from tests.builders import Entry
from tests.playing_upstream import Playing

NEW = {"3.13.99": "a" * 64, "3.14.99": "b" * 64}
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, entry: Entry, fed_by_world: Path, world: Playing) -> Command:
    """Runs it: its exit code, and what it printed."""
    sources = fed_by_world / FILE
    text = sources.read_text(encoding="utf-8").replace("https://www.python.org", world.url)
    sources.write_text(text, encoding="utf-8")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{fed_by_world}/none.sock")
    monkeypatch.setattr(upstream, "LISTING", f"{world.url}/ftp/")
    monkeypatch.setattr(update, "PREBUILT_SUMS", f"{world.url}/SHA256SUMS")
    world.debian("sid", NEW)
    assert entry("render")[0] == 0
    return lambda *words: entry("update", *words)


def tree(project: Path) -> dict[str, str]:
    files = [path for path in project.rglob("*") if path.is_file()]
    return {str(path.relative_to(project)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def heads(project: Path) -> dict[str, str]:
    channels = tomllib.loads((project / FILE).read_text(encoding="utf-8"))["channels"]
    return {channel: names[0] for channel, names in channels.items()}


def test_a_check_says_what_is_stale_by_its_exit_code_and_writes_nothing(command: Command, project: Path) -> None:
    before = tree(project)
    code, said, _ = command("--check")
    assert code == 1
    assert len([line for line in said.splitlines() if line.startswith("stale")]) == len(NEW)
    assert tree(project) == before


def test_an_update_writes_sources_and_what_is_generated_and_then_nothing_is_stale(
    command: Command, project: Path
) -> None:
    before = tree(project)
    code, said, _ = command()
    assert code == 0
    assert {heads(project)[line] for line in ("3.13", "3.14")} == {*NEW}
    after = tree(project)
    changed = {path for path in {**before, **after} if after.get(path) != before.get(path)}
    script = (project / "dockerfiles/cpython-3.13t/build.sh").read_text(encoding="utf-8")
    assert NEW["3.13.99"] in script
    assert changed >= {FILE, "dockerfiles/cpython-3.13t/build.sh", "dockerfiles/cpython-3.14/build.sh"}
    rendered = {line.split()[1] for line in said.splitlines() if line.startswith("render")}
    assert rendered == changed - {FILE}
    trained = next(line for line in said.splitlines() if line.startswith("next")).split()
    assert trained[:3] == ["next", "interlock", "train"]
    assert {"cpython-3.13", "cpython-3.14t"} <= {*trained}
    assert "cpython-2.7" not in trained, "it has the release that it had"
    assert not [path for path in after if Path(path).name.startswith(".")]
    assert command("--check")[0] == 8, "without an engine no registry is asked"
    assert command()[0] == 0
    assert tree(project) == after


@pytest.mark.parametrize(("is_silent", "code", "silent"), [(False, 0, []), (True, 8, ["1"])])
def test_a_check_passes_only_if_all_who_were_asked_have_answered(
    command: Command, world: Playing, is_silent: bool, code: int, silent: list[str]
) -> None:
    assert command("3.13")[0] == 0
    if not is_silent:
        world.list("3.13.99")
    ended, said, _ = command("--check", "3.13")
    assert ended == code
    assert re.findall(r"\d+", said.splitlines()[-1]) == silent


@pytest.mark.parametrize("name", ["3.13", "cpython-3.13t", "cpython-3.13-zip"])
def test_a_channel_or_a_variant_limits_what_is_updated(command: Command, project: Path, name: str) -> None:
    before = heads(project)
    assert command(name)[0] == 0
    assert heads(project) == {**before, "3.13": "3.13.99"}


def test_what_is_neither_a_variant_nor_a_channel_is_bad_usage(command: Command) -> None:
    code, _, said = command("3.133")
    assert code == 2
    assert "3.13" in said


@pytest.mark.parametrize("is_forged", [False, True])
def test_where_nobody_answers_or_an_index_is_forged_nothing_changes_and_the_exit_code_is_its_own(
    command: Command, project: Path, world: Playing, is_forged: bool
) -> None:
    before = tree(project)
    if is_forged:
        world.debian("testing", {"3.13.100": "c" * 64}, signer="stranger")
    else:
        world.served.clear()
    for words in (["--check"], []):
        assert command(*words)[0] == 8
    assert tree(project) == before


def test_what_cannot_be_rendered_is_not_written(command: Command, project: Path) -> None:
    (project / "variants/cpython-3.13.toml").write_text("summary = 5\n", encoding="utf-8")
    before = tree(project)
    assert command()[0] == 3
    assert tree(project) == before


def test_outside_of_a_clone_there_is_nothing_to_update(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert command()[0] == 2
