"""Runs a playbook on this very machine, in front of the user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from interlock.errors import FleetError
from interlock.fleet import ansible


def play(root: Path, playbook: str) -> None:
    """FleetError if it fails. Ansible asks for sudo's password if there has to be one and somebody can be asked."""
    command = [ansible.program("ansible-playbook"), "-i", "localhost,", "-c", "local"]
    command.append(str(root / ansible.PLAYBOOKS / playbook))
    if _needs_password() and sys.stdin.isatty():
        command.append("--ask-become-pass")
    done = subprocess.run(command, env=ansible.environment(root), check=False)
    if done.returncode != 0:
        raise FleetError(
            file=f"{ansible.PLAYBOOKS}/{playbook}",
            found=f"ansible-playbook ended with {done.returncode}; what it said is above",
            todo="Mend that, or do by hand what `interlock doctor` names.",
        )


def _needs_password() -> bool:
    if os.geteuid() == 0:
        return False
    return subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode != 0
