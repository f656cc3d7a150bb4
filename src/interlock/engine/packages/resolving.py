"""What pip would install into a variant, and the wheel of each package: downloaded, or built from its source, timed."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from interlock.engine.ended import Ended
from interlock.engine.ownership import temporary_folder
from interlock.engine.packages.kept_wheels import KeptWheels, take_out
from interlock.engine.packages.pip_container import AUDIT, WHEELS, PipContainer
from interlock.engine.packages.pip_output import failure, not_fetched
from interlock.engine.packages.pip_report import Resolved, needed_by, parse_report
from interlock.engine.packages.remedies import system_package
from interlock.engine.packages.requirements import (
    USER,
    Line,
    Requirements,
    called,
    line_for,
    local_places,
    pip_lines,
    without_user,
)
from interlock.engine.run import leftovers
from interlock.engine.run.archives import ContentError
from interlock.errors import EngineError

# If pip does not end in time, the search for what hangs has a shorter deadline.
DEADLINE_S, LOOKING_S, READ_S = 3600, 300, 60
REPORT, REQUIREMENTS, CONSTRAINTS = f"{AUDIT}/report.json", f"{AUDIT}/requirements.txt", f"{AUDIT}/constraints.txt"
LOCAL, LINKS, LOG, NOWHERE = f"{AUDIT}/local", f"{AUDIT}/links", f"{AUDIT}/pip.log", f"{AUDIT}/nowhere"
PINNED = re.compile(r"==\s*([0-9][^\s;,*]*)(?:[\s;]|$)")
# pip says so of a package that no index has, and if no index could be asked; its log tells which.
NO_VERSIONS = "(from versions: none)"


@dataclass(frozen=True)
class Unmet:
    """A requirement that pip cannot meet, by its package's name or, if that is not known, its folder or address."""

    name: str
    words: str
    line: Line | None = None
    system_package: str = ""  # that a build lacked
    needed_by: list[str] = field(default_factory=list)

    @property
    def pinned(self) -> str:
        """Return the version that its line asks for by '=='; empty if it asks for no single one."""
        match = PINNED.search(self.line.text) if self.line else None
        return match[1] if match else ""


@dataclass(frozen=True)
class Resolution:
    """The packages that pip would install, each with the line that asks for it or None, and the failures."""

    packages: list[tuple[Resolved, Line | None]]
    failures: list[Unmet]
    releases: Mapping[str, str] = field(default_factory=dict)  # of packages without a wheel, one that has it

    @property
    def without_wheel(self) -> dict[str, str]:
        """Return the versions of packages without a wheel, by canonical names, except those whose lines name a place.

        A public index may have another project of the same name.
        """
        sources = [(package, line) for package, line in self.packages if package.from_index_as_source]
        lacking = {package.key: package.version for package, line in sources if not (line and line.is_direct)}
        failed = [unmet for unmet in self.failures if not (unmet.line and unmet.line.is_direct)]
        return lacking | {unmet.name: unmet.pinned for unmet in failed}

    def line(self, key: str) -> Line | None:
        return next(line for package, line in self.packages if package.key == key)

    def needed_by(self, key: str) -> list[str]:
        return needed_by([package for package, _ in self.packages], key)


