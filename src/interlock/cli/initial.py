"""The command that writes the user's own defaults from what a service's folder has: init."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from interlock import untrusted
from interlock.catalog.defaults import OWN_FILE, PYPROJECT, TABLE, own_table
from interlock.catalog.project import Catalog
from interlock.cli.options import console, open_project
from interlock.engine.packages import dependency_files
from interlock.engine.packages.lock_files import kind_of
from interlock.errors import CatalogError, InterlockError, UsageError
from interlock.results.commands import command_line
from interlock.results.files import write_atomically
from interlock.swap.dockerfile import Instruction, parse_instructions
from interlock.swap.writing import FileChange, read_file, replace_files
from interlock.trial.options import USUAL_FAMILIES, usual_variants

COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
LOCKS = ("pylock.toml", "uv.lock", "poetry.lock", "requirements.txt")
# Frameworks that answer a GET without any code of the user's, and where; of the others `/` is tried.
ANSWERS = {"datasette": "/-/versions.json", "fastapi": "/openapi.json"}
FRAMEWORKS = (
    "datasette", "wagtail", "django", "fastapi", "flask", "starlette", "litestar", "quart", "sanic", "falcon",
    "aiohttp", "tornado", "pyramid", "bottle",
)  # fmt: skip
PORT_OF_COMMAND = re.compile(r"(?:--port[= ]|--bind[= ]\S*?:|-b \S*?:|0\.0\.0\.0:|http\.server )(\d{2,5})\b")
HEALTH = re.compile(r"https?://[\w.\[\]]+:(\d{2,5})(/[^\s\"'|]*)")


@dataclass(frozen=True)
class Service:
    """What a folder tells of its service, each with where it says so."""

    file: str = ""  # the Dockerfile
    port: int | None = None
    port_by: str = ""
    health: str = ""  # the path at which it answers 2xx
    health_by: str = ""
    requirement: str = ""
    framework: str = ""


def init_command() -> None:
    """Write defaults for a service from what its folder has.

    Into [tool.interlock] of pyproject.toml, or interlock.toml; from Dockerfile, compose file and dependencies.
    Prints the next three commands. A table that is there stays as it is.
    """
    here = Path.cwd()
    path = own_table(here)
    if path is not None:
        raise UsageError(file=path.name, found="has Interlock's defaults already", todo="Edit them there.")
    _, known = open_project()
    service = find_service(here)
    target = here / PYPROJECT if (here / PYPROJECT).is_file() else here / OWN_FILE
    before = _toml_text(target) if target.is_file() else ""
    table = written(service, usual_pair(known), f"{TABLE}." if before else "")
    if before:
        replace_files([FileChange(target, before, f"{before.rstrip()}\n\n{table}")])
    else:
        write_atomically(target, table)
    console.print(Text(f"wrote   {target.name}\n{table}"), soft_wrap=True, end="")
    for word, line in zip(("next", "then", "then"), next_commands(service), strict=True):
        console.print(Text(f"{word:<7} {line}"), soft_wrap=True)


def _toml_text(path: Path) -> str:
    """Return the text of pyproject.toml; CatalogError if a table cannot be added to it."""
    text = read_file(path)
    try:
        tomllib.loads(text)
    except ValueError as error:
        raise CatalogError(file=path.name, found=f"not valid TOML: {error}", todo="Correct it there.") from None
    return text


def usual_pair(known: Catalog) -> list[str]:
    """Return the newest supported release of the core set, for which there are figures, with and without a GIL."""
    usual = [variant for name in usual_variants(known.variants) if (variant := known.variants[name]).core]
    newest = {family: [one.name for one in usual if one.family == family] for family in USUAL_FAMILIES}
    return [max(names, key=_numbers) for names in newest.values() if names]


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def find_service(folder: Path) -> Service:
    """Return what the files of a folder say of its service; nothing of what they do not say."""
    built = next((found for name in COMPOSE if (found := _of_compose(folder / name))), {})
    file = built.get("file", "") or ("Dockerfile" if (folder / "Dockerfile").is_file() else "")
    image = _of_dockerfile(folder / file) if file and (folder / file).is_file() else {}
    requirement, framework = _dependencies(folder)
    told: dict[str, Any] = {"port": None, **built, **image}
    if not told.get("health") and told["port"] and framework in ANSWERS:
        told |= {"health": ANSWERS[framework], "health_by": f"{framework} answers there"}
    return Service(**{**told, "file": file, "requirement": requirement, "framework": framework})


def _of_dockerfile(path: Path) -> dict[str, Any]:
    instructions = parse_instructions(read_file(path))
    found: dict[str, Any] = {}
    for instruction in instructions:
        found |= _told(instruction, path.name)
    exposed = [word.text for one in instructions if one.keyword == "EXPOSE" for word in one.arguments]
    ports = [int(word.partition("/")[0]) for word in exposed if word.partition("/")[0].isdigit()]
    return found | ({"port": ports[-1], "port_by": f"EXPOSE of {path.name}"} if ports else {})


def _told(instruction: Instruction, file: str) -> dict[str, Any]:
    """Return what a HEALTHCHECK, a CMD or an ENTRYPOINT tells of the port and of where it is healthy."""
    if instruction.keyword == "HEALTHCHECK" and (check := HEALTH.search(instruction.text)):
        where = f"HEALTHCHECK of {file}"
        return {"port": int(check[1]), "port_by": where, "health": check[2], "health_by": where}
    if instruction.keyword in {"CMD", "ENTRYPOINT"} and (port := PORT_OF_COMMAND.search(instruction.said)):
        return {"port": int(port[1]), "port_by": f"{instruction.keyword} of {file}"}
    return {}


def _of_compose(path: Path) -> dict[str, Any]:
    """Return what the first service of a compose file says that is built here; empty if none is."""
    if not path.is_file():
        return {}
    try:
        document = YAML(typ="safe", pure=True).load(read_file(path))
    except YAMLError as error:
        said = str(error).splitlines()[0]
        raise CatalogError(file=path.name, found=f"not valid YAML: {said}", todo="Correct it there.") from None
    services = document.get("services") if isinstance(document, dict) else None
    for name, service in services.items() if isinstance(services, dict) else ():
        build = service.get("build") if isinstance(service, dict) else None
        context = build.get("context", ".") if isinstance(build, dict) else build
        if isinstance(context, str) and context.rstrip("/") in {".", ""}:
            file = build.get("dockerfile", "Dockerfile") if isinstance(build, dict) else "Dockerfile"
            return {"file": str(file), **_ports(service, f"{name} of {path.name}")}
    return {}


def _ports(service: Mapping[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for port in service.get("ports") or ():
        inside = str(port.get("target", "") if isinstance(port, dict) else port).rpartition(":")[2].partition("/")[0]
        if inside.isdigit():
            found = {"port": int(inside), "port_by": where}
            break
    check = service.get("healthcheck")
    if isinstance(check, dict) and (healthy := HEALTH.search(str(check.get("test", "")))):
        found |= {"port": int(healthy[1]), "port_by": where, "health": healthy[2], "health_by": where}
    return found


def _dependencies(folder: Path) -> tuple[str, str]:
    """Return the file that says most exactly what is installed, and the framework that it names; empty for none."""
    pylocks = sorted(path.name for path in folder.glob("pylock.*.toml") if kind_of(path))
    for name in (*LOCKS[:1], *pylocks, *LOCKS[1:], PYPROJECT):
        if (folder / name).is_file():
            try:
                read = dependency_files.read([str(folder / name)], untrusted.read_text, Path.exists)
            except InterlockError:  # `audit` says what is wrong with it
                continue
            names = {line.name for line in read.here().lines}
            return name, next((framework for framework in FRAMEWORKS if framework in names), "")
    return "", ""


def written(service: Service, variants: Sequence[str], prefix: str) -> str:
    """Return the tables as TOML, below `prefix`; what was seen where stands behind it."""
    return "\n".join(_lines(service, variants, prefix)) + "\n"


def _lines(service: Service, variants: Sequence[str], prefix: str) -> Iterator[str]:
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
        load = f"wrk -t1 -c8 -d3s {{url}}{service.health or '/'}"
        yield f"load = {_quoted(load)}  # better: a page that people ask for"
    if service.requirement:
        yield f"\n[{prefix}audit]"
        yield f"requirement = [{_quoted(service.requirement)}]" + (
            f"  # {service.framework}" if service.framework else ""
        )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def next_commands(service: Service) -> list[str]:
    """Return three commands that need nothing but what was written, in the order in which each helps the next."""
    tried = command_line("trial", ".") if service.file else command_line("matrix", "--quick")
    audited = [command_line("audit")] if service.requirement else []
    return [command_line("pick"), tried, *audited, command_line("report")][:3]
