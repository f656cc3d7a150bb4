"""What pip prints: its report of what it would install, and where and why it failed. Pure but for `explain_failure`."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from interlock.engine.packages.pip_container import AUDIT, CommandResult, PipContainer
from interlock.errors import EngineError
from interlock.untrusted import parse_json

# The first pip with --report and --dry-run.
LEAST_PIP = (22, 2)
WORDS = 400  # characters of a failure's message that a table shows

PIP_VERSION = re.compile(r"^pip (\d{1,4})\.(\d{1,4})")
COLLECTING = re.compile(r"^Collecting ([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)
STARTED = re.compile(r"^(?:Collecting|Processing|Obtaining) (\S+).*$", re.MULTILINE)
FETCHED = re.compile(r"^[ \t]++(?:Downloading|Using cached) (\S+)", re.MULTILINE)
# A build backend failed.
BUILD_FAILED = re.compile(
    r"^[ \t]*+(error: subprocess-exited-with-error|ERROR: Failed to build|ERROR: Command errored out with)",
    re.MULTILINE,
)
# While pip builds wheels everything is collected already, so the package collected last is not the cause.
WHEEL_FAILED = re.compile(r"^[ \t]*+ERROR: Failed building wheel for (\S+)", re.MULTILINE)
ASKS_BACKEND = re.compile(
    r"^  (Installing build dependencies|Getting requirements to build|Preparing metadata)", re.MULTILINE
)
NO_VERSION = re.compile(
    r"^[ \t]*+ERROR: Could not find a version that satisfies the requirement (.{1,300}?)"
    r" \((?:from (?!versions).{0,300}?\) \()?from versions: (.*)\)$",
    re.MULTILINE,
)
NO_VERSIONS = "none"
OTHER_PYTHON = re.compile(r"require a different python version: (.+)$", re.MULTILINE)
# Only pip's log has these lines. 404 means that the index does not know the package.
NOT_FETCHED = re.compile(r"Could not fetch URL \S+: (?!404 )(.+?)(?: - skipping)?$", re.MULTILINE)
HTTP_ERROR = re.compile(r"^([45]\d\d [^:]+: .+?) for url")
HASH = re.compile(
    r"DO NOT MATCH THE HASHES[^\n]{0,1000}+\n[ \t]{1,99}+([^\s=]{1,200}+)(?:==\S{1,200}+)? from [^\n]{0,2000}+\n"
    r"[ \t]{0,99}+Expected (\S{1,99}+ \S{1,200}+)(?:\s{1,99}+or \S{1,99}+ \S{1,200}+){0,99}+\s{1,99}+Got\s{1,99}+(\S+)"
)
UNHASHED = re.compile(
    r"all requirements must have their versions pinned[^\n]{0,1000}+\n[ \t]{1,99}+([A-Za-z0-9][A-Za-z0-9._-]*)"
)
CONFLICT = re.compile(r"^The conflict is caused by:\n((?:[ \t]+\S.*\n)+)", re.MULTILINE)
SUSPECT = re.compile(r"(?:The user requested (?:\(constraint\) )?)?([A-Za-z0-9][A-Za-z0-9._-]*)")
# The formats since pip 21.3 and before.
BLOCK_START = re.compile(r"(?:╰─> \[\d{1,9} lines? of output\]|Complete output \(\d{1,9} lines?\):)\n")
BLOCK_END = re.compile(r"^[ \t]*+(?:\[end of output\]|-{40})", re.MULTILINE)
# Error lines of compilers, linkers and their callers; the first is the cause.
COMPILER = re.compile(
    r"(: (fatal )?error: |^[Ee]rror(\[E\d+\])?: |^CMake Error|: undefined reference to |ld: cannot find |Killed signal)"
)
COMPILER_NOISE = re.compile(r"failed with exit code|returned non-zero exit status|subprocess-exited-with-error")
# Cargo's output for a failed build script.
BUILD_SCRIPT = re.compile(r"^[ \t]*+--- stderr\n\s*+(\S.*)$", re.MULTILINE)
EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Warning|NotFound)\w*(?::|$)")
NOISE = re.compile(
    r"^(\[notice\]|note:|hint:|WARNING:|\[end of output\]|╰─>|│|\u00d7|Looking in |INFO:)|See above for output"
)


@dataclass(frozen=True)
class PipFailure:
    """Why pip stopped, and at which package (`name` or `place`) if its output tells."""

    words: str
    name: str = ""  # canonical
    version: str = ""
    place: str = ""  # path of a local project whose name pip did not find out
    suspects: frozenset[str] = frozenset()  # packages whose requirements contradict each other
    made_up: bool = False  # whether the version is invented, because none fits
    nowhere: bool = False  # whether no version at all was found; pip's log may say why
    unreachable: bool = False  # whether the index did not answer


def pip_version(said: str) -> tuple[int, int] | None:
    """Parse the output of `pip --version`; return None if it is something else."""
    found = PIP_VERSION.match(said)
    return (int(found[1]), int(found[2])) if found else None


def blame(output: str, log: str = "") -> PipFailure:
    """Return the package that stopped pip, from its output, and from its log for a package that no index has."""
    none_fits = NO_VERSION.findall(output)
    wrong_hash = HASH.search(output)
    unhashed = UNHASHED.search(output)
    if none_fits:
        return _no_version(output, log, *none_fits[-1])
    if BUILD_FAILED.search(output):
        return _build_failed(output)
    if wrong_hash:
        words = f"its archive's hash differs from the requirements file: expected {wrong_hash[2]}, got {wrong_hash[3]}"
        return PipFailure(words, canonicalize_name(wrong_hash[1]))
    if unhashed:
        return PipFailure("the requirements file has hashes, but none for this package", canonicalize_name(unhashed[1]))
    if conflict := CONFLICT.search(output):
        lines = [line.strip() for line in conflict[1].splitlines()]
        suspects = frozenset(canonicalize_name(found[1]) for line in lines if (found := SUSPECT.match(line)))
        return PipFailure(f"conflict: {'; '.join(lines)}", suspects=suspects)
    return PipFailure(last_words(output))


def blame_deadline(output: str, deadline_s: float) -> PipFailure:
    """Return the package whose build backend ran when the deadline passed."""
    asked = list(ASKS_BACKEND.finditer(output))
    words = f"did not end within {deadline_s:g} s"
    return _at(output[: asked[-1].start()], words) if asked else PipFailure(words)


def _build_failed(output: str) -> PipFailure:
    wheel = WHEEL_FAILED.search(output)
    if wheel:
        collected = re.search(rf"^Collecting {re.escape(wheel[1])}\b", output, re.MULTILINE | re.IGNORECASE)
        fetched = FETCHED.search(output, collected.end()) if collected else None
        return PipFailure(last_words(output), canonicalize_name(wheel[1]), _version_of(fetched[1]) if fetched else "")
    failed = BUILD_FAILED.search(output)
    return _at(output[: failed.start()] if failed else output, last_words(output))


def _at(before: str, words: str) -> PipFailure:
    """Return the package that pip worked on last."""
    started = list(STARTED.finditer(before))
    if not started:
        return PipFailure(words)
    last = started[-1]
    if last[0].startswith(("Processing", "Obtaining")):
        return PipFailure(words, place=last[1])
    named = COLLECTING.match(last[0])
    fetched = FETCHED.findall(before[last.start() :])
    version = _version_of(fetched[-1]) if fetched else ""
    return PipFailure(words, canonicalize_name(named[1]) if named and "://" not in last[1] else "", version, last[1])


def _version_of(file: str) -> str:
    """Return the version in an archive's or wheel's file name."""
    stem = re.sub(r"\.(tar\.\w+|tgz|zip|whl)$", "", file.rpartition("/")[2])
    return stem.rpartition("-")[2] if not file.endswith(".whl") else stem.split("-")[1]


def _no_version(output: str, log: str, wanted: str, versions: str) -> PipFailure:
    name = COLLECTING.match(f"Collecting {wanted}")
    canonical = canonicalize_name(name[1]) if name else ""
    refusal, is_unreachable = _not_fetched(log) if versions == NO_VERSIONS else ("", False)
    if is_unreachable:
        return PipFailure(refusal, canonical, unreachable=True)
    if versions == NO_VERSIONS:
        words = "pip finds neither a wheel for this interpreter nor a source archive"
    else:
        words = f"no version fits {wanted}: for this interpreter there is {', '.join(versions.split(', ')[-3:])}"
    others = OTHER_PYTHON.findall(output)
    if refusal or others:
        words += f" ({refusal or 'others: ' + others[-1].split('; ')[-1]})"
    return PipFailure(words, canonical, fitting_version(wanted), made_up=True, nowhere=versions == NO_VERSIONS)


def _not_fetched(log: str) -> tuple[str, bool]:
    """Return an index's error for a page that pip could not fetch, and whether the index did not answer at all."""
    found = NOT_FETCHED.findall(log)
    if not found:
        return "", False
    answered = HTTP_ERROR.match(found[-1])
    if answered:
        return answered[1], answered[1].startswith("5")
    return found[-1].rsplit(": ", 1)[-1].split("'")[0], True


