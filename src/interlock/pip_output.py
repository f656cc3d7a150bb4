"""What pip says where it failed: at which package, and why; and what lets it go on. Pure."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

# The first pip whose installer writes a report, and reads requirements without installing them.
LEAST_PIP = (22, 2)
WORDS = 400  # characters of a failure's last words that people still read in a table

PIP_VERSION = re.compile(r"^pip (\d+)\.(\d+)")
COLLECTING = re.compile(r"^Collecting ([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)
STARTED = re.compile(r"^(?:Collecting|Processing|Obtaining) (\S+).*$", re.MULTILINE)
FETCHED = re.compile(r"^\s+(?:Downloading|Using cached) (\S+)", re.MULTILINE)
# pip's words for a program of a package that it ran and that failed: its build backend.
BUILD_FAILED = re.compile(
    r"^\s*(error: subprocess-exited-with-error|ERROR: Failed to build|ERROR: Command errored out with)", re.MULTILINE
)
# When it builds, all that it needs is collected: the last that was is not to blame.
WHEEL_FAILED = re.compile(r"^\s*ERROR: Failed building wheel for (\S+)", re.MULTILINE)
ASKS_BACKEND = re.compile(
    r"^  (Installing build dependencies|Getting requirements to build|Preparing metadata)", re.MULTILINE
)
NO_VERSION = re.compile(
    r"^\s*ERROR: Could not find a version that satisfies the requirement (.+?)"
    r" \((?:from (?!versions).*?\) \()?from versions: (.*)\)$",
    re.MULTILINE,
)
NO_VERSIONS = "none"
OTHER_PYTHON = re.compile(r"require a different python version: (.+)$", re.MULTILINE)
# Stands in pip's log alone, whatever it prints; 404 is an index's way to say that it does not know a package.
NOT_FETCHED = re.compile(r"Could not fetch URL \S+: (?!404 )(.+?)(?: - skipping)?$", re.MULTILINE)
HTTP_ERROR = re.compile(r"^([45]\d\d [^:]+: .+?) for url")
HASH = re.compile(
    r"DO NOT MATCH THE HASHES.*?\n\s+(\S+?)(?:==\S+)? from .*?Expected (\S+ \S+)\s.*?Got\s+(\S+)", re.DOTALL
)
UNHASHED = re.compile(
    r"all requirements must have their versions pinned.*?\n\s+([A-Za-z0-9][A-Za-z0-9._-]*)", re.DOTALL
)
CONFLICT = re.compile(r"^The conflict is caused by:\n((?:[ \t]+\S.*\n)+)", re.MULTILINE)
SUSPECT = re.compile(r"(?:The user requested (?:\(constraint\) )?)?([A-Za-z0-9][A-Za-z0-9._-]*)")
# As pip prints it since 21.3, and as it did before.
BLOCK = re.compile(
    r"(?:╰─> \[\d+ lines? of output\]|Complete output \(\d+ lines?\):)\n(.*?)^\s*(?:\[end of output\]|-{40})",
    re.DOTALL | re.MULTILINE,
)
# What compilers, linkers and those who call them call an error; of many the first is the cause.
COMPILER = re.compile(
    r"(: (fatal )?error: |^[Ee]rror(\[E\d+\])?: |^CMake Error|: undefined reference to |ld: cannot find |Killed signal)"
)
COMPILER_NOISE = re.compile(r"failed with exit code|returned non-zero exit status|subprocess-exited-with-error")
# Cargo's way to tell what a package's own build script said.
BUILD_SCRIPT = re.compile(r"^\s*--- stderr\n\s*(\S.*)$", re.MULTILINE)
EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Warning|NotFound)\w*(?::|$)")
NOISE = re.compile(
    r"^(\[notice\]|note:|hint:|WARNING:|\[end of output\]|╰─>|│|\u00d7|Looking in |INFO:)|See above for output"
)


@dataclass(frozen=True)
class Blame:
    """Why pip stopped. `name` or `place` say at which package, where its words tell."""

    words: str
    name: str = ""  # canonical
    version: str = ""
    place: str = ""  # of a local project, whose name pip never learnt
    suspects: frozenset[str] = frozenset()  # of a conflict: the packages whose requirements contradict each other
    made_up: bool = False  # the version: there is none that fits
    nowhere: bool = False  # no version at all was found: pip's log may say more
    unreachable: bool = False  # the index did not answer: no package's fault


def pip_version(said: str) -> tuple[int, int] | None:
    """From `pip --version`; None if that is not what it said."""
    found = PIP_VERSION.match(said)
    return (int(found[1]), int(found[2])) if found else None


def blame(output: str, log: str = "") -> Blame:
    """Which package stopped pip, from all it printed; for one that is nowhere, from its log of that as well."""
    none_fits = NO_VERSION.findall(output)
    wrong_hash = HASH.search(output)
    unhashed = UNHASHED.search(output)
    if none_fits:
        return _no_version(output, log, *none_fits[-1])
    if BUILD_FAILED.search(output):
        return _build_failed(output)
    if wrong_hash:
        words = f"its archive has another hash than the file says: expected {wrong_hash[2]}, got {wrong_hash[3]}"
        return Blame(words, canonicalize_name(wrong_hash[1]))
    if unhashed:
        return Blame("the file has hashes, but none for it", canonicalize_name(unhashed[1]))
    if conflict := CONFLICT.search(output):
        lines = [line.strip() for line in conflict[1].splitlines()]
        suspects = frozenset(canonicalize_name(found[1]) for line in lines if (found := SUSPECT.match(line)))
        return Blame(f"conflict: {'; '.join(lines)}", suspects=suspects)
    return Blame(last_words(output))


def blame_deadline(output: str, deadline_s: float) -> Blame:
    """The package whose own code ran when pip had to be stopped."""
    asked = list(ASKS_BACKEND.finditer(output))
    words = f"had not ended after {deadline_s:g} s"
    return _at(output[: asked[-1].start()], words) if asked else Blame(words)


def _build_failed(output: str) -> Blame:
    wheel = WHEEL_FAILED.search(output)
    if wheel:
        collected = re.search(rf"^Collecting {re.escape(wheel[1])}\b", output, re.MULTILINE | re.IGNORECASE)
        fetched = FETCHED.search(output, collected.end()) if collected else None
        return Blame(last_words(output), canonicalize_name(wheel[1]), _version_of(fetched[1]) if fetched else "")
    failed = BUILD_FAILED.search(output)
    return _at(output[: failed.start()] if failed else output, last_words(output))


def _at(before: str, words: str) -> Blame:
    """The package that pip worked on last."""
    started = list(STARTED.finditer(before))
    if not started:
        return Blame(words)
    last = started[-1]
    if last[0].startswith(("Processing", "Obtaining")):
        return Blame(words, place=last[1])
    named = COLLECTING.match(last[0])
    fetched = FETCHED.findall(before[last.start() :])
    version = _version_of(fetched[-1]) if fetched else ""
    return Blame(words, canonicalize_name(named[1]) if named and "://" not in last[1] else "", version, last[1])


def _version_of(file: str) -> str:
    """Of a source archive's name."""
    stem = re.sub(r"\.(tar\.\w+|tgz|zip|whl)$", "", file.rpartition("/")[2])
    return stem.rpartition("-")[2] if not file.endswith(".whl") else stem.split("-")[1]


