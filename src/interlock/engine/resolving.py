"""What pip would install into a variant, package by package; one that it stumbles over does not hide the others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from interlock.engine.asking import READ_S, requirements_file, why
from interlock.engine.pip_settings import AUDIT
from interlock.engine.workbench import Workbench
from interlock.pip_output import Blame, stand_in
from interlock.pip_report import Resolved, parse_report
from interlock.requirements import Line, Requirements, line_for, local_places, texts

DEADLINE_S = 3600
REPORT, REQUIREMENTS, CONSTRAINTS = f"{AUDIT}/report.json", f"{AUDIT}/requirements.txt", f"{AUDIT}/constraints.txt"
LOCAL, LINKS, STAND_INS = f"{AUDIT}/local", f"{AUDIT}/links", f"{AUDIT}/stand-ins"


@dataclass(frozen=True)
class Failure:
    """A package that pip cannot get, or a line of whose package it never learnt the name."""

    name: str
    words: str
    version: str = ""
    line: Line | None = None
    needed_by: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Resolution:
    """What pip would install, each with the line that asks for it if one does, and what it cannot."""

    packages: list[tuple[Resolved, Line | None]]
    failures: list[Failure]


class Resolver:
    """Asks the pip of one builder, again and again, with less each time that it fails."""

    def __init__(self, bench: Workbench, wanted: Requirements, say: Callable[[str], None]) -> None:
        self._bench, self._wanted, self._say = bench, wanted, say
        self._places = local_places(wanted, LOCAL)
        self._stand_ins: dict[str, tuple[Blame, str]] = {}  # and the line that asks for each
        self._given_up: list[Failure] = []

    def resolve(self) -> Resolution:
        """All that can be had together.

        A package that cannot be is replaced by an empty one of its name and version, so that pip can go on. Where no
        package is at fault (lines that contradict each other) the lines are split until those are found that do not
        go with the ones before them.
        """
        self._bench.put({place: path for path, place in self._places.items()})
        self._bench.put({f"{LINKS}/{number}": path for number, path in enumerate(self._wanted.links)})
        accepted: list[Line] = []
        packages: list[Resolved] = []
        todo = [list(self._wanted.lines)]
        while todo:
            group = todo.pop()
            found = self._ask([*accepted, *group])
            if not isinstance(found, Blame):
                accepted, packages = [*accepted, *group], found
            elif self._replaced(found):
                todo.append(group)
            elif len(group) > 1:
                todo += reversed(_split(group, found))
            else:
                self._give_up(group[0], found)
        return self._resolution(packages)

    def options(self) -> list[str]:
        """What holds for all that pip is asked here; hashes are checked by what `Resolved.spec` has of them."""
        kept = [option for option in self._wanted.options if option != "--require-hashes"]
        return [*kept, *(f"--find-links {LINKS}/{number}" for number, _ in enumerate(self._wanted.links))]

    def _ask(self, lines: list[Line]) -> list[Resolved] | Blame:
        without = f", without {', '.join(self._stand_ins)}" if self._stand_ins else ""
        self._say(f"resolving {len(lines)} requirements{without}")
        self._write(lines)
        command = ["install", "--dry-run", "--ignore-installed", "--report", REPORT]
        said = self._bench.pip(*command, "-r", REQUIREMENTS, "-c", CONSTRAINTS, deadline_s=DEADLINE_S)
        if said.ok:
            return parse_report(self._bench.run(["cat", REPORT], READ_S).output)
        return why(self._bench, said, DEADLINE_S, self.options())

    def _write(self, lines: list[Line]) -> None:
        kept = [line for line in lines if line.name not in self._stand_ins]
        constraints = [line for line in self._wanted.constraints if line.name not in self._stand_ins]
        hashes = ["--require-hashes"] if "--require-hashes" in self._wanted.options else []
        wanted = [*hashes, *self.options(), *texts(kept, self._places), *(line for _, line in self._stand_ins.values())]
        files = {REQUIREMENTS: wanted, CONSTRAINTS: texts(constraints, self._places)}
        self._bench.put({place: requirements_file(lines) for place, lines in files.items()})

    def _replaced(self, found: Blame) -> bool:
        """Whether a package is to blame that has not been replaced yet; now it is."""
        if not found.name or found.name in self._stand_ins:
            return False
        file, data = stand_in(found.name, found.version or "0")
        place = f"{STAND_INS}/{file}"
        self._bench.put({place: data})
        checked = f" --hash=sha256:{hashlib.sha256(data).hexdigest()}" if self._wanted.hashed else ""
        self._stand_ins[found.name] = (found, f"{found.name} @ file://{place}{checked}")
        return True

    def _give_up(self, line: Line, found: Blame) -> None:
        name = line.name or (line.path.name if line.path else line.text)
        self._given_up.append(Failure(name, found.words, line=line))

    def _resolution(self, packages: list[Resolved]) -> Resolution:
        real = [one for one in packages if one.key not in self._stand_ins]
        needed_by = {one.key: one.needed_by for one in packages}
        replaced = [
            Failure(name, found.words, _known(found), self._line(name, ""), needed_by.get(name, []))
            for name, (found, _) in self._stand_ins.items()
        ]
        return Resolution([(one, self._line(one.name, one.place)) for one in real], replaced + self._given_up)

    def _line(self, name: str, place: str) -> Line | None:
        return line_for(self._wanted, name, place, self._places)


def _split(lines: list[Line], found: Blame) -> tuple[list[Line], list[Line]]:
    """Those that contradict each other after all the others, as far as pip names them; else halves."""
    suspects = [line for line in lines if line.name in found.suspects]
    others = [line for line in lines if line.name not in found.suspects]
    middle = len(lines) // 2
    return (others, suspects) if others and suspects else (lines[:middle], lines[middle:])


def _known(found: Blame) -> str:
    """The version that failed; not the one that was made up to go on."""
    return "" if found.made_up else found.version
