"""`interlock facts debian` in a copy of the project, against a server that plays Debian's mirror."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.cli import facts
from interlock.swap import debian, debian_lists
from interlock.swap.debian_lists import read_table
from tests.builders import Entry
from tests.playing_upstream import Playing

Command = Callable[..., tuple[int, str, str]]


def package_with(*names: str) -> bytes:
    """A package as dpkg-deb makes it: an archive of ar with two members before the files."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:xz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    members = [("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), ("data.tar.xz", held.getvalue())]
    heads = [f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() for name, data in members]
    padded = (head + data + b"\n" * (len(data) % 2) for head, (_, data) in zip(heads, members, strict=True))
    return b"!<arch>\n" + b"".join(padded)


@pytest.fixture
def command(entry: Entry, fed_by_world: Path, world: Playing) -> Command:
    folder = fed_by_world / facts.FOLDER
    folder.mkdir(parents=True)
    (folder / debian.OFFICIAL).write_text(
        '[slim]\npackages = []\n[full]\npackages = ["git"]\n[alternatives]\n[successors]\n', encoding="utf-8"
    )
    data = package_with("./usr/bin/git", "./usr/share/doc/git")
    world.served["/debian/pool/git.deb"] = data
    sha256 = hashlib.sha256(data).hexdigest()
    now = f"Package: git\nFilename: pool/git.deb\nSize: {len(data)}\nSHA256: {sha256}\n"
    for release in debian_lists.FORMER:
        world.index(release, debian_lists.PACKAGES, f"Package: only-in-{release}\n")
    world.index(debian_lists.RELEASE, debian_lists.PACKAGES, now)
    return lambda *words: entry("facts", *words)


def test_a_table_is_written_once_and_then_nothing_differs(command: Command, project: Path) -> None:
    assert command("debian", "--check")[0] == 1
    file = project / facts.FOLDER / debian.FILE
    assert not file.exists()
    assert command("debian")[0] == 0
    made = read_table(file.read_text(encoding="utf-8"))
    assert made.gone == {f"only-in-{release}": () for release in debian_lists.FORMER}
    assert made.programs == {"git": "git"}
    assert command("debian", "--check")[0] == 0


@pytest.mark.parametrize("path", ["/debian/pool/git.deb", f"/debian/dists/bookworm/{debian_lists.PACKAGES}"])
def test_what_is_not_the_file_that_the_list_names_writes_nothing(
    command: Command, project: Path, world: Playing, path: str
) -> None:
    world.served[path] += b"x"
    code, _, said = command("debian")
    assert code != 0
    assert "git.deb" in said or "Packages" in said
    assert not (project / facts.FOLDER / debian.FILE).exists()


def test_a_subject_that_there_is_not_is_refused(command: Command) -> None:
    assert command("fedora")[0] == 2
