"""Real uv and poetry, of the index that this machine's pip uses, in an image: which interpreter each takes."""

from __future__ import annotations

import os
import re

from docker import DockerClient

from interlock.catalog.variants import Variant
from interlock.engine.build.contract import ContractFinding, ContractState
from interlock.engine.packages import pip_container
from interlock.engine.run import leftovers

# The oldest release that their wheels of today are for.
FIRST = (3, 10)
DEADLINE_S = 900  # poetry is forty packages
# A project that asks for a Python that no image here has. An interpreter has several names, which are one file.
SCRIPT = """\
set -e
mkdir -p /tmp/asked/uv /tmp/asked/poetry && cd /tmp/asked
python -m venv tools
for tool in uv poetry; do
  tools/bin/python -m pip install --quiet $tool >&2 || echo "$tool=none"
  printf '%s\\n' '[project]' 'name = "asked"' 'version = "1"' 'requires-python = ">=3.8"' > $tool/pyproject.toml
  printf '%s\\n' '[tool.poetry]' 'package-mode = false' >> $tool/pyproject.toml
  echo 3.8 > $tool/.python-version
done
tell() { echo "$1=$("$2" -c "$0")"; }
tell python python
(cd uv && ../tools/bin/uv --quiet sync) || true
tell uv uv/.venv/bin/python || true
(cd poetry && POETRY_VIRTUALENVS_IN_PROJECT=1 ../tools/bin/poetry --no-interaction --quiet install) || true
tell poetry poetry/.venv/bin/python || true
"""
ASK = "import os, sys; print(*sys.version.split(), 'in file', os.stat(sys.executable).st_ino)"


def ask_installers(client: DockerClient, variant: Variant, image_id: str) -> list[ContractFinding]:
    """Return what uv and poetry do in an image; nothing for a Python that they are not made for."""
    if tuple(int(part) for part in variant.release_line.split(".")) < FIRST:
        return []
    owner = f"check-{os.getpid()}"
    try:
        inside = pip_container.open_builder(client, owner, image_id, pip_container.gather([], []))
        return judge_installers(inside.run(["sh", "-c", SCRIPT, ASK], DEADLINE_S).stdout)
    finally:
        leftovers.clean_up(client, owner)


def judge_installers(output: str) -> list[ContractFinding]:
    """Return a finding for each installer: it is kept if its environment is one of the image's interpreter.

    One that cannot be installed for this interpreter is not asked; without both nothing is known.
    """
    told = dict(line.split("=", 1) for line in output.splitlines() if line.startswith(("python=", "uv=", "poetry=")))
    own, lines = told.get("python"), output.splitlines()
    missing = re.findall("^(uv|poetry)=none$", output, re.MULTILINE)
    findings = []
    for tool in ("uv", "poetry"):
        if tool in missing and len(missing) == 1:
            continue
        if own is None or missing == ["uv", "poetry"]:
            found = f"uv and poetry cannot be installed: {lines[-1] if lines else 'no answer'}"
        elif told.get(tool):
            found = "" if told[tool] == own else f"takes {told[tool]}, not {own}"
        else:
            found = "makes no environment"
        verdict = ContractState.UNDECLARED if found else ContractState.OK
        findings.append(ContractFinding(f"takes-{tool}", verdict, found))
    return findings
