"""Experiments that end in any way: every block that was complete is there, is reported, and is gone on with.

The real ones measure `startup` on one variant with Docker; INTERLOCK_TORTURE_ENDS is how often each fault is tried.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from interlock.results import store
from tests.builders import ROOT
from tests.results.test_journal import expected, kill_once, measured
from tests.torture.experiments import (
    INTERLOCK,
    LIMIT_S,
    MATRIX,
    TRIES,
    Record,
    count,
    kept_and_resumed,
    matrix,
    values_of,
)

pytestmark = pytest.mark.promise

KILLS = int(os.environ.get("INTERLOCK_TORTURE_KILLS", "100"))
NAME = "tried"


def test_blocks_of_a_writer_that_is_killed_at_random_moments(record_property: Record, tmp_path: Path) -> None:
    wrong = []
    for _ in range(KILLS):
        said = kill_once(tmp_path, random.uniform(0, 0.2))
        kept = measured(tmp_path)
        if kept != expected(len(kept)) or len(kept) not in {said, said + 1}:
            wrong.append(f"{said} blocks were said, {len(kept)} are there")
    count(record_property, KILLS, wrong)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_matrix_that_a_signal_ends_at_a_random_moment(
    number: signal.Signals, record_property: Record, results: Path, usual_s: float
) -> None:
    wrong = []
    for turn in range(TRIES):
        name = f"{NAME}-{turn}"
        with (results / "said").open("wb") as said:
            process = subprocess.Popen([*INTERLOCK, *matrix(name, results)], cwd=ROOT, stdout=said, stderr=said)
            after_s = random.uniform(0.1, usual_s)
            time.sleep(after_s)
            process.send_signal(number)
            code = process.wait(LIMIT_S)
        if code not in {0, -number, 128 + number}:
            wrong.append(f"after {after_s:.1f} s it left with {code}: {(results / 'said').read_text()[-500:]}")
        lost = kept_and_resumed(results / name, name)
        wrong += [f"after {after_s:.1f} s: {lost}"] if lost else []
    count(record_property, TRIES, wrong)


FULL = """
mount -t tmpfs -o size=$1k none "$2" || exit 99
shift
there=$1; shift
"$@" --name tried-full --results "$there" >"$there.said" 2>&1; echo $?
mount -o remount,size=20m none "$there"
cp -r "$there" "$there.kept"
"""


@pytest.mark.parametrize("kilobytes", [24, 40, 56])
def test_a_matrix_whose_disk_is_full(kilobytes: int, record_property: Record, results: Path, usual_s: float) -> None:
    there = results / "disk"
    there.mkdir()
    argv = ["unshare", "-m", "sh", "-c", FULL, "sh", str(kilobytes), str(there), *INTERLOCK, *MATRIX]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    said = (results / "disk.said").read_text()
    wrong = "" if done.stdout.strip() in {"0", "7"} else f"it left with {done.stdout}: {said[-500:]}"
    kept = results / "disk.kept"
    names = [path.name for path in kept.iterdir()]
    wrong = wrong or (kept_and_resumed(kept / names[0], names[0]) if names else "")
    count(record_property, 1, [wrong])


FULL_CACHE = """
export XDG_CACHE_HOME="$(mktemp -d)"
mount -t tmpfs -o size=16k none "$XDG_CACHE_HOME" || exit 99
cat /dev/zero >"$XDG_CACHE_HOME/filler" 2>/dev/null
"$@"; code=$?
umount "$XDG_CACHE_HOME" && rmdir "$XDG_CACHE_HOME"
exit $code
"""
SURROUNDINGS: dict[str, tuple[str, Mapping[str, str | None]]] = {
    "no HOME": ('exec "$@"', {"HOME": None}),
    "a HOME that is not there": ('exec "$@"', {"HOME": "/nonexistent/home"}),
    "a HOME that cannot be written": ('exec "$@"', {"HOME": "/proc"}),
    "a cache on a full disk": (f"exec unshare -m sh -c '{FULL_CACHE}' sh \"$@\"", {}),
    "LANG=C": ('exec "$@"', {"LANG": "C", "LC_ALL": "C"}),
    "umask 077": ('umask 077; exec "$@"', {}),
    "no input": ('exec "$@" <&-', {}),
    "no output": ('exec "$@" >&- 2>&-', {}),
    "a name of blanks and letters of no ASCII": ('exec "$@"', {"RESULTS": "a b\u00e9\u2603"}),
}


@pytest.mark.promise
@pytest.mark.parametrize("what", SURROUNDINGS)
def test_odd_surroundings_end_no_experiment(what: str, record_property: Record, results: Path, usual_s: float) -> None:
    script, changes = SURROUNDINGS[what]
    environment = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
    folder = results / environment.pop("RESULTS", "plain")
    argv = ["sh", "-c", script, "sh", *INTERLOCK, *matrix(NAME, folder)]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=LIMIT_S)
    fine = done.returncode == 0 and store.read_experiment(folder / NAME).ended_by == "" and values_of(folder / NAME)
    count(record_property, 1, [] if fine else [done.stderr.decode()])
