"""What a process that leads a session has started ends with it."""

from __future__ import annotations

import os
import select
import subprocess
import time
from pathlib import Path
from signal import SIGKILL

import pytest

from interlock.engine.ended import end_session


@pytest.mark.parametrize("leader", ["wait", "trap '' TERM; while :; do wait; done"])
def test_a_session_is_ended_and_what_ignores_that_is_killed(tmp_path: Path, leader: str) -> None:
    begun = tmp_path / "begun"
    stubborn = f"(trap '' TERM; touch {begun}; while :; do sleep 0.1; done)"
    held, holds = os.pipe()
    process = subprocess.Popen(["sh", "-c", f"{stubborn} & {leader}"], start_new_session=True, pass_fds=[holds])
    os.close(holds)
    while not begun.exists():
        time.sleep(0.01)
    end_session(process, 1)
    assert process.poll() is not None
    assert select.select([held], [], [], 20)[0], "nobody holds the pipe any more"
    os.close(held)


def test_a_process_that_has_ended_is_no_error() -> None:
    """Else it would stand in the place of the interrupt for which the session is ended."""
    process = subprocess.Popen(["true"], start_new_session=True)
    assert process.wait(20) == 0
    end_session(process, 1)
    assert process.returncode not in {None, -SIGKILL}
