"""This machine made ready by playbooks/host.yml, if something is missing and the user agrees."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer
from rich.text import Text

from interlock import doctor
from interlock.doctor import Check
from interlock.engine.client import connect
from interlock.errors import EngineError, FleetError
from interlock.fleet import localhost
from interlock.model import Catalog, EngineName
from interlock.places import Places
from interlock.routines import console, ground, show

PLAYBOOK = "playbooks/host.yml"
GROUP = "docker"


@contextmanager
def ready_machine(
    places: Places, known: Catalog, profiled: bool, *, agreed: bool, engine: EngineName | None = None
) -> Iterator[Any]:
    """The block runs on a machine that is ready, with its engine; what only measuring needs is taken back after it.

    Without containers, named or for want of an engine, the machine itself is the engine.

    EngineError for what stands in the way and the playbook does not mend, or may not.
    """
    if engine is EngineName.HOST:
        yield _this_machine(places, profiled)
        return
    checks = _examined(places, known, profiled, engine)
    wrong = [check for check in checks if check.by_playbook]
    if not wrong or not _may(wrong, agreed):
        if engine is None and "DOCKER_HOST" not in os.environ and _lacks_engine(checks):
            yield _this_machine(places, profiled)
            return
        _refuse(checks, f" `interlock matrix --yes` does it, by {PLAYBOOK}.")
        yield connect(engine)
        return
    localhost.play(places.root, "host.yml")
    try:
        _with_the_new_group()
        _refuse(_examined(places, known, profiled, engine))
        yield connect(engine)
    finally:
        with suppress(FleetError):  # what was measured is worth more than this
            localhost.play(places.root, "restore.yml")


def _this_machine(places: Places, profiled: bool) -> Any:
    """This machine as the engine; EngineError if it cannot compile."""
    checks = doctor.examine_host(places.results, profiled=profiled)
    show([check for check in checks if check.verdict is not doctor.Verdict.OK])
    _refuse(checks)
    return ground(places, EngineName.HOST)


def _lacks_engine(checks: list[Check]) -> bool:
    return any(check.subject == "engine" for check in doctor.blocking(checks))


def _examined(places: Places, known: Catalog, profiled: bool, engine: EngineName | None) -> list[Check]:
    """What is not as it should be, said."""
    base = next(iter(known.bases.values()))
    checks = doctor.examine(places.root, base, places.results, profiled=profiled, engine=engine)
    show([check for check in checks if check.verdict is not doctor.Verdict.OK])
    return checks


def _refuse(checks: list[Check], way: str = "") -> None:
    """`way` is how the playbook mends what it mends, if it has not been tried."""
    for check in doctor.blocking(checks):
        raise EngineError(key=check.subject, found=check.found, todo=f"{check.mend}{way if check.by_playbook else ''}")


def _may(wrong: list[Check], agreed: bool) -> bool:
    """As the user said with --yes, or says now; where nobody can be asked, no."""
    if agreed:
        return True
    if not sys.stdin.isatty():
        return False
    what = ", ".join(check.subject for check in wrong)
    console.print(
        Text(f"{PLAYBOOK} would mend: {what}. It installs packages, starts the engine and tunes the machine.")
    )
    return typer.confirm("Run it on this machine?", default=False)


def _with_the_new_group() -> None:
    """A process keeps the groups that it began with: one that was not of the engine's group begins anew."""
    try:
        connect()
    except EngineError as error:
        if "permission denied" in error.found and "INTERLOCK_IN_GROUP" not in os.environ:
            _begin_anew()


def _begin_anew() -> NoReturn:
    os.environ["INTERLOCK_IN_GROUP"] = "1"
    sys.stdout.flush()
    os.execvp("sg", ["sg", GROUP, "-c", shlex.join(sys.orig_argv)])  # noqa: S606
