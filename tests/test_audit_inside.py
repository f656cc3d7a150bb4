"""The programs that run inside an image, run here: fresh processes, deadlines, and modules that do their worst."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from interlock import installed
from tests.builders import ROOT

INSIDE = ROOT / "src/interlock/inside"
IMPORTS, DISTRIBUTIONS = INSIDE / "audit_imports.py", INSIDE / "audit_distributions.py"
# vermin has no __main__, and its script need not be on the PATH.
VERMIN = [sys.executable, "-c", "from vermin import main; main()", "--no-tips", "-t=3.6-"]
MODULES = {
    "plain": "VALUE = 1",
    "noisy": "import sys; print('{\"module\": \"lie\"}'); sys.stderr.write('noise\\n')",
    "broken": "raise ImportError('libtoy.so.1: cannot open shared object file')",
    "two_lines": "raise ValueError('first\\nsecond')",
    "leaves": "import sys; sys.exit(0)",
    "vanishes": "import os; os._exit(3)",
    "crashes": "import os; os.write(2, b'Fatal error\\n'); os.kill(os.getpid(), 11)",
    "hangs": "import time; time.sleep(60)",
    "leaves_a_child": "import subprocess; subprocess.Popen(['sleep', '60'])",
    "starts_a_thread": "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()",
    "which_folder": "import os, sys; raise OSError(os.getcwd() + ' ' + ' '.join(sys.path))",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules; the program is beside them in a folder of its own."""
    path = tmp_path_factory.mktemp("modules")
    for module, text in MODULES.items():
        (path / f"{module}.py").write_text(text + "\n")
    (path / "own").mkdir()
    (path / "own/audit_imports.py").write_bytes(IMPORTS.read_bytes())
    return path


def run(folder: Path, *jobs: list[str], deadline_s: float = 20) -> list[dict[str, Any]]:
    """What the program prints, but for its first line."""
    (folder / "jobs.json").write_text(json.dumps([{"modules": job, "deadline_s": deadline_s} for job in jobs]))
    done = subprocess.run(
        [sys.executable, str(folder / "own/audit_imports.py"), str(folder / "jobs.json"), str(os.getuid())],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    first, *lines = map(json.loads, done.stdout.splitlines())
    assert first == {"bare": None}
    return lines


def errors(folder: Path, *jobs: list[str], deadline_s: float = 20) -> dict[str, str]:
    return {line["module"]: line["error"] for line in run(folder, *jobs, deadline_s=deadline_s)}


def test_each_module_is_answered_for_in_order_and_what_it_prints_is_no_answer(folder: Path) -> None:
    lines = run(folder, ["plain"], ["noisy"], ["json"])
    assert [(line["module"], line["error"], line["by"]) for line in lines] == [
        ("plain", "", ""),
        ("noisy", "", ""),
        ("json", "", ""),
    ]


def test_an_exception_is_told_by_its_last_line(folder: Path) -> None:
    assert errors(folder, ["broken"], ["two_lines"], ["no_such_module"], ["leaves"]) == {
        "broken": "ImportError: libtoy.so.1: cannot open shared object file",
        "two_lines": "ValueError: first\nsecond",
        "no_such_module": "ModuleNotFoundError: No module named 'no_such_module'",
        "leaves": "SystemExit: 0",
    }


def test_a_module_that_ends_its_process_does_not_keep_the_next_from_being_imported(folder: Path) -> None:
    assert errors(folder, ["plain", "vanishes", "crashes", "noisy"]) == {
        "plain": "",
        "vanishes": "ended with exit code 3",
        "crashes": "ended by SIGSEGV: Fatal error",
        "noisy": "",
    }


def test_a_hang_is_a_result_and_takes_no_longer_than_its_deadline(folder: Path) -> None:
    started = time.monotonic()
    assert errors(folder, ["hangs"], ["plain"], deadline_s=1.5) == {"hangs": "had not ended after 1.5 s", "plain": ""}
    assert time.monotonic() - started < 20


def test_when_the_time_of_a_job_is_up_the_rest_of_it_is_left_unasked(folder: Path) -> None:
    assert list(errors(folder, ["hangs", "plain", "noisy"], ["json"], deadline_s=1.5)) == ["hangs", "json"]


@pytest.mark.parametrize("module", ["leaves_a_child", "starts_a_thread"])
def test_what_an_import_leaves_running_keeps_nobody_waiting(folder: Path, module: str) -> None:
    started = time.monotonic()
    assert errors(folder, [module]) == {module: ""}
    assert time.monotonic() - started < 20
    assert subprocess.run(["pgrep", "-f", "^sleep 60$"], capture_output=True, check=False).stdout == b""


def test_the_programs_own_folder_is_not_where_modules_come_from(folder: Path) -> None:
    said = errors(folder, ["which_folder"])["which_folder"]
    assert said.startswith("OSError: /tmp ")
    assert "own" not in said


def test_what_is_installed_here_is_what_python_says() -> None:
    done = subprocess.run([sys.executable, str(DISTRIBUTIONS)], capture_output=True, text=True, check=True, timeout=60)
    found = {one.key: (one.version, len(one.files)) for one in installed.parse(done.stdout)}
    for name in ("pydantic", "jinja2", "packaging"):
        assert found[name] == (importlib.metadata.version(name), len(importlib.metadata.files(name) or []))


@pytest.mark.parametrize("path", [IMPORTS, DISTRIBUTIONS], ids=lambda path: path.name)
def test_the_programs_run_on_every_interpreter_whose_pip_has_a_report(path: Path) -> None:
    found = subprocess.run([*VERMIN, str(path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
