"""Runs Ansible's programs: with the project's configuration, a log, and an end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.errors import FleetError, InventoryError
from interlock.fleet.record import Ending

PLAYBOOKS = "playbooks"
UNREACHABLE = 4
TELL_S = 10
LOOK_S = 0.5
# A host's last words: `fatal: [host]: FAILED! => {...}`.
FATAL = re.compile(r"^fatal: \[[^\]]*\].*?=> (\{.*\})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Played:
    """How a playbook ended on one host."""

    ending: Ending
    reason: str = ""


@dataclass(frozen=True)
class Call:
    """A playbook for one host, with its variables; `log` keeps what Ansible says."""

    root: Path
    inventory: str
    host: str
    playbook: str
    variables: Mapping[str, Any]
    log: Path
    tag: str
    deadline_s: float


def program(name: str) -> str:
    """Beside this Python, where pip puts it, or wherever PATH finds it."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise FleetError(
            found=f"{name} is not installed", todo="pip install 'interlock[fleet]', or use nox, which does."
        )
    return found


def environment(root: Path) -> dict[str, str]:
    config = str(root / PLAYBOOKS / "ansible.cfg")
    quiet = {"ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CALLBACK_FORMAT_PRETTY": "0"}
    return {**os.environ, **quiet, "ANSIBLE_CONFIG": config, "LC_ALL": os.environ.get("LC_ALL", "C.UTF-8")}


def list_inventory(path: Path, root: Path) -> str:
    """All hosts with their variables, as JSON."""
    if not path.is_file():
        raise InventoryError(
            file=str(path), found="there is no such file", todo="playbooks/inventory.example.yml shows one."
        )
    command = [program("ansible-inventory"), "-i", str(path), "--list"]
    done = subprocess.run(command, env=environment(root), capture_output=True, text=True, check=False)
    warned = re.search(r"Unable to parse.*|Failed to parse.*", done.stderr)
    if done.returncode != 0 or warned:
        said = warned.group() if warned else done.stderr.strip().splitlines()[-1]
        raise InventoryError(file=str(path), found=f"Ansible cannot read it: {said}", todo="Mend it.")
    return done.stdout


def play(call: Call, stop: threading.Event) -> Played:
    """Runs the playbook to its end, to the deadline or until `stop`; then it is ended, with all that it started."""
    with tempfile.TemporaryDirectory() as folder:
        variables = Path(folder) / "variables.json"
        variables.write_text(json.dumps(call.variables), encoding="utf-8")
        command = [program("ansible-playbook"), "-i", call.inventory, "-l", call.host, "-t", call.tag]
        command += ["-e", f"@{variables}", str(call.root / PLAYBOOKS / call.playbook)]
        call.log.parent.mkdir(parents=True, exist_ok=True)
        with call.log.open("ab+") as log:
            start = log.seek(0, os.SEEK_END)
            code = _run(command, environment(call.root), log, call.deadline_s, stop)
            log.seek(start)
            said = log.read().decode(errors="replace")
    return Played(Ending.LOST, "interrupted") if stop.is_set() else judge(code, said, call)


def _run(
    command: Sequence[str], variables: Mapping[str, str], log: Any, deadline_s: float, stop: threading.Event
) -> int | None:
    """The exit code; None at the deadline. A group of its own, so that its end is that of its workers and of ssh."""
    limit_s = time.monotonic() + deadline_s
    with subprocess.Popen(
        command, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        while time.monotonic() < limit_s and not stop.is_set():
            with suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK_S)
        _end(process)
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(TELL_S)
            return


def judge(code: int | None, said: str, call: Call) -> Played:
    """What an exit code of ansible-playbook says of the one host, with the host's last words."""
    if code is None:
        return Played(Ending.LOST, f"it had not ended after {call.deadline_s:.0f} s")
    if code == 0:
        return Played(Ending.DONE)
    reason = last_words(said) or f"see {call.log}"
    return (
        Played(Ending.LOST, f"it does not answer ({reason})") if code == UNREACHABLE else Played(Ending.FAILED, reason)
    )


def last_words(said: str) -> str:
    """The message of the first task that failed: what its command wrote last, or Ansible's own."""
    found = FATAL.search(said)
    if not found:
        lines = [line for line in said.splitlines() if line.startswith(("ERROR", "[ERROR]"))]
        return lines[0] if lines else ""
    with suppress(ValueError):
        told = json.loads(found.group(1))
        if told.get("rc") == 124:
            return "it had not ended at the deadline"
        for text in (str(told.get("stderr", "")), str(told.get("msg", ""))):
            if text.strip():
                return text.strip().splitlines()[-1].rstrip(":")
    return found.group(1)
