"""The program and the file that docs/workloads.md shows are a workload that runs."""

import re
import subprocess
import sys
from pathlib import Path

from interlock.catalog import project as catalogs
from interlock.results.experiments import ProgramOutput
from tests.builders import ROOT


def blocks(language: str) -> str:
    """Return the first block of this language in the section about a workload of one's own."""
    text = (ROOT / "docs/workloads.md").read_text(encoding="utf-8").partition("## Your own workload")[2]
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found
    return found[1]


def test_the_program_of_the_docs_measures_and_reports(project: Path) -> None:
    (project / "workloads/sort.py").write_text(blocks("python"), encoding="utf-8")
    command = [sys.executable, "workloads/sort.py", "--loops", "2", "--warmups", "1", "--values", "3"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    output = ProgramOutput.model_validate_json(done.stdout.splitlines()[-1])
    assert (output.loops, output.inner_loops, len(output.warmups), len(output.values)) == (2, 1, 1, 3)
    assert min(output.values) > 0


def test_the_program_of_the_docs_is_short() -> None:
    lines = [line for line in blocks("python").splitlines() if line]
    assert len(lines) <= 11


def test_the_file_of_the_docs_is_a_workload_with_nothing_else_to_edit(project: Path) -> None:
    (project / "workloads/sort.toml").write_text(blocks("toml"), encoding="utf-8")
    workload = catalogs.load(project).workloads["sort"]
    assert workload.program == "sort.py"
    assert [one.name for one in workload.benchmarks] == ["integers"]
