"""What pip would install into a variant, and the wheel of each package: downloaded, or built from its source, timed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from interlock.engine.ownership import temporary_folder
from interlock.engine.packages.kept_wheels import KeptWheels, WheelError, take_out
from interlock.engine.packages.pip_container import AUDIT, WHEELS, PipContainer
from interlock.engine.packages.pip_output import (
    READ_S,
    PipFailure,
    Resolved,
    explain_failure,
    last_words,
    parse_report,
    requirements_file,
    stub_wheel,
)
from interlock.engine.packages.requirements import Line, Requirements, line_for, local_places, pip_lines
from interlock.engine.run import cells

DEADLINE_S = 3600
REPORT, REQUIREMENTS, CONSTRAINTS = f"{AUDIT}/report.json", f"{AUDIT}/requirements.txt", f"{AUDIT}/constraints.txt"
LOCAL, LINKS, STUBS = f"{AUDIT}/local", f"{AUDIT}/links", f"{AUDIT}/stubs"


@dataclass(frozen=True)
class Failure:
    """A package that pip cannot install, or a line whose package name it did not find out."""

    name: str
    words: str
    version: str = ""
    line: Line | None = None
    needed_by: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Resolution:
    """The packages that pip would install, each with the line that asks for it or None, and the failures."""

    packages: list[tuple[Resolved, Line | None]]
    failures: list[Failure]


class Resolver:
    """Resolves requirements with the pip of one builder, again with fewer requirements each time that it fails."""

    def __init__(self, inside: PipContainer, wanted: Requirements, on_step: Callable[[str], None]) -> None:
        self._inside, self._wanted, self._on_step = inside, wanted, on_step
        self._places = local_places(wanted, LOCAL)
        self._stubs: dict[
            str, tuple[PipFailure, str]
        ] = {}  # by package: the cause, and the line that asks for the stub
        self._given_up: list[Failure] = []

    def resolve(self) -> Resolution:
        """Return everything that can be installed together.

        A package that cannot be installed is replaced by a stub wheel of its name and version, so that pip can go on.
        If no single package is the cause (lines that contradict each other), the lines are split until those are
        found that conflict with the ones before them.
        """
        self.bring(self._inside)
        accepted: list[Line] = []
        packages: list[Resolved] = []
        todo = [list(self._wanted.lines)]
        while todo:
            group = todo.pop()
            found = self._ask([*accepted, *group])
            if not isinstance(found, PipFailure):
                accepted, packages = [*accepted, *group], found
            elif self._replaced(found):
                todo.append(group)
            elif len(group) > 1:
                todo += reversed(_split(group, found))
            else:
                self._give_up(group[0], found)
        return self._resolution(packages)

    def bring(self, inside: PipContainer) -> None:
        """Put what the requirements name on this machine into a builder."""
        inside.put({place: path for path, place in self._places.items()})
        inside.put({f"{LINKS}/{number}": path for number, path in enumerate(self._wanted.links)})

    def options(self) -> list[str]:
        """Return the options for every call of pip; hashes are in `Resolved.spec`, so --require-hashes is left out."""
        kept = [option for option in self._wanted.options if option != "--require-hashes"]
        return [*kept, *(f"--find-links {LINKS}/{number}" for number, _ in enumerate(self._wanted.links))]

    def _ask(self, lines: list[Line]) -> list[Resolved] | PipFailure:
        without = f", without {', '.join(self._stubs)}" if self._stubs else ""
        self._on_step(f"resolving {len(lines)} requirements{without}")
        self._write(lines)
        command = ["install", "--dry-run", "--ignore-installed", "--report", REPORT]
        said = self._inside.pip(*command, "-r", REQUIREMENTS, "-c", CONSTRAINTS, deadline_s=DEADLINE_S)
        if said.ok:
            return parse_report(self._inside.run(["cat", REPORT], READ_S).output)
        return explain_failure(self._inside, said, DEADLINE_S, self.options())

    def _write(self, lines: list[Line]) -> None:
        kept = [line for line in lines if line.name not in self._stubs]
        constraints = [line for line in self._wanted.constraints if line.name not in self._stubs]
        hashes = ["--require-hashes"] if "--require-hashes" in self._wanted.options else []
        wanted = [*hashes, *self.options(), *pip_lines(kept, self._places), *(line for _, line in self._stubs.values())]
        files = {REQUIREMENTS: wanted, CONSTRAINTS: pip_lines(constraints, self._places)}
        self._inside.put({place: requirements_file(lines) for place, lines in files.items()})

    def _replaced(self, found: PipFailure) -> bool:
        """Replace the package that failed by a stub wheel; return False if there is none, or it is replaced already."""
        if not found.name or found.name in self._stubs:
            return False
        file, data = stub_wheel(found.name, found.version or "0")
        place = f"{STUBS}/{file}"
        self._inside.put({place: data})
        checked = f" --hash=sha256:{hashlib.sha256(data).hexdigest()}" if self._wanted.hashed else ""
        self._stubs[found.name] = (found, f"{found.name} @ file://{place}{checked}")
        return True

    def _give_up(self, line: Line, found: PipFailure) -> None:
        name = line.name or (line.path.name if line.path else line.text)
        self._given_up.append(Failure(name, found.words, line=line))

    def _resolution(self, packages: list[Resolved]) -> Resolution:
        real = [one for one in packages if one.key not in self._stubs]
        needed_by = {one.key: one.needed_by for one in packages}
        replaced = [
            Failure(name, found.words, _known(found), self._line(name, ""), needed_by.get(name, []))
            for name, (found, _) in self._stubs.items()
        ]
        return Resolution([(one, self._line(one.name, one.place)) for one in real], replaced + self._given_up)

    def _line(self, name: str, place: str) -> Line | None:
        return line_for(self._wanted, name, place, self._places)


def _split(lines: list[Line], found: PipFailure) -> tuple[list[Line], list[Line]]:
    """Split lines into those without a conflict and those that pip names in one; without names, into halves."""
    suspects = [line for line in lines if line.name in found.suspects]
    others = [line for line in lines if line.name not in found.suspects]
    middle = len(lines) // 2
    return (others, suspects) if others and suspects else (lines[:middle], lines[middle:])


def _known(found: PipFailure) -> str:
    """Return the version that failed; empty for an invented one."""
    return "" if found.made_up else found.version


DOWNLOAD_S, BUILD_S = 1800, 1800
ASKED, OUT, BUILT = f"{AUDIT}/asked.txt", f"{AUDIT}/out", f"{AUDIT}/built"


@dataclass(frozen=True)
class Wheel:
    """A package's wheel by its place in the image with its build time in seconds, or the reason why there is none."""

    package: Resolved
    path: str = ""
    build_s: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class WheelBuilder:
    """Downloads and builds wheels with pip's options and brings them into `own`; keeps what pinned sources gave.

    Each package is built in a builder of its own: what its code leaves there reaches no other package.
    """

    inside: PipContainer  # in which was resolved; its wheels' volume is in `own` as well
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
        # Nothing that resolving has started lives any longer.
        cells.remove(self.inside.container)
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
        reason = self._pip(self.inside, ["download", "-d", WHEELS], packages, DOWNLOAD_S)
        if reason and len(packages) > 1:
            return {key: wheel for package in packages for key, wheel in self._download([package]).items()}
        return {
            package.key: Wheel(package, "" if reason else f"{WHEELS}/{_file_of(package)}", reason=reason)
            for package in packages
        }

    def _build(self, package: Resolved, folder: Path) -> Wheel:
        inside = self.open_builder()
        try:
            started = time.monotonic()
            reason = self._pip(inside, ["wheel", "-w", OUT], [package], BUILD_S)
            build_s = round(time.monotonic() - started, 1)
            if reason:
                return Wheel(package, build_s=build_s, reason=reason)
            inside.container.kill()
            wheel = take_out(inside.container, OUT, package.key, folder)
        except WheelError as error:
            return Wheel(package, build_s=build_s, reason=str(error))
        finally:
            cells.remove(inside.container)
        if package.lasting:
            self.kept.keep(self._key(package), wheel, build_s)
        return Wheel(package, self._brought(package, wheel), build_s)

    def _taken(self, package: Resolved, folder: Path) -> Wheel | None:
        """Return the wheel that an earlier audit built from the same source with the same builder; None without one."""
        found = self.kept.take(self._key(package), folder) if package.lasting else None
        return found and Wheel(package, self._brought(package, found[0]), found[1])

    def _brought(self, package: Resolved, wheel: Path) -> str:
        place = f"{BUILT}/{package.key}/{wheel.name}"
        self.own.put({place: wheel})
        return place

    def _key(self, package: Resolved) -> str:
        known_by = "\n".join([package.spec, self.builder_id, *self.options])
        return hashlib.sha256(known_by.encode()).hexdigest()

    def _pip(self, inside: PipContainer, words: list[str], packages: Sequence[Resolved], deadline_s: float) -> str:
        """Run pip; return why it failed, empty if it did not."""
        lines = [*self.options, *(package.spec for package in packages)]
        inside.put({ASKED: "".join(f"{line}\n" for line in lines).encode()})
        # The lines have the hashes; with the option pip would also ask for hashes of build requirements.
        said = inside.pip(*words, "--no-deps", "--quiet", "-r", ASKED, deadline_s=deadline_s, PIP_REQUIRE_HASHES="")
        if said.ok:
            return ""
        return f"did not end within {deadline_s:g} s" if said.late else last_words(said.output)


def _file_of(package: Resolved) -> str:
    return unquote(package.place.partition("#")[0].rpartition("/")[2])
