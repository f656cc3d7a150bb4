"""What lines need of the system below the Python: programs, packages of Debian's, files and zones.

Which packages there are, and which images have which programs, is data (debian.txt, official.toml).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from interlock.swap.beside import Copied
from interlock.swap.caveats import (
    AT_COMMAND,
    COMMANDS,
    EMBEDDING,
    LIBPYTHON,
    Caveat,
    Use,
    Weight,
    apt_packages,
    difference_caveats,
)
from interlock.swap.debian import official, table
from interlock.swap.image_names import Flavour, Maker, NewImage, PythonImage
from interlock.swap.other_pythons import DEBIANS
from interlock.swap.projects import project_caveats, required, scripts

COMMAND = re.compile(rf"{AT_COMMAND}(?=((?:/[\w/]+/)?[\w.+-]+)(?:[\s\"';)]|$))", re.MULTILINE)
APK = re.compile(rf"{AT_COMMAND}apk\s+(?:--\S+\s+)*add\b", re.MULTILINE)
# Package managers of other systems than Debian, whatever image had them.
OTHERS_PACKAGES = re.compile(rf"{AT_COMMAND}(apk|dnf|microdnf|yum|tdnf|zypper|pacman)(?=\s)", re.MULTILINE)
BUSYBOX_OPTIONS = re.compile(rf"{AT_COMMAND}(?:adduser|addgroup)\s[^;&|]*-[a-zA-Z]*[DSGH]", re.MULTILINE)
# A release of Debian in a line for apt: `deb URL bookworm-pgdg main`, `-t bookworm-backports`; and in an address.
SUITE_NAMED = re.compile(
    r"(?:\bdeb\s(?:(?!\bdeb\s)[^\n])*?\s|\s-t\s+|\bSuites:\s*)(buster|bullseye|bookworm|trixie)(?:-[\w-]+)?\b"
)
IN_ADDRESS = re.compile(r"://[^\s\"']{1,200}?/((?:debian|Debian)[/_-]?1[0-2])(?=[/_\s\"'.-])")
# What adds the archive of somebody else, which may have packages that Debian has not.
OTHERS_ARCHIVE = re.compile(r"sources\.list\.d/(?!debian\.sources)[\w.*-]+\.(?:list|sources)|\badd-apt-repository\b")
# What brings a program that its words name.
BRINGS = re.compile(r"\b(?:install|add|inject|curl|wget)\b|^(?:COPY|ADD)\b")
READS_NAMES = re.compile(r"\bxargs\b|\bcat\b|<|\bgrep\b")
RELEASES = {"bullseye": "11", "bookworm": "12", "trixie": "13"}
MARKED_VERSION = re.compile(r"(?:deb|bpo)(\d\d)(?:u|\b)")
TIME_ZONE = re.compile(r"(?:\bTZ[=\s][\"']?|/zoneinfo/)([\w/+-]+)")
# Interpreters of Debian, Lambda and Bitnami. That of python:X is in /usr/local/bin.
ELSEWHERE = re.compile(r"(?<![\w/.-])(?:/usr/bin|/bin|/var/lang/bin|/opt/bitnami/python/bin)/python[\d.]*(?![\w/.-])")


def use_caveats(
    uses: Sequence[Use], old: PythonImage | None, to: NewImage, copied: Copied | None = None
) -> Iterator[Caveat]:
    """Yield what containers of an old image use and the new image does not have."""
    run = [use for use in uses if use.runs]
    installed = {package for use in run for package in apt_packages(use.full)}
    yield from _lines_caveats(uses, uses, old, to, installed)
    if copied is None:
        return
    yield from project_caveats(uses, copied, old, to, installed)
    for use in run:
        yield from _packages(use, _names_in_files(use, copied), run, old, to)
    for file, lines in scripts(uses, copied):
        inside = installed | {package for line in lines for package in apt_packages(line.text)}
        for told in _lines_caveats(lines, uses, old, to, inside):
            yield Caveat(file.line, f"{file.name}:{told.line}: {told.text}", told.weight)
    yield from _brought(run, [line for use in run for _, _, line in required(use, copied)], uses, old)


def _lines_caveats(
    uses: Sequence[Use], around: Sequence[Use], old: PythonImage | None, to: NewImage, installed: set[str]
) -> Iterator[Caveat]:
    """Yield what lines need, of a file or of a script that one of them starts."""
    flavour = old.flavour if old else Flavour.UNKNOWN
    for use in (use for use in uses if use.runs):
        missing = _missing_programs(use, flavour, installed)
        if missing:
            what, packages = " and ".join(missing), " and ".join(dict.fromkeys(missing.values()))
            said = f"runs {what}, which the new image does not have: install {packages}"
            yield Caveat(use.line, said, Weight.BREAKS)
        yield from _of_another_system(use, flavour, to)
        if flavour in {Flavour.FULL, Flavour.UNKNOWN} and not any(word.startswith("python3") for word in installed):
            for path in dict.fromkeys(match[0] for match in ELSEWHERE.finditer(use.text)):
                said = f"runs {path}, which the new image does not have: write /usr/local/bin/{to.implementation}"
                yield Caveat(use.line, said, Weight.BREAKS)
        yield from _packages(use, apt_packages(use.full), around, old, to)
    has_own_libpython = any(EMBEDDING.fullmatch(name) or LIBPYTHON.fullmatch(name) for name in installed)
    for use in uses:
        yield from difference_caveats(use, to, {"libpython"} if has_own_libpython else set())
        yield from _zones(use, old, to, installed)


def _missing_programs(use: Use, flavour: Flavour, installed: set[str]) -> dict[str, str]:
    """Return the programs that a line runs, and only the old image has, with the package of each."""
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
    return missing


def _is_there(program: str, package: str, installed: set[str]) -> bool:
    within = official()["within"]
    return bool(installed & {program, package}) or any(package in within.get(name, ()) for name in installed)


def _of_another_system(use: Use, flavour: Flavour, to: NewImage) -> Iterator[Caveat]:
    """Yield what is of Alpine, of other systems than Debian, and the names of its other releases in lines for apt."""
    if flavour is Flavour.ALPINE and (APK.search(use.text) or BUSYBOX_OPTIONS.search(use.text)):
        said = "is written for Alpine: Debian has apt-get, useradd and groupadd"
        yield Caveat(use.line, said, Weight.BREAKS)
    elif flavour is Flavour.UNKNOWN and (manager := OTHERS_PACKAGES.search(use.text)):
        yield Caveat(use.line, f"runs {manager[1]}, which Debian does not have: write apt-get", Weight.BREAKS)
    for name, instead in official()["alpine"].items() if flavour is Flavour.ALPINE else ():
        if runs_command(name, use.text):
            yield Caveat(use.line, f"runs {name}, which is Alpine's: write {instead}", Weight.BREAKS)
    for name, instead in official()["gone"].items():
        if runs_command(name, use.text):
            yield Caveat(use.line, f"runs {name}, which Debian {to.suite} does not have: {instead}", Weight.BREAKS)
    suites = [*SUITE_NAMED.findall(use.full), *IN_ADDRESS.findall(use.full)]
    if suites := [name for name in dict.fromkeys(suites) if name != to.suite]:
        said = f"names {' and '.join(suites)}, and the new image is Debian {to.suite}: its packages may not fit"
        yield Caveat(use.line, said)


def _packages(
    use: Use, names: Sequence[str], around: Sequence[Use], old: PythonImage | None, to: NewImage
) -> Iterator[Caveat]:
    """Yield the packages, and the versions of some, that the new image's release has not, with what to write."""
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
        before = [one for one in around if one.line <= use.line or use not in around]
        added = any(OTHERS_ARCHIVE.search(one.text) for one in before)
        unless = ", unless the archive that this file adds has it" if added else ""
        said = f"installs what Debian {to.suite} does not have{unless}: {each}"
        yield Caveat(use.line, said, Weight.MAY_BREAK if added else Weight.BREAKS)
    if versions:
        said = f"asks for versions of another release than {to.suite}: {', '.join(versions)}; leave them out"
        yield Caveat(use.line, said, Weight.BREAKS)


