"""The options of `pick`, apart from the command's code, which takes half a second to load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.options import Json, Quiet, Results


@dataclass(frozen=True, kw_only=True)
class PickOptions:
    """What `pick` takes."""

    workload: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=WEIGHT",
            help="Workload, or workload/benchmark, with its weight; may be repeated (default: service, download).",
        ),
    ] = None
    needs: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Requirements file to test on the recommended image; may be repeated."),
    ] = None
    max_rss: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Maximum memory of a process, for instance 200MB.")
    ] = None
    min_python: Annotated[
        str | None, typer.Option(metavar="X.Y", help="Oldest acceptable Python version, for instance 3.11.")
    ] = None
    supported_until: Annotated[
        str | None,
        typer.Option(metavar="MONTH", help="Month or day until which upstream must support it, for instance 2027-06."),
    ] = None
    allow: Annotated[
        str | None,
        typer.Option(metavar="PHASES", help="Support phases to include: end-of-life, prerelease (default: neither)."),
    ] = None
    cpus: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="CPUs that the service runs on (default: this machine's)."),
    ] = None
    like: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS",
            help="Words for your service, as 'WSGI with threads', that find the most similar program in "
            "docs/services.md (default: this folder's dependencies).",
        ),
    ] = None
    baseline: Annotated[
        str | None, typer.Option(metavar="VARIANT", help="Variant that runs now (default: the experiment's baseline).")
    ] = None
    whose: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WHOSE",
            help="Whose figures answer: `here` (this folder's), `elsewhere` (yours outside it), `project` (shipped), "
            "or an experiment of yours (default: the first of the three that fits).",
        ),
    ] = None
    why: Annotated[
        bool,
        typer.Option("--why", help="Also show the ranking, what is excluded, costs, risks and the FROM line."),
    ] = False
    as_json: Json = False
    results: Results = None
    quiet: Quiet = False
