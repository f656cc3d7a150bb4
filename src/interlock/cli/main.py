"""Build Python interpreters into images, measure them side by side, and say which one to run."""

from __future__ import annotations

import errno
import functools
import importlib
import inspect
import io
import json
import os
import signal
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command_from_info
from typer.models import CommandInfo

from interlock import __version__
from interlock.errors import ENDING_SIGNALS, InterlockError, Interrupted, NoEngineError, OutputError, require
from interlock.untrusted import forget_terminal

if TYPE_CHECKING:
    from typer._click import Context, Parameter


@dataclass(frozen=True)
class Entry:
    """A command's line in the list of commands, and where its function is below interlock.cli."""

    panel: str
    module: str
    function: str
    help: str


ANSWER, MEASURE, BUILD, SHARE, MAINTAIN = "Answer", "Measure", "Build", "Share", "Maintain"

# The list is data, so that `interlock --help` loads no command: a command's module is loaded when it is called.
COMMANDS = {
    "pick": Entry(ANSWER, "pick", "pick_command", "Recommend an image for your workloads, or advise to stay."),
    "audit": Entry(ANSWER, "audit", "audit_command", "Test whether your dependencies install and import."),
    "trial": Entry(ANSWER, "trial", "trial_command", "Run your own Dockerfile on several variants and compare them."),
    "init": Entry(ANSWER, "initial", "init_command", "Write defaults for a service from what its folder has."),
    "swap": Entry(ANSWER, "swap", "swap_command", "Change the Python image in a Dockerfile or manifest, and back."),
    "matrix": Entry(MEASURE, "matrix", "matrix", "Build variants, measure workloads on them and report: the main job."),
    "why": Entry(MEASURE, "why", "why_command", "Say where a benchmark waits, for which lock and for whom."),
    "fleet": Entry(MEASURE, "fleet", "fleet_command", "Measure a matrix on many hosts."),
    "report": Entry(MEASURE, "report", "report_command", "Show an experiment: the answer, what changed, what is open."),
    "claims": Entry(MEASURE, "report", "claims_command", "Check published claims against an experiment."),
    "compare": Entry(MEASURE, "report", "compare_command", "Show what changed between two experiments."),
    "export": Entry(MEASURE, "report", "export_command", "Write experiments as CSV tables."),
    "build": Entry(BUILD, "images", "build", "Build variants into tested, tagged images."),
    "check": Entry(BUILD, "images", "check", "Check that images can replace python:X-slim."),
    "sbom": Entry(BUILD, "images", "sbom_command", "Write an image's bill of materials (CycloneDX, JSON)."),
    "render": Entry(BUILD, "images", "render", "Write the generated files: Dockerfiles, schemas, docs."),
    "update": Entry(BUILD, "update", "update_command", "Take newer releases of sources, bases and images of others."),
    "facts": Entry(BUILD, "facts", "facts_command", "Read from signed lists what swap knows of Debian."),
    "train": Entry(BUILD, "training", "train_command", "Train variants that have no profile of optimisation."),
    "push": Entry(SHARE, "images", "push_command", "Push built variants to a registry."),
    "pull": Entry(SHARE, "images", "pull_command", "Pull variants: what the project published, or what a team pushed."),
    "publish": Entry(SHARE, "publishing", "publish_command", "Tag, sign and record what was pushed on each platform."),
    "doctor": Entry(MAINTAIN, "machine", "doctor_command", "Check this machine and suggest fixes."),
    "clean": Entry(MAINTAIN, "machine", "clean_command", "Remove what killed runs left behind."),
}  # fmt: skip
# The package's extra that a command needs.
EXTRA_OF = {
    "trial": "measure",
    "matrix": "measure",
    "why": "measure",
    "fleet": "fleet",
    **dict.fromkeys(("report", "claims", "compare", "export"), "report"),
    "sbom": "sbom",
    "update": "update",
    "facts": "update",
}
# The commands whose options have defaults in the user's own table.
OF_DEFAULTS = ("pick", "audit", "trial", "swap", "matrix")


