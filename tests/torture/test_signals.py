"""Commands that a signal ends at a random moment: nothing of theirs is left, and the next start does all of it.

INTERLOCK_TORTURE_SIGNALS is how often each command is ended, by KILL, TERM, HUP and INT in turn. After KILL, `interlock
clean` removes what the killed process could not, a second one what the engine was still making for it. Matrices
without profiles are in test_ends.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

import docker
import pytest

from interlock.engine.ownership import PID, PREFIX
from interlock.fleet.record import FLEET_FILE, FleetRecord
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE
from tests import simulated
from tests.builders import ROOT
from tests.integration.images import QUICK
from tests.integration.resources import owned
from tests.integration.test_trial import BUILD, OWN_IMAGE, write_service
from tests.torture.experiments import INTERLOCK, LIMIT_S, Record, add_toy, count, forget, images_of, values_of

pytestmark = [pytest.mark.usefixtures("built"), pytest.mark.promise]
TIMES = int(os.environ.get("INTERLOCK_TORTURE_SIGNALS", "10"))
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
GONE_S = 30


@dataclass
class Attempts:
    """A command that is ended again and again, in an environment of its own, and what was wrong with it."""

    words: Callable[[int], Sequence[str]]  # its command line by the number of the attempt
    cwd: Path
    temporary: Path
    environment: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.temporary.mkdir(exist_ok=True)
        self.environment = {**os.environ, "TMPDIR": str(self.temporary), **self.environment}

    def run(self, words: Sequence[str]) -> tuple[int, str]:
        done = subprocess.run(
            words, cwd=self.cwd, env=self.environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
        return done.returncode, done.stdout[-1000:] + done.stderr[-1000:]

    def works(self, words: Sequence[str]) -> None:
        """Run a command that nothing ends."""
        code, said = self.run(words)
        self.wrong += [] if code == 0 else [f"{' '.join(words)}: {said}"]

    def usual_s(self) -> float:
        """How long the command takes that nothing ends."""
        start_s = time.monotonic()
        code, said = self.run(self.words(-1))
        assert code == 0, said
        return time.monotonic() - start_s

    def ended(self, number: int, which: signal.Signals, after_s: float) -> None:
        """Start it, end it, and look for what it left."""
        path = self.temporary / "said"
        with path.open("wb") as said:
            process = subprocess.Popen(
                self.words(number), cwd=self.cwd, env=self.environment, stdout=said, stderr=said, start_new_session=True
            )
            time.sleep(after_s)
            process.send_signal(which)
            code = process.wait(LIMIT_S)
        text = path.read_text(errors="replace")
        path.unlink()
        when = f"{which.name} after {after_s:.1f} s"
        if code not in {0, -which, 128 + which} or "Traceback" in text:
            self.wrong.append(f"{when}: it left with {code}: {text[-800:]}")
        if which == signal.SIGKILL:
            self.works([*INTERLOCK, "clean"])
        left = self.left(process.pid)
        if left and which == signal.SIGKILL:  # a busy engine was still making it when `clean` looked
            self.works([*INTERLOCK, "clean"])
            left = self.left(process.pid)
        self.wrong += [f"{when}: {what} is left" for what in left]

    def left(self, pid: int) -> list[str]:
        """What there is of a process in the engine and among temporary folders, once that had time to go."""
        limit_s = time.monotonic() + GONE_S
        while (found := [*things_of(pid), *folders_in(self.temporary)]) and time.monotonic() < limit_s:
            time.sleep(0.5)
        return found


def things_of(pid: int) -> list[str]:
    client = docker.from_env()
    images = client.images.list(filters={"label": f"{PID}={pid}", "dangling": True})
    return [*owned(client, PID, pid), *(image.id for image in images)]


def folders_in(temporary: Path) -> list[str]:
    return [str(path) for path in temporary.glob(f"{PREFIX}*")]


def moments(usual_s: float, times: int = TIMES) -> Iterator[tuple[int, signal.Signals, float]]:
    for number, which in enumerate(islice(cycle(SIGNALS), times)):
        yield number, which, random.uniform(0.1, usual_s)


def test_a_build(project: Path, tmp_path: Path, record_property: Record) -> None:
    toys = [add_toy(project) for _ in range(TIMES + 1)]
    names, environment = [name for name, _ in toys], toys[0][1]
    try:
        tried = Attempts(lambda turn: [*INTERLOCK, "build", names[turn]], project, tmp_path / "tmp", environment)
        for turn, which, after_s in moments(tried.usual_s()):
            tried.ended(turn, which, after_s)
            tried.works(tried.words(turn))
            tried.wrong.append(images_of(names[turn]))
    finally:
        forget(*names)
    count(record_property, TIMES, tried.wrong)


def test_a_matrix_with_profiles(tmp_path: Path, record_property: Record) -> None:
    results = tmp_path / "results"
    matrix = ["matrix", "--variants", QUICK, "--workloads", "startup", "--rounds", "2", "--quick"]
    tried = Attempts(
        lambda turn: [*INTERLOCK, *matrix, "--name", f"tried-{turn}", "--results", str(results)],
        ROOT,
        tmp_path / "tmp",
    )
    for turn, which, after_s in moments(tried.usual_s()):
        tried.ended(turn, which, after_s)
        folder = results / f"tried-{turn}"
        if (folder / EXPERIMENT_FILE).is_file():
            before, described = values_of(folder), store.read_experiment(folder)
            if described.ended_by:
                tried.works([*INTERLOCK, "matrix", "--resume", folder.name, "--results", str(results)])
            tried.wrong += [] if before <= values_of(folder) else ["values are lost"]
            tried.works([*INTERLOCK, "report", str(folder)])
        else:
            tried.works(tried.words(turn))
    count(record_property, TIMES, tried.wrong)


@pytest.fixture
def own_image() -> Iterator[None]:
    """An official image, by the name that a registry of one's own has for it."""
    client = docker.from_env()
    (found, *_) = client.images.list(filters={"label": f"interlock.variant={QUICK}"})
    found.tag(OWN_IMAGE)
    yield
    client.images.remove(OWN_IMAGE, force=True)  # the name alone: the image has another


