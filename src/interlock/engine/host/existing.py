"""Interpreters that others built and that are used without containers: in a folder of this machine, or an archive."""

from __future__ import annotations

import hashlib
import platform
import shutil
import urllib.request
from pathlib import Path

from interlock.catalog.sources import Download
from interlock.catalog.variants import Prefix, Variant
from interlock.engine.build.places import urls_of
from interlock.engine.build.sources import SYSTEM, folders_of, kept
from interlock.engine.ended import run_here
from interlock.engine.host.account import Account
from interlock.errors import SourceUnavailableError

FETCH_S = 120


def place_of(prefix: Prefix, account: Account) -> Path | None:
    """Return the first of the prefix' places that has its interpreter, for this user."""
    here = (one for one in folders_of(prefix) if (one / "bin" / prefix.python).exists())
    return next(filter(account.reaches, here), None)


def archive_of(prefix: Prefix) -> Download | None:
    """Return what would be fetched for this machine where no place has the interpreter."""
    return prefix.archives.get(platform.machine())


def not_here(variant: Variant, prefix: Prefix) -> SourceUnavailableError:
    """Return the error of an interpreter that no place has and that is not fetched either."""
    found = f"not installed on this machine: {', '.join(f'{place}/bin/{prefix.python}' for place in prefix.places)}"
    todo = "Install it into a folder of its own and name that."
    return SourceUnavailableError(file=variant.file, key="prefix.places", found=found, todo=todo)


def needs_links(prefix: Prefix, place: Path) -> bool:
    """Return whether the interpreter of a place is found by its own name only with a folder of links to it."""
    return place in SYSTEM or not (place / "bin" / "python").exists()


def link(folder: Path, interpreter: Path) -> None:
    """Fill a folder with links by which programs find the interpreter; it finds its library by itself."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3"):
        (folder / "bin" / name).unlink(missing_ok=True)
        (folder / "bin" / name).symlink_to(interpreter)


def fetch(variant: Variant, download: Download, cache: Path) -> Path:
    """Return an archive from the cache or the first place whose bytes have its sum; else SourceUnavailableError."""
    target, said = kept(download, cache), "no place is named"
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    for url in urls_of(download):
        try:
            with urllib.request.urlopen(url, timeout=FETCH_S) as answer:  # noqa: S310  the sum is checked
                data = answer.read()
        except (OSError, ValueError) as error:
            said = f"{url}: {error}"
            continue
        found = hashlib.sha256(data).hexdigest()
        if found == download.sha256:
            partial = target.with_suffix(".part")
            partial.write_bytes(data)
            return partial.replace(target)
        said = f"{url}: sha256 is {found} ({len(data)} bytes), wanted {download.sha256}"
    todo = "Make one of its places reachable, or set INTERLOCK_SOURCE_MIRROR to a folder that has the file."
    raise SourceUnavailableError(file=variant.file, key="prefix.archive", found=said, todo=todo)


def unpack(variant: Variant, archive: Path, folder: Path) -> None:
    """Unpack an archive's folder with the interpreter; SourceUnavailableError if that fails."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    words = ["tar", "--no-same-owner", "--strip-components=1", "-xzf", str(archive), "-C", str(folder)]
    done = run_here(words)
    if not done.ok:
        found, todo = f"it cannot be unpacked: {done.why}", "Install tar and gzip, and free space."
        raise SourceUnavailableError(file=variant.file, key="prefix.archive", found=found, todo=todo)
