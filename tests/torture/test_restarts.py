"""An engine that is killed or stopped in the middle and started again loses nothing that was complete.

It is a second dockerd, never the machine's. INTERLOCK_TORTURE_ENDS is how often each is tried.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import docker
import pytest

from interlock.catalog import project as catalogs
from interlock.engine.build.helper_images import ensure_helper, helper_tag
from interlock.engine.protocol import INSTRUMENTS, BuildOptions
from tests.builders import ROOT
from tests.integration.images import QUICK, Images
from tests.integration.resources import owned
from tests.integration.toys import make_toy_base
from tests.torture.experiments import (
    INTERLOCK,
    LIMIT_S,
    TRIES,
    Record,
    add_toy,
    count,
    interlock,
    kept_and_resumed,
    matrix,
    sentences,
    usual_duration_s,
)
from tests.torture.second_engine import SecondEngine, second_engine

pytestmark = pytest.mark.promise

SIGNALS = ("KILL", "TERM")
NAME = "restarted"


@pytest.fixture(scope="module")
def engine() -> Iterator[SecondEngine]:
    """An engine that has what a matrix needs, and reaches nobody to fetch more."""
    machine, known = docker.from_env(), catalogs.load(ROOT)
    built = Images(machine, known, BuildOptions(ROOT, catalogs.cache_folder()))[QUICK]
    assert built.base is not None
    images = {built.tag: built.image_id, built.base.reference: built.base.image_id}
    images[helper_tag(INSTRUMENTS)] = ensure_helper(machine, ROOT, INSTRUMENTS, built.base)
    with second_engine() as found:
        found.take(list(dict.fromkeys(images.values())))
        for name, image_id in images.items():
            found.client.images.get(image_id).tag(name)
        make_toy_base(found.client)
        yield found


@pytest.fixture(autouse=True)
def chosen(engine: SecondEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """All commands of a test talk to it."""
    monkeypatch.setenv("DOCKER_HOST", engine.host)


def restart_meanwhile(engine: SecondEngine, signal: str, words: Sequence[str], cwd: Path, after_s: float) -> str:
    """Restart the engine while a command is at work; return what is wrong with its end, empty if nothing is."""
    command = [*INTERLOCK, *words]
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        time.sleep(after_s)
        engine.end(signal)
        said, _ = process.communicate(timeout=LIMIT_S)
    engine.start()
    if process.returncode == 0:  # it had ended before
        return ""
    if process.returncode != 4 or "Traceback" in said or len(sentences(said)) != 1:
        return f"after {after_s:.1f} s and {signal} it left with {process.returncode}: {said[-1500:]}"
    return ""


def cleaned(engine: SecondEngine) -> list[str]:
    """What `clean` leaves of the dead."""
    done = interlock("clean")
    found = [] if done.returncode == 0 else [f"clean: {done.stderr}"]
    return found + [f"{one} is left" for one in owned(engine.client)]


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_build(
    signal: str, engine: SecondEngine, project: Path, record_property: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = []
    for _ in range(TRIES):
        name, environment = add_toy(project, takes_s=5)
        monkeypatch.setenv(*next(iter(environment.items())))
        wrong.append(restart_meanwhile(engine, signal, ["build", name], project, random.uniform(1, 8)))
        again = interlock("build", name, cwd=project)
        wrong.append("" if again.returncode == 0 else f"built again: {again.stderr}")
        wrong += cleaned(engine)
    count(record_property, TRIES, wrong)


@pytest.fixture(scope="module")
def usual_s(engine: SecondEngine, tmp_path_factory: pytest.TempPathFactory) -> float:
    return usual_duration_s(tmp_path_factory.mktemp("usual"), DOCKER_HOST=engine.host)


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_matrix(signal: str, engine: SecondEngine, usual_s: float, record_property: Record, tmp_path: Path) -> None:
    wrong = []
    for turn in range(TRIES):
        name = f"{NAME}-{turn}"
        wrong.append(restart_meanwhile(engine, signal, matrix(name, tmp_path), ROOT, random.uniform(1, usual_s)))
        wrong.append(kept_and_resumed(tmp_path / name, name))
        wrong += cleaned(engine)
    count(record_property, TRIES, wrong)
