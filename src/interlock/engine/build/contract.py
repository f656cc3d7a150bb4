"""The contract of images: what people rely on in python:X-slim, and whether an image has it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Any

from docker import DockerClient
from docker.errors import DockerException
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from interlock.catalog.variants import Variant
from interlock.engine.client import SEE_LOG
from interlock.engine.names import image_by_tag
from interlock.engine.run import one_shot
from interlock.errors import BuildError, EngineError

Release = tuple[int, ...]


@dataclass(frozen=True)
class Promise:
    """One thing that an image promises from the release `since` on, up to but not including `until`."""

    name: str
    promise: str
    since: Release = (0,)
    until: Release = (99,)


class ContractState(StrEnum):
    """Whether an image keeps a promise of the contract, and whether its file declares otherwise."""

    OK = "ok"
    DIFFERENCE = "difference"  # declared, with a reason
    UNDECLARED = "undeclared"
    STALE = "stale"  # declared, but the image has no such difference


@dataclass(frozen=True)
class ContractFinding:
    """The result of one check. `difference` is empty if the promise is kept, `reason` if none is declared."""

    check: str
    verdict: ContractState
    difference: str = ""
    reason: str = ""


# Answered inside the image, by inside/contract.py.
INSIDE = (
    Promise("command-python", "/usr/local/bin has python and python3 (python2), which run this interpreter"),
    Promise("command-python-release", "/usr/local/bin has pythonX.Y, which venvs and shebangs name"),
    Promise("command-pip", "/usr/local/bin has pip and pip3 (pip2), which answer"),
    Promise("command-pydoc", "/usr/local/bin has pydoc, which answers"),
    Promise("command-pydoc-major", "/usr/local/bin has pydoc3, which answers", since=(3,)),
    Promise("command-python-config", "/usr/local/bin has python-config and python3-config, which answer"),
    Promise("prefix", "The interpreter is installed in /usr/local"),
    Promise("site-packages", "Packages are in /usr/local/lib/pythonX.Y/site-packages, where COPY --from puts them"),
    Promise("headers", "Python.h is where the interpreter tells compilers to look"),
    Promise("libpython", "/usr/local/lib has the shared library libpythonX.Y, for programs that embed the interpreter"),
    Promise("zlib", "zlib compresses and decompresses"),
    Promise("bz2", "bz2 compresses and decompresses"),
    Promise("lzma", "lzma compresses and decompresses", since=(3, 3)),
    Promise("zstd", "compression.zstd compresses and decompresses", since=(3, 14)),
    Promise("sqlite3", "sqlite3 keeps a table in memory"),
    Promise("sqlite3-extensions", "sqlite3 may load extensions", since=(3, 2)),
    Promise("ssl", "ssl makes a context with its ciphers", since=(2, 7, 9)),
    Promise("ca-certificates", "ssl finds CA certificates, and the bundle is in /etc/ssl/certs", since=(2, 7, 9)),
    Promise("hashlib", "hashlib computes by OpenSSL"),
    Promise("ctypes", "ctypes calls the C library and is called back"),
    Promise("readline", "readline keeps a history"),
    Promise("curses", "curses knows the terminal xterm"),
    Promise("dbm-gnu", "dbm.gnu (gdbm) keeps a value"),
    Promise("dbm-ndbm", "dbm.ndbm (dbm) keeps a value"),
    Promise("expat", "xml.etree parses"),
    Promise("threads", "threading runs a thread"),
    Promise("multiprocessing", "multiprocessing has semaphores", since=(2, 6)),
    Promise("utf-8", "File names and text files are UTF-8"),
    Promise("time-zones", "TZ with a zone's name sets the time of day"),
    Promise("zoneinfo", "zoneinfo knows the time zones", since=(3, 9)),
    Promise("services", "The well-known services have their ports"),
    Promise("pip", "pip installs a wheel, which can be imported"),
    Promise("setuptools", "setuptools is installed", until=(3, 12)),
    Promise("wheel", "wheel is installed", until=(3, 12)),
    Promise("venv", "python -m venv makes an environment that has a pip of its own", since=(3, 4)),
    Promise("compileall", "python -m compileall writes byte code"),
    Promise("home", "The home folder can be written to"),
    Promise("no-compiler", "PATH has no compiler, linker or make"),
    Promise("no-package-lists", "apt's package lists and packages are gone"),
    Promise("no-build-tree", "Nothing of the build's folders is left"),
    Promise("no-static-libraries", "No static library (.a) is left in the prefix"),
)

NO_ANSWER = "no answer: the interpreter did not get that far"

OFFICIAL_VARIABLES = {
    "PATH",
    "LANG",
    "GPG_KEY",
    "PYTHON_VERSION",
    "PYTHON_SHA256",
    "PYTHON_PIP_VERSION",
    "PYTHON_SETUPTOOLS_VERSION",
    "PYTHON_GET_PIP_URL",
    "PYTHON_GET_PIP_SHA256",
}


Answers = Mapping[str, str]  # what was found, by a check's name; empty if the promise is kept
Runs = Mapping[str, Answers]  # the answers, by how the image was run


def parse_answers(output: str) -> Answers:
    """Read the lines `name=ok` and `name=what was found` of inside/contract.py; other lines are skipped."""
    names = {check.name for check in INSIDE}
    pairs = (line.split("=", 1) for line in output.split("\n") if "=" in line)
    return {name: "" if answer == "ok" else answer or NO_ANSWER for name, answer in pairs if name in names}


def of_config(config: Mapping[str, Any], variant: Variant) -> Answers:
    """Return what is found in the engine's `Config` of an image, in which an unset key is missing or null."""
    environment = dict(item.split("=", 1) for item in config.get("Env") or [])
    path = environment.get("PATH", "")
    uv = {"UV_PYTHON": variant.uv_request, "UV_PYTHON_DOWNLOADS": "never"}
    found_uv = {name: environment.get(name, "not set") for name in uv}
    return {
        "env-path": "" if path.startswith("/usr/local/bin:") else f"PATH={path}",
        "env-lang": _unless(environment.get("LANG", "not set"), "C.UTF-8"),
        "env-python-version": _unless(environment.get("PYTHON_VERSION", "not set"), variant.version),
        "env-uv": " ".join(f"{name}={found_uv[name]}" for name, wanted in uv.items() if found_uv[name] != wanted),
        "env-others": " ".join(sorted(environment.keys() - OFFICIAL_VARIABLES - uv.keys())),
        "cmd": _unless(" ".join(config.get("Cmd") or []), f"python{variant.major}"),
        "entrypoint": " ".join(config.get("Entrypoint") or []),
        "user": _unless(config.get("User") or "", "", "root", "0"),
        "workdir": _unless(config.get("WorkingDir") or "", "", "/"),
        "ports": " ".join(sorted(config.get("ExposedPorts") or {})),
        "volumes": " ".join(sorted(config.get("Volumes") or {})),
    }


