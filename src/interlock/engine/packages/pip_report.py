"""pip's report of what it would install, and who needs which package of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from interlock.errors import EngineError
from interlock.untrusted import parse_json


@dataclass(frozen=True)
class Resolved:
    """One package that pip would install."""

    name: str  # as in the package's metadata
    version: str
    spec: str  # the requirement that makes pip fetch the same file again
    place: str  # a URL without credentials
    is_wheel: bool
    requires: Sequence[Requirement] = field(default=(), repr=False)  # those that apply to this interpreter

    @property
    def key(self) -> str:
        return canonicalize_name(self.name)

    @property
    def file(self) -> str:
        """Return the file's name, as pip writes it."""
        return _file(self.place)

    @property
    def from_index_as_source(self) -> bool:
        """Return whether its source came from an index, which has other releases too."""
        return not self.is_wheel and "git+" not in self.spec and self.place.startswith("http")

    @property
    def lasting(self) -> bool:
        """Return whether the file is pinned by a hash, so that what was built from it can be kept."""
        return "#sha256=" in self.spec


def parse_report(text: str) -> list[Resolved]:
    """Parse pip's installation report (version 1): what it would install, in its order; EngineError for anything else.

    The report is not trusted: packages that pip built for it may have written the file.
    """
    try:
        report = parse_json(text)
        items: dict[str, Any] = {canonicalize_name(item["metadata"]["name"]): item for item in report["install"]}
        wanted = _applying(items, report["environment"])
        return [_resolved(item, wanted[key]) for key, item in items.items()]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise EngineError(
            found=f"pip's report cannot be read ({type(error).__name__}: {error})", todo="Try again, or without caches."
        ) from None


def _resolved(item: Mapping[str, Any], requires: Sequence[Requirement]) -> Resolved:
    info, metadata = item["download_info"], item["metadata"]
    name, version, url = metadata["name"], metadata["version"], info["url"]
    return Resolved(name, version, _spec(name, info), url, _file(url).endswith(".whl"), requires)


def _file(url: str) -> str:
    return unquote(urlsplit(url).path.rpartition("/")[2])


def _spec(name: str, info: Mapping[str, Any]) -> str:
    """Return a requirement line for the same file; `info` is the report's download_info (PEP 610)."""
    fragments = []
    url = info["url"]
    if "vcs_info" in info:
        url = f"{info['vcs_info']['vcs']}+{url}@{info['vcs_info']['commit_id']}"
    hashes = info.get("archive_info", {}).get("hashes", {})
    if "sha256" in hashes:
        fragments.append(f"sha256={hashes['sha256']}")
    if info.get("subdirectory"):
        fragments.append(f"subdirectory={info['subdirectory']}")
    return f"{name} @ {url}{'#' if fragments else ''}{'&'.join(fragments)}"


def _applying(items: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str]) -> dict[str, list[Requirement]]:
    """Return the requirements of each package that apply in this environment, with the extras that are asked of it."""
    requires = {key: _requirements(item["metadata"]) for key, item in items.items()}
    extras = {key: set(item.get("requested_extras", [])) for key, item in items.items()}
    applying: dict[str, list[Requirement]] = {}
    before: object = None
    while before != extras:  # an extra may ask for another package's extra
        before = {key: set(asked) for key, asked in extras.items()}
        for key, requirements in requires.items():
            applying[key] = [needed for needed in requirements if _applies(needed, environment, extras[key])]
            for requirement in applying[key]:
                extras.get(canonicalize_name(requirement.name), set()).update(requirement.extras)
    return applying


def _requirements(metadata: Mapping[str, Any]) -> list[Requirement]:
    requirements = []
    for text in metadata.get("requires_dist") or []:
        try:
            requirements.append(Requirement(text))
        except InvalidRequirement:  # pip has warned about it and gone on
            continue
    return requirements


def _applies(requirement: Requirement, environment: Mapping[str, str], extras: Collection[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({**environment, "extra": extra}) for extra in {*extras, ""})


def needed_by(packages: Sequence[Resolved], name: str) -> list[str]:
    """Return the packages that require this one, by canonical names."""
    asking = {
        package.key for package in packages for wanted in package.requires if canonicalize_name(wanted.name) == name
    }
    return sorted(asking - {name})
