"""The command `init`, which writes the user's own defaults from what a service's folder has."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from interlock.analysis.pick.advice import USUAL_PORT
from interlock.catalog.defaults import OWN_FILE, PYPROJECT, TABLE, own_table
from interlock.catalog.project import Catalog
from interlock.cli.options import console, open_project
from interlock.errors import CatalogError, UsageError
from interlock.results.commands import command_line
from interlock.results.files import write_atomically
from interlock.swap.writing import FileChange, read_file, replace_files
from interlock.trial.options import USUAL_FAMILIES, usual_variants
from interlock.trial.own_service import OwnService, find_service


def init_command() -> None:
    """Write defaults for a service from what its folder has.

    Reads the Dockerfile, compose file and dependencies; writes [tool.interlock] of pyproject.toml, or interlock.toml;
    prints the next three commands. Defaults that are there stay.
    """
    here = Path.cwd()
    path = own_table(here)
    if path is not None:
        raise UsageError(file=path.name, found="has Interlock's defaults already", todo="Edit them there.")
    _, known = open_project()
    service = find_service(here)
    target = here / PYPROJECT if (here / PYPROJECT).is_file() else here / OWN_FILE
    before = _toml_text(target) if target.is_file() else None
    table = written(service, usual_pair(known), "" if before is None else f"{TABLE}.")
    if before is not None:
        replace_files([FileChange(target, before, f"{before.rstrip()}\n\n{table}")])
    else:
        write_atomically(target, table)
    console.print(Text(f"wrote   {target.name}\n{table}"), soft_wrap=True, end="")
    for word, line in zip(("next", "then", "then"), next_commands(service), strict=True):
        console.say(f"{word:<7} {line}")


def _toml_text(path: Path) -> str:
    """Return the text of pyproject.toml; CatalogError if a table cannot be added to it."""
    text = read_file(path)
    try:
        tomllib.loads(text)
    except ValueError as error:
        raise CatalogError(file=path.name, found=f"not valid TOML: {error}", todo="Correct it there.") from None
    return text


def usual_pair(known: Catalog) -> list[str]:
    """Return the newest supported release of the core set with and without a GIL; there are figures for both."""
    usual = [variant for name in usual_variants(known.variants) if (variant := known.variants[name]).core]
    newest = {family: [release.name for release in usual if release.family == family] for family in USUAL_FAMILIES}
    return [max(names, key=_numbers) for names in newest.values() if names]


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def written(service: OwnService, variants: Sequence[str], prefix: str) -> str:
    """Return the tables as TOML, below `prefix`; a comment after each value says where it was found."""
    return "\n".join(_lines(service, variants, prefix)) + "\n"


def _lines(service: OwnService, variants: Sequence[str], prefix: str) -> Iterator[str]:
    yield "# Defaults of Interlock's options; an option on the command line wins."
    if prefix:
        yield f"[{prefix.rstrip('.')}]"
    yield f"variants = [{', '.join(map(_quoted, variants))}]"
    if service.file:
        yield f"\n[{prefix}trial]"
        yield f"file = {_quoted(service.file)}"
        if service.port and service.health:
            by = dict.fromkeys([service.port_by, service.health_by])
            yield f"http = {_quoted(f':{service.port}{service.health}')}  # {'; '.join(by)}"
        elif service.port:
            yield f"http = {_quoted(f':{service.port}/')}  # {service.port_by}; a page that answers 2xx"
        else:
            address = f":{USUAL_PORT}{service.health or '/'}"
            yield f"http = {_quoted(address)}  # a guess, as no file names its port: a page that answers 2xx"
        load = f"wrk -t1 -c8 -d3s {{url}}{service.health or '/'}"
        yield f"load = {_quoted(load)}  # better: a page that people ask for"
    if service.requirement:
        yield f"\n[{prefix}audit]"
        yield f"requirement = [{_quoted(service.requirement)}]" + (
            f"  # {service.framework}" if service.framework else ""
        )


def _quoted(text: str) -> str:
    """Return a text quoted for TOML, which is the same as for JSON."""
    return json.dumps(text, ensure_ascii=False)


def next_commands(service: OwnService) -> list[str]:
    """Return three commands that need only what was written, in the order in which each helps the next."""
    tried = command_line("trial", ".") if service.file else command_line("matrix", "--quick")
    audited = [command_line("audit")] if service.requirement else []
    return [command_line("pick"), tried, *audited, command_line("report")][:3]