def _unless(value: str, *wanted: str) -> str:
    """Return what was found, in words that are never empty; empty if it is as wanted."""
    return "" if value in wanted else value or "none"


# Answered by the image's configuration.
CONFIG = (
    Promise("env-path", "PATH begins with /usr/local/bin"),
    # From 3.13 on the official images do not set it, because the interpreter itself takes UTF-8: see the check utf-8.
    Promise("env-lang", "LANG is C.UTF-8", until=(3, 13)),
    Promise("env-python-version", "PYTHON_VERSION is the interpreter's version"),
    Promise("env-uv", "UV_PYTHON and UV_PYTHON_DOWNLOADS have uv use this interpreter and fetch no other"),
    Promise("env-others", "No other variable is set that the official images do not set"),
    Promise("cmd", 'CMD is ["python3"] (["python2"])'),
    Promise("entrypoint", "There is no ENTRYPOINT"),
    Promise("user", "USER is root, for others to change"),
    Promise("workdir", "WORKDIR is /"),
    Promise("ports", "No port is exposed"),
    Promise("volumes", "There is no volume"),
)
CHECKS = (*CONFIG, *INSIDE)


def promised(version: str) -> list[Promise]:
    """Return what an image of this version of Python promises."""
    release = tuple(map(int, re.findall(r"[0-9]{1,9}", version)))
    return [check for check in CHECKS if check.since <= release < check.until]


def judge(variant: Variant, config: Mapping[str, Any], runs: Runs) -> list[ContractFinding]:
    """Return a finding for everything that the variant promises, and one for every stale declaration.

    `config` is the engine's `Config` of the image.
    """
    configured = of_config(config, variant)
    owed = [check.name for check in promised(variant.version)]
    findings = []
    for name in owed:
        text = configured[name] if name in configured else _found(name, runs)
        findings.append(_finding(name, text, variant.differences.get(name, "")))
    known = {check.name for check in CHECKS}
    for name, reason in variant.differences.items():
        if name not in owed:
            text = f"Python {variant.version} is not required to have it" if name in known else "unknown contract check"
            findings.append(ContractFinding(name, ContractState.STALE, text, reason))
    return findings


