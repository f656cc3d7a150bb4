"""One source for every variant."""

import ast
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.workloads.conftest import WORKLOADS

PROGRAMS = sorted(path for glob in ("*.py", "import-stdlib/*.py") for path in WORKLOADS.glob(glob))
# vermin has no __main__, and its script need not be on the PATH.
VERMIN = [sys.executable, "-c", "from vermin import main; main()", "--no-tips", "-v"]


def vermin(*paths: Path, oldest: Sequence[str] = ("2.5", "3.0")) -> subprocess.CompletedProcess[str]:
    """What it says of all files, each with its versions."""
    targets = [f"-t={version}-" for version in oldest]
    return subprocess.run([*VERMIN, *targets, *map(str, paths)], capture_output=True, text=True, check=False)


def too_new_for_vermin(source: str) -> list[str]:
    """What 2.5 or 3.0 cannot parse though vermin lets it pass: it sees trees, in which some spellings look alike."""
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if is_too_new(node)]


def is_too_new(node: ast.AST) -> bool:
    match node:
        case ast.ExceptHandler(name=str()) | ast.With() | ast.Constant(kind="u"):
            return True
        case ast.Constant(value=bytes()) | ast.Call(func=ast.Name(id="print")):
            return True
        case ast.Call(func=ast.Attribute(attr="format")):
            return True
    return False


def test_every_workload_is_valid_for_python_2_5_and_3_0() -> None:
    found = vermin(*PROGRAMS)
    assert found.returncode == 0, found.stdout + found.stderr
    assert [str(path) for path in PROGRAMS if str(path) not in found.stdout] == []


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_workload_has_nothing_that_vermin_overlooks(path: Path) -> None:
    assert too_new_for_vermin(path.read_text()) == []


def test_vermin_refuses_what_came_later(tmp_path: Path) -> None:
    newer = tmp_path / "newer.py"
    newer.write_text("import json\n")
    found = vermin(*PROGRAMS, newer)
    assert found.returncode == 1
    assert re.search(rf"^2\.6, 3\.0 +{newer}$", found.stdout, re.MULTILINE)
    assert "Target versions not met:   2.5-" in found.stdout


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    pass\nexcept ValueError as error:\n    pass",
        "with lock:\n    pass",
        "b'bytes'",
        "u'text'",
        "print('a', 'b')",
        "'{0}'.format(1)",
    ],
)
def test_what_vermin_overlooks_is_found(source: str) -> None:
    assert too_new_for_vermin(source) != []
