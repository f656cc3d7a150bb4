"""docs/cli.md: every command with its arguments and options, from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING

from typer.core import TyperArgument, TyperCommand, TyperOption

from interlock.cli.main import COMMANDS, load_command

if TYPE_CHECKING:
    from typer._click import Context

PATH = "docs/cli.md"
HEAD = """\
<!-- Written by `interlock render`; do not edit. -->
# Commands

`interlock COMMAND --help` (or `-h`) shows the same in a terminal. `interlock --install-completion` makes your shell
complete commands and options. With `--json` an error is JSON too, on standard error, with its kind, file, key and
exit code.
"""


def page() -> str:
    """Return the text of docs/cli.md."""
    sections = [part for panel in _panels() for part in (f"## {panel}", *_sections(panel))]
    overview = "\n".join(map(_overview, _panels()))
    return "\n\n".join([HEAD.rstrip("\n"), overview, *sections]) + "\n"


def _panels() -> list[str]:
    return list(dict.fromkeys(entry.panel for entry in COMMANDS.values()))


def _overview(panel: str) -> str:
    names = [f"[`{name}`](#{name})" for name, entry in COMMANDS.items() if entry.panel == panel]
    return f"- {panel}: {', '.join(names)}"


def _sections(panel: str) -> Iterator[str]:
    for name, entry in COMMANDS.items():
        if entry.panel == panel:
            yield _section(name, load_command(name))


def _section(name: str, command: TyperCommand) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    parameters = [one for one in command.params if isinstance(one, TyperArgument | TyperOption) and not one.hidden]
    arguments = [_argument_usage(one) for one in parameters if isinstance(one, TyperArgument)]
    usage = " ".join(["interlock", name, *arguments, "[OPTIONS]"])
    rows = [_row(one, _type_of(one, context)) for one in parameters]
    table = ["| argument or option | value | default | meaning |", "|---|---|---|---|", *rows] if rows else []
    return "\n\n".join([f"### {name}", f"`{usage}`", inspect.cleandoc(command.help or ""), "\n".join(table)]).rstrip()


def _argument_usage(argument: TyperArgument) -> str:
    name = argument.display_name_raw + ("..." if argument.nargs != 1 else "")
    return name if argument.required else f"[{name}]"


def _type_of(parameter: TyperArgument | TyperOption, context: Context) -> str:
    """Return what to write for the value, empty for a switch."""
    if isinstance(parameter, TyperOption) and parameter.is_flag:
        return ""
    return f"`{parameter.metavar or parameter.display_type(context)}`"


def _row(parameter: TyperArgument | TyperOption, kind: str) -> str:
    names = ", ".join(f"`{one}`" for one in _names(parameter))
    default = "required" if parameter.required else _default(parameter.default)
    cells = (names, kind, default, parameter.help or "")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _names(parameter: TyperArgument | TyperOption) -> list[str]:
    if isinstance(parameter, TyperArgument):
        return [parameter.display_name_raw]
    return [*parameter.opts, *parameter.secondary_opts]


def _default(value: object) -> str:
    return (
        "" if value is None or isinstance(value, bool) else f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
    )
