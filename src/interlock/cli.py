"""Build Python interpreters into images, measure them side by side, and say which one to run."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from interlock.commands import (
    across,
    archives,
    audit,
    building,
    experiments,
    exporting,
    fleet,
    machine,
    pick,
    registries,
    swap,
    trial,
)
from interlock.errors import InterlockError, Interrupted

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
errors = Console(stderr=True)

INTERRUPTED = 130

COMMANDS: dict[str, Callable[..., Any]] = {
    "render": building.render,
    "build": building.build,
    "push": registries.push_command,
    "pull": registries.pull_command,
    "check": building.check,
    "sbom": building.sbom_command,
    "save": archives.save_command,
    "load": archives.load_command,
    "matrix": experiments.matrix,
    "fleet": fleet.fleet_command,
    "report": experiments.report_command,
    "claims": experiments.claims_command,
    "audit": audit.audit_command,
    "pick": pick.pick_command,
    "trial": trial.trial_command,
    "compare": across.compare_command,
    "history": across.history_command,
    "export": exporting.export_command,
    "swap": swap.swap_command,
    "doctor": machine.doctor_command,
    "clean": machine.clean_command,
    "version": machine.version,
}
for name, function in COMMANDS.items():
    app.command(name=name)(function)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Interrupted


def main() -> None:
    """The entry point: one line for an error, and its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        app()
    except InterlockError as error:
        errors.print(Text(f"error: {error}"), soft_wrap=True)
        sys.exit(error.exit_code)
    except Interrupted:
        errors.print("error: interrupted; what this run had started is stopped and removed.")
        sys.exit(INTERRUPTED)
