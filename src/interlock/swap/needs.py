"""Finds what lines, and the files that they copy, need and the new image lacks.

That is a part of python:X-slim, a program, a Debian package, a file, a time zone, or another version of Python. Data
files say which packages exist and which images have which programs (debian.txt, official.toml).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from packaging.specifiers import SpecifierSet

from interlock.swap.caveats import Caveat, Weight
from interlock.swap.debian import official, table
from interlock.swap.image_names import Flavour, Maker, NewImage, PythonImage
from interlock.swap.other_pythons import DEBIAN_PYTHON, DEBIANS, EMBEDDING, LIBPYTHON
from interlock.swap.uses import AT_COMMAND, COMMANDS, PIP, CopiedFiles, Demand, FileLine, Use, Used

COMMAND = re.compile(rf"{AT_COMMAND}(?=((?:/[\w/]+/)?[\w.+-]+)(?:[\s\"';)]|$))", re.MULTILINE)
APK = re.compile(rf"{AT_COMMAND}apk\s+(?:--\S+\s+)*add\b", re.MULTILINE)
# Package managers of systems other than Debian, whatever the image.
OTHERS_PACKAGES = re.compile(rf"{AT_COMMAND}(apk|dnf|microdnf|yum|tdnf|zypper|pacman)(?=\s)", re.MULTILINE)
BUSYBOX_OPTIONS = re.compile(rf"{AT_COMMAND}(?:adduser|addgroup)\s[^;&|]*-[a-zA-Z]*[DSGH]", re.MULTILINE)
# A Debian release in a line for apt (`deb URL bookworm-pgdg main`, `-t bookworm-backports`) and in an address.
SUITE_NAMED = re.compile(
    r"(?:\bdeb\s(?:(?!\bdeb\s)[^\n])*?\s|\s-t\s+|\bSuites:\s*)(buster|bullseye|bookworm|trixie)(?:-[\w-]+)?\b"
)
IN_ADDRESS = re.compile(r"://[^\s\"']{1,200}?/((?:debian|Debian)[/_-]?1[0-2])(?=[/_\s\"'.-])")
# What adds a third party's archive, which may have packages that Debian lacks.
OTHERS_ARCHIVE = re.compile(r"sources\.list\.d/(?!debian\.sources)[\w.*-]+\.(?:list|sources)|\badd-apt-repository\b")
# Commands that bring a program which they name.
BRINGS = re.compile(r"\b(?:install|add|inject|curl|wget)\b|^(?:COPY|ADD)\b")
RELEASES = {"bullseye": "11", "bookworm": "12", "trixie": "13"}
MARKED_VERSION = re.compile(r"(?:deb|bpo)(\d\d)(?:u|\b)")
TIME_ZONE = re.compile(r"(?:\bTZ[=\s][\"']?|/zoneinfo/)([\w/+-]+)")
# Interpreters of Debian, Lambda and Bitnami. The one of python:X is in /usr/local/bin.
ELSEWHERE = re.compile(r"(?<![\w/.-])(?:/usr/bin|/bin|/var/lang/bin|/opt/bitnami/python/bin)/python[\d.]*(?![\w/.-])")
# Commands that only name a user, a folder or a text, and run nothing of that name.
NAMES_ALONE = re.compile(
    rf"{AT_COMMAND}(?:useradd|groupadd|adduser|addgroup|usermod|chown|chgrp|chmod|mkdir|install|rm|cp|mv|ln|touch|echo)"
    r"\s[^;&|\n]*",
    re.MULTILINE,
)
# What needs a part of python:X-slim that a variant may lack, by the difference's name (variants/differences.toml).
USERS = {
    "pip": PIP,
    "libpython": re.compile(
        r"\buwsgi\b|\bunitd\b|nginx/unit|(?<![\w.-])unit:\d|\bmod_wsgi\b|\bpyinstaller\b"
        r"|\blibpython\d(?![\d.]*(?:t64|-\w))|(?<=[\s\"']-l)python\d",
        re.I,
    ),
    "threads": re.compile(
        rf"(?:{AT_COMMAND}(?:[^\s;&|(`]*/)?|\s-m\s+)(?:gunicorn|uvicorn|hypercorn|waitress|celery|daphne)\b", re.M
    ),
    # A virtual environment's own folder is the same everywhere, so it does not match.
    "site-packages": re.compile(r"/usr/local/lib/python[^/\s]+/site-packages"),
    "command-python-config": re.compile(r"\bpython[\d.]*-config\b"),
    "venv": re.compile(r"\bpython[\d.]*t?\s+-m\s+venv\b"),
}
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
OF_NAMESPACE = {"amd64": "linux/amd64", "arm64v8": "linux/arm64", "i386": "linux/386", "s390x": "linux/s390x"}
# A wheel that a requirement names by its file or address, and a marker that may leave it out.
WHEEL = re.compile(r"-(?P<tags>cp\d{2,3}-(?P<abi>cp\d{2,3}[a-z]{0,2}|abi3))-[\w.]+\.whl\b")
MARKED = "python_version"
CARET, TILDE = re.compile(r"\^\s*(\d+)(?:\.(\d+))?(?:\.(\d+))?"), re.compile(r"~\s*(\d+)\.(\d+)(?:\.\d+)*")


def needs_caveats(used: Used, to: NewImage) -> Iterator[Caveat]:
    """Yield caveats of what an old image's containers ask for or use and the new image does not offer."""
    old, installed = used.line.python, used.installed
    yield from _other_platform(used, to)
    yield from _lines_caveats(used.uses, used.uses, old, to, installed)
    files = used.files or CopiedFiles()
    yield from _refusals(files.demands, to)
    for use, lines in files.required:
        yield from _packages_needs(use, lines, used, to)
    for use, lines in files.packages:
        names = [word for line in lines for word in line.text.partition("#")[0].split()]
        yield from _packages(use, names, used.run, old, to)
    for script in files.scripts:
        inside = installed.union(*(use.packages for use in script.uses))
        for told in _lines_caveats(script.uses, used.uses, old, to, inside):
            yield Caveat(script.line, f"{script.file}:{told.line}: {told.text}", told.weight)
    # Into a Dockerfile a swap itself brings back uv.
    loses_programs = {Maker.OTHER} if used.files is not None else {Maker.OTHER, Maker.UV}
    if old is not None and (old.copied or old.maker in loses_programs):
        yield from _brought(used, [line.text for _, lines in files.required for line in lines])


