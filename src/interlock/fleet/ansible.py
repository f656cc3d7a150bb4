"""Call Ansible: read an inventory, run playbooks on hosts or on this machine, and pack Interlock for the hosts."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

from interlock.engine.build.one_build import follow
from interlock.engine.build.sources import tar_of
from interlock.engine.client import docker_address
from interlock.engine.finding import sudo_asks
from interlock.errors import INSTALL, FleetError, InventoryError, last_line
from interlock.results import store
from interlock.results.files import write_atomically
from interlock.untrusted import parse_json, printable

PLAYBOOKS = "playbooks"
EXAMPLE = "Write it as playbooks/inventory.example.yml."


def program(name: str) -> str:
    """Return the path of one of Ansible's programs, next to this Python or on PATH; FleetError if there is none."""
    installed = Path(sys.executable).with_name(name)
    path = str(installed) if installed.is_file() else shutil.which(name)
    if path is None:
        raise FleetError(found=f"{name} is not installed", todo=INSTALL.format(extra="fleet"))
    return path


def environment(root: Path) -> dict[str, str]:
    """Return the environment of Ansible's programs: the project's configuration, plain output."""
    config = str(root / PLAYBOOKS / "ansible.cfg")
    plain = {"ANSIBLE_CONFIG": config, "ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1"}
    return {**os.environ, **plain, "LC_ALL": "C.UTF-8"}  # Ansible starts with no other encoding


def read_inventory(path: Path, root: Path) -> list[str]:
    """Return the names of the hosts of an inventory; InventoryError if there are none or Ansible cannot read it."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # Ansible would wait for a FIFO's writer
        raise InventoryError(file=str(path), found="not a regular file", todo=EXAMPLE)
    command = [program("ansible-inventory"), "-i", str(path), "--list"]
    done = subprocess.run(command, env=environment(root), capture_output=True, encoding="utf-8", check=False)
    warned = re.search(r"Unable to parse.*|Failed to parse.*", done.stderr)
    if done.returncode != 0 or warned:
        reason = warned.group() if warned else last_line(done.stderr)
        raise InventoryError(file=str(path), found=f"Ansible cannot read it: {reason}", todo=EXAMPLE)
    return parse_inventory(path, done.stdout)


def parse_inventory(path: Path, listing: str) -> list[str]:
    """Return the names of the hosts from the output of `ansible-inventory --list`; InventoryError without any."""
    names: set[str] = set()
    with suppress(ValueError, AttributeError, TypeError):
        listed = parse_json(listing)
        names = {str(name) for part in listed.values() for name in part.get("hosts", [])}
    if not names:
        raise InventoryError(file=str(path), found="it has no hosts", todo=EXAMPLE)
    for name in names:
        store.require_name(name, f"{path}: host")
    return sorted(names)


def play(
    root: Path, playbook: str, hosts: Sequence[str], variables: Mapping[str, Any], settings: Mapping[str, str]
) -> dict[str, str]:
    """Run a playbook on all these hosts at once, with these settings of Ansible; return the failures by host.

    FleetError if Ansible could not do its work. Whatever ends this call also ends all that it started.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, limit, failures = (Path(folder) / name for name in ("variables.json", "hosts", "failures"))
        given.write_text(json.dumps(variables), encoding="utf-8")
        limit.write_text("\n".join(hosts), encoding="utf-8")
        command = [program("ansible-playbook"), "-l", f"@{limit}", "-e", f"@{given}", str(root / PLAYBOOKS / playbook)]
        more = {"ANSIBLE_CALLBACKS_ENABLED": "failures", "INTERLOCK_FAILURES": str(failures)}
        code = _run(command, {**environment(root), **docker_address().environment, **settings, **more})
        lines = failures.read_text(encoding="utf-8").splitlines() if failures.is_file() else []
        if code and not lines:
            problem = f"ansible-playbook ended with exit code {code}; its output is above"
            raise FleetError(file=f"{PLAYBOOKS}/{playbook}", found=problem, todo="Fix that, and run the command again.")
        return {failure["host"]: printable(failure["reason"]) for failure in map(json.loads, lines)}


def _run(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a command, print its output and return its exit code; it leads a group, so that all of it ends at once."""

    def show(line: str) -> str:
        sys.stdout.write(printable(line))
        sys.stdout.flush()
        return ""  # nothing is kept

    return follow(command, [], show, env=variables, start_new_session=True)


def play_here(root: Path, playbook: str, variables: Mapping[str, object]) -> None:
    """Run a playbook on this machine; if it fails, print Ansible's output and raise FleetError.

    At a terminal Ansible asks for sudo's password.
    """
    path = str(root / PLAYBOOKS / playbook)
    command = [program("ansible-playbook"), "-i", "localhost,", "-c", "local", "-e", json.dumps(variables), path]
    if sys.stdin.isatty() and sudo_asks():
        command.append("--ask-become-pass")
    surroundings = environment(root) | docker_address().environment
    done = subprocess.run(command, env=surroundings, check=False, stdout=PIPE, stderr=STDOUT)
    if done.returncode != 0:
        sys.stderr.write(printable(done.stdout.decode(errors="replace")))
        raise FleetError(
            file=f"{PLAYBOOKS}/{playbook}",
            found=f"ansible-playbook ended with exit code {done.returncode}; its output is above",
            todo="Fix that, or apply the fixes of `interlock doctor` by hand.",
        )


# The files of a project that `pip install` and `interlock matrix` need.
FILES = ("pyproject.toml", "hatch_build.py", "requirements/host.txt", "README.md", "LICENSE")
FOLDERS = ("src", "variants", "workloads", "dockerfiles")


def write_project_archive(root: Path, cache: Path) -> tuple[Path, str]:
    """Write Interlock as an archive into the cache; return its path and SHA-256, the same for the same files."""
    paths = [root / name for name in FILES]
    paths += [path for name in FOLDERS for path in (root / name).rglob("*") if "__pycache__" not in path.parts]
    files = {str(path.relative_to(root)): path.read_bytes() for path in paths if path.is_file()}
    content = gzip.compress(tar_of(files).getvalue(), mtime=0)
    sha256 = hashlib.sha256(content).hexdigest()
    archive = cache / "fleet" / f"interlock-{sha256}.tar.gz"
    write_atomically(archive, content)
    return archive, sha256
