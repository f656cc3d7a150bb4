"""What a person must know about a swap of stages: what goes between them, and who chooses their images."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from interlock.swap.beside import Beside, Copied, nothing
from interlock.swap.caveats import (
    PIP,
    Caveat,
    Use,
    Weight,
    difference_caveats,
    image_caveats,
    is_for,
    other_platform,
)
from interlock.swap.dockerfile import INTERPRETER, Dockerfile, Stage, Taken
from interlock.swap.image_names import Maker, NewImage
from interlock.swap.instructions import Instruction, line_of
from interlock.swap.other_bases import older_libraries
from interlock.swap.other_pythons import other_pythons
from interlock.swap.paths import INSTALLED, with_variables
from interlock.swap.system import use_caveats
from interlock.swap.variables import shell_expanded, unquoted

# Paths with packages of a Python, by the names that people give them.
PACKAGES = re.compile(r"(?:site|dist)-packages|venv|/lib/python|/install\b|/deps\b|/packages\b")
# The same where nothing else shows that it is Python's.
COMPILED = re.compile(r"(?:site|dist)-packages|venv|/lib/python|wheel|\.whl")
TOOLS = frozenset({"uv", "uvx"})
# Publishers whose image starts the interpreter by its ENTRYPOINT, so that CMD has arguments alone, with what does so.
ENTRYPOINTS = {
    "distroless": 'write ENTRYPOINT ["python"]',
    "chainguard": 'write ENTRYPOINT ["python"]',
    "lambda": 'install awslambdaric, and write ENTRYPOINT ["python", "-m", "awslambdaric"]',
}
# Users that only a publisher's image has.
OWN_USERS = {"distroless": "nonroot", "chainguard": "nonroot", "devcontainers": "vscode"}
# A package of a system's Python: python3, python-3.12, python3.12.
SYSTEMS_PYTHON = re.compile(r"\spython-?[3$][\w.{}]*(?!\S)")
# A Python that a line fetches, or compiles.
BRINGS_PYTHON = re.compile(
    r"\buv\s+python\s+install\b|\bpyenv\s+install\b|\bconda\s+(?:create|install)\b[^;&|\n]*\bpython=|Python-[23]\.\d+[\w.]*\.(?:tgz|tar)"
)
SEVERAL_PLATFORMS = re.compile(r"\b(?:TARGETPLATFORM|TARGETARCH|BUILDPLATFORM)\b")


def caveats(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage, beside: Beside = nothing) -> list[Caveat]:
    """Return the caveats of swapping the chosen stages of a Dockerfile: what is between stages, and in each."""
    between = [*_foreign_files(dockerfile, chosen, to), *_several_platforms(dockerfile, to)]
    foreign = {
        id(taken.instruction)
        for stage in dockerfile.stages
        for taken in stage.taken
        if taken.instruction.keyword == "COPY"
        and _beside(stage, taken)
        and taken.stage
        and taken.stage.root not in chosen
    }
    bodies: dict[int, list[Instruction]] = {root.index: [] for root in chosen}
    used = {root.index: [Use(root.line, root.image, "FROM")] for root in chosen}
    for stage, one, values in with_variables(dockerfile):
        if stage and stage.root.index in used and one is not stage.instruction:
            bodies[stage.root.index].append(one)
            used[stage.root.index].append(replace(_use(one, values), foreign=id(one) in foreign))
    told = image_caveats(chosen, to)
    for root in chosen:
        told += other_platform(root, [unquoted(flag.text.partition("=")[2]) for flag in root.instruction.flags], to)
    for _, taken in _taken(dockerfile, chosen, leaves=True):
        told += difference_caveats(_use(taken.instruction, {}), to)
    lines = {caveat.line for caveat in (*between, *told)}
    told += [
        Caveat(line, f"still takes files from {name}: a swap edits the images of FROM lines alone")
        for line, name in named_images(dockerfile)
        if line not in lines
    ]
    for root in chosen:
        told += use_caveats(used[root.index], root.python, to, Copied.by(bodies[root.index], beside))
        told += other_pythons(used[root.index], root.python, to)
    return [*told, *between, *(caveat for root in chosen for caveat in _publishers_caveats(used[root.index], root))]


def _use(instruction: Instruction, values: Mapping[str, str]) -> Use:
    said = instruction.said
    return Use(instruction.line, said, instruction.keyword, expanded=shell_expanded(said, values))


def _publishers_caveats(uses: Sequence[Use], stage: Stage) -> Iterator[Caveat]:
    """Yield what relies on the ENTRYPOINT, or on the user, of a publisher's image."""
    publisher = stage.python.name.repository.split("/")[-2:][0] if stage.python else ""
    if publisher in ENTRYPOINTS and not any(use.keyword == "ENTRYPOINT" for use in uses):
        for use in uses:
            if use.keyword == "CMD":
                said = f"has arguments for the ENTRYPOINT of {stage.image}, which is lost: {ENTRYPOINTS[publisher]}"
                yield Caveat(use.line, said, Weight.BREAKS)
    user = OWN_USERS.get(publisher, "")
    added = any(use.runs and "useradd" in use.text and user in use.text for use in uses)
    named = re.compile(rf"^\s*USER\s+{user}\b|\s--chown={user}\b", re.IGNORECASE)
    for use in uses if user and not added else ():
        if not use.runs and named.search(use.text):
            said = f"names the user {user}, whom only {stage.image} has: add it (RUN useradd {user})"
            yield Caveat(use.line, said, Weight.BREAKS)