def _lines_caveats(
    uses: Sequence[Use], around: Sequence[Use], old: PythonImage | None, to: NewImage, installed: Collection[str]
) -> Iterator[Caveat]:
    """Yield the needs of lines, which are a file's own or those of a script that it starts."""
    flavour = old.flavour if old else Flavour.UNKNOWN
    for use in (use for use in uses if use.runs):
        broken = [*_missing_programs(use, flavour, installed), *_of_another_system(use, flavour, to)]
        if flavour in {Flavour.FULL, Flavour.UNKNOWN} and not any(word.startswith("python3") for word in installed):
            broken += _elsewhere(use, to)
        yield from (Caveat(use.line, said, Weight.BREAKS) for said in broken)
        suites = dict.fromkeys([*SUITE_NAMED.findall(use.full), *IN_ADDRESS.findall(use.full)])
        if others := [name for name in suites if name != to.suite]:
            said = f"names {' and '.join(others)}, and the new image is Debian {to.suite}: its packages may not fit"
            yield Caveat(use.line, said)
        yield from _packages(use, use.packages, around, old, to)
    has_own_libpython = any(EMBEDDING.fullmatch(name) or LIBPYTHON.fullmatch(name) for name in installed)
    for use in uses:
        broken = [*differences(use, to, {"libpython"} if has_own_libpython else set())]
        if not (old and old.suite == to.suite) and "tzdata-legacy" not in installed:
            broken += _zones(use, to)
        yield from (Caveat(use.line, said, Weight.BREAKS) for said in broken)


def _missing_programs(use: Use, flavour: Flavour, installed: Collection[str]) -> Iterator[str]:
    """Yield the programs that a line runs and that only the old image has, with their packages."""
    data = official()
    there: Mapping[str, str] = {Flavour.FULL: table().programs, Flavour.ALPINE: data["busybox"]}.get(flavour, {})
    missing = {}
    for match in COMMAND.finditer(use.full) if there else ():
        program = match[1].rpartition("/")[2]
        package = there.get(program)
        if package is not None and not _is_there(program, package, installed):
            missing[program] = package
    if flavour is Flavour.FULL and use.keyword == "RUN":
        for package, pattern in data["unnamed"].items():
            if not _is_there(package, package, installed) and re.search(pattern, use.full):
                missing.setdefault(package, package)
    if missing:
        packages = " and ".join(dict.fromkeys(missing.values()))
        yield f"runs {' and '.join(missing)}, which the new image does not have: install {packages}"


