"""What helps where a package has no wheel: a release that has one, and the system's package that its build lacks."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from interlock.engine.packages.pip_container import PipContainer
from interlock.engine.packages.requirements import VARIABLE

# How many packages an index is asked about at most; in most programs fewer lack a wheel.
MOST_ASKED, ASK_S = 20, 60
# pip's line for each file that its interpreter can use. Its list of versions would include those with sources only.
WHEEL = re.compile(r"^\s*Found link \S*/([^/\s-]+)-[^/\s]+\.whl(?:[#?]\S*)? .*version: (\S+)$", re.MULTILINE)
# Options of requirements files that say where pip looks.
PLACES = ("--index-url", "--extra-index-url", "--no-index", "--find-links", "--trusted-host", "--pre")
MISSING = re.compile(
    r"not found|no such file|not installed|are installed|no package|not be found|required|missing"
    r"|(?:can't|cannot|could not|not able to|unable to) (?:find|locate|run)",
    re.IGNORECASE,
)


def release_with_wheel(inside: PipContainer, name: str, version: str, options: Iterable[str]) -> str:
    """Return the oldest release from a version on that has a wheel for the variant, else the newest before it.

    The variant's own pip says which releases have one; empty if none has, or the index does not tell.
    """
    words = [word for option in options if option.split()[0] in PLACES for word in shlex.split(option)]
    # pip fills in variables only in its files.
    words = [VARIABLE.sub(lambda match: inside.environment.get(match[1], match[0]), word) for word in words]
    said = inside.pip("index", "versions", "-vv", name, *words, deadline_s=ASK_S)
    wheels = WHEEL.findall(said.stdout)  # with pip's own wheels, as it may look up its own releases
    own = canonicalize_name(name)
    return nearest_release(version, [release for project, release in wheels if canonicalize_name(project) == own])


def nearest_release(version: str, releases: Sequence[str]) -> str:
    """Return the oldest release from a version on, else the newest before it; without a version the oldest."""
    every = sorted(filter(None, map(_parsed, releases)))
    known, wanted = [release for release in every if not release.is_prerelease] or every, _parsed(version)
    if wanted is None or not known:
        return str(known[0]) if known else ""
    return str(next((release for release in known if release >= wanted), known[-1]))


def _parsed(version: str) -> Version | None:
    try:
        return Version(version)
    except InvalidVersion:
        return None


def system_package(output: str) -> str:
    """Return the Debian package with what a failed build says it lacks; empty if it is not known.

    The last line that names something missing is nearest to the failure.
    """
    for line in reversed(output.splitlines()):
        if MISSING.search(line):
            for name, package in _debian().items():
                if re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", line):
                    return package
    return ""


@cache
def _debian() -> dict[str, str]:
    text = files("interlock.engine.packages").joinpath("debian.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
