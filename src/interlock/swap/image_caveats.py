"""The caveats from a swap's images: from their names, from files between them, and from what publishers add."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from interlock.swap.caveats import Caveat, Weight
from interlock.swap.dockerfile import INTERPRETER, Stage, Taken
from interlock.swap.image_names import SUITES, Flavour, ImageLine, ImageName, Maker, NewImage, PythonImage
from interlock.swap.uses import PIP, Used, Uses

# Paths that have a Python's packages, by the names that people give them.
PACKAGES = re.compile(r"(?:site|dist)-packages|venv|/lib/python|/install\b|/deps\b|/packages\b")
# The same, if nothing else shows that the files are Python's.
COMPILED = re.compile(r"(?:site|dist)-packages|venv|/lib/python|wheel|\.whl")
# Paths that have programs and libraries.
PROGRAMS = re.compile(r"/(?:s?bin|lib)(?:/|$)")
# Publishers whose ENTRYPOINT starts the interpreter, so that CMD has only arguments, and the program that it starts.
ENTRYPOINTS = {
    "distroless": 'write ENTRYPOINT ["python"]',
    "chainguard": 'write ENTRYPOINT ["python"]',
    "lambda": 'install awslambdaric, and write ENTRYPOINT ["python", "-m", "awslambdaric"]',
}
# Users that only a publisher's image has.
OWN_USERS = {"distroless": "nonroot", "chainguard": "nonroot", "devcontainers": "vscode"}
# The minor version of the GNU C library (2.X) in the Debian releases of variants, and in other systems.
LIBC = {"bookworm": 36, "trixie": 41}
RED_HAT = {"7": 17, "8": 28, "9": 34, "10": 39}
UBUNTU = {"bionic": 27, "focal": 31, "jammy": 35, "noble": 39}
LIBC_OF: tuple[tuple[re.Pattern[str], Mapping[str, int]], ...] = (
    (re.compile(r"(?:ubi|centos|rocky|rockylinux|almalinux|oraclelinux|stream)[:/-]?(\d+)"), RED_HAT),
    (re.compile(r"amazonlinux:(\d+)"), {"2": 26, "2023": 34}),
    (re.compile(r"fedora:(\d+)"), {"39": 38, "40": 39, "41": 40}),
    (re.compile(r"ubuntu-?:?(\d\d)\.?04"), {"18": 27, "20": 31, "22": 35, "23": 37, "24": 39}),
    (re.compile(r"ubuntu-?:?(\d\d)\.?10"), {"22": 36, "23": 38, "24": 40}),
    (re.compile(r"(?:ubuntu|playwright).*\b(bionic|focal|jammy|noble)"), UBUNTU),
    (re.compile(r"debian-?:?(\d\d)\b"), {"10": 28, "11": 31, "12": 36}),
)


def image_caveats(chosen: Sequence[ImageLine], to: NewImage) -> list[Caveat]:
    """Return the caveats that follow from the images' names, those of one old image joined."""
    told = [Caveat(0, text, Weight.KNOW) for text in _new_image_caveats(to)]
    said = set[str]()
    for image_line in chosen:
        texts = [text for text in _old_image_caveats(image_line, to) if text not in said]
        said |= set(texts)
        told += [Caveat(image_line.line, "; ".join(texts))] if texts else []
        old = image_line.python
        if old is not None and _older_patch(old, to):
            text = f"{image_line.image} has Python {old.patch}, the new image {to.version}: an older patch"
            told.append(Caveat(image_line.line, text, Weight.KNOW))
        if old is not None and "onbuild" in old.name.tag.split("-"):
            text = f"{image_line.image} has ONBUILD triggers (it copies and installs by itself): write them out"
            told.append(Caveat(image_line.line, text, Weight.BREAKS))
    return told


def _older_patch(old: PythonImage, to: NewImage) -> bool:
    """Return whether the new image has an earlier release of the same line than the old one's tag names."""
    same_line = old.patch and to.version.startswith(f"{old.python}.") and re.fullmatch(r"[\d.]+", to.version)
    return bool(same_line) and [*map(int, to.version.split("."))] < [*map(int, old.patch.split("."))]


def _new_image_caveats(to: NewImage) -> Iterator[str]:
    if not to.pinned:
        yield f"{to.reference} is in no registry: push it, or builds on other machines do not find it"
    if to.unoptimised:
        yield f"{to.variant} is built without profile-guided and link-time optimisation"
    if to.free_threaded:
        yield "an extension module that does not know free threading switches the GIL back on: see `interlock audit`"


def _old_image_caveats(old: ImageLine, to: NewImage) -> Iterator[str]:
    if old.python is None:
        yield f"{old.image} does not look like a Python image: everything else in it is lost"
        return
    if old.python.maker is Maker.OTHER:
        yield f"{old.image} is not python:X: what its publisher added, and its paths and users, are lost"
    if old.python.copied:
        yield f"{old.image} need not be the official image: what its publisher added to it is lost"
    if old.python.agrees_on != (to.implementation, to.python):
        yield _other_python(old, to)
    flavour = old.python.flavour
    if flavour is Flavour.ALPINE:
        yield (
            f"{old.image} is Alpine (musl, busybox, apk), the new image Debian {to.suite} (glibc, coreutils, apt): "
            "musllinux wheels and apk packages do not fit"
        )
    elif old.python.suite not in {None, to.suite}:
        yield f"Debian {old.python.suite} becomes {to.suite}: packages may have other names"
    if flavour is Flavour.FULL:
        yield (
            f"{old.image} has compilers, headers of libraries, git and curl, the new image is slim: "
            "what pip has to compile needs them installed first"
        )


