"""Makes debian.txt from Debian's package lists: what a release no longer has, and what the official images bring.

Pure: `interlock facts debian` fetches the lists, whose sums Debian signs, and writes the result.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

RELEASE = "trixie"  # of all variants' images
FORMER = ("bullseye", "bookworm")  # of the official images that files still name
PACKAGES = "main/binary-amd64/Packages.xz"
FIELD = re.compile(
    r"^(Package|Source|Provides|Depends|Pre-Depends|Replaces|Description|Priority|Essential"
    r"|Filename|SHA256|Size): (.*)$",
    re.MULTILINE,
)
NAME = re.compile(r"[^\s(:|,]+")
PROGRAM = re.compile(r"\./(?:usr/)?s?bin/(?!python|pydoc|py3|x86_64-|i686-)([^/]+)")
ZONES, ZONE = "tzdata-legacy", re.compile(r"\./usr/share/zoneinfo/(?!right/|posix/)(.+[^/])")
# Packages that have no program: data, and libraries except those with a name in -bin.
WITHOUT_PROGRAMS = re.compile(r"lib(?!.*-bin$)|python3|fonts|linux-|.*-(?:data|common|man|icon-theme|modules-[\d.]+)$")
# Packages of this size are not looked into: the compilers themselves, to which gcc, g++ and cpp only have links.
MOST_BYTES = 10_000_000
# What no service's Dockerfile installs by name: libraries of other languages, and programs for a desktop.
LEFT_OUT = re.compile(
    r"librust-|libghc-|golang-|node-|r-cran-|r-bioc-|elpa-|ruby-|lib.*-(?:java|perl|cil|ocaml|clojure)(?:-|$)|gir1\.2-"
    r"|linux-|kde|plasma|gnome-|php-|haskell-|texlive|fonts-|.*-(?:dbg|dbgsym|doc|l10n)$|.*-(?:udeb|di)$|lib(?:32|64|n32|x32)"
)
TRANSITIONAL = re.compile(r"transitional|dummy package", re.IGNORECASE)
MOST_NAMED, MOST_ON_A_LINE = 3, 20


@dataclass(frozen=True)
class Package:
    """A binary package as a list has it."""

    name: str
    source: str
    provides: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...]  # each need is met by any one of its names
    replaces: tuple[str, ...]
    transitional: bool
    base: bool  # whether every system has it
    file: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class DebianTable:
    """The contents of debian.txt: the successors of a former release's packages, and the package of each program."""

    origin: tuple[str, ...] = ()
    gone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    zones: frozenset[str] = frozenset()
    slim: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """Return the file: names that have the same successors, or programs of one package, share a line."""
        successors = ((" ".join(new), name) for name, new in self.gone.items())
        packages = ((package, program) for program, package in self.programs.items())
        sections = {
            "gone": _shared(successors),
            "programs": _shared(packages),
            "zones": _shared(("", zone) for zone in self.zones),
            "slim": _shared(("", name) for name in self.slim),
        }
        head = ["# Made by `interlock facts debian`; do not edit.", *(f"# {line}" for line in self.origin)]
        return "\n".join([*head, *(line for name, lines in sections.items() for line in (f"[{name}]", *lines))]) + "\n"


