"""Puts another Python image into a Dockerfile's FROM lines, and takes it out again. Pure: text in, text out."""

from interlock.swap.caveats import Caveat
from interlock.swap.edits import Swapped, changed_lines, swapped
from interlock.swap.images import (
    Flavour,
    ImageName,
    Maker,
    NewImage,
    PythonImage,
    new_image,
    parse_name,
    python_image,
)
from interlock.swap.paths import FoundPath
from interlock.swap.revert import reverted
from interlock.swap.stages import Stage, read

__all__ = [
    "Caveat",
    "Flavour",
    "FoundPath",
    "ImageName",
    "Maker",
    "NewImage",
    "PythonImage",
    "Stage",
    "Swapped",
    "changed_lines",
    "new_image",
    "parse_name",
    "python_image",
    "python_stages",
    "reverted",
    "swapped",
]


def python_stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile that start from a Python image, in their order."""
    return [stage for stage in read(text).stages if stage.python is not None]