def _is_there(program: str, package: str, installed: Collection[str]) -> bool:
    within = official()["within"]
    return program in installed or package in installed or any(package in within.get(name, ()) for name in installed)


def _of_another_system(use: Use, flavour: Flavour, to: NewImage) -> Iterator[str]:
    """Yield what is for Alpine or other systems than Debian, and what Debian no longer has."""
    if flavour is Flavour.ALPINE and (APK.search(use.text) or BUSYBOX_OPTIONS.search(use.text)):
        yield "is written for Alpine: Debian has apt-get, useradd and groupadd"
    elif flavour is Flavour.UNKNOWN and (manager := OTHERS_PACKAGES.search(use.text)):
        yield f"runs {manager[1]}, which Debian does not have: write apt-get"
    for name, instead in official()["alpine"].items() if flavour is Flavour.ALPINE else ():
        if _runs_command(name, use.text):
            yield f"runs {name}, which is Alpine's: write {instead}"
    for name, instead in official()["gone"].items():
        if _runs_command(name, use.text):
            yield f"runs {name}, which Debian {to.suite} does not have: {instead}"


def _elsewhere(use: Use, to: NewImage) -> Iterator[str]:
    for path in dict.fromkeys(ELSEWHERE.findall(use.text)):
        yield f"runs {path}, which the new image does not have: write /usr/local/bin/{to.implementation}"


def _packages(
    use: Use, names: Sequence[str], around: Sequence[Use], old: PythonImage | None, to: NewImage
) -> Iterator[Caveat]:
    """Yield packages and versions of packages that the new image's release lacks, with what to write instead."""
    if old is not None and (old.suite == to.suite or old.flavour is Flavour.ALPINE):
        return
    gone, versions = dict[str, str](), list[str]()
    for word in dict.fromkeys(names):
        name, _, version = word.partition("=")
        name = name.partition(":")[0].partition("/")[0]
        instead = table().gone.get(name)
        if instead is not None and not DEBIANS.fullmatch(name):
            gone[name] = f"write {' or '.join(instead)}" if instead else "nothing replaces it"
        elif (marked := MARKED_VERSION.search(version)) and marked[1] != RELEASES.get(to.suite):
            versions.append(word)
    if gone:
        each = ", ".join(f"{name} ({todo})" for name, todo in gone.items())
        before = [other_use for other_use in around if other_use.line <= use.line or use not in around]
        added = any(OTHERS_ARCHIVE.search(other_use.text) for other_use in before)
        unless = ", unless the archive that this file adds has it" if added else ""
        said = f"installs what Debian {to.suite} does not have{unless}: {each}"
        yield Caveat(use.line, said, Weight.MAY_BREAK if added else Weight.BREAKS)
    if versions:
        said = f"asks for versions of another release than {to.suite}: {', '.join(versions)}; leave them out"
        yield Caveat(use.line, said, Weight.BREAKS)


def _zones(use: Use, to: NewImage) -> Iterator[str]:
    """Yield the names of time zones that are now only in tzdata-legacy."""
    for zone in dict.fromkeys(TIME_ZONE.findall(use.full)):
        if zone in table().zones:
            own = f"{zone} is in a package of its own in Debian {to.suite}"
            yield f"{own}: install tzdata-legacy, or take its new name"


def _brought(used: Used, required: Sequence[str]) -> Iterator[Caveat]:
    """Yield the programs that nothing in the file installs, so they came with an image that has more than Python."""
    lines = [use.full if use.runs else f"{use.keyword} {use.text}" for use in used.uses]
    parts = (part for line in lines for part in COMMANDS.split(line))
    # What stands before `install` is what installs: `poetry install` brings no poetry.
    installing = [part[match.end() :] for part in parts if (match := BRINGS.search(part))]
    for use in used.run:
        for match in COMMAND.finditer(use.full):
            program = match[1].rpartition("/")[2]
            if (todo := official()["brought"].get(program)) is None:
                continue
            named = re.compile(rf"(?:[\s/\"'-]|^\W*name = \"){program}\b|^{program}\b")
            if not any(named.search(part) for part in (*installing, *required)):
                said = f"runs {program}, which nothing here installs and the new image does not have: {todo}"
                yield Caveat(use.line, said, Weight.BREAKS)


