"""Two of a command at the same moment do not harm each other, and a clock that is moved changes no experiment.

INTERLOCK_TORTURE_ENDS is how often each is tried.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import docker
import pytest

from interlock.engine.ownership import OWNER_LABEL
from interlock.engine.run.leftovers import clean_up
from interlock.results import store
from tests.builders import ROOT
from tests.integration.images import QUICK
from tests.integration.registries import registry
from tests.integration.toys import TOYS, add_toy_bases, copy_project, toy_tarball, toy_variant
from tests.torture.experiments import (
    INTERLOCK,
    LIMIT_S,
    MATRIX,
    Record,
    count,
    interlock,
    sentences,
    usual_duration_s,
    values_of,
)

pytestmark = pytest.mark.usefixtures("built")
TWO = "two of a command at the same moment"
CLOCK = "a clock that is moved changes no experiment"
TRIES = max(1, int(os.environ.get("INTERLOCK_TORTURE_ENDS", "12")) // 4)
SWAPS = 5 * TRIES
BEFORE = "FROM python:3.12-slim AS app\nCOPY . /app\nCMD python /app/server.py\n"


def at_once(*commands: Sequence[str], cwd: Path = ROOT, **environment: str) -> list[tuple[int, str]]:
    """Start all commands, and return each one's exit code and what it said once all have ended."""
    with ExitStack() as ends:
        started = [
            ends.enter_context(
                subprocess.Popen(
                    [*INTERLOCK, *words],
                    cwd=cwd,
                    env={**os.environ, **environment},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
            for words in commands
        ]
        said = [one.communicate(timeout=LIMIT_S)[0] for one in started]
    return [(one.returncode, text) for one, text in zip(started, said, strict=True)]


def failures(ended: Sequence[tuple[int, str]]) -> list[str]:
    return [f"it left with {code}: {said[-1000:]}" for code, said in ended if code or "Traceback" in said]


def owners_of(beginning: str) -> set[str]:
    """The owners of what is in the engine whose name begins so."""
    client, owned = docker.from_env(), {"label": OWNER_LABEL}
    found = [one.labels for one in client.containers.list(all=True, filters=owned, ignore_removed=True)]
    found += [
        one.attrs["Labels"] for one in (*client.volumes.list(filters=owned), *client.networks.list(filters=owned))
    ]
    return {labels[OWNER_LABEL] for labels in found if labels[OWNER_LABEL].startswith(beginning)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    found = copy_project(ROOT, tmp_path / "project", [QUICK], [])
    add_toy_bases(found)
    return found


def add_toy(project: Path) -> tuple[str, dict[str, str]]:
    """Add a variant that nobody has built; return its name and the environment in which its source is found."""
    name, mirror = f"toy-{uuid.uuid4().hex[:8]}", project.parent / "mirror"
    sha256 = toy_tarball(mirror, f"{name}.tgz", f"sleep 1; echo {name}")
    toy_variant(project, name, f"{name}.tgz", sha256, base=TOYS)
    return name, {"INTERLOCK_SOURCE_MIRROR": str(mirror)}


def forget(*names: str) -> None:
    client = docker.from_env()
    for name in names:
        for image in client.images.list(filters={"label": f"interlock.variant={name}"}):
            client.images.remove(image.id, force=True)


def test_two_builds_of_one_variant(project: Path, record_property: Record) -> None:
    wrong: list[str] = []
    for _ in range(TRIES):
        name, environment = add_toy(project)
        wrong += failures(at_once(["build", name], ["build", name], cwd=project, **environment))
        images = docker.from_env().images.list(name=f"localhost/interlock/python:{name}-{TOYS}")
        wrong += [] if len(images) == 1 else [f"{len(images)} images have the tag"]
        wrong += [f"{owner} is left" for owner in owners_of("proof-")]
        forget(name)
    count(record_property, TWO, 2 * TRIES, len(wrong))
    assert wrong == []


def test_a_build_beside_cleans(project: Path, record_property: Record) -> None:
    """What is removed is what the dead have left: the build, and the proof that ends it, are at work."""
    wrong: list[str] = []
    for _ in range(TRIES):
        name, environment = add_toy(project)
        wrong += failures(at_once(["build", name], ["clean"], ["clean"], cwd=project, **environment))
        images = docker.from_env().images.list(name=f"localhost/interlock/python:{name}-{TOYS}")
        wrong += [] if len(images) == 1 else [f"{len(images)} images have the tag"]
        forget(name)
    count(record_property, TWO, 3 * TRIES, len(wrong))
    assert wrong == []


def test_two_pushes_of_one_image(project: Path, record_property: Record, tmp_path: Path) -> None:
    wrong: list[str] = []
    with registry(tmp_path / "registry") as there:
        for _ in range(TRIES):
            name, environment = add_toy(project)
            push, pull = ([word, name, "--registry", f"{there.address}/team"] for word in ("push", "pull"))
            wrong += failures(at_once(["build", name], cwd=project, **environment))
            wrong += failures(at_once(push, push, cwd=project, **environment))
            images = docker.from_env().images.list(filters={"label": f"interlock.variant={name}"})
            digests = {str(one.attrs["RepoDigests"]) for one in images}
            wrong += [] if len(digests) == 1 else [f"digests {digests}"]
            forget(name)
            wrong += failures(at_once(pull, cwd=project, **environment))
            forget(name)
    count(record_property, TWO, 2 * TRIES, len(wrong))
    assert wrong == []


def test_two_swaps_of_one_file(record_property: Record, tmp_path: Path) -> None:
    """One of the two is written whole, and the revert is the file of before, byte for byte."""
    wrong: list[str] = []
    file = tmp_path / "Dockerfile"
    words = ["swap", str(file), "--write", "--local", "--profile", "standard", "--to"]
    written = set()
    for variant in (QUICK, "cpython-3.13t"):
        file.write_text(BEFORE)
        wrong += failures(at_once([*words, variant]))
        written.add(file.read_bytes())
    for _ in range(SWAPS):
        file.write_text(BEFORE)
        wrong += failures(at_once([*words, QUICK], [*words, "cpython-3.13t"]))
        wrong += [] if file.read_bytes() in written else [f"torn: {file.read_bytes()!r}"]
        wrong += failures(at_once(["swap", str(file), "--revert", "--write"]))
        wrong += [] if file.read_text() == BEFORE else [f"not reverted: {file.read_text()}"]
        wrong += [f"{path} is left" for path in tmp_path.iterdir() if path != file]
    count(record_property, TWO, 2 * SWAPS, len(wrong))
    assert wrong == []


@pytest.fixture
def results(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "results"
    for owner in owners_of("tried-"):
        clean_up(docker.from_env(), owner)


def test_two_matrices_of_one_name(results: Path, record_property: Record) -> None:
    """The one waits for the other, and then says that the name is taken."""
    wrong: list[str] = []
    for turn in range(TRIES):
        name = f"tried-{turn}"
        words = [*MATRIX, "--name", name, "--results", str(results)]
        ended = sorted(at_once(words, words))
        (first, _), (second, said) = ended
        if first != 0 or second == 0 or "Traceback" in said or len(sentences(said)) != 1 or name not in said:
            wrong.append(f"they left with {ended}")
        described = store.read_experiment(results / name)
        wrong += [] if described.ended_by == "" and values_of(results / name) else [f"{name} is not whole"]
        wrong += [f"{owner} is left" for owner in owners_of(name)]
    count(record_property, TWO, 2 * TRIES, len(wrong))
    assert wrong == []


def test_two_cleans(results: Path, record_property: Record) -> None:
    """Of what killed experiments left: both end well, and nothing of it is there any more."""
    wrong: list[str] = []
    for turn in range(TRIES):
        name = f"tried-{turn}"
        process = subprocess.Popen(
            [*INTERLOCK, *MATRIX, "--name", name, "--results", str(results)],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        limit = time.monotonic() + LIMIT_S
        while not owners_of(name) and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.1)
        time.sleep(random.uniform(0, 2))
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
        wrong += failures(at_once(["clean"], ["clean"]))
        wrong += [f"{owner} is left" for owner in owners_of(name)]
    count(record_property, TWO, 2 * TRIES, len(wrong))
    assert wrong == []


@pytest.fixture(scope="module")
def faketime() -> str:
    """Debian's library that shows a process another time; the monotonic clock stays what it is."""
    found = [*Path("/usr/lib").glob("*/faketime/libfaketime.so.1")]
    if not found:
        pytest.skip("libfaketime is not installed (apt-get install libfaketime)")
    return str(found[0])


@pytest.mark.parametrize("moved", ["-2h", "+1d", "-3000d"])
def test_a_matrix_whose_clock_is_moved(
    moved: str, faketime: str, results: Path, record_property: Record, tmp_path: Path
) -> None:
    usual_s, clock, name = usual_duration_s(tmp_path / "usual"), tmp_path / "clock", "tried-clock"
    clock.write_text("+0\n")
    environment = {
        "LD_PRELOAD": faketime,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
    with subprocess.Popen(
        [*INTERLOCK, *MATRIX, "--name", name, "--results", str(results)],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        time.sleep(usual_s / 2)
        clock.write_text(f"{moved}\n")
        said, _ = process.communicate(timeout=LIMIT_S)
    described = store.read_experiment(results / name) if process.returncode == 0 else None
    found = [] if described else [f"it left with {process.returncode}: {said[-1000:]}"]
    if described:
        found += [] if described.ended_by == "" and values_of(results / name) else ["it is not whole"]
        # By the monotonic clock, which nobody moves.
        found += [] if usual_s / 4 < described.duration_s < 4 * usual_s else [f"it took {described.duration_s} s"]
        reported = interlock("report", str(results / name))
        found += [] if reported.returncode == 0 else [reported.stderr]
        found += [f"{owner} is left" for owner in owners_of(name)]
    count(record_property, CLOCK, 1, int(bool(found)))
    assert found == []
