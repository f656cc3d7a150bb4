"""Run Ansible's programs on hosts and on this machine, read inventories, and pack Interlock for the hosts."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from interlock.engine.client import docker_address
from interlock.errors import FleetError, InventoryError, last_line
from interlock.fleet.record import Ending, Kind
from interlock.results import store
from interlock.untrusted import parse_json, printable

PLAYBOOKS = "playbooks"
UNREACHABLE = 4
TERMINATE_S = 10
POLL_S = 0.5
# What is kept of a step's output, from its end.
MOST_OUTPUT_BYTES = 16 * 2**20
# Names of hosts become names of files and experiments.
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# What Ansible prints for a task that failed: `fatal: [host]: FAILED! => {...}`.
FATAL = re.compile(r"^fatal: \[[^\]]*\].*?=> (\{.*\})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class PlaybookResult:
    """How a playbook ended on one host."""

    ending: Ending
    reason: str = ""


@dataclass(frozen=True)
class Call:
    """A playbook to run on one host, with its variables; Ansible's output goes to `log`."""

    root: Path
    inventory: str
    host: str
    playbook: str
    variables: Mapping[str, Any]
    log: Path
    tag: str
    deadline_s: float


def program(name: str) -> str:
    """Return the path of one of Ansible's programs, next to this Python or on PATH; FleetError if there is none."""
    installed = Path(sys.executable).with_name(name)
    found = str(installed) if installed.is_file() else shutil.which(name)
    if found is None:
        raise FleetError(found=f"{name} is not installed", todo="Install it: pip install 'interlock[fleet]' (nox does)")
    return found


def environment(root: Path) -> dict[str, str]:
    """Return the environment of Ansible's programs: the project's configuration, plain output."""
    config = str(root / PLAYBOOKS / "ansible.cfg")
    quiet = {"ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CALLBACK_FORMAT_PRETTY": "0"}
    return {**os.environ, **quiet, "ANSIBLE_CONFIG": config, "LC_ALL": os.environ.get("LC_ALL", "C.UTF-8")}


def list_inventory(path: Path, root: Path) -> str:
    """Return all hosts with their variables, as the JSON of `ansible-inventory --list`.

    InventoryError if there is no such file or Ansible cannot read it.
    """
    if not path.is_file():
        raise InventoryError(
            file=str(path), found="no such file", todo="Copy playbooks/inventory.example.yml and edit it."
        )
    command = [program("ansible-inventory"), "-i", str(path), "--list"]
    done = subprocess.run(command, env=environment(root), capture_output=True, text=True, check=False)
    warned = re.search(r"Unable to parse.*|Failed to parse.*", done.stderr)
    if done.returncode != 0 or warned:
        reason = warned.group() if warned else last_line(done.stderr)
        raise InventoryError(file=str(path), found=f"Ansible cannot read it: {reason}", todo="Correct the file.")
    return done.stdout


def play(call: Call, stop: threading.Event) -> PlaybookResult:
    """Run a playbook until it ends, `stop` is set or the deadline passes; then end it and all that it started."""
    with tempfile.TemporaryDirectory() as folder:
        variables = Path(folder) / "variables.json"
        variables.write_text(json.dumps(call.variables), encoding="utf-8")
        command = [program("ansible-playbook"), "-i", call.inventory, "-l", call.host, "-t", call.tag]
        command += ["-e", f"@{variables}", str(call.root / PLAYBOOKS / call.playbook)]
        call.log.parent.mkdir(parents=True, exist_ok=True)
        with call.log.open("ab+") as log:
            start = log.seek(0, os.SEEK_END)
            code = _run(command, environment(call.root), log, call.deadline_s, stop)
            log.seek(max(start, log.seek(0, os.SEEK_END) - MOST_OUTPUT_BYTES))
            output = printable(log.read().decode(errors="replace"))
            log.truncate(start)
            log.write(output.encode())
    return PlaybookResult(Ending.LOST, "interrupted") if stop.is_set() else ending_of(code, output, call)