def _names_in_files(use: Use, copied: Copied) -> list[str]:
    """Return the packages that a line takes from files: `xargs apt-get install < packages.txt`."""
    if "install" not in use.full or not READS_NAMES.search(use.full) or not re.search(r"\bapt(?:-get)?\b", use.full):
        return []
    lines = (line for file in copied.named_in(use.full) for line in file.text.splitlines())
    return [word for line in lines for word in line.partition("#")[0].split()]


def _zones(use: Use, old: PythonImage | None, to: NewImage, installed: set[str]) -> Iterator[Caveat]:
    """Yield the names of time zones that only tzdata-legacy has now."""
    if (old and old.suite == to.suite) or "tzdata-legacy" in installed:
        return
    for zone in dict.fromkeys(TIME_ZONE.findall(use.full)):
        if zone in table().zones:
            said = (
                f"{zone} is in a package of its own in Debian {to.suite}: install tzdata-legacy, or take its new name"
            )
            yield Caveat(use.line, said, Weight.BREAKS)


def _brought(
    run: Sequence[Use], requirements: Sequence[str], uses: Sequence[Use], old: PythonImage | None
) -> Iterator[Caveat]:
    """Yield the programs that nothing in the file installs, so that an image with more than Python had them."""
    if old is None or not (old.copied or old.maker is Maker.OTHER):
        return
    parts = [part for use in uses for part in COMMANDS.split(use.full if use.runs else f"{use.keyword} {use.text}")]
    installing = [part for part in parts if BRINGS.search(part)]
    for use in run:
        for match in COMMAND.finditer(use.full):
            program = match[1].rpartition("/")[2]
            if (todo := official()["brought"].get(program)) is None:
                continue
            named = re.compile(rf"(?:[\s/\"']|^\W*name = \"){program}\b|^{program}\b")
            if not any(named.search(part) for part in (*installing, *requirements)):
                said = f"runs {program}, which nothing here installs and the new image does not have: {todo}"
                yield Caveat(use.line, said, Weight.BREAKS)


def runs_command(command: str, text: str) -> bool:
    """Return whether a text of the shell's runs a program."""
    return re.search(rf"{AT_COMMAND}{re.escape(command)}(?=[\s\"';)]|$)", text, re.MULTILINE) is not None
