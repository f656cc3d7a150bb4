"""What the extras of the package bring: modules that are loaded when they are used, and the line that installs them."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

from interlock.errors import MissingExtraError

# Modules without which a command that needs the extra cannot do its work. An extra may bring more.
EXTRAS = {
    "measure": ("numpy", "scipy", "pyperf"),
    "report": ("numpy", "scipy"),
    "export": ("numpy", "scipy", "pyarrow"),
    "sbom": ("debsbom",),
    "fleet": ("numpy", "scipy", "ansible"),
}


class LazyModule:
    """A module that is imported when something of it is used; MissingExtraError if it is not installed."""

    def __init__(self, name: str, extra: str) -> None:
        self._name, self._extra = name, extra

    def __getattr__(self, attribute: str) -> Any:
        try:
            found = getattr(importlib.import_module(self._name), attribute)
        except ModuleNotFoundError as error:
            if error.name != self._name:
                raise
            raise missing(f"what was asked for needs {self._name}", self._extra) from None
        setattr(self, attribute, found)
        return found


def require(extra: str, command: str) -> None:
    """Raise MissingExtraError if a module of the extra that a command needs is not installed."""
    for name in EXTRAS[extra]:
        if find_spec(name) is None:
            raise missing(f"`interlock {command}` needs {name}", extra)


def missing(what: str, extra: str) -> MissingExtraError:
    """Return the error of something that needs a module of an extra."""
    return MissingExtraError(
        found=f"{what}, which is not installed", todo=f"Install it: pip install 'interlock[{extra}]'"
    )
