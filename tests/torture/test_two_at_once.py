"""Two of a command at the same moment do not harm each other.

INTERLOCK_TORTURE_ENDS is how often each is tried.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer

import pytest

from interlock.results import store
from tests.builders import ROOT
from tests.integration.images import QUICK
from tests.torture.experiments import (
    INTERLOCK,
    LIMIT_S,
    TRIES,
    Record,
    add_toy,
    count,
    forget,
    images_of,
    interlock,
    matrix,
    owners_of,
    sentences,
    values_of,
    wait_for,
)

pytestmark = [pytest.mark.usefixtures("built"), pytest.mark.promise]
SWAPS = 5 * TRIES
BEFORE = "FROM python:3.12-slim AS app\nCOPY . /app\nCMD python /app/server.py\n"


def at_once(*commands: Sequence[str], cwd: Path = ROOT, **environment: str) -> list[tuple[int, str]]:
    """Start all commands, and return each one's exit code and what it said once all have ended."""
    with ThreadPoolExecutor(len(commands)) as starters:
        ended = list(starters.map(lambda words: interlock(*words, cwd=cwd, **environment), commands))
    return [(done.returncode, done.stdout + done.stderr) for done in ended]


def failures(ended: Sequence[tuple[int, str]]) -> list[str]:
    return [f"it left with {code}: {said[-1000:]}" for code, said in ended if code or "Traceback" in said]


@pytest.mark.parametrize("beside", [[["build"]], [["clean"], ["clean"]]], ids=["the same build", "cleans"])
def test_a_build_beside_others(beside: list[list[str]], project: Path, record_property: Record) -> None:
    """What `clean` removes is what the dead have left: the build, and the proof that ends it, are at work."""
    wrong: list[str] = []
    for _ in range(TRIES):
        name, environment = add_toy(project)
        others = [[*words, name] if words == ["build"] else words for words in beside]
        wrong += failures(at_once(["build", name], *others, cwd=project, **environment))
        wrong += [images_of(name), *(f"{owner} is left" for owner in owners_of("proof"))]
        forget(name)
    count(record_property, (1 + len(beside)) * TRIES, wrong)


def test_two_swaps_of_one_file(record_property: Record, tmp_path: Path) -> None:
    """One of the two is written whole, and the revert is the file of before, byte for byte."""
    wrong: list[str] = []
    file = tmp_path / "Dockerfile"
    words = ["swap", str(file), "--write", "--local", "--to"]
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
    count(record_property, 2 * SWAPS, wrong)


def test_two_matrices_of_one_name(results: Path, record_property: Record) -> None:
    """The one waits for the other, and then says that the name is taken."""
    wrong: list[str] = []
    for turn in range(TRIES):
        name = f"tried-{turn}"
        words = matrix(name, results)
        ended = sorted(at_once(words, words))
        (first, _), (second, said) = ended
        if first != 0 or second == 0 or "Traceback" in said or len(sentences(said)) != 1 or name not in said:
            wrong.append(f"they left with {ended}")
        described = store.read_experiment(results / name)
        wrong += [] if described.ended_by == "" and values_of(results / name) else [f"{name} is not whole"]
        wrong += [f"{owner} is left" for owner in owners_of(name)]
    count(record_property, 2 * TRIES, wrong)


def test_two_cleans(results: Path, record_property: Record) -> None:
    """Of what killed experiments left: both end well, and nothing of it is there any more."""
    wrong: list[str] = []
    for turn in range(TRIES):
        name = f"tried-{turn}"
        argv = [*INTERLOCK, *matrix(name, results)]
        process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(name, process)
        time.sleep(random.uniform(0, 2))
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
        wrong += failures(at_once(["clean"], ["clean"]))
        wrong += [f"{owner} is left" for owner in owners_of(name)]
    count(record_property, 2 * TRIES, wrong)


@pytest.fixture(scope="module")
def faketime() -> str:
    """Debian's library that shows a process another time; the monotonic clock stays what it is."""
    found = [*Path("/usr/lib").glob("*/faketime/libfaketime.so.1")]
    if not found:
        pytest.skip("libfaketime is not installed (apt-get install libfaketime)")
    return str(found[0])


@pytest.mark.promise
@pytest.mark.parametrize("moved", ["-2h", "+5h", "+1d", "-3000d"])
def test_a_clock_that_jumps_changes_no_experiment(
    moved: str, faketime: str, results: Path, usual_s: float, record_property: Record, tmp_path: Path
) -> None:
    clock, name = tmp_path / "clock", "tried-clock"
    clock.write_text("+0\n")
    environment = {
        "LD_PRELOAD": faketime,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
    Timer(usual_s / 2, clock.write_text, [f"{moved}\n"]).start()
    done = interlock(*matrix(name, results), cwd=ROOT, **environment)
    wrong = [] if done.returncode == 0 else [f"it left with {done.returncode}: {done.stderr[-1000:]}"]
    if done.returncode == 0:
        described = store.read_experiment(results / name)
        wrong += [] if described.ended_by == "" and values_of(results / name) else ["it is not whole"]
        # By the monotonic clock, which nobody moves.
        wrong += [] if usual_s / 4 < described.duration_s < 4 * usual_s else [f"it took {described.duration_s} s"]
        reported = interlock("report", str(results / name))
        wrong += [] if reported.returncode == 0 else [reported.stderr]
        wrong += [f"{owner} is left" for owner in owners_of(name)]
    count(record_property, 1, ["; ".join(wrong)])
