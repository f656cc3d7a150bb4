"""The commands that Interlock prints as the next ones, run as they are printed, by the real engine."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from interlock.cli.main import load_command
from tests.builders import ROOT
from tests.integration.toys import interlock

NOT_BUILT = 5
PRINTED = re.compile(r"^(?:next|then|next:|to continue:) +(interlock .+?) *$", re.MULTILINE)


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    """A user's environment in which nothing was measured."""
    return {"XDG_DATA_HOME": str(tmp_path / "data")}


def run_as_printed(folder: Path, line: str, own: dict[str, str]) -> str:
    """Run a command line, without what takes minutes: what a dry run says first."""
    _, name, *words = shlex.split(line)
    # A swap without --write is a dry run already.
    can_be_dry = name != "swap" and any("--dry-run" in one.opts for one in load_command(name).params)
    dry = ["--dry-run"] if can_be_dry else []
    done = interlock(folder, name, *words, *dry, environment=own, code=None)
    if name == "audit" and done.returncode == NOT_BUILT:
        # An audit builds no interpreter: it names the command that does, which is then the next one.
        return "\n".join(f"next {command}" for command in re.findall("`(interlock build .+?)`", done.stderr))
    assert done.returncode == 0, (line, done.stdout[-500:], done.stderr[-1000:])
    return done.stdout


def run_all(folder: Path, own: dict[str, str]) -> set[str]:
    """Run what `init` and `pick` print in a folder, until nothing new is printed; return the names of what was run."""
    picked = json.loads(interlock(folder, "pick", "--json", environment=own).stdout)["next"]
    waiting = [*PRINTED.findall(interlock(folder, "init", environment=own).stdout), *picked]
    assert len(waiting) > 3
    ran: list[str] = []
    while waiting:
        line = waiting.pop(0)
        ran.append(line)
        printed = PRINTED.findall(run_as_printed(folder, line, own))
        assert printed or not line.startswith("interlock pick"), line
        waiting += [new for new in printed if new not in [*ran, *waiting]]
    return {shlex.split(line)[1] for line in ran}


def test_every_command_that_is_printed_as_the_next_works_in_an_empty_folder(
    tmp_path: Path, own: dict[str, str]
) -> None:
    """With an engine or without."""
    folder = tmp_path / "service"
    folder.mkdir()
    assert run_all(folder, own) >= {"pick", "matrix", "report"}


@pytest.mark.usefixtures("client")
def test_every_command_that_is_printed_as_the_next_works_in_a_services_folder(
    tmp_path: Path, own: dict[str, str]
) -> None:
    folder = tmp_path / "service"
    shutil.copytree(ROOT / "examples/services/httpbin", folder, ignore=shutil.ignore_patterns("interlock.toml"))
    assert run_all(folder, own) >= {"pick", "matrix", "trial"}
