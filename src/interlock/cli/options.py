"""What commands share: options and arguments, their parsed values, the project, and where to print."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from interlock.errors import LazyModule, StoreError, UsageError, nearest
from interlock.results.commands import runnable
from interlock.results.engines import EngineName
from interlock.untrusted import printable

if TYPE_CHECKING:
    from interlock.catalog import project
    from interlock.results import packed, store
else:  # what --help need not wait for
    project, store = LazyModule("interlock.catalog.project", ""), LazyModule("interlock.results.store", "")
    packed = LazyModule("interlock.results.packed", "")


ENGINE = "INTERLOCK_ENGINE"


def _engine(text: str) -> EngineName:
    """Return the engine of this name; UsageError suggests the nearest name."""
    if text not in list(EngineName):
        source = f" (set by {ENGINE})" if os.environ.get(ENGINE) == text else ""
        raise UsageError(key="--engine", found=f"there is no engine '{text}'{source}", todo=nearest(text, EngineName))
    return EngineName(text)


Engine = Annotated[
    EngineName | None,
    typer.Option(
        "--engine",
        parser=_engine,
        metavar=f"<{'|'.join(EngineName)}>",
        autocompletion=lambda: list(EngineName),
        envvar=ENGINE,
        help="What builds and measures; `host` is without containers (default: Docker, else Podman, else host).",
    ),
]
AS_ROOT = "INTERLOCK_AS_ROOT"
VERSIONS = "INTERLOCK_VERSIONS"
AsRoot = Annotated[
    bool,
    typer.Option("--as-root", envvar=AS_ROOT, help="With --engine host, as root: run programs as root too."),
]


def _be_quiet(is_quiet: bool) -> None:
    notes.quiet = is_quiet


Json = Annotated[bool, typer.Option("--json", help="Print JSON; errors too, on standard error.")]
# For the commands that answer a question; remarks are printed by `notes`.
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", callback=_be_quiet, help="Print the answer alone: no progress, no remarks."),
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seed for the order (default: random).")]
Results = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the experiments (default: results/ of the clone, else ~/.local/share/interlock/results).",
    ),
]
Variants = Annotated[
    list[str] | None, typer.Argument(metavar="VARIANT", help="Names of variants, or `core` (default: `all`).")
]
OneExperiment = Annotated[
    str | None,
    typer.Argument(
        metavar="EXPERIMENT",
        help="Experiment, by name or folder (default: your latest, else a shipped one).",
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Show everything (default: what fits forty lines).")]


@dataclass(frozen=True, kw_only=True)
class MatrixOptions:
    """The options that `matrix` and `fleet` share; `takes` gives a command an option for each field."""

    variants: Annotated[
        str | None,
        typer.Option(metavar="A,B+MODE", help="Variants, plain or in a mode, or `all` (default: `core`)."),
    ] = None
    workloads: Annotated[
        str | None, typer.Option(metavar="X,Y", help="Workloads, WORKLOAD/BENCHMARK, or `all` (default: `core`).")
    ] = None
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure fewer benchmarks, rounds and values: faster, with wider intervals.")
    ] = False
    rounds: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="Fixed number of rounds (default: as many as needed).")
    ] = None
    baseline: Annotated[
        str | None,
        typer.Option(metavar="VARIANT", help="Variant that the report compares with (default: cpython-3.13)."),
    ] = None
    seed: Seed = None
    profile: Annotated[bool, typer.Option(help="Count system calls, in a separate pass.")] = True
    why: Annotated[bool, typer.Option("--why", help="Record where every profiled benchmark waits.")] = False
    engine: Engine = None
    as_root: AsRoot = False


def takes(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command for Typer: the fields of a dataclass take the place of the parameter of its type."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: own.annotation for name, own in signature.parameters.items() if is_dataclass(own.annotation)
    }
    fields_of = {name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()}
    expanded = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, own in signature.parameters.items()
        for parameter in (fields_of[name].values() if name in groups else (own,))
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field: given.pop(field) for field in fields_of[name]})
        command(**given)

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in expanded}
    vars(run)["__signature__"] = signature.replace(parameters=expanded)
    return run


UNITS_S = {"s": 1, "m": 60, "h": 3600}


def parse_duration(text: str, option: str) -> float:
    """Return the seconds of 90s, 10m or 1h; UsageError, which names the option, for anything else."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh])", text)
    seconds = float(match[1]) * UNITS_S[match[2]] if match else 0.0
    if not seconds:
        raise UsageError(key=option, found=f"'{text}' is not a duration", todo="Write it as 90s, 10m or 1h.")
    return seconds


