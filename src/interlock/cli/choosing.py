"""Chooses a command's engine, says why it is this machine itself, and leads later commands to the same one."""

from __future__ import annotations

import os

from interlock.catalog.project import ProjectPaths
from interlock.cli.options import console
from interlock.engine import finding, protocol
from interlock.engine.finding import Found
from interlock.engine.host import account
from interlock.engine.host.engine import HostEngine
from interlock.errors import EngineError
from interlock.results.engines import EngineName
from interlock.results.settings import Where


def choose_engine(paths: ProjectPaths, engine: EngineName | None, *, as_root: bool = False) -> protocol.Engine:
    """Return the container engine, or this machine as the engine if it is named or no container engine can be had.

    EngineError if the named engine does not answer, or if this machine's programs would run as root without `as_root`.
    """
    outcome = finding.find_containers(engine)
    if outcome.containers is not None:
        return outcome.containers
    if outcome.refusal is not None:
        if engine is not None:
            raise outcome.refusal
        say_without_containers(outcome)
    return this_machine(paths, as_root=as_root)


def say_without_containers(outcome: Found, more: str = "") -> None:
    """Say why this machine takes the place of a container engine."""
    where = "interpreters are built and measured on this machine itself, without containers"
    console.say(f"engine  {outcome.why_none}: {where}{more}")


def this_machine(paths: ProjectPaths, *, as_root: bool) -> HostEngine:
    """Return this machine as the engine; EngineError for root without `as_root`.

    In a container and on a CI runner root does not need it: programs run as a user that is made for them.
    """
    if os.geteuid() != 0 or as_root:
        return HostEngine(paths.root, paths.cache)
    if not account.is_disposable():
        raise EngineError(
            key="--engine host",
            found="without a container, builds and workloads would run as root on this machine",
            todo="Run it as another user, start a container engine, or say that you mean it: --as-root.",
        )
    user, why_none = account.ensure_account()
    said = f"no user can be made ({why_none}): builds and workloads run as root" if why_none else user.name
    console.say(f"user    {said}")
    os.umask(0o022)  # root makes files that the user reads
    return HostEngine(paths.root, account.cache_for(user, paths.cache), user)


def lead_to(used: EngineName, asked: EngineName | None, *, as_root: bool, results: str = "") -> Where:
    """Return the options that lead a later command to this engine, whatever the environment says by then.

    If DOCKER_HOST leads to the engine, its name alone may lead to another one.
    """
    named = asked if finding.is_led_by_environment(used) else used
    return Where(engine=named, as_root=as_root, results=results)