def fitting_version(wanted: str) -> str:
    """Return a version that meets the requirement, whether or not it exists; '0' if none can be derived."""
    try:
        specifiers = Requirement(wanted).specifier
        return next((one for one in _candidates(specifiers) if specifiers.contains(one, prereleases=True)), "0")
    except ValueError:  # no requirement, or a number of thousands of digits in it
        return "0"


def _candidates(specifiers: SpecifierSet) -> Iterable[str]:
    yield "0"
    for specifier in specifiers:
        bare = specifier.version.removesuffix(".*")
        try:
            release = Version(bare).release
        except InvalidVersion:
            continue
        yield bare
        yield f"{bare}.1" if Version(bare).pre is None else bare
        yield ".".join(map(str, (release[0] + 1, 0)))


def _blocks(output: str) -> Iterator[str]:
    """Yield what stands between a block's first line and its last; each part of the output is looked at once."""
    at = 0
    while (start := BLOCK_START.search(output, at)) and (end := BLOCK_END.search(output, start.end())):
        yield output[start.end() : end.start()]
        at = end.end()


def last_words(output: str) -> str:
    """Return why a build or installation failed: the first compiler error, else the exception, else the last lines."""
    blocks = list(_blocks(output))
    if script := BUILD_SCRIPT.search(blocks[-1] if blocks else ""):
        return _shortened([script[1]])
    lines = [line.strip() for line in (blocks[-1] if blocks else output).splitlines()]
    lines = [line for line in lines if line and not NOISE.match(line)]
    if not blocks:
        errors = [line for line in lines if line.startswith("ERROR:")]
        lines = errors or lines
    compiler = [line for line in lines if COMPILER.search(line) and not COMPILER_NOISE.search(line)]
    if compiler:
        return _shortened([compiler[0]])
    exceptions = [number for number, line in enumerate(lines) if EXCEPTION.match(line)]
    return _shortened(lines[exceptions[-1] :][:3] if exceptions else lines[-2:])


