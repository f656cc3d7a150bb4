"""What a person must know about a swap of stages: what goes between them, and who chooses their images."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from interlock.swap.caveats import (
    RUNS,
    Caveat,
    Use,
    Weight,
    difference_caveats,
    image_caveats,
    is_for,
    other_platform,
    use_caveats,
)
from interlock.swap.dockerfile import Dockerfile, Instruction, Stage, is_list, own_argument, unquoted
from interlock.swap.image_names import Maker, NewImage, python_image, variables
from interlock.swap.other_bases import has_older_libraries, instead
from interlock.swap.other_pythons import other_pythons
from interlock.swap.paths import FROM_OPTION, INSTALLED, INTERPRETER, copied_paths, python_of

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
SEVERAL_PLATFORMS = re.compile(r"\b(?:TARGETPLATFORM|TARGETARCH|BUILDPLATFORM)\b")


def caveats(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> list[Caveat]:
    """Return the caveats of swapping the chosen stages of a Dockerfile, in the order of the lines."""
    found = [
        *image_caveats(chosen, to),
        *_foreign_files(dockerfile, chosen, to),
        *_variable_caveats(dockerfile, chosen),
        *_platform_caveats(dockerfile, chosen, to),
    ]
    told = {one.line for one in found}
    found += [
        Caveat(line, f"still takes files from {name}: a swap edits the images of FROM lines alone")
        for line, name in named_images(dockerfile)
        if line not in told
    ]
    for stage in chosen:
        uses = [Use(stage.line, stage.image, "FROM"), *(_use(one) for one in _below(dockerfile, stage))]
        found += use_caveats(uses, stage.python, to)
        found += other_pythons(uses, stage.python, to)
        found += _publishers_caveats(uses, stage)
    return sorted(dict.fromkeys(found), key=lambda one: one.line)


def _publishers_caveats(uses: Sequence[Use], stage: Stage) -> Iterator[Caveat]:
    """Yield what relies on the ENTRYPOINT, or on the user, of a publisher's image."""
    publisher = stage.python.name.repository.split("/")[-2:][0] if stage.python else ""
    if publisher in ENTRYPOINTS and not any(one.keyword == "ENTRYPOINT" for one in uses):
        for one in uses:
            if one.keyword == "CMD":
                said = f"has arguments for the ENTRYPOINT of {stage.image}, which is lost: {ENTRYPOINTS[publisher]}"
                yield Caveat(one.line, said, Weight.BREAKS)
    user = OWN_USERS.get(publisher, "")
    added = any(one.runs and "useradd" in one.text and user in one.text for one in uses)
    named = re.compile(rf"^\s*USER\s+{user}\b|\s--chown={user}\b", re.IGNORECASE)
    for one in uses if user and not added else ():
        if not one.runs and named.search(one.text):
            said = f"names the user {user}, whom only {stage.image} has: add it (RUN useradd {user})"
            yield Caveat(one.line, said, Weight.BREAKS)


def _variable_caveats(dockerfile: Dockerfile, chosen: Sequence[Stage]) -> Iterator[Caveat]:
    """Yield the variables that can choose, or no longer choose, the image from outside."""
    for stage in chosen:
        argument = own_argument(dockerfile, stage, chosen)
        if argument is not None:
            text = f"--build-arg {argument.name}=... from outside still chooses another image"
            yield Caveat(argument.instruction.line, text)
        dropped = variables(argument.raw if argument else stage.token.text) if stage.default is None else []
        if dropped:
            names = " and ".join(dict.fromkeys(one.name for one in dropped))
            yield Caveat(stage.line, f"the image no longer depends on {names}", Weight.KNOW)


