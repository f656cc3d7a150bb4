"""What the log of a build says of a package that has no wheel: which one, and what its build lacks. Pure."""

from __future__ import annotations

import re

from interlock.engine.packages.pip_output import last_words
from interlock.engine.packages.remedies import system_package

# What BuildKit and terminals put around the lines of a step.
AROUND = re.compile(r"^#[0-9]+ (?:[0-9.]+ )?|\x1b\[[0-9;]*m", re.MULTILINE)
# In the words of pip, old and new, and of uv.
PACKAGE = r"['`]?([A-Za-z0-9][A-Za-z0-9._-]*(?:==[A-Za-z0-9.+!]+)?)"
NAMED = re.compile(
    rf"Failed building wheel for {PACKAGE}|Failed to build {PACKAGE}['`]? when |Failed to build {PACKAGE}[`\s]*$"
    rf"|for some pyproject\.toml based projects: {PACKAGE}",
    re.MULTILINE,
)
# If pip fails before a wheel is built it may name no package: then it is the one that it collected last.
COLLECTED, UNNAMED = re.compile(rf"^\s*Collecting {PACKAGE}", re.MULTILINE), "subprocess-exited-with-error"
COMPILERS = {
    "a C compiler": re.compile(
        r"\b(?:gcc|cc|g\+\+|c\+\+|clang)(?:-[0-9]+)?\b['`]?(?: failed: No such file|:? (?:command )?not found)"
        r"|no acceptable C(?:\+\+)? compiler|Unknown compiler\(s\)|No CMAKE_C(?:XX)?_COMPILER could be found"
    ),
    "a Rust compiler": re.compile(
        r"can't find Rust compiler|Rust toolchain|\b(?:cargo|rustc)\b['`]?(?: failed: No such file|.{0,20}not found)"
    ),
}


def unbuilt_words(log: str, tag: str) -> str:
    """Return why a package was not installed: that it has no wheel for the tag, what its build needs, and pip's words.

    Empty if the log tells of no such package.
    """
    said = AROUND.sub("", log)
    named = [next(filter(None, groups)) for groups in NAMED.findall(said)]
    if not named and UNNAMED in said:
        named = COLLECTED.findall(said)[-1:]
    if not named:
        return ""
    needs = [what for what, missing in COMPILERS.items() if missing.search(said)][:1]
    if not needs and (package := system_package(said)):
        needs = [f"what is in Debian's {package}"]
    how = f" and needs {needs[0]} to build" if needs else " and does not build"
    return f"{named[0].replace('==', ' ')} has no wheel for {tag}{how}; pip: {last_words(said)}"