def _shortened(lines: list[str]) -> str:
    text = " / ".join(line.removeprefix("ERROR: ") for line in lines)
    return text if len(text) <= WORDS else text[: WORDS - 3] + "..."


def stub_wheel(name: str, version: str) -> tuple[str, bytes]:
    """Return the file name and bytes of an empty wheel, which lets pip resolve the other requirements."""
    stem = f"{canonicalize_name(name).replace('-', '_')}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for file, text in {"METADATA": metadata, "WHEEL": wheel, "RECORD": ""}.items():
            # The date is fixed, so that equal stubs have equal bytes.
            archive.writestr(zipfile.ZipInfo(f"{stem}.dist-info/{file}"), text)
    return f"{stem}-py3-none-any.whl", stream.getvalue()


@dataclass(frozen=True)
class Resolved:
    """One package that pip would install."""

    name: str  # as in the package's metadata
    version: str
    spec: str  # the requirement that makes pip fetch the same file again
    place: str  # a URL without credentials
    is_wheel: bool
    requested: bool
    needed_by: list[str] = field(default_factory=list)

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
        items = report["install"]
        needed_by = _needed_by(items, report["environment"])
        return [_resolved(item, needed_by[canonicalize_name(item["metadata"]["name"])]) for item in items]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise EngineError(
            found=f"pip's report cannot be read ({type(error).__name__}: {error})", todo="Try again, or without caches."
        ) from None


