"""Containers in which images are proved: they have a deadline, and end with who asked."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from interlock.engine.ownership import OWNER_LABEL
from interlock.engine.run import one_shot
from interlock.results.experiments import Built
from tests.builders import ROOT

pytestmark = pytest.mark.usefixtures("nothing_left")
# A build that proves in threads, as builds side by side do, and is interrupted meanwhile.
INTERRUPTED = """\
import sys, threading, time
from interlock.cli import main
from interlock.engine import docker
from interlock.engine.run import one_shot

def prove(builder, names):
    for _ in range(2):
        work = lambda: one_shot.ask(builder.client, image_id, ["sleep", "600"], 600)
        threading.Thread(target=work, daemon=True).start()
    while True:
        time.sleep(0.1)

docker.builds.build = prove
image_id = sys.argv.pop()
sys.argv[1:] = ["build", "debian-3.13"]
main.main()
"""


def of(client: Any, process_id: int) -> list[Any]:
    containers = client.containers.list(all=True, ignore_removed=True, filters={"label": OWNER_LABEL})
    return [one for one in containers if one.labels[OWNER_LABEL].startswith(f"proof-{process_id}-")]


def test_a_proof_that_does_not_end_is_over_at_its_deadline(client: Any, quick: Built) -> None:
    started = time.monotonic()
    said = one_shot.ask(client, quick.image_id, ["sh", "-c", "echo first; sleep 600"], 2)
    assert (said.exit_code, said.stdout) == (None, "first\n")
    assert time.monotonic() - started < 30


def test_proofs_end_at_sigterm_although_they_are_in_threads(client: Any, quick: Built) -> None:
    command = [sys.executable, "-c", INTERRUPTED, quick.image_id]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        limit = time.monotonic() + 60
        while len([one for one in of(client, process.pid) if one.status == "running"]) < 2:
            assert time.monotonic() < limit, "no proof has started"
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert of(client, process.pid) == []


def test_after_a_build_that_was_ended_its_process_can_ask_anew(client: Any, quick: Built) -> None:
    one_shot.end_all(client)
    try:
        assert one_shot.ask(client, quick.image_id, ["true"], 60).exit_code == 0
    finally:
        one_shot.allow()
