"""This machine's own packages: what an installation would bring, how large it is, and what is here."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from interlock.engine.ended import run_here

URI = re.compile(r"^'[^']*' ([^_]+)_\S* ([0-9]+) ", re.MULTILINE)
SIZE = re.compile(r"^Installed-Size: ([0-9]+)$", re.MULTILINE)
KILOBYTE = 1024


@dataclass(frozen=True)
class Installation:
    """What would be installed, dependencies too; the sizes are None where the machine's tools do not tell them."""

    names: tuple[str, ...]
    download_bytes: int | None = None
    unpacked_bytes: int | None = None

    @property
    def words(self) -> str:
        """Return the number, the sizes and the names."""
        count = f"{len(self.names)} package{'s' * (len(self.names) != 1)}"
        sizes = (
            "sizes are not known"
            if self.download_bytes is None or self.unpacked_bytes is None
            else f"{self.download_bytes / 1e6:.0f} MB to download, {self.unpacked_bytes / 1e6:.0f} MB on disk"
        )
        return f"{count} ({sizes}): {', '.join(self.names)}"


def installation(wanted: Sequence[str], *, recommended: bool = False) -> Installation:
    """Return what installing these would add to this machine; with `recommended`, what packages recommend too."""
    here = installed()
    missing = [name for name in wanted if name not in here]
    if not missing:
        return Installation(())
    if shutil.which("apt-get") is None:
        return Installation(tuple(missing))
    more = "--install-recommends" if recommended else "--no-install-recommends"
    sizes = sizes_of(_said(["apt-get", "install", "--print-uris", "-qq", more, *missing]))
    if not sizes:  # without its lists apt knows no package
        return Installation(tuple(missing))
    shown = _said(["apt-cache", "show", "--no-all-versions", *sizes])
    unpacked = sum(int(kilobytes) * KILOBYTE for kilobytes in SIZE.findall(shown))
    return Installation(tuple(sorted(sizes)), sum(sizes.values()), unpacked)


def sizes_of(printed: str) -> dict[str, int]:
    """Return the size in bytes of each package whose address apt-get prints."""
    return {name: int(size) for name, size in URI.findall(printed)}


def known(names: Sequence[str]) -> list[str]:
    """Return the packages that the distribution has; all of them where there is no apt to ask."""
    return [name for name in names if shutil.which("apt-cache") is None or _said(["apt-cache", "show", name])]


def installed() -> set[str]:
    """Return the names of the packages that are installed."""
    if shutil.which("dpkg-query"):
        lines = _said(["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package}\\n"]).splitlines()
        return {line.split()[1] for line in lines if line[1:2] == "i"}  # 'hi ' is held back
    return set(_said(["rpm", "-qa", "--qf", "%{NAME}\\n"]).split()) if shutil.which("rpm") else set()


def removal(names: Sequence[str]) -> str:
    """Return the command that removes packages again."""
    return f"{'apt-get purge' if shutil.which('apt-get') else 'dnf remove'} {' '.join(names)}"


def _said(argv: list[str]) -> str:
    """Return what a program prints in English; nothing if it fails."""
    done = run_here(argv, environment={"LC_ALL": "C", "PATH": PATH})
    return done.stdout if done.ok else ""


PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
