"""What pip says: its report of what it would install, and the last words of a failure, which are quoted, not read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from interlock.errors import EngineError
from interlock.untrusted import parse_json

# The first pip with --report and --dry-run.
LEAST_PIP = (22, 2)
PIP_VERSION = re.compile(r"^pip (\d{1,4})\.(\d{1,4})")
WORDS = 400  # characters of a failure's message that a table shows
# Where the output of a program that pip ran begins and ends, since pip 21.3 and before.
PROGRAM = re.compile(r"(?:╰─> \[\d{1,9} lines? of output\]|Complete output \(\d{1,9} lines?\):)\n")
PROGRAM_END = re.compile(r"^[ \t]*+(?:\[end of output\]|-{40})", re.MULTILINE)
# Error lines of compilers, linkers and their callers; the first is the cause.
COMPILER = re.compile(
    r"(: (fatal )?error: |^[Ee]rror(\[E\d+\])?: |^CMake Error|: undefined reference to |ld: cannot find |Killed signal)"
)
CALLER = re.compile(r"failed with exit code|returned non-zero exit status|subprocess-exited-with-error")
CARGO = re.compile(r"^[ \t]*+--- stderr\n\s*+(\S.*)$", re.MULTILINE)  # of a failed build script
EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Warning|NotFound)\w*(?::|$)")
CONFLICT = re.compile(r"^The conflict is caused by:\n((?:[ \t]+\S.*\n)+)", re.MULTILINE)
NOISE = re.compile(r"^(\[notice\]|note:|hint:|WARNING:|╰─>|│|\u00d7|Looking in |INFO:)|See above for output")
RETRIED = re.compile(r"^WARNING: Retrying .{1,200}? after connection broken by '(.{1,400})': /", re.MULTILINE)
# Only pip's log has such lines. 404 means that the index does not know the package.
NOT_FETCHED = re.compile(r"Could not fetch URL \S+: (?!404 )(.+?)(?: for url: .*)?(?: - skipping)?$", re.MULTILINE)


def pip_version(said: str) -> tuple[int, int] | None:
    """Return the version in the output of `pip --version`; None if it is something else."""
    found = PIP_VERSION.match(said)
    return (int(found[1]), int(found[2])) if found else None


def last_words(output: str) -> str:
    """Return the lines that say why pip, or a program that it ran, failed: a few, short enough for a table."""
    if conflict := CONFLICT.search(output):
        return _shortened([f"conflict: {'; '.join(line.strip() for line in conflict[1].splitlines())}"])
    starts = [found.end() for found in PROGRAM.finditer(output)]
    said = PROGRAM_END.split(output[starts[-1] :], maxsplit=1)[0] if starts else output
    lines = [line.strip() for line in said.splitlines()]
    lines = [line for line in lines if line and not NOISE.match(line)]
    return _shortened(_of_program(said, lines) if starts else [*_of_pip(lines), *RETRIED.findall(output)[-1:]])


def _of_program(said: str, lines: list[str]) -> list[str]:
    if script := CARGO.search(said):
        return [script[1]]
    for line in lines:
        if COMPILER.search(line) and not CALLER.search(line):
            return [line]
    exceptions = [number for number, line in enumerate(lines) if EXCEPTION.match(line)]
    return lines[exceptions[-1] :][:3] if exceptions else lines[-2:]


def _of_pip(lines: list[str]) -> list[str]:
    """Return pip's last errors; what it says of the last one stands below it."""
    errors = [number for number, line in enumerate(lines) if line.startswith("ERROR:")]
    if errors and errors[-1] == len(lines) - 1:
        return [lines[number] for number in errors[-2:]]
    return lines[errors[-1] :][-3:] if errors else lines[-2:]


def _shortened(lines: list[str]) -> str:
    text = " / ".join(line.removeprefix("ERROR: ") for line in lines)
    return text if len(text) <= WORDS else text[: WORDS - 3] + "..."


def not_fetched(log: str) -> str:
    """Return what pip's log says of the last page that an index should have and did not give; empty without one."""
    found = NOT_FETCHED.findall(log)
    return found[-1] if found else ""


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
    def lasting(self) -> bool:
        """Return whether the file is pinned by a hash, so that what was built from it can be kept."""
        return "#sha256=" in self.spec


def parse_report(text: str) -> list[Resolved]:
    """Parse pip's installation report (version 1): what it would install, in its order; EngineError for anything else.

    Packages that pip built for it may have written its file.
    """
    try:
        report = parse_json(text)
        items: dict[str, Any] = {canonicalize_name(one["metadata"]["name"]): one for one in report["install"]}
        wanted = _applying(items, report["environment"])
        return [_resolved(item, wanted[key]) for key, item in items.items()]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise EngineError(
            found=f"pip's report cannot be read ({type(error).__name__}: {error})", todo="Try again, or without caches."
        ) from None


def _resolved(item: Mapping[str, Any], requires: Sequence[Requirement]) -> Resolved:
    info, metadata = item["download_info"], item["metadata"]
    name, version, url = metadata["name"], metadata["version"], info["url"]
    return Resolved(name, version, _spec(name, info), url, url.endswith(".whl"), requires)


def _spec(name: str, info: Mapping[str, Any]) -> str:
    """Return a requirement line for the same file; `info` is download_info of PEP 610."""
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
    """Return what each package requires of others in this environment, with the extras that are asked of it."""
    requires = {key: _requirements(one["metadata"]) for key, one in items.items()}
    extras = {key: set(one.get("requested_extras", [])) for key, one in items.items()}
    found: dict[str, list[Requirement]] = {}
    before: object = None
    while before != extras:  # an extra may ask for another package's extra
        before = {key: set(some) for key, some in extras.items()}
        for key, some in requires.items():
            found[key] = [one for one in some if _applies(one, environment, extras[key])]
            for one in found[key]:
                extras.get(canonicalize_name(one.name), set()).update(one.extras)
    return found


def _requirements(metadata: Mapping[str, Any]) -> list[Requirement]:
    found = []
    for text in metadata.get("requires_dist") or []:
        try:
            found.append(Requirement(text))
        except InvalidRequirement:  # pip has warned about it and gone on
            continue
    return found


def _applies(requirement: Requirement, environment: Mapping[str, str], extras: Collection[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({**environment, "extra": extra}) for extra in {*extras, ""})


def needed_by(packages: Sequence[Resolved], name: str) -> list[str]:
    """Return the packages that require this one, by canonical names."""
    asking = {one.key for one in packages if name in {canonicalize_name(wanted.name) for wanted in one.requires}}
    return sorted(asking - {name})
