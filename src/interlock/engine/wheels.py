"""Gets the wheel of each package that pip chose: downloads it, or builds it from its source, timed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from interlock.engine.pip_settings import AUDIT
from interlock.engine.workbench import CACHE, WHEELS, Workbench
from interlock.pip_output import last_words
from interlock.pip_report import Resolved

DOWNLOAD_S, BUILD_S, COPY_S = 1800, 1800, 120
ASKED = f"{AUDIT}/asked.txt"
# Each build's folder has nothing but its wheel and, kept, the seconds that it took.
TAKE = 'test -f "$1/seconds" && mkdir -p "$2" && cp "$1"/*.whl "$2"/ && cat "$1/seconds"'
KEEP = (
    'mkdir -p "$1.new" && cp "$2"/*.whl "$1.new"/ && echo "$3" > "$1.new/seconds" && { rm -rf "$1"; mv "$1.new" "$1"; }'
)
FIND = 'ls "$1"/*.whl'


@dataclass(frozen=True)
class Wheel:
    """A package's wheel in the wheels volume, with the seconds that its build took; or why there is none."""

    package: Resolved
    path: str = ""
    build_s: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Workshop:
    """Where wheels are got: a builder, the options that pip has there, and what a kept build is known by."""

    bench: Workbench
    options: Sequence[str]
    builder_id: str
    say: Callable[[str], None]

    def get(self, packages: Sequence[Resolved]) -> list[Wheel]:
        """One for each package, in their order; one that fails is no other's concern."""
        ready = [package for package in packages if package.is_wheel]
        sources = [package for package in packages if not package.is_wheel]
        wheels = self._download(ready)
        for number, package in enumerate(sources, 1):
            self.say(f"building {package.name} {package.version} ({number} of {len(sources)})")
            wheels[package.key] = self._taken(package) or self._build(package)
        return [wheels[package.key] for package in packages]

    def _download(self, packages: Sequence[Resolved]) -> dict[str, Wheel]:
        """All at once; if that fails, one by one, to see which it is."""
        if not packages:
            return {}
        self.say(f"downloading {len(packages)} wheels")
        reason = self._pip("download", WHEELS, packages, DOWNLOAD_S)
        if reason and len(packages) > 1:
            return {key: wheel for package in packages for key, wheel in self._download([package]).items()}
        return {
            package.key: Wheel(package, "" if reason else f"{WHEELS}/{_file_of(package)}", reason=reason)
            for package in packages
        }

    def _build(self, package: Resolved) -> Wheel:
        folder = f"{WHEELS}/{package.key}"
        started = time.monotonic()
        reason = self._pip("wheel", folder, [package], BUILD_S)
        build_s = round(time.monotonic() - started, 1)
        if reason:
            return Wheel(package, build_s=build_s, reason=reason)
        if package.lasting:
            self._shell(KEEP, self._kept(package), folder, str(build_s))
        return Wheel(package, self._shell(FIND, folder), build_s)

    def _taken(self, package: Resolved) -> Wheel | None:
        """The wheel as an audit before this one built it: of the same source, by the same builder."""
        folder = f"{WHEELS}/{package.key}"
        seconds = self._shell(TAKE, self._kept(package), folder) if package.lasting else ""
        return Wheel(package, self._shell(FIND, folder), float(seconds)) if seconds else None

    def _kept(self, package: Resolved) -> str:
        known_by = "\n".join([package.spec, self.builder_id, *self.options])
        return f"{CACHE}/built/{hashlib.sha256(known_by.encode()).hexdigest()}"

    def _pip(self, command: str, folder: str, packages: Sequence[Resolved], deadline_s: float) -> str:
        """Why pip failed; empty if it did not."""
        lines = [*self.options, *(package.spec for package in packages)]
        self.bench.put({ASKED: "".join(f"{line}\n" for line in lines).encode()})
        # The hashes that count are in the lines now; pip would ask for some of what a build needs as well.
        words = [command, "--no-deps", "--quiet", "-w" if command == "wheel" else "-d", folder, "-r", ASKED]
        said = self.bench.pip(*words, deadline_s=deadline_s, PIP_REQUIRE_HASHES="")
        if said.ok:
            return ""
        return f"had not ended after {deadline_s:g} s" if said.late else last_words(said.output)

    def _shell(self, script: str, *words: str) -> str:
        """What it printed; empty if it failed."""
        said = self.bench.run(["sh", "-c", script, "sh", *words], COPY_S)
        return said.output.strip() if said.ok else ""


def _file_of(package: Resolved) -> str:
    return unquote(package.place.partition("#")[0].rpartition("/")[2])