def _run(
    command: Sequence[str], variables: Mapping[str, str], log: Any, deadline_s: float, stop: threading.Event
) -> int | None:
    """Return the exit code, None at the deadline.

    The process leads a group of its own, so that its workers and ssh end with it.
    """
    limit_s = time.monotonic() + deadline_s
    with subprocess.Popen(
        command, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        while time.monotonic() < limit_s and not stop.is_set():
            with suppress(subprocess.TimeoutExpired):
                return process.wait(POLL_S)
        _end(process)
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group, by SIGKILL if SIGTERM does not do it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(TERMINATE_S)
            return


def ending_of(code: int | None, output: str, call: Call) -> PlaybookResult:
    """Return how a playbook ended on its host, from the exit code and output of ansible-playbook."""
    if code is None:
        return PlaybookResult(Ending.LOST, f"it did not end within {call.deadline_s:.0f} s")
    if code == 0:
        return PlaybookResult(Ending.DONE)
    reason = first_failure(output) or f"see {call.log}"
    return (
        PlaybookResult(Ending.LOST, f"it does not answer ({reason})")
        if code == UNREACHABLE
        else PlaybookResult(Ending.FAILED, reason)
    )


def first_failure(output: str) -> str:
    """Return the message of the first task that failed: the last line of its command, or Ansible's own."""
    found = FATAL.search(output)
    if not found:
        lines = [line for line in output.splitlines() if line.startswith(("ERROR", "[ERROR]"))]
        return lines[0] if lines else ""
    with suppress(ValueError):
        result = parse_json(found.group(1))
        if result.get("rc") == 124:
            return "it did not end before its deadline"
        for text in (str(result.get("stderr", "")), str(result.get("msg", ""))):
            if text.strip():
                return text.strip().splitlines()[-1].rstrip(":")
    return found.group(1)


def play_here(root: Path, playbook: str, variables: Mapping[str, object]) -> None:
    """Run a playbook on this machine; FleetError if it fails. At a terminal Ansible asks for sudo's password."""
    command = [program("ansible-playbook"), "-i", "localhost,", "-c", "local", "-e", json.dumps(variables)]
    command.append(str(root / PLAYBOOKS / playbook))
    if _needs_password() and sys.stdin.isatty():
        command.append("--ask-become-pass")
    done = subprocess.run(command, env=environment(root) | docker_address().environment, check=False)
    if done.returncode != 0:
        raise FleetError(
            file=f"{PLAYBOOKS}/{playbook}",
            found=f"ansible-playbook ended with exit code {done.returncode}; its output is above",
            todo="Fix that, or apply the fixes of `interlock doctor` by hand.",
        )


def _needs_password() -> bool:
    if os.geteuid() == 0:
        return False
    return subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode != 0


# What `pip install` and `interlock matrix` need of a project.
FILES = ("pyproject.toml", "hatch_build.py", "requirements/host.txt", "README.md", "LICENSE")
FOLDERS = ("src", "variants", "workloads", "dockerfiles")


def write_project_archive(root: Path, cache: Path) -> tuple[Path, str]:
    """Write Interlock as an archive into the cache; return its path and SHA-256, the same for the same files."""
    content = pack_project(root)
    sha256 = hashlib.sha256(content).hexdigest()
    path = cache / "fleet" / f"interlock-{sha256}.tar.gz"
    if not path.is_file():
        store.write_atomically(path, content)
    return path, sha256


def pack_project(root: Path) -> bytes:
    """Return the project's files as a tar.gz, so that every host measures with the controller's version."""
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for path in _files(root):
            entry = tarfile.TarInfo(str(path.relative_to(root)))
            data = path.read_bytes()
            entry.size, entry.mode = len(data), path.stat().st_mode & 0o755
            tar.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def _files(root: Path) -> Iterator[Path]:
    yield from (root / name for name in FILES if (root / name).is_file())
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


EXAMPLE = "see playbooks/inventory.example.yml"


@dataclass(frozen=True)
class Inventory:
    """The file, the kind of each host by name, and the registry to pull from, if any."""

    path: Path
    kinds: Mapping[str, Kind]
    registry: str | None


def read_inventory(path: Path, root: Path) -> Inventory:
    """Read an inventory; InventoryError if Ansible cannot read it, it has no hosts, or a host has no kind."""
    return parse_inventory(path, list_inventory(path, root))


def parse_inventory(path: Path, listing: str) -> Inventory:
    """Return the inventory from the output of `ansible-inventory --list`."""
    variables = _host_variables(path, listing)
    if not variables:
        raise InventoryError(file=str(path), found="no host has variables", todo=f"Give each host a kind: {EXAMPLE}.")
    for name in variables:
        if not HOST_NAME.fullmatch(name):
            raise InventoryError(
                file=str(path),
                key=name,
                found="is not a valid host name: use only letters, digits, '.', '-' and '_'",
                todo="Rename the host, and give its address as ansible_host.",
            )
    kinds = {name: _kind(path, name, of_host.get("kind")) for name, of_host in sorted(variables.items())}
    _check_same(path, kinds)
    registries = {_registry(path, name, of_host.get("registry")) for name, of_host in variables.items()}
    if len(registries) > 1:
        raise InventoryError(
            file=str(path), key="registry", found="differs between hosts", todo="Set it once, in the group 'all'."
        )
    return Inventory(path, kinds, registries.pop())


def _host_variables(path: Path, listing: str) -> dict[str, dict[str, Any]]:
    """Return the variables of each host; InventoryError for a list that is no inventory."""
    found: Any = {}
    with suppress(ValueError, AttributeError):
        found = parse_json(listing).get("_meta", {}).get("hostvars", {})
    if isinstance(found, dict) and all(isinstance(of_host, dict) for of_host in found.values()):
        return found
    raise InventoryError(
        file=str(path), found="ansible-inventory lists no hosts with variables", todo=f"Correct the file: {EXAMPLE}."
    )


def _registry(path: Path, host: str, declared: object) -> str | None:
    if declared is None or isinstance(declared, str):
        return declared
    raise InventoryError(
        file=str(path),
        key=f"{host}: registry",
        found=f"{declared!r} is not a string",
        todo="Write it as HOST[:PORT]/NAMESPACE.",
    )


def _kind(path: Path, host: str, declared: object) -> Kind:
    """Return the kind that the inventory declares for a host; InventoryError if it is incomplete."""
    try:
        return Kind.model_validate(declared)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(("kind", *(str(part) for part in first["loc"])))
        found = "is missing" if declared is None else str(first["msg"])
        raise InventoryError(
            file=str(path), key=f"{host}: {where}", found=found, todo=f"Give it name, cpu, cores and kernel: {EXAMPLE}."
        ) from None


def _check_same(path: Path, kinds: Mapping[str, Kind]) -> None:
    """Raise InventoryError if two hosts declare different facts for one kind."""
    by_name: dict[str, Kind] = {}
    for host, kind in kinds.items():
        if by_name.setdefault(kind.name, kind) != kind:
            raise InventoryError(
                file=str(path),
                key=f"{host}: kind",
                found=f"declares other facts for '{kind.name}' than another host",
                todo="Declare each kind once, as a variable of a group.",
            )