def _found(name: str, runs: Runs) -> str:
    """Return what was found: once if all runs agree, else run by run."""
    answers_by_run = {run: answers.get(name, NO_ANSWER) for run, answers in runs.items()}
    if len(set(answers_by_run.values())) == 1:
        return next(iter(answers_by_run.values()))
    return "; ".join(f"{run}: {text}" for run, text in answers_by_run.items() if text)


def _finding(name: str, difference: str, reason: str) -> ContractFinding:
    if difference:
        verdict = ContractState.DIFFERENCE if reason else ContractState.UNDECLARED
        return ContractFinding(name, verdict, difference, reason)
    if reason:
        return ContractFinding(name, ContractState.STALE, "the image has no such difference", reason)
    return ContractFinding(name, ContractState.OK)


def failures(findings: Iterable[ContractFinding]) -> list[ContractFinding]:
    """Return what must be corrected: undeclared differences and stale declarations."""
    return [finding for finding in findings if finding.verdict in {ContractState.UNDECLARED, ContractState.STALE}]


TODO = {
    ContractState.UNDECLARED: "Correct the image, or declare the difference with its reason.",
    ContractState.STALE: "Remove the declaration.",
}


def require(results: Mapping[str, Sequence[ContractFinding]]) -> None:
    """Raise BuildError for the first failure of the findings by variant."""
    for variant, findings in results.items():
        for finding in failures(findings):
            raise BuildError(
                file=f"variants/{variant}.toml",
                key=f"differences.{finding.check}",
                found=f"{finding.verdict.value}: {finding.difference}",
                todo=TODO[finding.verdict],
            )


def terminal(results: Mapping[str, Sequence[ContractFinding]]) -> RenderableType:
    """Return a row for each variant, then every difference with its reason and every failure."""
    table = Table("variant", "checks", "kept", "differences", "failures", box=None, pad_edge=False)
    for variant, findings in results.items():
        kept = sum(finding.verdict is ContractState.OK for finding in findings)
        declared = sum(finding.verdict is ContractState.DIFFERENCE for finding in findings)
        failed = len(failures(findings))
        counts = (str(count) for count in (len(findings), kept, declared, failed))
        table.add_row(variant, *counts, style="red" if failed else "")
    lines = [_line(variant, finding) for variant, findings in results.items() for finding in findings]
    return Group(table, *(line for line in lines if line))


def _line(variant: str, finding: ContractFinding) -> Text | None:
    match finding.verdict:
        case ContractState.OK:
            return None
        case ContractState.DIFFERENCE:
            return Text(f"{variant}: {finding.check}: {finding.reason}", style="dim")
    return Text(f"{variant}: {finding.check}: {finding.verdict.value}: {finding.difference}", style="red")


PROGRAM = files("interlock.engine").joinpath("inside/contract.py").read_text(encoding="utf-8")
# Takes whichever name the interpreter has; the program itself reports a missing one.
START = 'exec "$(command -v python || command -v python3 || command -v python2)" -c "$0"'
DEADLINE_S = 300  # pip and venv without byte code take seconds; minutes where builds fill every core


# As the image starts by itself, and as a cluster with a strict policy starts it: nobody's user, only /tmp writable.
RUNS: Mapping[str, Mapping[str, Any]] = {
    "as the image is": {},
    "as user 1000 on a read-only root": {
        "user": "1000:1000",
        "read_only": True,
        "tmpfs": {"/tmp": "exec"},  # noqa: S108
        "environment": {"HOME": "/tmp"},  # noqa: S108
    },
}


def examine(client: DockerClient, variant: Variant, image_id: str) -> list[ContractFinding]:
    """Return every finding about the image; EngineError if the engine has no such image or cannot run it."""
    image = image_by_tag(client, image_id)
    if image is None:
        todo = f"Run `interlock build {variant.name}`."
        raise EngineError(key=variant.name, found=f"there is no image {image_id}", todo=todo)
    runs = {run: parse_answers(_answer(client, image_id, run)) for run in RUNS}
    return judge(variant, image.attrs["Config"], runs)


def _answer(client: DockerClient, image_id: str, run: str) -> str:
    """Return what the program printed; only a part of it if the interpreter broke down or was too slow."""
    try:
        argv = ["sh", "-c", START, PROGRAM]
        return one_shot.ask(client, image_id, argv, DEADLINE_S, entrypoint=[], **RUNS[run]).stdout
    except DockerException as error:
        raise EngineError(found=f"the image cannot be run {run}: {error}", todo=SEE_LOG) from None