class LazyGroup(TyperGroup):
    """List the commands from `COMMANDS`, and load a command's module only when it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            name: TyperCommand(name, help=entry.help, rich_help_panel=entry.panel) for name, entry in COMMANDS.items()
        }

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Return the options; switches default to False, because Typer would load pydantic to convert None."""
        parameters = super().get_params(ctx)
        for option in parameters:
            if isinstance(option, TyperOption) and option.is_flag and option.default is None:
                option.default = False
        return parameters

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, TyperCommand | None, list[str]]:
        """Return the command that the words name, with its options, and the remaining words."""
        name, _, rest = super().resolve_command(ctx, args)
        # A resumed matrix goes on with the options of its record; a resumed trial is given them again.
        resumed = name == "matrix" and any(word.partition("=")[0] == "--resume" for word in rest)
        # Without a build a swap needs no defaults: one is taken back whatever the user's file says.
        is_plain = name == "swap" and "--try" not in rest
        if name in OF_DEFAULTS and not resumed and not is_plain:
            with suppress(*[InterlockError] if {"-h", "--help"} & {*rest} else []):  # help is there with a wrong file
                taken = take_defaults(name, rest)
                ctx.default_map = {name: {option: value for option, (_, value) in taken.items()}}
        return name, load_command(name) if name in COMMANDS else None, rest


@dataclass(frozen=True)
class Given:
    """The file that has the user's defaults, and the key of each option that was taken from it."""

    file: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)

    def named(self, error: InterlockError) -> InterlockError:
        """Return the error for an option, with the file and the key that its value came from."""
        if error.file or error.key not in self.keys:
            return error
        return type(error)(file=self.file, key=self.keys[error.key], found=error.found, todo=error.todo)


given = Given()


def take_defaults(command: str, words: list[str]) -> dict[str, tuple[str, Any]]:
    """Return the user's defaults for a command, and remember the source of those that the command line leaves out."""
    global given  # noqa: PLW0603  a process has one command
    given = Given()
    here = Path.cwd()
    if not any((here / name).is_file() for name in ("pyproject.toml", "interlock.toml")):
        return {}
    from interlock.catalog import defaults  # noqa: PLC0415  pydantic, which --help need not wait for

    path = defaults.own_table(here)
    if path is None:
        return {}
    taken = defaults.read_defaults(path).options(command)
    typed = {word.partition("=")[0] for word in words}
    prefix = f"{defaults.TABLE}." if path.name == defaults.PYPROJECT else ""
    keys = {f"--{name.replace('_', '-')}": f"{prefix}{key}" for name, (key, _) in taken.items()}
    given = Given(path.name, {option: key for option, key in keys.items() if option not in typed})
    return taken


def load_command(name: str) -> TyperCommand:
    """Import a command's module and return the command with its options."""
    entry = COMMANDS[name]
    function = getattr(importlib.import_module(f"interlock.cli.{entry.module}"), entry.function)
    info = CommandInfo(name=name, callback=_guarded(name, function))
    command = get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=app.rich_markup_mode)
    assert isinstance(command, TyperCommand)  # noqa: S101  CommandInfo.cls is not set
    return command


def _guarded(name: str, function: Callable[..., None]) -> Callable[..., None]:
    """Return the command such that it ends at once if its extra is not installed; its help needs no extra.

    If no container engine answers, it says whether it can do without one.
    """
    way = f"`interlock {name}` cannot do this without one."
    if "engine" in inspect.signature(function).parameters:
        way = "Or do without containers: --engine host."

    @functools.wraps(function)
    def run(*arguments: Any, **options: Any) -> None:
        if name in EXTRA_OF:
            require(EXTRA_OF[name], name)
        try:
            function(*arguments, **options)
        except NoEngineError as error:
            raise error.with_todo(way) from None
        except InterlockError as error:
            if (named := given.named(error)) is not error:
                raise named from None
            raise

    return run


