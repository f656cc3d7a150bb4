"""An engine that is killed or stopped in the middle and started again loses nothing that was complete.

It is a second dockerd, never the machine's. INTERLOCK_TORTURE_ENDS is how often each is tried.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import docker
import pytest

from interlock.catalog import project as catalogs
from interlock.engine.build.helper_images import ensure_helper, helper_tag
from interlock.engine.docker import DockerEngine
from interlock.engine.ownership import OWNER_LABEL
from interlock.engine.protocol import INSTRUMENTS, BuildOptions
from interlock.results import store
from interlock.results.answers import Trial
from tests.builders import ROOT
from tests.integration.images import QUICK
from tests.integration.toys import TOYS, add_toy_bases, copy_project, make_toy_base, toy_tarball, toy_variant
from tests.torture.experiments import INTERLOCK, LIMIT_S, MATRIX, Record, count, interlock, kept_and_resumed, sentences
from tests.torture.second_engine import SecondEngine, second_engine

PROMISE = "an engine that is restarted in the middle loses nothing that was complete"
TRIES = max(1, int(os.environ.get("INTERLOCK_TORTURE_ENDS", "12")) // 4)
SIGNALS = ("KILL", "TERM")
NAME = "restarted"
# The image of who puts load on a service.
LOAD = "load"
# A user's own service, by the name that an official image has in a registry of one's own.
OWN_IMAGE = "localhost:5000/restarted/python:3.13-slim"
TRIAL = ["trial", "service", "--cmd", "python -c pass", "--variants", QUICK, "--profile", "standard", "--no-syscalls"]
ROUNDS = 6


@pytest.fixture(scope="module")
def engine() -> Iterator[SecondEngine]:
    """An engine that has what matrices and trials need, and reaches nobody to fetch more."""
    machine, known = docker.from_env(), catalogs.load(ROOT)
    (built,) = DockerEngine(machine).build(known, [QUICK], BuildOptions(ROOT, catalogs.cache_folder()), print)
    assert built.base is not None
    images = {built.tag: built.image_id, built.base.reference: built.base.image_id, OWN_IMAGE: built.image_id}
    images |= {helper_tag(name): ensure_helper(machine, ROOT, name, built.base) for name in (INSTRUMENTS, LOAD)}
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


def begin(words: Sequence[str], cwd: Path = ROOT) -> subprocess.Popen[str]:
    return subprocess.Popen([*INTERLOCK, *words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def restart_meanwhile(engine: SecondEngine, signal: str, words: Sequence[str], cwd: Path, after_s: float) -> str:
    """Restart the engine while a command is at work; return what is wrong with its end, empty if nothing is."""
    with begin(words, cwd) as process:
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
    left = engine.client.containers.list(all=True, filters={"label": OWNER_LABEL})
    left += engine.client.volumes.list(filters={"label": OWNER_LABEL})
    left += engine.client.networks.list(filters={"label": OWNER_LABEL})
    return found + [f"{one.id} is left" for one in left]


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_build(signal: str, engine: SecondEngine, record_property: Record, tmp_path: Path) -> None:
    project = copy_project(ROOT, tmp_path / "project", [QUICK], [])
    add_toy_bases(project)
    wrong = []
    for _ in range(TRIES):
        name = f"toy-{uuid.uuid4().hex[:8]}"
        sha256 = toy_tarball(tmp_path / "mirror", f"{name}.tgz", "sleep 5")
        toy_variant(project, name, f"{name}.tgz", sha256, base=TOYS)
        words, mirror = ["build", name], str(tmp_path / "mirror")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("INTERLOCK_SOURCE_MIRROR", mirror)
            wrong.append(restart_meanwhile(engine, signal, words, project, random.uniform(1, 8)))
            again = interlock(*words, cwd=project)
        wrong.append("" if again.returncode == 0 else f"built again: {again.stderr}")
        wrong += cleaned(engine)
    found = [one for one in wrong if one]
    count(record_property, PROMISE, TRIES, len(found))
    assert found == []


@pytest.fixture(scope="module")
def usual_s(engine: SecondEngine, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long a matrix takes that nothing ends."""
    start_s = time.monotonic()
    words = [*MATRIX, "--name", "usual", "--results", str(tmp_path_factory.mktemp("usual"))]
    done = interlock(*words, DOCKER_HOST=engine.host)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - start_s


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_matrix(signal: str, engine: SecondEngine, usual_s: float, record_property: Record, tmp_path: Path) -> None:
    wrong = []
    for turn in range(TRIES):
        name = f"{NAME}-{turn}"
        words = [*MATRIX, "--name", name, "--results", str(tmp_path)]
        wrong.append(restart_meanwhile(engine, signal, words, ROOT, random.uniform(1, usual_s)))
        wrong.append(kept_and_resumed(tmp_path / name, name))
        wrong += cleaned(engine)
    found = [one for one in wrong if one]
    count(record_property, PROMISE, TRIES, len(found))
    assert found == []


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_trial(signal: str, engine: SecondEngine, record_property: Record, tmp_path: Path) -> None:
    (tmp_path / "service").mkdir()
    (tmp_path / "service/Dockerfile").write_text(f"FROM {OWN_IMAGE}\nCMD python -c pass\n")
    words = [*TRIAL, "--rounds", str(ROUNDS), "--output"]
    start_s = time.monotonic()
    first = interlock(*words, str(tmp_path / "first"), cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    usual_s = time.monotonic() - start_s
    wrong = []
    for turn in range(TRIES):
        there = tmp_path / f"{signal}-{turn}"
        wrong.append(restart_meanwhile(engine, signal, [*words, str(there)], tmp_path, random.uniform(1, usual_s)))
        if there.exists():
            tried = store.read_json(there / store.TRIAL_FILE, Trial)
            reported = interlock("report", str(there))
            wrong.append("" if reported.returncode == 0 else f"report: {reported.stderr}")
            wrong.append("" if any(one.values for one in tried.candidates) else "no value was kept")
        again = interlock(*words, str(there), cwd=tmp_path)
        wrong.append("" if again.returncode == 0 else f"tried again: {again.stderr}")
        wrong += cleaned(engine)
    found = [one for one in wrong if one]
    count(record_property, PROMISE, TRIES, len(found))
    assert found == []
