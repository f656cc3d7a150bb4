"""docs/tour.md as it stands: every command of it, in its order, on variants compiled as they are for everybody."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.defaults import read_defaults
from interlock.results import store
from tests.builders import ROOT
from tests.integration.toys import interlock

TOUR = (ROOT / "docs/tour.md").read_text(encoding="utf-8")
OWN = "cpython-3.13"
# The official image under a name that only this test has: the variant that is a drop-in for it.
OWN_IMAGE = "localhost:5000/tour/python:3.13-slim"
COMMANDS = [line for block in re.findall(r"```sh\n(.+?)```", TOUR, re.S) for line in block.splitlines()]


@pytest.fixture
def home(client: Any, tmp_path: Path) -> Iterator[Path]:
    """A user's home folder, the image that their Dockerfile names, and no service that is left."""
    interlock(ROOT, "build", OWN)
    client.images.get("localhost/interlock/python:3.13-trixie").tag(OWN_IMAGE)
    yield tmp_path
    subprocess.run(["docker", "rm", "-f", "places"], check=False, capture_output=True)
    subprocess.run(["docker", "rmi", "-f", "places"], check=False, capture_output=True)
    client.images.remove(OWN_IMAGE)


def typed(command: str, certificate: str) -> str:
    """A command with less load, and with the certificate that pip of this machine needs."""
    short = {"interlock trial .": "interlock trial . --rounds 2 --no-syscalls --name tour"}
    build = command.replace("docker build ", f"docker build {certificate} ")
    return short.get(command, build)


def test_every_command_of_the_tour_works_as_printed(home: Path) -> None:
    authority = os.environ.get("PIP_CERT", "")
    folder, said = home / "places", dict[str, str]()
    words = {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "DOCKER_CONFIG": os.environ.get("DOCKER_CONFIG", str(Path.home() / ".docker")),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for number, command in enumerate(COMMANDS):
        here = ROOT if number == 0 else folder
        line = typed(command, "--build-arg PIP_CERT=ca.crt" if authority else "")
        done = subprocess.run(
            ["sh", "-c", line], cwd=here, env={**os.environ, **words}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (line, done.stdout[-2000:], done.stderr[-2000:])
        said[command] = done.stdout
        if number == 0:
            text = (folder / "Dockerfile").read_text().replace("FROM python:3.13-slim", f"FROM {OWN_IMAGE}")
            (folder / "Dockerfile").write_text(text)
        if command == "interlock init" and authority:
            shutil.copy(authority, folder / "ca.crt")
            own = (folder / "interlock.toml").read_text()
            (folder / "interlock.toml").write_text(own.replace("[trial]", '[trial]\nbuild_arg = ["PIP_CERT=ca.crt"]'))
    assert said["interlock init"] in TOUR
    assert (folder / "Dockerfile").read_text() == text
    (answered,) = (said[command] for command in COMMANDS if command.startswith("curl "))
    assert "Place " in answered
    (results,) = (home / "data/interlock/results").glob("tour")
    record = store.read_experiment(results)
    assert {"OWN", *read_defaults(folder / "interlock.toml").variants} <= {cell.label for cell in record.cells}