class Resolver:
    """Resolves requirements with the pip of one builder, again with fewer requirements each time that it fails."""

    def __init__(self, inside: PipContainer, wanted: Requirements, on_step: Callable[[str], None]) -> None:
        self._inside, self._wanted, self._on_step = inside, wanted, on_step
        self._places = local_places(wanted, LOCAL)
        self._deadline_s = DEADLINE_S
        self._alone: dict[str, Resolved] = {}  # packages that need another that cannot be installed
        self._failures: dict[str, Unmet] = {}

    def resolve(self) -> Resolution:
        """Return everything that can be installed together.

        Lines that pip cannot resolve together are halved until single ones are left. Such a line contradicts those
        before it, or its package cannot be had, or something that the package needs cannot. In the last case the
        package is taken alone, and what it needs becomes further lines.
        """
        self.bring(self._inside)
        accepted: list[Line] = []
        packages: list[Resolved] = []
        todo = [list(self._wanted.lines)] if self._wanted.lines else []
        while todo:
            lines = todo.pop()
            answer = self._ask([*accepted, *lines])
            if not isinstance(answer, Ended):
                accepted, packages = [*accepted, *lines], answer
            elif len(lines) > 1:
                middle = len(lines) // 2
                todo += [lines[middle:], lines[:middle]]
            else:
                todo += [[line] for line in self._needs(lines[0], answer, is_first=not accepted)]
        return self._resolution(packages)

    def bring(self, inside: PipContainer) -> None:
        """Copy the files of this machine that the requirements name into a builder."""
        inside.put({place: path for path, place in self._places.items()})
        inside.put({f"{LINKS}/{number}": path for number, path in enumerate(self._wanted.links)})

    def options(self) -> list[str]:
        """Return the options for every call of pip; hashes are in `Resolved.spec`, so --require-hashes is left out."""
        kept = [option for option in self._wanted.options if option != "--require-hashes"]
        return [*kept, *(f"--find-links {LINKS}/{number}" for number, _ in enumerate(self._wanted.links))]

    def _ask(self, lines: list[Line], *options: str) -> list[Resolved] | Ended:
        """Return what pip would install for these lines, or how it failed."""
        self._on_step(f"resolving {len(lines)} requirements")
        # Also for a part of the lines, as pip would for all: a line without a hash fails, and none that has one.
        hashes = ["--require-hashes"] if self._wanted.hashed else []
        constraints = pip_lines(self._wanted.constraints, self._places)
        files = {REQUIREMENTS: [*hashes, *self.options(), *pip_lines(lines, self._places)], CONSTRAINTS: constraints}
        self._inside.put({place: requirements_file(lines) for place, lines in files.items()})
        command = ["install", "--dry-run", "--ignore-installed", "--report", REPORT, *options]
        said = self._inside.pip(*command, "-r", REQUIREMENTS, "-c", CONSTRAINTS, deadline_s=self._deadline_s)
        if said.timed_out:
            self._deadline_s = LOOKING_S
        if not said.ok:
            return said
        try:
            return parse_report(self._inside.run(["cat", REPORT], READ_S).stdout)
        except EngineError as error:  # a package that pip built wrote into the report, or its metadata is too long
            return replace(said, exit_code=1, stdout=error.found)

    def _needs(self, line: Line, said: Ended, *, is_first: bool) -> list[Line]:
        """Return what the package of a line needs, if that is why pip failed; otherwise keep the line's failure."""
        answer = self._ask([line], "--no-deps")
        if isinstance(answer, Ended):
            return self._fail(line, answer)
        if not answer:  # its marker leaves it out: the lines before it fail now
            return self._fail(line, said)
        if not is_first and not isinstance(self._ask([line]), Ended):
            return self._fail(line, said)  # it contradicts the lines before it
        own = answer[0]
        known = self._alone.setdefault(own.key, own)
        if known is not own:
            return [] if known.version == own.version else self._fail(line, said)
        # Where hashes are checked every package has a line of its own.
        named = {asked.name for asked in self._wanted.lines} if self._wanted.hashed else set()
        left = [needed for needed in own.requires if canonicalize_name(needed.name) not in {*named, *self._failures}]
        return [Line(_text(needed), "", 0, canonicalize_name(needed.name)) for needed in left]

    def _fail(self, line: Line, said: Ended) -> list[Line]:
        name = called(line, self._wanted.lines)
        words = failure(said, self._deadline_s)
        if NO_VERSIONS in said.stdout:
            words += self._refusal(line)
        asked_by = line if line.file else self._line(name, "")
        self._failures.setdefault(name, Unmet(name, words, asked_by, system_package(said.stdout)))
        return []

    def _refusal(self, line: Line) -> str:
        """Return what an index said instead of a page, from pip's log; EngineError if none answers.

        This is a separate call of pip, because with a log it no longer prints why builds fail.
        """
        self._inside.put({REQUIREMENTS: requirements_file([*self.options(), *pip_lines([line], self._places)])})
        words = ["download", "--no-deps", "--dest", NOWHERE, "--log", LOG, "-r", REQUIREMENTS]
        self._inside.run(["rm", "-f", LOG], READ_S)
        self._inside.pip(*words, deadline_s=self._deadline_s, PIP_REQUIRE_HASHES="")
        said = not_fetched(self._inside.run(["cat", LOG], READ_S).stdout)
        if said and not said.startswith("4"):
            raise EngineError(
                key="pip",
                found=f"pip in a container does not reach its index: {said}",
                todo="Correct this machine's settings (`pip config list`), or make the index reachable.",
            )
        return f" ({said})" if said else ""

    def _resolution(self, packages: list[Resolved]) -> Resolution:
        unique = list({package.key: package for package in [*packages, *self._alone.values()]}.values())
        failures = [replace(unmet, needed_by=needed_by(unique, name)) for name, unmet in self._failures.items()]
        asked = [(package, self._line(package.name, package.place)) for package in unique]
        return Resolution([(with_options(with_user(package, line), line), line) for package, line in asked], failures)

    def _line(self, name: str, place: str) -> Line | None:
        return line_for(self._wanted, name, place, self._places)


def with_user(package: Resolved, line: Line | None) -> Resolved:
    """Return a package with the user and the password of its line's URL, which pip's report leaves out."""
    match = USER.search(line.text) if line else None
    return replace(package, spec=without_user(package.spec).replace("://", match[0], 1)) if match else package


