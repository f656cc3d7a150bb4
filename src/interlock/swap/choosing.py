"""Chooses the image lines of a file that are swapped, and says why none can be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from interlock.errors import LeftError, SwapError, nearest
from interlock.swap.caveats import Weight
from interlock.swap.dockerfile import Dockerfile, Stage
from interlock.swap.image_names import Flavour, ImageLine, Maker, find_image_line
from interlock.swap.instructions import Instruction
from interlock.swap.manifests import EXPRESSION, ImageEntry, ImageManifest, ParsedFile
from interlock.swap.paths import INSTALLED

STAGE_NOUN = "stage"
# A package of a system's Python: python3, python-3.12, python3.12.
SYSTEMS_PYTHON = re.compile(r"\spython-?[3$][\w.{}]*(?!\S)")
# A line that fetches or compiles a Python.
BRINGS_PYTHON = re.compile(
    r"\buv\s+(?:python\s+install|sync|venv)\b|\bpyenv\s+install\b|\b(?:conda|mamba)\s+env\s+create\b"
    r"|\bconda\s+(?:create|install)\b[^;&|\n]*\bpython=|Python-(?:[23]\.\d+|\$)[\w.{}]*\.(?:tgz|tar)"
)

AnyImageLine = TypeVar("AnyImageLine", bound=ImageLine)


def choose_lines(parsed: ParsedFile, name: str | None, file: str) -> list[int]:
    """Return the numbers of the image lines to swap: all, which must have the same Python, or the one named.

    SwapError if there is none, if they differ, or if the image is not known.
    """
    if isinstance(parsed, Dockerfile):
        return [stage.index for stage in _choose_stages(parsed, name, file)]
    return [entry.index for entry in _choose_entries(parsed, name, file)]


def _choose_stages(dockerfile: Dockerfile, name: str | None, file: str) -> list[Stage]:
    if not dockerfile.stages:
        raise SwapError(
            file=file,
            found="has no FROM line",
            todo="Name a Dockerfile, a compose file, a manifest or a devcontainer.json.",
        )
    if name is not None:
        chosen = [_named_stage(dockerfile, name, file)]
    else:
        chosen = _agreeing_image_lines(dockerfile.stages, STAGE_NOUN, file)
        if not chosen:
            raise _no_stage_error(dockerfile, file)
    _refuse_windows(chosen, file)
    return chosen


def _no_stage_error(dockerfile: Dockerfile, file: str) -> SwapError:
    """Return why no stage is chosen; a variable without a value may stand for a Python image."""
    for stage in dockerfile.stages:
        if stage.missing is not None:
            return _undefined_variable_error(dockerfile, stage, file)
    for line, name in dockerfile.named_images:
        raise LeftError(
            file=f"{file}:{line}",
            found=f"no stage starts from a Python image, but this line takes files from {name}",
            todo="Give it a stage of its own above (`FROM NAME AS python`, `--from=python`), and swap that.",
        )
    images = [stage for stage in dockerfile.stages if stage.parent is None]
    brought = _brought_python(dockerfile)
    if brought and not any(stage.python or stage.parts.instead for stage in images):
        instruction, stage = brought
        return LeftError(
            file=f"{file}:{instruction.line}",
            found=f"no stage starts from a Python image: this line installs the Python into {stage.image}",
            todo=f"Start stage {stage.label} from python:X-slim, leave the Python out here, and swap that.",
        )
    return _no_python_error(images, STAGE_NOUN, file)


def _brought_python(dockerfile: Dockerfile) -> tuple[Instruction, Stage] | None:
    """Return the first instruction that installs a Python into an image without one, and its stage."""
    for stage, instruction in dockerfile.instructions:
        text = instruction.said if instruction.keyword == "RUN" else ""
        installed = [match[0] for match in INSTALLED.finditer(text.replace("\n", " "))]
        if stage and (BRINGS_PYTHON.search(text) or any(map(SYSTEMS_PYTHON.search, installed))):
            return instruction, stage
    return None


def _named_stage(dockerfile: Dockerfile, name: str, file: str) -> Stage:
    stage = require_image_line(dockerfile.stages, name, STAGE_NOUN, file)
    where = f"{file}:{stage.line}"
    if stage.parent is not None:
        raise SwapError(
            file=where,
            found=f"stage {stage.label} starts from stage {stage.parent.label}, not from an image",
            todo=f"Name the stage with the image: {stage.root.option}.",
        )
    if stage.missing is not None:
        raise _undefined_variable_error(dockerfile, stage, file)
    if stage.image.lower() == "scratch":
        raise SwapError(
            file=where,
            found=f"stage {stage.label} starts from nothing (FROM scratch)",
            todo="Name a stage that has Python in it.",
        )
    return stage


def _undefined_variable_error(dockerfile: Dockerfile, stage: Stage, file: str) -> SwapError:
    """Return the error for an image in a variable without a value; the line to edit is the ARG's or else the FROM's."""
    name = stage.missing or ""
    declared = {
        name: instruction.line
        for above, instruction in dockerfile.instructions
        if above is None and instruction.keyword == "ARG"
        for name, _ in instruction.defaults
    }
    line = declared.get(name)
    lacking, todo = "has no default", f"Write a default there, for instance `ARG {name}={_example(stage, name)}`."
    if line is None:
        todo = f"Write `ARG {name}=...` with a default above the first FROM, or name the image itself."
    elif name in dockerfile.arguments:
        lacking, todo = "has no value that a name could have", "Name the image itself."
    return SwapError(
        file=f"{file}:{line or stage.line}",
        found=f"{name} {lacking}, so line {stage.line} (`FROM {stage.token.text}`) names no image",
        todo=todo,
    )


def _example(stage: Stage, name: str) -> str:
    """Return an example of a variable's value, by its place in the image's name."""
    variable = next((variable for variable in stage.variables if variable.name == name), None)
    before = stage.token.text[: variable.start] if variable else ""
    if not before:
        return "python:3.13-slim" if variable and variable.end == len(stage.token.text) else "python"
    behind = stage.token.text[variable.end :] if variable else ""
    return "slim" if not before.endswith(":") else "3.13" if behind else "3.13-slim"


def _choose_entries(manifest: ImageManifest, name: str | None, file: str) -> list[ImageEntry]:
    entries, noun = manifest.entries, manifest.noun
    # A build's argument that names Python counts more than its Dockerfile, which may be swapped.
    heavy = [caveat.line for caveat in manifest.stays if caveat.weight is not Weight.KNOW]
    error, where = (LeftError, f"{file}:{heavy[0]}") if heavy else (SwapError, file)
    if not entries and not manifest.elsewhere:
        raise error(file=where, found="names no image", todo=manifest.instead or "Name a file that does.")
    if entries and name is not None:
        chosen = [require_image_line(entries, name, noun, file)]
    else:
        chosen = _agreeing_image_lines(entries, noun, file)
    for entry in chosen or entries:
        if entry.missing is not None:
            problem, todo = _no_image(entry, noun, entry.missing)
            raise SwapError(file=f"{file}:{entry.line}", found=problem, todo=todo)
    if not chosen and manifest.elsewhere:
        there = f"no {noun} starts from a Python image, but the file names one"
        raise LeftError(file=f"{file}:{manifest.stays[0].line}", found=there, todo=manifest.instead)
    if not chosen and manifest.instead:
        there = ", ".join(dict.fromkeys(entry.image for entry in entries))
        raise error(file=where, found=f"no {noun} starts from a Python image (there is {there})", todo=manifest.instead)
    if not chosen:
        raise _no_python_error(entries, noun, file)
    _refuse_windows(chosen, file)
    on_line = Counter(entry.line for entry in entries)
    for entry in chosen:
        if on_line[entry.line] > 1:
            raise SwapError(
                file=f"{file}:{entry.line}",
                found="several images on one line, and a comment can keep only one",
                todo="Write each on a line of its own.",
            )
    return chosen


def _no_image(entry: ImageEntry, noun: str, missing: str) -> tuple[str, str]:
    """Return what chooses the image if its name is not known, and what to do."""
    if missing == EXPRESSION:
        return (
            f"an expression of the workflow chooses the image ({entry.image})",
            "Change the values that it takes by hand, or write the image's name there.",
        )
    if noun == "job":  # a job's variable cannot have a default after its name
        return (
            f"the variable {missing} chooses the image ({entry.image}), in each job perhaps another",
            "Write the image's name there; then it is swapped.",
        )
    return (
        f"{missing} has no default here, so the image of '{entry.image}' is not known",
        f"Write a default: ${{{missing}:-...}}.",
    )


def require_image_line(image_lines: Sequence[AnyImageLine], name: str, noun: str, file: str) -> AnyImageLine:
    """Return the image line of this name or number; raise SwapError with the known ones otherwise."""
    image_line = find_image_line(image_lines, name)
    if image_line is not None:
        return image_line
    known = [image_line.name or str(image_line.index) for image_line in image_lines]
    raise SwapError(file=file, found=f"there is no {noun} '{name}'", todo=nearest(name, known))


def _agreeing_image_lines(image_lines: Sequence[AnyImageLine], noun: str, file: str) -> list[AnyImageLine]:
    """Return all image lines whose image is only Python; SwapError if they have different Pythons."""
    chosen = [image_line for image_line in image_lines if image_line.swappable]
    if len({image_line.python.agrees_on for image_line in chosen if image_line.python}) > 1:
        each = ", ".join(f"{image_line.label} (line {image_line.line}) is {image_line.image}" for image_line in chosen)
        raise SwapError(
            file=file,
            found=f"its {noun}s start from different Pythons: {each}",
            todo=f"Name the {noun} to swap with --stage, or use one Python in all.",
        )
    return chosen


def _refuse_windows(chosen: Sequence[ImageLine], file: str) -> None:
    """Raise SwapError for an image of Windows, which no image for Linux can replace."""
    for image_line in chosen:
        if image_line.python is not None and image_line.python.flavour is Flavour.WINDOWS:
            raise SwapError(
                file=f"{file}:{image_line.line}",
                found=f"{image_line.image} is an image of Windows",
                todo="Interlock's images are for Linux: leave this one, or name another with --stage.",
            )


def _no_python_error(image_lines: Sequence[ImageLine], noun: str, file: str) -> SwapError:
    for image_line in image_lines:
        if image_line.python is not None and image_line.python.maker is Maker.OTHER:
            return LeftError(
                file=f"{file}:{image_line.line}",
                found=f"{image_line.image} is not python:X: its paths, its user and what else it has would be lost",
                todo=f"{image_line.parts.instead}To swap it all the same, name its {noun}: {image_line.option}.",
            )
    images = ", ".join(dict.fromkeys(image_line.image for image_line in image_lines))
    known = "".join(dict.fromkeys(image_line.parts.instead for image_line in image_lines))
    return SwapError(
        file=file,
        found=f"no {noun} starts from a Python image (there is {images})",
        todo=known.strip() or f"If one of them contains Python, name its {noun} with --stage.",
    )