def _no_version(output: str, log: str, wanted: str, versions: str) -> Blame:
    name = COLLECTING.match(f"Collecting {wanted}")
    canonical = canonicalize_name(name[1]) if name else ""
    refusal, is_unreachable = _not_fetched(log) if versions == NO_VERSIONS else ("", False)
    if is_unreachable:
        return Blame(refusal, canonical, unreachable=True)
    if versions == NO_VERSIONS:
        words = "pip finds neither a wheel for this interpreter nor a source archive"
    else:
        words = f"no version fits {wanted}: for this interpreter there is {', '.join(versions.split(', ')[-3:])}"
    others = OTHER_PYTHON.findall(output)
    if refusal or others:
        words += f" ({refusal or 'others: ' + others[-1].split('; ')[-1]})"
    return Blame(words, canonical, fitting_version(wanted), made_up=True, nowhere=versions == NO_VERSIONS)


def _not_fetched(log: str) -> tuple[str, bool]:
    """What an index said instead of an answer, and whether it is no answer at all."""
    found = NOT_FETCHED.findall(log)
    if not found:
        return "", False
    answered = HTTP_ERROR.match(found[-1])
    if answered:
        return answered[1], answered[1].startswith("5")
    return found[-1].rsplit(": ", 1)[-1].split("'")[0], True


def fitting_version(wanted: str) -> str:
    """A version that meets the requirement, whether or not there is one; 0 if its text does not tell."""
    try:
        specifiers = Requirement(wanted).specifier
    except InvalidRequirement:
        return "0"
    return next((one for one in _candidates(specifiers) if specifiers.contains(one, prereleases=True)), "0")


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


def last_words(output: str) -> str:
    """Why a build or an installation failed: the compiler's first error, else the exception, else what came last."""
    blocks = BLOCK.findall(output)
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


def stand_in(name: str, version: str) -> tuple[str, bytes]:
    """File name and bytes of an empty wheel: in its place pip can say what else it would install."""
    stem = f"{canonicalize_name(name).replace('-', '_')}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for file, text in {"METADATA": metadata, "WHEEL": wheel, "RECORD": ""}.items():
            # A fixed date: equal stand-ins are equal bytes.
            archive.writestr(zipfile.ZipInfo(f"{stem}.dist-info/{file}"), text)
    return f"{stem}-py3-none-any.whl", stream.getvalue()
