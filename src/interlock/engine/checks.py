"""Checks of a machine, as the doctor shows them; and the probes in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from interlock.results.profiles import Method

PROBES = {
    Method.BPF: "BPF: every system call with its time, futex operations and waits; does not slow them",
    Method.STRACE_FUTEX: "strace: futex calls only; slows what it counts",
}


class CheckState(StrEnum):
    """Whether a check is fine, makes figures worse, or stops measuring."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class MachineCheck:
    """A check of the machine. `fix` is a command or an edit; empty when there is nothing to fix."""

    subject: str
    state: CheckState
    found: str
    fix: str = ""
    by_playbook: bool = False  # whether playbooks/host.yml fixes it
