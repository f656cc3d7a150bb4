"""Reads from a folder's files what its service is: Dockerfile, compose file, port, health path, dependencies."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import ReusedAnchorWarning

from interlock import untrusted
from interlock.catalog.defaults import PYPROJECT
from interlock.engine.packages import dependency_files
from interlock.engine.packages.lock_files import kind_of
from interlock.errors import CatalogError, InterlockError
from interlock.swap.files import COMPOSE_FILES, DOCKERFILES
from interlock.swap.instructions import Instruction, parse_instructions
from interlock.swap.writing import read_file
from interlock.swap.yaml_files import FAILURES

LOCKS = ("pylock.toml", "uv.lock", "poetry.lock", "requirements.txt")
# Frameworks that answer a GET at some path without any code of the user; for others `/` is tried.
ANSWERS = {"datasette": "/-/versions.json", "fastapi": "/openapi.json"}
FRAMEWORKS = (
    "datasette", "wagtail", "django", "fastapi", "flask", "starlette", "litestar", "quart", "sanic", "falcon",
    "aiohttp", "tornado", "pyramid", "bottle",
)  # fmt: skip
PORT = re.compile(r"\d{1,5}")
WITH_DEFAULT = re.compile(r"\$\{\w+:?-([^}]*)\}")
PORT_OF_COMMAND = re.compile(r"(?:--port[= ]|--bind[= ]\S*?:|-b \S*?:|0\.0\.0\.0:|http\.server )(\d{2,5})\b")
HEALTH = re.compile(r"https?://[\w.\[\]]+:(\d{2,5})(/[^\s\"'|;)\\]*)")


@dataclass(frozen=True)
class OwnService:
    """What a folder tells about its service, and where it says so."""

    file: str = ""  # the Dockerfile
    port: int | None = None
    port_by: str = ""
    health: str = ""  # the path at which it answers 2xx
    health_by: str = ""
    requirement: str = ""
    framework: str = ""
    packages: frozenset[str] = frozenset()  # those that the requirement names


def find_service(folder: Path) -> OwnService:
    """Return what the files of a folder say of its service; nothing of what they do not say."""
    built = next((each for name in COMPOSE_FILES if (each := _of_compose(folder / name))), {})
    file = built.get("file", "") or next((name for name in DOCKERFILES if (folder / name).is_file()), "")
    image = _of_dockerfile(folder / file) if file and (folder / file).is_file() else {}
    requirement, packages = _dependencies(folder)
    framework = next((framework for framework in FRAMEWORKS if framework in packages), "")
    told: dict[str, Any] = {"port": None, **built, **image}
    if not told.get("health") and told["port"] and framework in ANSWERS:
        told |= {"health": ANSWERS[framework], "health_by": f"{framework} answers there"}
    return OwnService(
        **{**told, "file": file, "requirement": requirement, "framework": framework, "packages": packages}
    )


def _of_dockerfile(path: Path) -> dict[str, Any]:
    instructions = parse_instructions(read_file(path))
    facts: dict[str, Any] = {}
    for instruction in instructions:
        facts |= _told(instruction, path.name)
    # The last stage's. Of several ports it is the one in its health check or command, else the first.
    exposed = [each.arguments for each in instructions if each.keyword == "EXPOSE"][-1:]
    numbers = [word.text.partition("/")[0] for arguments in exposed for word in arguments]
    ports = [int(number) for number in numbers if PORT.fullmatch(number)]
    if not ports or facts.get("port") in ports:
        return facts
    return facts | {"port": ports[0], "port_by": f"EXPOSE of {path.name}"}


def _told(instruction: Instruction, file: str) -> dict[str, Any]:
    """Return what a HEALTHCHECK, a CMD or an ENTRYPOINT tells about the port and the health path."""
    if instruction.keyword == "HEALTHCHECK" and (check := HEALTH.search(instruction.text)):
        where = f"HEALTHCHECK of {file}"
        return {"port": int(check[1]), "port_by": where, "health": check[2], "health_by": where}
    if instruction.keyword in {"CMD", "ENTRYPOINT"} and (port := PORT_OF_COMMAND.search(instruction.said)):
        return {"port": int(port[1]), "port_by": f"{instruction.keyword} of {file}"}
    return {}


def _of_compose(path: Path) -> dict[str, Any]:
    """Return what a compose file says of its first service that is built here; empty if none is."""
    if not path.is_file():
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # else it is printed
            document = YAML(pure=True).load(read_file(path))  # for a round trip: it takes compose's own tags
    except (*FAILURES, RecursionError) as error:
        said = f"{type(error).__name__} {error}".splitlines()[0]
        raise CatalogError(file=path.name, found=f"not valid YAML: {said}", todo="Correct it there.") from None
    services = document.get("services") if isinstance(document, dict) else None
    for name, service in services.items() if isinstance(services, dict) else ():
        build = service.get("build") if isinstance(service, dict) else None
        context = build.get("context", ".") if isinstance(build, dict) else build
        if isinstance(context, str) and context.rstrip("/") in {".", ""}:
            file = build.get("dockerfile", "Dockerfile") if isinstance(build, dict) else "Dockerfile"
            # With no value of the environment compose takes the default, if there is one.
            named = WITH_DEFAULT.sub(r"\1", str(file))
            return {"file": "" if "$" in named else named, **_ports(service, f"{name} of {path.name}")}
    return {}


def _ports(service: Mapping[str, Any], where: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    listed = service.get("ports")
    for port in listed if isinstance(listed, list) else ():
        inside = str(port.get("target", "") if isinstance(port, dict) else port).rpartition(":")[2].partition("/")[0]
        if PORT.fullmatch(inside):
            facts = {"port": int(inside), "port_by": where}
            break
    check = service.get("healthcheck")
    if isinstance(check, dict) and (healthy := HEALTH.search(str(check.get("test", "")))):
        facts |= {"port": int(healthy[1]), "port_by": where, "health": healthy[2], "health_by": where}
    return facts


def _dependencies(folder: Path) -> tuple[str, frozenset[str]]:
    """Return the file that says most exactly what is installed, and the packages that it names; empty without one."""
    pylocks = sorted(path.name for path in folder.glob("pylock.*.toml") if kind_of(path))
    for name in (*LOCKS[:1], *pylocks, *LOCKS[1:], PYPROJECT):
        if (folder / name).is_file():
            try:
                read = dependency_files.read([str(folder / name)], untrusted.read_text, os.path.exists)
            except InterlockError:  # `audit` says what is wrong with it
                continue
            return name, frozenset(line.name for line in read.here().lines)
    return "", frozenset()
