"""`interlock facts`: reads from signed lists what others' releases contain, and keeps it as data."""

from __future__ import annotations

import hashlib
import io
import lzma
import tarfile
import tomllib
from typing import Annotated

import typer

from interlock.catalog.upstream import Upstream
from interlock.cli.options import console, open_clone
from interlock.engine.build.base import debian_keyring, debian_mirrors
from interlock.errors import DriftError, UpstreamError, require_known
from interlock.results.files import write_atomically
from interlock.swap import debian, debian_lists
from interlock.untrusted import read_text

SUBJECTS = ("debian",)
FOLDER = "src/interlock/swap"
# How a package begins, the length of a member's header, and how the name of the member with the files begins.
AR, HEADER, DATA = b"!<arch>\n", 60, b"data.tar"


def facts_command(
    subject: Annotated[str, typer.Argument(metavar="debian", help="What to read: Debian's releases.")] = "debian",
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 if the lists say something else now.")
    ] = False,
) -> None:
    """Read from signed lists what swap knows of Debian.

    They come from the mirror that apt is configured with: 80 MB, of which a table of 250 KB stays.
    """
    require_known(SUBJECTS, subject, "subject")
    paths, _ = open_clone("and only a clone has the sources of the facts")
    upstream = Upstream(debian_mirrors()[0], debian_keyring(), paths.root / "variants/keys", console.say)
    file = paths.root / FOLDER / debian.FILE
    made = _table(upstream, tomllib.loads(read_text(paths.root / FOLDER / debian.OFFICIAL))).text
    same = file.is_file() and read_text(file) == made
    if check and not same:
        problem = "the package lists say something else now"
        raise DriftError(file=str(file), found=problem, todo="Run `interlock facts debian`.")
    if not same:
        write_atomically(file, made)
    console.say(f"{'same   ' if same else 'written'} {file.relative_to(paths.root)}, {len(made) / 1000:.0f} KB")


def _table(upstream: Upstream, official: dict[str, dict[str, object]]) -> debian_lists.DebianTable:
    lists, origin = dict[str, str](), list[str]()
    for release in (*debian_lists.FORMER, debian_lists.RELEASE):
        index = upstream.signed_file(release, debian_lists.PACKAGES)
        lists[release] = lzma.decompress(index.data).decode()
        origin.append(f"{release} {index.version} of {index.date}, {debian_lists.PACKAGES}: {index.sha256}")

    def files_of(package: debian_lists.Package) -> list[str]:
        data = upstream.fetch([package.file])
        if data is None or hashlib.sha256(data[0]).hexdigest() != package.sha256:
            raise UpstreamError(
                key=package.file, found="is not there, or not the file that the signed list names", todo="Try again."
            )
        return _names(data[0])

    return debian_lists.make_table(lists, files_of, official, origin)


def _names(package: bytes) -> list[str]:
    """Return the names of the files in a package: an ar archive whose last member is a tar archive."""
    at = len(AR)
    while package[at : at + 8] != DATA:
        size = int(package[at + 48 : at + 58])
        at += HEADER + size + size % 2
    with tarfile.open(fileobj=io.BytesIO(package[at + HEADER :])) as archive:
        return archive.getnames()