def _runs_command(command: str, text: str) -> bool:
    return re.search(rf"{AT_COMMAND}{re.escape(command)}(?=[\s\"';)]|$)", text, re.MULTILINE) is not None


def differences(use: Use, to: NewImage, brought: Collection[str] = ()) -> Iterator[str]:
    """Yield what a line needs of python:X-slim that the new image lacks and nothing brings, and the way out."""
    for name, users in USERS.items():
        if name not in to.differences or name in brought or use.foreign:
            continue
        anywhere = name in {"libpython", "site-packages"}
        # A free-threaded build differs only in its version, which is in the list of paths.
        if not (use.runs or anywhere) or (name == "site-packages" and to.free_threaded):
            continue
        text = NAMES_ALONE.sub("", use.text) if use.runs and name != "site-packages" else use.text
        if match := users.search(text):
            used = match[0].strip(' [";&|(`')
            yield f"needs {name} ({used}): {to.way_out(name)}"
    if DEBIAN_PACKAGES in use.text and DEBIAN_PYTHON.get(to.suite) != to.python:
        yield f"{DEBIAN_PACKAGES} has packages for Debian's python{DEBIAN_PYTHON.get(to.suite, '3')}, not {to.command}"


def _other_platform(used: Used, to: NewImage) -> Iterator[Caveat]:
    """Yield that a line asks, by itself or by its image's namespace, for a platform that the new image is not for."""
    line = used.line
    namespace = line.python.name.repository.split("/")[0] if line.python else ""
    asked = [platform for platform in [*used.platforms, OF_NAMESPACE.get(namespace, "")] if platform]
    missing = [name for name in asked if "$" not in name and name.removesuffix("/v8") not in to.platforms]
    if to.platforms and missing:
        yield Caveat(line.line, f"is for {missing[0]}, and {to.is_for}", Weight.BREAKS)


def _refusals(demands: Sequence[Demand], to: NewImage) -> Iterator[Caveat]:
    """Yield a caveat if an installer will end because the project does not admit the new image's Python."""
    for demand in demands:
        if not _admits(demand.versions, to.version or to.python.rstrip("t")):
            said = f"{demand.where}: {demand.key} is {demand.versions}, which {to.version} is not"
            yield Caveat(demand.line, f"{said}: {demand.installer} ends; widen it there, and lock again", Weight.BREAKS)


def _packages_needs(use: Use, lines: Sequence[FileLine], used: Used, to: NewImage) -> Iterator[Caveat]:
    """Yield the needs of Python packages that a line installs from these lines of files."""
    old = used.line.python
    full = old is not None and (old.flavour is Flavour.FULL or old.copied)
    git = official()["unnamed"]["git"] if full and "git" not in used.installed else None
    for line in lines:
        broken = [*differences(Use(use.line, line.text), to)]
        wheel = WHEEL.search(line.text)
        if wheel and MARKED not in line.text and not _loads(wheel, to):
            broken.append(f"{wheel['tags']} is a wheel for another Python than {to.command}: name one for it")
        if git and re.search(git, line.text):
            broken.append("needs git, which the new image does not have: install git")
        yield from (Caveat(use.line, f"{line.where}: {said}", Weight.BREAKS) for said in broken)


def _loads(wheel: re.Match[str], to: NewImage) -> bool:
    """Return whether a wheel of this name is for the new image's Python; abi3 is for later ones too, with a GIL."""
    if to.implementation != "python":
        return False
    return not to.free_threaded if wheel["abi"] == "abi3" else wheel["abi"] == f"cp{to.python.replace('.', '')}"


def _admits(text: str, version: str) -> bool:
    """Return whether a requirement in the standard's form or poetry's admits a version; any other form admits all."""
    for part in text.split("||"):
        try:
            if SpecifierSet(_standard(part)).contains(version, prereleases=True):
                return True
        except ValueError:  # also of a number of thousands of digits
            return True
    return False


def _standard(text: str) -> str:
    """Return a poetry requirement in the standard's form."""
    parts = []
    for part in (part.strip() for part in text.split(",")):
        if match := CARET.fullmatch(part):
            parts.append(f">={part[1:].strip()},<{int(match[1]) + 1}")
        elif match := TILDE.fullmatch(part):
            parts.append(f">={part[1:].strip()},<{match[1]}.{int(match[2]) + 1}")
        elif part != "*":
            parts.append(part if part[:1] in "<>=!~" else f"=={part}")
    return ",".join(parts)