def _several_platforms(dockerfile: Dockerfile, to: NewImage) -> Iterator[Caveat]:
    if len(to.platforms) == 1 and (variable := SEVERAL_PLATFORMS.search(dockerfile.text)):
        line = line_of(dockerfile.text, variable.start())
        yield Caveat(line, f"the file is built for several architectures, and {is_for(to)}")


def _taken(dockerfile: Dockerfile, chosen: Sequence[Stage], *, leaves: bool) -> Iterator[tuple[Stage, Taken]]:
    """Yield what goes from a chosen stage into one that is not, or what comes the other way, with the stage there."""
    for stage in dockerfile.stages:
        for taken in stage.taken:
            source = taken.stage is not None and taken.stage.root in chosen
            if source is leaves and (stage.root in chosen) is not leaves:
                yield stage, taken


def _foreign_files(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> Iterator[Caveat]:
    """Yield what goes between the chosen stages and a Python that stays, and the stages that could not be checked."""
    for stage in dockerfile.stages:
        if stage.missing is not None:
            yield Caveat(stage.line, f"{stage.missing} has no default: stage {stage.label} was not checked")
    for stage, taken in _taken(dockerfile, chosen, leaves=True):
        yield from _files_that_leave(stage, taken, to)
    for stage, taken in _taken(dockerfile, chosen, leaves=False):
        yield from _files_that_come(stage.root, taken, to)


def _files_that_come(here: Stage, taken: Taken, to: NewImage) -> Iterator[Caveat]:
    """Yield that a swapped stage takes files from an image, or from a stage that keeps its own Python."""
    source, line = taken.stage and taken.stage.root, taken.instruction.line
    python = taken.python
    where = f"stage {source.label}, which stays {source.image}" if source else f"{taken.name}, which stays"
    if python is None:
        changes = here.python is None or here.python.agrees_on != (to.implementation, to.python)
        installs = source is not None and any(PIP.search(one.said) for one in source.body)
        paths = taken.instruction.sources
        told = any(map(COMPILED.search, paths)) or (installs and any(map(PACKAGES.search, paths)))
        if source and changes and told:
            yield Caveat(line, f"takes packages from {where}: whether they are for {to.command} is not known")
    elif python.agrees_on != (to.implementation, to.python) and not _tools(taken) and not _beside(here, taken):
        todo = f"; swap that stage too ({source.option})" if source else ""
        said = f"takes files from {where}: what was compiled there does not load in {to.command}{todo}"
        yield Caveat(line, said, Weight.BREAKS)


def _beside(here: Stage, taken: Taken) -> bool:
    """Return whether the interpreter itself comes from there, by its versioned name: it stays beside the image's."""
    version = taken.python.python if taken.python else None
    own = re.compile(rf".*/bin/python{re.escape(version)}") if version else None
    same = [one for one in here.taken if (one.stage, one.name) == (taken.stage, taken.name)]
    return own is not None and any(own.fullmatch(path) for one in same for path in one.instruction.sources)


def _files_that_leave(stage: Stage, taken: Taken, to: NewImage) -> Iterator[Caveat]:
    """Yield that files of a swapped stage go into one that keeps its own Python."""
    here, line, paths = stage.root, taken.instruction.line, taken.instruction.sources
    label = taken.stage.root.label if taken.stage else ""
    said = f"takes files from stage {label}, which becomes {to.command}: what was compiled there does not load in"
    if here.python is not None:
        if here.python.agrees_on != (to.implementation, to.python) and not _tools(taken):
            own = f"{here.python.implementation}{here.python.python}" if here.python.python else "the Python"
            todo = f"swap that stage too ({here.option})"
            yield Caveat(line, f"{said} {own} of {here.image}, which stays; {todo}", Weight.BREAKS)
    elif stage.runs is not here:
        interpreter = any(map(INTERPRETER.fullmatch, paths))
        if interpreter and (mend := older_libraries(here.parts, to.suite)):
            text = f"takes the interpreter of {to.suite}, which does not start with the older libraries of {here.image}"
            yield Caveat(line, f"{text}: {mend}", Weight.BREAKS)
    elif any(map(PACKAGES.search, paths)):
        yield Caveat(line, f"{said} another Python, and {here.image} does not show which it has")


def named_images(dockerfile: Dockerfile) -> list[tuple[int, str]]:
    """Return the lines that copy or mount from a Python image itself, not from a stage, with its name."""
    return [
        (taken.instruction.line, taken.name)
        for stage in dockerfile.stages
        for taken in stage.taken
        if taken.stage is None
        and taken.python is not None
        and taken.python.maker is not Maker.OTHER
        and not _tools(taken)
    ]


def brought_python(dockerfile: Dockerfile) -> tuple[Instruction, Stage] | None:
    """Return the first instruction that installs a Python into an image without, and its stage."""
    for stage, instruction in dockerfile.instructions:
        text = instruction.said if instruction.keyword == "RUN" else ""
        installed = [match[0] for match in INSTALLED.finditer(text.replace("\n", " "))]
        if stage and (BRINGS_PYTHON.search(text) or any(map(SYSTEMS_PYTHON.search, installed))):
            return instruction, stage
    return None


def _tools(taken: Taken) -> bool:
    """Return whether only programs are copied that run without a Python: uv."""
    names = {path.rpartition("/")[2] for path in taken.instruction.sources}
    return taken.instruction.keyword == "COPY" and bool(names) and names <= TOOLS
