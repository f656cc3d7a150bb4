"""Which stages of a Dockerfile are swapped, and why none can be."""

from __future__ import annotations

from interlock.errors import LeftError, SwapError
from interlock.swap.dockerfile import Dockerfile, Stage
from interlock.swap.image_names import agreeing_image_lines, refuse_windows, require_image_line
from interlock.swap.other_bases import instead, no_python_error
from interlock.swap.stage_caveats import brought_python, named_images

STAGE_NOUN = "stage"


def choose_stages(dockerfile: Dockerfile, name: str | None, file: str) -> list[Stage]:
    """Return the stages that start from a Python image, all from the same Python; or the one of this name or number.

    Raises SwapError if there is none, if they differ, and if the image is not known.
    """
    if not dockerfile.stages:
        raise SwapError(
            file=file,
            found="has no FROM line",
            todo="Name a Dockerfile, a compose file, a manifest or a devcontainer.json.",
        )
    if name is not None:
        chosen = [_named_stage(dockerfile, name, file)]
    else:
        chosen = agreeing_image_lines(dockerfile.stages, STAGE_NOUN, file)
        if not chosen:
            raise _no_stage_error(dockerfile, file)
    refuse_windows(chosen, file)
    return chosen


def _no_stage_error(dockerfile: Dockerfile, file: str) -> SwapError:
    """Return why no stage is chosen; a variable without a value may stand for a Python image."""
    for stage in dockerfile.stages:
        if stage.missing is not None:
            return _undefined_variable_error(dockerfile, stage, file)
    for line, name in named_images(dockerfile):
        raise LeftError(
            file=f"{file}:{line}",
            found=f"no stage starts from a Python image, but this line takes files from {name}",
            todo="Give it a stage of its own above (`FROM NAME AS python`, `--from=python`), and swap that.",
        )
    images = [stage for stage in dockerfile.stages if stage.parent is None]
    brought = brought_python(dockerfile)
    if brought and not any(stage.python or instead(stage.parts) for stage in images):
        instruction, stage = brought
        return LeftError(
            file=f"{file}:{instruction.line}",
            found=f"no stage starts from a Python image: this line installs the Python into {stage.image}",
            todo=f"Start stage {stage.label} from python:X-slim, leave the Python out here, and swap that.",
        )
    return no_python_error(images, STAGE_NOUN, file)


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
    """Return what a variable could stand for, by where it stands in the image's name."""
    variable = next((one for one in stage.variables if one.name == name), None)
    before = stage.token.text[: variable.start] if variable else ""
    if not before:
        return "python:3.13-slim" if variable and variable.end == len(stage.token.text) else "python"
    behind = stage.token.text[variable.end :] if variable else ""
    return "slim" if not before.endswith(":") else "3.13" if behind else "3.13-slim"