def test_a_trial(project: Path, tmp_path: Path, own_image: None, record_property: Record) -> None:
    service = write_service(tmp_path / "service")
    words = [
        "trial", str(service), *BUILD, "--load", "wrk -t1 -c2 -d1s {url}/", "--http", ":8000/health", "--rounds", "1",
        "--variants", QUICK,
    ]  # fmt: skip
    before = sorted(path.read_bytes() for path in service.iterdir())
    tried = Attempts(
        lambda turn: [*INTERLOCK, *words, "--results", str(tmp_path), "--name", f"trial-{turn}"],
        project,
        tmp_path / "tmp",
    )
    for turn, which, after_s in moments(tried.usual_s(), times=max(1, TIMES // 2)):
        tried.ended(turn, which, after_s)
        folder = tmp_path / f"trial-{turn}"
        if (folder / EXPERIMENT_FILE).is_file():
            store.read_cells(folder, store.read_experiment(folder))
        else:
            tried.works(tried.words(turn))
    tried.wrong += [] if before == sorted(path.read_bytes() for path in service.iterdir()) else ["a file has changed"]
    count(record_property, max(1, TIMES // 2), tried.wrong)


def test_a_fleet(tmp_path: Path, record_property: Record) -> None:
    """Two simulated hosts: what they measured is there, and the next start measures the rest."""
    project = simulated.make_project(tmp_path / "project")
    inventory = simulated.write_inventory(project, "ash", "birch")

    def words(turn: int) -> list[str]:
        begun = [str(path.parent) for path in (project / f"fleet-{turn}").glob(f"*/{FLEET_FILE}")]
        how = ["--resume", *begun] if begun else [*simulated.ASKED, *simulated.ENGINE]
        return [*INTERLOCK, "fleet", "-i", str(inventory), "--results", str(project / f"fleet-{turn}"), *how]

    tried = Attempts(words, project, tmp_path / "tmp")
    for turn, which, after_s in moments(tried.usual_s(), times=max(1, TIMES // 2)):
        tried.ended(turn, which, after_s)
        folder = project / f"fleet-{turn}"
        records = [store.read_json(path, FleetRecord) for path in folder.glob(f"*/{FLEET_FILE}")]
        complete = [name for record in records for name, host in record.hosts.items() if host.complete]
        measured = {path: path.read_bytes() for name in complete for path in folder.glob(f"*/{name}/*.json")}
        tried.works(tried.words(turn))
        tried.wrong += [f"{path} has changed" for path, data in measured.items() if path.read_bytes() != data]
        found = len(list(folder.glob(f"*/*/{EXPERIMENT_FILE}")))
        tried.wrong += [] if found == 2 else [f"{found} of 2 hosts were measured"]
        tried.wrong += [f"{path} is left" for path in (*folder.glob("*/*.tar.gz"), *folder.glob("*/.incoming"))]
    count(record_property, max(1, TIMES // 2), tried.wrong)