app = typer.Typer(
    cls=LazyGroup,
    help=__doc__,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(given: bool) -> None:
    if given:
        typer.echo(f"interlock {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None: ...


def _interrupt(number: int, _frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        forget_terminal()
    raise Interrupted(number)


class _Output(io.FileIO):
    """Standard output whose failures libraries do not mistake for their own."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno == errno.EIO and stat.S_ISCHR(os.fstat(self.fileno()).st_mode):
                forget_terminal()  # it is gone; its hangup comes later, or is kept away and ends nothing
                return len(data)
            raise OutputError(error) from None


def _open_closed_streams() -> None:
    """Replace a closed input by an empty one, and a closed output by one that nobody reads."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  until the end


def _watch_output(as_json: bool) -> None:
    """Make failures to write distinct from all others, up to the last character.

    Characters that a locale without UTF-8 lacks become question marks; JSON is always UTF-8.
    """
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:  # not a test's output
        raw = _Output(sys.stdout.fileno(), "wb", closefd=False)
        line_buffering, encoding = sys.stdout.line_buffering, "utf-8" if as_json else sys.stdout.encoding
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding, "replace", line_buffering=line_buffering)


def main() -> None:
    """Run the command line. Errors are one line on standard error, or JSON with --json. Only this function exits."""
    for number in ENDING_SIGNALS:
        # A signal that `nohup` ignores stays ignored.
        if (number, signal.getsignal(number)) != (signal.SIGHUP, signal.SIG_IGN):
            signal.signal(number, _interrupt)
    as_json = "--json" in sys.argv
    _open_closed_streams()
    _watch_output(as_json)
    try:
        # A wrong command line is printed by Typer, which also exits, or raised as TyperException.
        try:
            sys.exit(app(standalone_mode=not as_json))
        finally:
            sys.stdout.flush()
    except (InterlockError, Interrupted) as error:
        _end(error, as_json)
    except typer.TyperException as error:
        _print_json("UsageError", error.format_message(), error.exit_code)
        sys.exit(error.exit_code)
    except OutputError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.is_pipe:  # the reader has seen enough
            sys.exit(error.exit_code)
        _end(error, as_json)
    except Exception as error:
        from interlock.cli.failures import foreseen  # noqa: PLC0415  it loads what talks to the engine

        _end(foreseen(error, sys.argv), as_json)


def _end(error: InterlockError | Interrupted | OutputError, as_json: bool) -> NoReturn:
    with suppress(OSError):  # if nothing can be written, the exit code has to do
        if as_json:
            _print_json(type(error).__name__, str(error), error.exit_code, error)
        else:
            _print_line(str(error))
    sys.exit(error.exit_code)


def _print_line(message: str) -> None:
    from rich.console import Console  # noqa: PLC0415  a tenth of the time of `--help`
    from rich.text import Text  # noqa: PLC0415

    from interlock.results.commands import runnable  # noqa: PLC0415

    Console(stderr=True).print(Text(runnable(f"error: {message}")), soft_wrap=True)


def _print_json(kind: str, message: str, exit_code: int, error: BaseException | None = None) -> None:
    """Write an error for programs: its class, its place, what was found and what to do about it."""
    parts = {name: getattr(error, name, "") for name in ("file", "key", "found", "todo")}
    parts["found"] = parts["found"] or message
    document = {"schema_version": 1, "error": {"kind": kind, "message": message, **parts, "exit_code": exit_code}}
    sys.stderr.write(json.dumps(document, indent=1) + "\n")


REFERENCE = "docs/cli.md"
REFERENCE_HEAD = """\
<!-- Written by `interlock render`; do not edit. -->
# Commands

`interlock COMMAND --help` (or `-h`) shows the same in a terminal. `interlock --install-completion` makes your shell
complete commands and options."""
# An option that at least so many commands share is described once, above them.
SHARED = 4


def reference_page() -> str:
    """Return the text of docs/cli.md."""
    contexts = {name: typer.Context(load_command(name), info_name=f"interlock {name}") for name in COMMANDS}
    described = {name: _described(context) for name, context in contexts.items()}
    counts = Counter(line for lines in described.values() for line in lines if line.startswith("* `-"))
    shared = sorted(line for line, count in counts.items() if count >= SHARED)
    panels: dict[str, list[str]] = {}
    for name, entry in COMMANDS.items():
        panels.setdefault(entry.panel, []).append(name)
    overview = [
        f"- {panel}: {', '.join(f'[`{name}`](#interlock-{name})' for name in names)}" for panel, names in panels.items()
    ]
    parts = [REFERENCE_HEAD, "\n".join(overview), "## Options of many commands", "\n".join(shared)]
    for panel, names in panels.items():
        parts.append(f"## {panel}")
        for name in names:
            parts += _section(contexts[name], described[name], shared)
    return "\n\n".join(parts) + "\n"


def _described(context: typer.Context) -> list[str]:
    """Return a line for each argument, without its type, and for each option but --help, which each command has."""
    arguments, options = list[str](), list[str]()
    for parameter in context.command.params:
        names, text = parameter.get_help_record(context) or ("", "")
        if isinstance(parameter, TyperOption):
            options.append(f"* `{names}`: {text}")
        else:
            arguments.append(f"* `{names.partition(' <')[0]}`: {text}")
    return arguments + options


def _section(context: typer.Context, lines: Sequence[str], shared: Sequence[str]) -> Iterator[str]:
    """Yield a command's heading, help, usage if it has arguments, and options: of shared ones only their names."""
    yield f"### `{context.command_path}`"
    yield context.command.help or ""
    options, *arguments = context.command.collect_usage_pieces(context)
    if arguments:
        yield f"`{' '.join([context.command_path, options, *arguments])}`"
    if own := [line for line in lines if line not in shared]:
        yield "\n".join(own)
    if names := [line.removeprefix("* ").partition(": ")[0] for line in lines if line in shared]:
        yield f"Also {', '.join(names)}."