def _resolved(item: Mapping[str, Any], needed_by: list[str]) -> Resolved:
    info, metadata = item["download_info"], item["metadata"]
    return Resolved(
        name=metadata["name"],
        version=metadata["version"],
        spec=_spec(metadata["name"], info),
        place=info["url"],
        is_wheel=info["url"].endswith(".whl"),
        requested=bool(item.get("requested")),
        needed_by=needed_by,
    )


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


def _needed_by(items: list[Mapping[str, Any]], environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the packages that require each package, by canonical name, with requested extras."""
    requires = {canonicalize_name(one["metadata"]["name"]): _requirements(one["metadata"]) for one in items}
    extras = {canonicalize_name(one["metadata"]["name"]): set(one.get("requested_extras", [])) for one in items}
    found: dict[str, set[str]] = {key: set() for key in requires}
    changed = True
    while changed:
        changed = False
        for key, wanted in requires.items():
            for requirement in wanted:
                target = canonicalize_name(requirement.name)
                if target not in found or not _applies(requirement, environment, extras[key]):
                    continue
                if key not in found[target] or not requirement.extras <= extras[target]:
                    found[target].add(key)
                    extras[target] |= requirement.extras
                    changed = True
    return {key: sorted(by - {key}) for key, by in found.items()}


def _requirements(metadata: Mapping[str, Any]) -> list[Requirement]:
    found = []
    for text in metadata.get("requires_dist") or []:
        try:
            found.append(Requirement(text))
        except InvalidRequirement:  # pip has warned about it and gone on
            continue
    return found


def _applies(requirement: Requirement, environment: Mapping[str, str], extras: set[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({**environment, "extra": extra}) for extra in extras | {""})


ASKED, LOG, NOWHERE = f"{AUDIT}/asked-again.txt", f"{AUDIT}/pip.log", f"{AUDIT}/nowhere"
READ_S = 60


def explain_failure(inside: PipContainer, said: CommandResult, deadline_s: float, options: Sequence[str]) -> PipFailure:
    """Return the package that stopped pip, which ran with these options; EngineError if its index does not answer."""
    found = blame_deadline(said.output, deadline_s) if said.late else blame(said.output)
    if found.nowhere:
        found = blame(said.output, _log_of(inside, found.name, deadline_s, options))
    if found.unreachable:
        raise EngineError(
            key="pip",
            found=f"pip in a container does not reach its index: {found.words}",
            todo="Correct this machine's settings (`pip config list`), or make the index reachable.",
        )
    return found


def _log_of(inside: PipContainer, name: str, deadline_s: float, options: Sequence[str]) -> str:
    """Return pip's log for a package that it does not find. (With a log pip no longer prints why builds fail.)"""
    inside.put({ASKED: requirements_file([*options, name])})
    words = ["download", "--no-deps", "--dest", NOWHERE, "--log", LOG, "-r", ASKED]
    inside.run(["rm", "-f", LOG], READ_S)
    inside.pip(*words, deadline_s=deadline_s, PIP_REQUIRE_HASHES="")
    return inside.run(["cat", LOG], READ_S).output


def requirements_file(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