def _platform_caveats(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> Iterator[Caveat]:
    """Yield the architectures that a stage is built for and the new image is not for."""
    if not to.platforms:
        return
    for stage in chosen:
        asked = [unquoted(flag.text.partition("=")[2]) for flag in stage.instruction.flags]
        yield from other_platform(stage, asked, to)
    if len(to.platforms) == 1 and (found := SEVERAL_PLATFORMS.search(dockerfile.text)):
        line = dockerfile.text.count("\n", 0, found.start()) + 1
        yield Caveat(line, f"the file is built for several architectures, and {is_for(to)}")


def _below(dockerfile: Dockerfile, root: Stage) -> list[Instruction]:
    """Return the instructions that run on a stage's image: its own and those of the stages that start from it."""
    stages = [stage for stage in dockerfile.stages if dockerfile.root_of(stage).index == root.index]
    return [instruction for stage in stages for instruction in stage.body]


def _use(instruction: Instruction) -> Use:
    """Return what an instruction runs: its joined text without the keyword, a list as its words, and its heredocs.

    Of one that runs nothing the text is all of it.
    """
    text = instruction.text
    if instruction.keyword in RUNS:
        text = re.sub(r"^\s*\S+\s+(?:--\S+\s+)*(?:CMD\s+)?", "", text, count=1)
        text = " ".join(json.loads(text)) if is_list(text) else text
    return Use(instruction.line, f"{text}\n{instruction.heredoc}", instruction.keyword)


def _foreign_files(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> Iterator[Caveat]:
    """Yield what goes between the chosen stages and a Python that stays, and the stages that could not be checked."""
    swapped = {stage.index for stage in chosen}
    for stage in dockerfile.stages:
        if stage.missing is not None:
            yield Caveat(stage.line, f"{stage.missing} has no default: stage {stage.label} was not checked")
        here = dockerfile.root_of(stage)
        for instruction, name in _copies_from(stage):
            source = dockerfile.find(name, stage.index)
            there = dockerfile.root_of(source) if source else None
            if there is not None and there.index in swapped and here.index not in swapped:
                yield from _files_that_leave(dockerfile, stage, instruction, there, to)
                yield from difference_caveats(_use(instruction), to)
            elif here.index in swapped and (there is None or there.index not in swapped):
                yield from _files_that_come(instruction, there, name, here, to)


def _files_that_come(
    instruction: Instruction, source: Stage | None, name: str, here: Stage, to: NewImage
) -> Iterator[Caveat]:
    """Yield that a swapped stage takes files from an image, or from a stage that keeps its own Python."""
    python = source.python if source else python_image(name)
    where = f"stage {source.label}, which stays {source.image}" if source else f"{name}, which stays"
    if python is None:
        changes = here.python is None or here.python.agrees_on != (to.implementation, to.python)
        if source and changes and any(map(COMPILED.search, copied_paths(instruction))):
            yield Caveat(
                instruction.line, f"takes packages from {where}: whether they are for {to.command} is not known"
            )
    elif python.agrees_on != (to.implementation, to.python) and not _tools(instruction):
        text = f"takes files from {where}: what was compiled there does not load in {to.command}"
        yield Caveat(instruction.line, f"{text}{_both(source)}", Weight.BREAKS)


def _both(stays: Stage | None) -> str:
    """Return what to do about a stage that keeps its own Python."""
    return f"; swap that stage too ({stays.option})" if stays else ""


def _files_that_leave(
    dockerfile: Dockerfile, stage: Stage, instruction: Instruction, source: Stage, to: NewImage
) -> Iterator[Caveat]:
    """Yield that files of a swapped stage go into one that keeps its own Python."""
    here = dockerfile.root_of(stage)
    said = (
        f"takes files from stage {source.label}, which becomes {to.command}: what was compiled there does not load in"
    )
    if here.python is not None:
        if here.python.agrees_on != (to.implementation, to.python) and not _tools(instruction):
            own = f"{here.python.implementation}{here.python.python}" if here.python.python else "the Python"
            yield Caveat(instruction.line, f"{said} {own} of {here.image}, which stays{_both(here)}", Weight.BREAKS)
    elif python_of(dockerfile, stage) != here.index:
        if has_older_libraries(here.image, to.suite) and any(map(INTERPRETER.fullmatch, copied_paths(instruction))):
            text = f"takes the interpreter of {to.suite}, which does not start with the older libraries of {here.image}"
            todo = instead(here.image).strip(" .") or f"start from debian:{to.suite}-slim"
            yield Caveat(instruction.line, f"{text}: {todo[:1].lower()}{todo[1:]}", Weight.BREAKS)
    elif any(map(PACKAGES.search, copied_paths(instruction))):
        yield Caveat(instruction.line, f"{said} another Python, and {here.image} does not show which it has")


def named_images(dockerfile: Dockerfile) -> list[tuple[int, str]]:
    """Return the lines that copy or mount from a Python image itself, not from a stage, with its name."""
    return [
        (instruction.line, name)
        for stage in dockerfile.stages
        for instruction, name in _copies_from(stage)
        if dockerfile.find(name, stage.index) is None
        and (python := python_image(name)) is not None
        and python.maker is not Maker.OTHER
        and not _tools(instruction)
    ]


def brought_python(dockerfile: Dockerfile) -> tuple[Instruction, Stage] | None:
    """Return the first instruction that installs a Python into an image without, and its stage."""
    return next(
        (
            (one, stage)
            for stage in dockerfile.stages
            for one in stage.body
            if one.keyword == "RUN" and _installs_python(_use(one).text)
        ),
        None,
    )


def _installs_python(text: str) -> bool:
    return "uv python install" in text or any(
        SYSTEMS_PYTHON.search(found[0]) for found in INSTALLED.finditer(text.replace("\n", " "))
    )


def _tools(instruction: Instruction) -> bool:
    """Return whether only programs are copied that run without a Python: uv."""
    names = {path.rpartition("/")[2] for path in copied_paths(instruction)}
    return instruction.keyword == "COPY" and bool(names) and names <= TOOLS


def _copies_from(stage: Stage) -> list[tuple[Instruction, str]]:
    """Return the instructions that copy or mount from a stage or an image, with its name."""
    found = [(instruction, FROM_OPTION.search(flag.text)) for instruction in stage.body for flag in instruction.flags]
    return [(instruction, match[1].strip("\"'")) for instruction, match in found if match]
