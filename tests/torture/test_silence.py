"""An engine that falls silent or hangs up in the middle, and a machine that sleeps: nothing complete is lost.

The engine is the machine's, behind a socket that forwards to it until it does not. INTERLOCK_TORTURE_ENDS is how often
each is tried.
"""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import docker
import pytest

from interlock.engine.ownership import OWNER_LABEL
from interlock.results import store
from tests.builders import ROOT
from tests.torture.experiments import (
    INTERLOCK,
    LIMIT_S,
    TRIES,
    Record,
    count,
    interlock,
    kept_and_resumed,
    matrix,
    owners_of,
    sentences,
    values_of,
    wait_for,
)

pytestmark = pytest.mark.usefixtures("built")

ENGINE = "/var/run/docker.sock"
# A command's own limits are minutes: nobody learns more by waiting for them.
IMPATIENT = "from interlock.engine import client; client.SHORT_S = client.REMOVAL_S = client.PING_S = 5; "
SLEEPS_S = 12
# Of an impatient command: the cell that is measured may be silent for as long as its deadline, and a minute.
MOST_S = 200


class Door:
    """A socket before the engine's: what comes is handed on until it `sticks`, or hangs up on everybody."""

    def __init__(self, path: Path) -> None:
        self.path, self.sticks, self.is_shut = path, threading.Event(), threading.Event()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                user, _ = self._server.accept()
                threading.Thread(target=self._forward, args=(user,), daemon=True).start()

    def _forward(self, user: socket.socket) -> None:
        with user, socket.socket(socket.AF_UNIX) as engine, suppress(OSError):
            engine.connect(ENGINE)
            other = {user: engine, engine: user}
            while not self.is_shut.is_set():
                for one in select.select([user, engine], [], [], 0.1)[0]:
                    if self.sticks.is_set():
                        self.is_shut.wait()
                    elif not (data := one.recv(65536)):
                        return
                    else:
                        other[one].sendall(data)

    def close(self) -> None:
        self.is_shut.set()
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.path.unlink()


@pytest.mark.promise
@pytest.mark.parametrize("how", ["sticks", "hangs up"])
def test_an_engine_that_falls_silent_ends_in_one_sentence_and_is_cleaned_later(
    how: str, record_property: Record, results: Path, usual_s: float
) -> None:
    wrong = []
    for turn in range(TRIES):
        name, door = f"tried-{turn}", Door(results / "door")
        argv = [*INTERLOCK, *matrix(name, results)]
        argv[2] = IMPATIENT + argv[2]
        where = {**os.environ, "DOCKER_HOST": f"unix://{door.path}"}
        with subprocess.Popen(argv, cwd=ROOT, env=where, stdout=-1, stderr=subprocess.STDOUT, text=True) as process:
            wait_for(name, process)
            after_s = random.uniform(0, usual_s / 2)
            time.sleep(after_s)
            stuck_s = time.monotonic()
            door.sticks.set() if how == "sticks" else door.close()
            said, _ = process.communicate(timeout=LIMIT_S)
        took_s = time.monotonic() - stuck_s
        if how == "sticks":
            door.close()
        if process.returncode not in {0, 4} or "Traceback" in said or len(sentences(said)) != (process.returncode == 4):
            wrong.append(f"after {after_s:.1f} s it left with {process.returncode}: {said[-1500:]}")
        if took_s > MOST_S:
            wrong.append(f"it took {took_s:.0f} s to end")
        if process.returncode and owners_of(name) and "interlock clean" not in said:
            wrong.append(f"nobody is told of {owners_of(name)}: {said[-500:]}")
        cleaned = interlock("clean")
        if cleaned.returncode or owners_of(name):
            wrong.append(f"clean: {cleaned.stderr} {owners_of(name)}")
        wrong.append(kept_and_resumed(results / name, name))
    count(record_property, TRIES, wrong)


@pytest.mark.promise
def test_a_machine_that_sleeps_loses_no_experiment(record_property: Record, results: Path, usual_s: float) -> None:
    wrong = []
    for turn in range(TRIES):
        name = f"tried-sleep-{turn}"
        argv = [*INTERLOCK, *matrix(name, results)]
        with subprocess.Popen(argv, cwd=ROOT, stdout=-1, stderr=subprocess.STDOUT, text=True) as process:
            time.sleep(random.uniform(1, usual_s))
            client = docker.from_env()
            process.send_signal(signal.SIGSTOP)
            cells = [
                one for one in client.containers.list(ignore_removed=True)
                if one.labels.get(OWNER_LABEL, "").startswith(f"{name}-")
            ]  # fmt: skip
            for cell in cells:
                with suppress(docker.errors.DockerException):
                    cell.pause()
            time.sleep(SLEEPS_S)
            for cell in cells:
                with suppress(docker.errors.DockerException):
                    cell.unpause()
            process.send_signal(signal.SIGCONT)
            said, _ = process.communicate(timeout=LIMIT_S)
        described = store.read_experiment(results / name)
        whole = process.returncode == 0 and not described.ended_by and not described.unfinished
        whole = whole and len(values_of(results / name)) > 0
        wrong += [] if whole else [f"it left with {process.returncode}: {said[-1500:]}"]
        wrong += [f"{owner} is left" for owner in owners_of(name)]
    count(record_property, TRIES, wrong)
