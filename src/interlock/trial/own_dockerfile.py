"""The Dockerfile of a folder, and the options that a trial of it needs."""

from __future__ import annotations

import shlex
from pathlib import Path

from interlock.analysis.pick import advice
from interlock.analysis.pick.advice import OwnDockerfile
from interlock.catalog.defaults import TrialDefaults, own_table, read_defaults
from interlock.errors import InterlockError
from interlock.swap.files import DOCKERFILES
from interlock.trial.own_service import find_service


def own_dockerfile(folder: Path) -> OwnDockerfile | None:
    """Return this folder's Dockerfile, and what its trial needs beside the user's own defaults; None without one."""
    try:
        service = find_service(folder)
        table = own_table(folder)
        own = read_defaults(table).trial if table else TrialDefaults()
    except InterlockError:  # `trial` says what is wrong with it
        return None
    file = own.file or service.file
    if not file:
        return None
    options = [f"--file {shlex.quote(file)}" if file not in {own.file, DOCKERFILES[0]} else ""]
    if own.cmd is None or own.http:
        address = advice.ADDRESS.format(port=service.port or advice.USUAL_PORT, path=service.health or "/")
        options += [address if own.http is None else "", advice.LOAD if own.load is None else ""]
    return OwnDockerfile(file, " ".join(filter(None, options)))