def _shared(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines with a shared value before a colon, and after it some of the names that share it."""
    by_head: dict[str, list[str]] = defaultdict(list)
    for head, name in sorted(pairs):
        by_head[head].append(name)
    return [
        f"{head}: {' '.join(names[at : at + MOST_ON_A_LINE])}"
        for head, names in by_head.items()
        for at in range(0, len(names), MOST_ON_A_LINE)
    ]


def read_table(text: str) -> DebianTable:
    """Return the table that a text has."""
    sections: dict[str, list[tuple[str, list[str]]]] = defaultdict(list)
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif not line.startswith("#"):
            head, _, tail = line.rpartition(": ")
            sections[section].append((head, tail.split()))
    return DebianTable(
        origin=tuple(line[2:] for line in text.splitlines()[1:] if line.startswith("# ")),
        gone={name: tuple(head.split()) for head, names in sections["gone"] for name in names},
        programs={program: head for head, names in sections["programs"] for program in names},
        zones=frozenset(name for _, names in sections["zones"] for name in names),
        slim=frozenset(name for _, names in sections["slim"] for name in names),
    )


def read_packages(text: str) -> dict[str, Package]:
    """Return the packages of a list by name."""
    packages = {}
    for block in text.split("\n\n"):
        fields: dict[str, str] = dict(FIELD.findall(block))
        if name := fields.get("Package"):
            needs = [part for key in ("Pre-Depends", "Depends") for part in fields.get(key, "").split(",") if part]
            packages[name] = Package(
                name=name,
                source=fields.get("Source", name).split()[0],
                provides=_names(fields.get("Provides", "")),
                needs=tuple(tuple(NAME.findall(alternative)[0] for alternative in part.split("|")) for part in needs),
                replaces=_names(fields.get("Replaces", "")),
                transitional=TRANSITIONAL.search(fields.get("Description", "")) is not None,
                base=fields.get("Essential") == "yes" or fields.get("Priority") == "required",
                file=fields.get("Filename", ""),
                sha256=fields.get("SHA256", ""),
                size_bytes=int(fields.get("Size", 0)),
            )
    return packages


def _names(text: str) -> tuple[str, ...]:
    return tuple(match[0] for part in text.split(",") if (match := NAME.search(part)))


@dataclass
class Successors:
    """Finds a release's successors of a former release's packages, by its own list."""

    now: Mapping[str, Package]
    known: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        self.providers, self.alike = defaultdict[str, list[str]](list), defaultdict[tuple[str, str], list[str]](list)
        self.shaped, self.replacing = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for name, package in self.now.items():
            for provided in package.provides:
                self.providers[provided].append(name)
            for replaced in package.replaces:
                self.replacing[replaced].append(name)
            self.alike[_plain(package.source), _plain(name)].append(name)
            self.shaped[_shape(name)].append(name)

    def gone(self, former: Iterable[Package]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each package that `apt-get install` does not find, even by a sole provider, with what to install."""
        for old in former:
            installs = old.name in self.now or len(self.providers.get(old.name, ())) == 1
            if not installs and not LEFT_OUT.match(old.name):
                yield old.name, self._of(old)

    def _of(self, old: Package) -> tuple[str, ...]:
        """Return the first of these that exists: providers, what it stood for, its next version, what replaces it."""
        stood_for = [names[0] for names in old.needs if names[0] in self.now] if old.transitional else []
        ways = (
            self.known.get(old.name, ()),
            sorted(self.providers.get(old.name, ())),
            stood_for[:MOST_NAMED],
            self.alike.get((_plain(old.source), _plain(old.name)), ()),
            self.shaped.get(_shape(old.name), ()) if re.search(r"\d", old.name) else (),
            self.replacing.get(old.name, ()),
        )
        return tuple(sorted(next((way for way in ways if way), ()))[-MOST_NAMED:])


def _plain(name: str) -> str:
    """Return a name without versions: libicu72 and libicu76, libldap-2.5-0 and libldap2, libaio1 and libaio1t64."""
    return re.sub(r"t64|[\d.\-]+", "", re.sub(r"^lib(?:32|64)", "lib3264", name))


def _shape(name: str) -> str:
    """Return a name with one sign for each version."""
    return re.sub(r"\d+(?:\.\d+)*", "0", name.replace("t64", ""))


def closure(names: Iterable[str], now: Mapping[str, Package]) -> set[str]:
    """Return packages with all that they need; of several alternatives the first that exists."""
    providers: dict[str, str] = {}
    for name, package in sorted(now.items(), key=lambda entry: not entry[1].base):
        for provided in package.provides:
            providers.setdefault(provided, name)
    needed, open_ = set[str](), [*names]
    while open_:
        name = open_.pop()
        name = name if name in now else providers.get(name, name)
        if name in needed or name not in now:
            continue
        needed.add(name)
        for alternatives in now[name].needs:
            offered = (alternative for alternative in alternatives if alternative in now or alternative in providers)
            open_.append(next(offered, alternatives[0]))
    return needed


def make_table(
    lists: Mapping[str, str],
    files_of: Callable[[Package], Iterable[str]],
    official: Mapping[str, Mapping[str, object]],
    origin: Sequence[str],
) -> DebianTable:
    """Return the table of the releases' lists, of the files in the packages that matter, and of official.toml."""
    now = read_packages(lists[RELEASE])
    successors = Successors(now, {name: _strings(new) for name, new in official["successors"].items()})
    gone: dict[str, tuple[str, ...]] = {}
    for release in FORMER:
        gone |= dict(successors.gone(read_packages(lists[release]).values()))
    asked = _strings(official["full"]["packages"])
    base = [package.name for package in now.values() if package.base]
    slim = closure([*_strings(official["slim"]["packages"]), *base], now)
    full = closure(asked, now) - slim
    looked_into = {name for name in full if name in asked or not WITHOUT_PROGRAMS.match(name)} | {ZONES}
    programs, zones = {name: str(package) for name, package in official["alternatives"].items()}, set[str]()
    for package in (now[name] for name in sorted(looked_into) if name in now and now[name].size_bytes < MOST_BYTES):
        pattern = ZONE if package.name == ZONES else PROGRAM
        names = [match[1] for file in files_of(package) if (match := pattern.fullmatch(file))]
        if package.name == ZONES:
            zones.update(names)
        else:
            programs = dict.fromkeys(names, package.name) | programs
    return DebianTable(tuple(origin), gone, programs, frozenset(zones), frozenset(slim))


def _strings(value: object) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else []
