"""The user's own defaults of options: [tool.interlock] of pyproject.toml, or interlock.toml, in the current folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from interlock import untrusted
from interlock.catalog.reading import parse, read_toml
from interlock.catalog.types import DEFAULT_BASELINE, Data, Label, Text
from interlock.errors import CatalogError

PYPROJECT, OWN_FILE = "pyproject.toml", "interlock.toml"
TABLE = "tool.interlock"


class TrialDefaults(Data):
    """Defaults of `trial`, each by the name of its option."""

    file: Annotated[Text | None, Field(description="Dockerfile.")] = None
    target: Annotated[Text | None, Field(description="Stage to build.")] = None
    build_arg: Annotated[
        list[Text], Field(description="NAME=VALUE, or NAME: from the shell; as of docker build. `swap --try` too.")
    ] = []
    cmd: Annotated[Text | None, Field(description="Tests to run in the built image.")] = None
    http: Annotated[Text | None, Field(description="[HOST]:PORT/PATH where a healthy service answers 2xx.")] = None
    load: Annotated[Text | None, Field(description="Load to put on the service at {url}.")] = None
    env: Annotated[list[Text], Field(description="NAME=VALUE, or NAME: from the shell.")] = []
    cpus: Annotated[int | None, Field(ge=1, description="CPUs of the service during a trial.")] = None
    healthy_within: Annotated[float | None, Field(ge=1, description="Seconds until the service is healthy.")] = None


class AuditDefaults(Data):
    """Defaults of `audit`."""

    requirement: Annotated[list[Text], Field(description="Files of dependencies.")] = []
    extra: Annotated[list[Text], Field(description="Extras of the project.")] = []
    group: Annotated[list[Text], Field(description="Dependency groups.")] = []


class Defaults(Data):
    """Defaults of options: an option on the command line wins."""

    variants: Annotated[list[Label], Field(description="Variants of `trial`, `audit` and `matrix`.")] = []
    workloads: Annotated[
        dict[str, Annotated[float, Field(gt=0)]],
        Field(description="What the service does, by workload or workload/benchmark, with weights: `pick`, `matrix`."),
    ] = {}
    cpus: Annotated[int | None, Field(ge=1, description="CPUs of the machine of production: `pick`.")] = None
    trial: TrialDefaults = TrialDefaults()
    audit: AuditDefaults = AuditDefaults()

    def options(self, command: str) -> dict[str, tuple[str, Any]]:
        """Return a command's defaults by parameter, each with the key that sets it."""
        audit, trial = self.audit, self.trial
        weights = [f"{name}={weight:g}" for name, weight in self.workloads.items()]
        variants = ("variants", ",".join(self.variants))
        # `audit` has no modes, because they only say how an interpreter is started.
        plain = ("variants", ",".join(dict.fromkeys(label.partition("+")[0] for label in self.variants)))
        # The baseline of `matrix` is one of its rows.
        rows = ("variants", ",".join(dict.fromkeys([DEFAULT_BASELINE, *self.variants]) if self.variants else ()))
        by_command: dict[str, dict[str, tuple[str, Any]]] = {
            "pick": {"workload": ("workloads", weights), "cpus": ("cpus", self.cpus)},
            "matrix": {"variants": rows, "workloads": ("workloads", ",".join(self.workloads))},
            "audit": {"variants": plain, **{name: (f"audit.{name}", value) for name, value in audit}},
            "swap": {"build_arg": ("trial.build_arg", trial.build_arg)},
            "trial": {"variants": variants, **{name: (f"trial.{name}", value) for name, value in trial}},
        }
        return {name: (key, value) for name, (key, value) in by_command[command].items() if value not in (None, "", [])}


def own_table(folder: Path) -> Path | None:
    """Return the file in a folder that has the defaults; None without one, CatalogError for two."""
    own, pyproject = folder / OWN_FILE, folder / PYPROJECT
    try:
        is_named = "interlock" in untrusted.read_text(pyproject)
    except (OSError, UnicodeDecodeError):  # not a file for Interlock
        is_named = False
    has_table = is_named and _own_part(pyproject) is not None
    if has_table and own.is_file():
        problem = f"{PYPROJECT} has [{TABLE}] too"
        raise CatalogError(file=OWN_FILE, found=problem, todo="Keep one of them.")
    if has_table:
        return pyproject
    return own if own.is_file() else None


def read_defaults(path: Path) -> Defaults:
    """Return what a file says; CatalogError names the key that is wrong."""
    if path.name == PYPROJECT:
        return parse(path.parent, path, Defaults, _own_part(path) or {}, f"{TABLE}.")
    return parse(path.parent, path, Defaults, read_toml(path.parent, path))


def _own_part(pyproject: Path) -> Any:
    """Return what a file says of Interlock, in whichever way it is written; None without it."""
    tool = read_toml(pyproject.parent, pyproject).get("tool")
    return tool.get("interlock") if isinstance(tool, dict) else None