def _other_python(old: ImageLine, to: NewImage) -> str:
    python = old.python
    known = f"{python.implementation}{python.python}" if python and python.python else f"the Python of {old.image}"
    return (
        f"{known} becomes {to.command}: what was compiled for the one (wheels, C extensions, lock files with their "
        "hashes) does not load in the other"
    )


def publisher_caveats(used: Used) -> Iterator[Caveat]:
    """Yield what in a stage relies on the ENTRYPOINT or on the user of its publisher's image."""
    if not isinstance(used.line, Stage) or used.line.python is None:
        return
    uses, image = used.uses, used.line.image
    publisher = used.line.python.name.repository.split("/")[-2:][0]
    if publisher in ENTRYPOINTS and not any(use.keyword == "ENTRYPOINT" for use in uses):
        for use in uses:
            if use.keyword == "CMD":
                said = f"has arguments for the ENTRYPOINT of {image}, which is lost: {ENTRYPOINTS[publisher]}"
                yield Caveat(use.line, said, Weight.BREAKS)
    user = OWN_USERS.get(publisher, "")
    added = any(use.runs and "useradd" in use.text and user in use.text for use in uses)
    named = re.compile(rf"^\s*USER\s+{user}\b|\s--chown={user}\b", re.IGNORECASE)
    for use in uses if user and not added else ():
        if not use.runs and named.search(use.text):
            said = f"names the user {user}, whom only {image} has: add it (RUN useradd {user})"
            yield Caveat(use.line, said, Weight.BREAKS)


def between_caveats(uses: Uses, to: NewImage) -> Iterator[Caveat]:
    """Yield caveats of files that move between swapped stages and a Python that stays."""
    for stage, taken in uses.coming:
        yield from _files_that_come(stage.root, taken, to)
    for stage, taken in uses.leaving:
        yield from _files_that_leave(stage, taken, to)
    if len(to.platforms) == 1 and uses.platforms_line is not None:
        yield Caveat(uses.platforms_line, f"the file is built for several architectures, and {to.is_for}")


def _files_that_come(here: Stage, taken: Taken, to: NewImage) -> Iterator[Caveat]:
    """Yield that a swapped stage takes files from an image, or from a stage that keeps its own Python."""
    source, line = taken.stage and taken.stage.root, taken.instruction.line
    where = f"stage {source.label}, which stays {source.image}" if source else f"{taken.name}, which stays"
    changes = here.python is None or here.python.agrees_on != (to.implementation, to.python)
    stays_beside = taken.tools or (taken.stage, taken.name) in here.interpreters_from
    if taken.python is None:
        of_alpine = here.python is not None and here.python.flavour is Flavour.ALPINE and _is_alpine(taken.parts)
        if of_alpine and any(map(PROGRAMS.search, taken.instruction.sources)):
            said = f"takes programs from {where}: those of musl do not start in Debian {to.suite}"
            yield Caveat(line, f"{said}; take them from an image of Debian")
        installs = source is not None and any(PIP.search(instruction.said) for instruction in source.body)
        paths = taken.instruction.sources
        told = any(map(COMPILED.search, paths)) or (installs and any(map(PACKAGES.search, paths)))
        if source and changes and told:
            yield Caveat(line, f"takes packages from {where}: whether they are for {to.command} is not known")
    elif taken.python.agrees_on != (to.implementation, to.python) and not stays_beside:
        todo = f"; swap that stage too ({source.option})" if source else ""
        said = f"takes files from {where}: what was compiled there does not load in {to.command}{todo}"
        yield Caveat(line, said, Weight.BREAKS)


def _files_that_leave(stage: Stage, taken: Taken, to: NewImage) -> Iterator[Caveat]:
    """Yield that files of a swapped stage go into one that keeps its own Python."""
    here, line, paths = stage.root, taken.instruction.line, taken.instruction.sources
    label = taken.stage.root.label if taken.stage else ""
    said = f"takes files from stage {label}, which becomes {to.command}: what was compiled there does not load in"
    if here.python is not None:
        if here.python.agrees_on != (to.implementation, to.python) and not taken.tools:
            own = f"{here.python.implementation}{here.python.python}" if here.python.python else "the Python"
            todo = f"swap that stage too ({here.option})"
            yield Caveat(line, f"{said} {own} of {here.image}, which stays; {todo}", Weight.BREAKS)
    elif stage.runs is not here:
        if any(map(INTERPRETER.fullmatch, paths)) and has_older_libraries(here.parts, to.suite):
            text = f"takes the interpreter of {to.suite}, which does not start with the older libraries of {here.image}"
            todo = here.parts.instead.strip(" .") or f"start from debian:{to.suite}-slim"
            yield Caveat(line, f"{text}: {todo[:1].lower()}{todo[1:]}", Weight.BREAKS)
    elif any(map(PACKAGES.search, paths)):
        yield Caveat(line, f"{said} another Python, and {here.image} does not show which it has")


def _is_alpine(name: ImageName) -> bool:
    return name.repository.endswith("alpine") or name.tag.split("-")[-1].startswith("alpine")


def has_older_libraries(name: ImageName, suite: str) -> bool:
    """Return whether an image's name shows a system older than a Debian release, or musl: its programs do not start."""
    parts = name.tag.split("-")
    if _is_alpine(name):
        return True
    own = LIBC.get(suite, 0)
    for system, versions in LIBC_OF:
        if version := system.search(f"{name.repository}:{name.tag}"):
            return versions.get(version[1], own) < own
    before = SUITES[: SUITES.index(suite)] if suite in SUITES else ()
    return any(part in before for part in parts)