def with_options(package: Resolved, line: Line | None) -> Resolved:
    """Return a package that is built with the options that its line has (--config-settings)."""
    options = line.own_options if line and not package.is_wheel else ""
    return replace(package, spec=f"{package.spec} {options}") if options else package


def _text(requirement: Requirement) -> str:
    """Return a requirement as a line, without its marker, which is known to hold."""
    bare = copy(requirement)
    bare.marker = None
    return str(bare)


def requirements_file(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


DOWNLOAD_S, BUILD_S = 1800, 1800
ASKED, OUT, BUILT = f"{AUDIT}/asked.txt", f"{AUDIT}/out", f"{AUDIT}/built"


@dataclass(frozen=True)
class Wheel:
    """A package's wheel as a path in the image and its build time in seconds, or why there is no wheel."""

    package: Resolved
    path: str = ""
    build_s: float | None = None
    reason: str = ""
    system_package: str = ""  # the one that its build lacked


@dataclass(frozen=True)
class WheelBuilder:
    """Downloads and builds wheels with pip's options, brings them into `own`, and keeps those from pinned sources.

    Each package is built in a builder of its own: what its code leaves there reaches no other package.
    """

    inside: PipContainer  # the builder that resolved; `own` has its wheels' volume too
    open_builder: Callable[[], PipContainer]
    kept: KeptWheels
    own: PipContainer
    options: Sequence[str]
    builder_id: str
    on_step: Callable[[str], None]

    def get(self, packages: Sequence[Resolved]) -> list[Wheel]:
        """Return a wheel for each package, in their order; a failure does not stop the others."""
        ready = [package for package in packages if package.is_wheel]
        sources = [package for package in packages if not package.is_wheel]
        wheels = self._download(ready)
        # From here on nothing lives that resolving has started.
        leftovers.remove(self.inside.container)
        for number, package in enumerate(sources, 1):
            self.on_step(f"building {package.name} {package.version} ({number} of {len(sources)})")
            with temporary_folder("wheel") as folder:
                wheels[package.key] = self._taken(package, folder) or self._build(package, folder)
        return [wheels[package.key] for package in packages]

    def _download(self, packages: Sequence[Resolved]) -> dict[str, Wheel]:
        """Download all wheels at once; if that fails, one by one, to find the cause."""
        if not packages:
            return {}
        self.on_step(f"downloading {len(packages)} wheels")
        reason = failure(self._pip(self.inside, ["download", "-d", WHEELS], packages, DOWNLOAD_S), DOWNLOAD_S)
        if reason and len(packages) > 1:
            return {key: wheel for package in packages for key, wheel in self._download([package]).items()}
        return {
            package.key: Wheel(package, "" if reason else f"{WHEELS}/{package.file}", reason=reason)
            for package in packages
        }

    def _build(self, package: Resolved, folder: Path) -> Wheel:
        inside = self.open_builder()
        try:
            started = time.monotonic()
            said = self._pip(inside, ["wheel", "-w", OUT], [package], BUILD_S)
            build_s = round(time.monotonic() - started, 1)
            if not said.ok:
                reason = failure(said, BUILD_S)
                return Wheel(package, build_s=build_s, reason=reason, system_package=system_package(said.stdout))
            inside.container.kill()
            wheel = take_out(inside.container, OUT, package.key, folder)
        except ContentError as error:
            return Wheel(package, build_s=build_s, reason=str(error))
        finally:
            leftovers.remove(inside.container)
        if package.lasting:
            self.kept.keep(self._key(package), wheel, build_s)
        return Wheel(package, self._brought(package, wheel), build_s)

    def _taken(self, package: Resolved, folder: Path) -> Wheel | None:
        """Return the wheel that an earlier audit built from the same source with the same builder; None without one."""
        wheel = self.kept.take(self._key(package), folder) if package.lasting else None
        return wheel and Wheel(package, self._brought(package, wheel[0]), wheel[1])

    def _brought(self, package: Resolved, wheel: Path) -> str:
        place = f"{BUILT}/{package.key}/{wheel.name}"
        self.own.put({place: wheel})
        return place

    def _key(self, package: Resolved) -> str:
        known_by = "\n".join([package.spec, self.builder_id, *self.options])
        return hashlib.sha256(known_by.encode()).hexdigest()

    def _pip(self, inside: PipContainer, words: list[str], packages: Sequence[Resolved], deadline_s: float) -> Ended:
        lines = [*self.options, *(package.spec for package in packages)]
        inside.put({ASKED: requirements_file(lines)})
        # The lines have the hashes; with the option pip would also ask for hashes of build requirements.
        return inside.pip(*words, "--no-deps", "--quiet", "-r", ASKED, deadline_s=deadline_s, PIP_REQUIRE_HASHES="")
