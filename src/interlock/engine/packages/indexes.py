"""The indexes that lock files name: which of them pip is given, and a note on each that it is not given. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

from interlock.engine.packages.requirements import Requirements, host_of_this_machine, without_user
from interlock.untrusted import printable

PUBLIC = ("https://pypi.org/simple", "https://pypi.python.org/simple")
SETTINGS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")


def with_indexes(wanted: Requirements, settings: Mapping[str, str]) -> Requirements:
    """Return the requirements with options for the indexes that locks name and pip's settings do not.

    pip asks each of its indexes for each package, so that one may answer with another project's file (dependency
    confusion). An index that is alone cannot, and hashes refuse such a file. Otherwise a note leaves it to the user.
    """
    if "--no-index" in wanted.options or "PIP_NO_INDEX" in settings:
        return wanted
    named = [settings.get(name, "") for name in SETTINGS] + wanted.options
    known = {_plain(word.strip("'")) for text in named for word in text.split() if "://" in word}
    lines = [(line, _plain(line.index)) for line in wanted.lines if not line.is_direct]
    indexes = {index for _, index in lines}
    options, notes = [], []
    for index in sorted(indexes - known - {""}):
        problem = _problem(index)
        if not problem and len(indexes) == 1 and not known:
            options.append(f"--index-url {shlex.quote(index)}")
        elif not problem and wanted.hashed:
            options.append(f"--extra-index-url {shlex.quote(index)}")
        else:
            names = [line.name for line, place in lines if place == index]
            of_many = f" and {len(names) - 1} more" if len(names) > 1 else ""
            notes.append(f"{names[0]}{of_many}: not looked for at {index}, which the lock names: {problem or UNSAFE}")
    return replace(wanted, options=[*wanted.options, *options], notes=[*wanted.notes, *notes])


UNSAFE = (
    "not all lines have hashes, so pip could take another project's file of that name from another index. "
    "If that cannot be, add it to pip's settings (PIP_EXTRA_INDEX_URL)."
)


def _problem(index: str) -> str:
    """Return why pip in a container cannot look there, and what to do; empty if it can."""
    if "://" not in index or index.startswith("file:"):
        return "it is a folder. Name it by --find-links in a requirements file."
    if host_of_this_machine(index):
        return "it is the container itself. Name it in pip's settings by an address that containers reach."
    return ""


def _plain(index: str) -> str:
    """Return an index on one line, without a user and a last slash; empty for the public one."""
    address = " ".join(printable(without_user(index)).split()).rstrip("/")
    return "" if address in PUBLIC else address
