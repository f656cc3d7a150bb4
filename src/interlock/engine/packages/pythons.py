"""The versions of Python that a lock file or a project is for. Pure."""

from __future__ import annotations

import re

from packaging.specifiers import SpecifierSet
from packaging.version import Version

PART = re.compile(r"(\^|~=?|[<>=!]*)\s*([\w.*+-]+)")


def allows(python: str, version: str) -> bool:
    """Return whether a range, in the words of PEP 440 or of Poetry, has a version; ValueError if it is neither.

    A prerelease counts as its release, as for pip and uv.
    """
    release = Version(version.rstrip("+")).base_version
    ranges = [",".join(_as_pep_440(*part) for part in PART.findall(text)) for text in re.split(r"\|+", python)]
    return any(SpecifierSet(text).contains(release) for text in ranges)


def _as_pep_440(sign: str, version: str) -> str:
    """Return one comparison of Poetry, which takes all those of PEP 440 too."""
    bare = version.removesuffix(".*")
    if version == "*":
        return ""
    match sign:
        case "^":
            return f">={bare},<{int(bare.split('.')[0]) + 1}"
        case "~":
            return f">={bare},=={'.'.join(bare.split('.')[:2])}.*"
        case "" | "=":
            return f"=={version}"
        case "<" | "<=" | ">" | ">=":
            return f"{sign}{bare}"
    return f"{sign}{version}"
