"""Interpreters that others built, used without containers: from a folder of this machine, or from an archive."""

from __future__ import annotations

import platform
from pathlib import Path

from interlock.catalog.sources import Download
from interlock.catalog.variants import Prefix, Variant
from interlock.engine.build.sources import SYSTEM, folders_of, not_found
from interlock.engine.host.account import Account
from interlock.errors import SourceUnavailableError


def place_of(prefix: Prefix, account: Account) -> Path | None:
    """Return the first of the prefix' places that has its interpreter and that this user can reach."""
    here = (place for place in folders_of(prefix) if (place / "bin" / prefix.python).exists())
    return next(filter(account.reaches, here), None)


def archive_of(prefix: Prefix) -> Download | None:
    """Return the archive to fetch for this machine if no place has the interpreter."""
    return prefix.archives.get(platform.machine())


def not_here(variant: Variant, prefix: Prefix) -> SourceUnavailableError:
    """Return the error for an interpreter that no place has and that cannot be fetched either."""
    places = ", ".join(f"{place}/bin/{prefix.python}" for place in prefix.places)
    return not_found(variant, f"not installed on this machine: {places}")


def needs_links(prefix: Prefix, place: Path) -> bool:
    """Return whether programs find a place's interpreter by its name only through a folder of links."""
    return place in SYSTEM or not (place / "bin" / "python").exists()


def link(folder: Path, interpreter: Path) -> None:
    """Fill a folder with links by which programs find the interpreter; it finds its library by itself.

    Links that are right stay: another experiment may start programs by them.
    """
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    for path in (folder / "bin/python", folder / "bin/python3"):
        if not path.is_symlink() or path.readlink() != interpreter:
            path.unlink(missing_ok=True)
            path.symlink_to(interpreter)
