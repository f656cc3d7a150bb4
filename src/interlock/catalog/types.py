"""The base of all models, the kinds of text that they hold, fixed paths in cells, and labels VARIANT+MODE."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
ModuleName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
# A file or folder below the one that the key is about.
PathBelow = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$")]
# A URL, a path below pool/ of the Debian archive, or pip/NAME==VERSION from the package index that pip uses.
SourceLocation = Annotated[
    str,
    StringConstraints(
        pattern=r"^((https?://|pool/)[A-Za-z0-9._/~+%:@=-]+|pip/[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.]+)$"
    ),
]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/+-]+$")]
# A folder of this machine: absolute, below the home folder, or below what an environment variable names.
MachinePath = Annotated[str, StringConstraints(pattern=r"^(/|~/|\$[A-Z][A-Z0-9_]*/)[A-Za-z0-9._/+-]+$")]
PinnedReference = Annotated[str, StringConstraints(pattern=r"^[a-z0-9./:_-]+@sha256:[0-9a-f]{64}$")]
# No control characters but tab and line feed: people read it, and shells and headers get it.
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")]
# Numbers from a process, a host or a file are believed within these bounds alone, and a boolean is none of them.
MOST_SECONDS, LEAST_VALUE_S, MOST_COUNT = 1e8, 1e-12, 2**63 - 1
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=0, le=MOST_COUNT, strict=True)]
Finite = Annotated[float, Field(allow_inf_nan=False, strict=True)]
Version = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+([abc]|rc)?[0-9]*$")]
# A word between double quotes in a shell script, in which only $PREFIX is expanded.
ShellWord = Annotated[
    str, StringConstraints(pattern=r'^([^"`\\$\x00-\x1f\x7f]|\$PREFIX([^A-Za-z0-9_"`\\$\x00-\x1f\x7f]|$))*$')
]
PackageName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]*$")]
EnvironmentName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
# A variant, or variant+mode.
Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*(\+[a-z0-9][a-z0-9.-]*)?$")]
Date = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
PublicationDate = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}(-[0-9]{2}){0,2}$")]


def _requirement(text: str) -> str:
    try:
        parsed = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"'{text}' is not a requirement ({str(error).splitlines()[0]})") from None
    if parsed.url and parsed.url.startswith("file:"):
        raise ValueError(f"'{text}' names a file of this machine, which containers do not have")
    return text


def _python_versions(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError(f"'{text}' is no range of Python versions: write it as '>=3.8'") from None
    return text


# PEP 508: a package, its versions, and a marker that says where it is needed.
RequirementLine = Annotated[str, AfterValidator(_requirement)]
PythonVersions = Annotated[str, AfterValidator(_python_versions)]
# Paths in a cell: the instruments and workloads (read-only), and a tmpfs that workloads write to.
MOUNT = "/interlock"
# What a workload may ask for beyond what every cell has: to be root (still without any capability, but the owner of the
# image's files), or that the image's files can be changed.
Right = Literal["root", "writable-root"]
SCRATCH = "/scratch"
# A volume: the engine's file system without the storage driver of images.
DISK = "/disk"
# Where an image's interpreter is installed, except one from Debian's packages.
PREFIX = "/usr/local"
TWIN = "twin"
# Stands for the variant in the label of a limit, whose own name stands for the mode.
LIMIT = "limit"
DEFAULT_BASELINE = "cpython-3.13"


class Data(BaseModel):
    """A model that cannot be changed and refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def label_of(variant: str, mode: str | None) -> str:
    """Return VARIANT or VARIANT+MODE, as results, reports and orders name it."""
    return variant if mode is None else f"{variant}+{mode}"


def split_label(label: str) -> tuple[str, str | None]:
    """Return the variant and the mode that `label_of` joined."""
    variant, joined, mode = label.partition("+")
    return variant, mode if joined else None


def slug(text: str) -> str:
    """Return the text as a part of a file or container name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")