def split_names(names: str | None) -> list[str] | None:
    """Return the names of a comma-separated list, or None if the option was not given."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


class PlainConsole(Console):
    """A console that prints no control characters and reads no markup, because much of its text comes from outside."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield what to print; only segments that rich itself marks as control may steer the terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def say(self, line: str, style: str = "") -> None:
        """Print text without line breaks of its own: the terminal folds it, and it is copied whole."""
        self.print(Text(line, style), soft_wrap=True)


# If the width is unknown (a pipe, a log) lines are long rather than folded.
console = PlainConsole(width=None if Console().is_terminal or "COLUMNS" in os.environ else 160)


# Remarks are not results, so they stay out of a pipe.
notes = PlainConsole(stderr=True, width=console.width)


@contextmanager
def quiet(is_quiet: bool) -> Iterator[None]:
    """Print nothing for people in the block: with --json, standard output has only the document."""
    before, console.quiet = console.quiet, is_quiet or console.quiet
    try:
        yield
    finally:
        console.quiet = before


def open_project() -> tuple[project.ProjectPaths, project.Catalog]:
    """Return the paths of the project around the current folder, and what its files declare."""
    paths = project.ProjectPaths.find()
    return paths, project.load(paths.root)


def given_versions(known: project.Catalog) -> dict[str, str]:
    """Return INTERLOCK_VERSIONS as versions by variant; it tells a fleet's hosts the versions of what they are sent."""
    words = os.environ.get(VERSIONS, "").split()
    pairs = dict(word.partition("=")[::2] for word in words)
    for name, version in pairs.items():
        if name not in known.variants or version not in known.variants[name].versions:
            problem = f"'{name}={version}' is no variant with one of its versions"
            raise UsageError(key=VERSIONS, found=problem, todo="Write it as cpython-3.13=3.13.15, or unset it.")
    return pairs


def open_clone(why: str = "and only a clone has generated files") -> tuple[project.ProjectPaths, project.Catalog]:
    """Return the paths of the clone around the current folder, and what it declares.

    Outside a clone, UsageError says why it must be one.
    """
    paths, known = open_project()
    if not paths.is_clone:
        raise UsageError(
            file=str(Path.cwd()),
            found=f"is not in a clone, {why}",
            todo="Run it in a clone of the project.",
        )
    return paths, known


def experiment_folder(name: str | None, results: Path | None, *, as_json: bool) -> Path:
    """Return the folder that was named, or the user's latest; if there is none return a shipped one.

    That is said, except with --json, with which standard error has only errors.
    """
    if name is not None:
        return named_folder(name, results)
    paths = project.ProjectPaths.find()
    try:
        return store.latest_experiment(results or paths.results)
    except StoreError:
        from interlock.report.overview import EXPERIMENT  # noqa: PLC0415  what reports have is loaded for them alone

        shipped = paths.reference / EXPERIMENT
        if results is not None or not packed.has_values(shipped):
            raise
    said = f"shipped  {EXPERIMENT}: you have no results of your own yet; `interlock matrix` measures them"
    if not as_json:
        notes.say(runnable(said))
    return packed.with_values(shipped, paths.cache)


def named_folder(name: str, results: Path | None) -> Path:
    """Return the folder with this path, or with this name in results/ or results/reference/; UsageError for none."""
    if Path(name).is_dir():
        return Path(name)
    paths = project.ProjectPaths.find()
    under = results or paths.results
    shipped = under / "reference" if results else paths.reference
    folder = next((place for place in (under / name, shipped / name) if place.is_dir()), None)
    if folder is not None and folder == shipped / name and not paths.is_clone and not packed.has_values(folder):
        problem = "comes with Interlock for picks alone: its raw values are not in the package"
        raise UsageError(key=name, found=problem, todo="Name another one, or run this in a clone, which has them.")
    if folder is not None:
        return packed.with_values(folder, paths.cache)
    known = {place.name for place in store.experiments_below(under)}
    known |= {place.name for place in store.experiments_below(shipped) if paths.is_clone or packed.has_values(place)}
    raise UsageError(
        key=name,
        found=f"is neither a folder nor a name in {under} or {shipped}",
        todo=nearest(name, known) if known else "`interlock matrix` measures the first one.",
    )
