"""One experiment that many tests read: Interlock's own workloads, what users bring, and limits.

Measuring it takes minutes, and what one of these tests looks at does not disturb the others.
"""

from __future__ import annotations

import importlib.resources
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from interlock.results import store
from interlock.results.experiments import CellResult, Experiment
from tests.integration.images import QUICK
from tests.integration.toys import copy_project, interlock

OWN = {"import-loop": ["function"], "locks": ["queue"], "startup": ["pass"]}
# For interpreters that are compiled: what they have not, too, and a server.
MORE = {
    "import-loop": ["function", "threads"],
    "locks": ["queue"],
    "network-client": ["requests-without-threads"],  # that any of these can do
    "startup": ["pass", "I"],
}
# Their profiles are not read here: those of whole processes are in test_cold.py.
UNPROFILED = ("startup", "mercurial")
# The exit code of an experiment of which cells failed: some are meant to.
CELLS_FAILED = 6

# What users bring.
REST = """\
unit = "call"
deadline_s = 300
quick = { warmups = 1, values = 2 }
full = { warmups = 1, values = 2 }
"""
SUITE = """\
def test_sum(benchmark):
    assert benchmark(sum, range(100)) == 4950


def test_wrong(benchmark):
    assert benchmark(sum, [1]) == 2
"""
# The same for both programs of pyperformance, so that they are installed once.
PYPERF = """requirements = ["pyperf; python_version >= '3'", "pyperf==1.7.1; python_version < '3'"]\n"""
WORKLOADS = {
    # pyperformance's own: a threaded one, and start-up.
    "imap": f'kind = "pyperf"\nprogram = "bm_concurrent_imap/run_benchmark.py"\n{PYPERF}'
    'requires_python = ">=3.8"\n'
    '[[benchmarks]]\nname = "bench_thread_pool"\nmetric = { label = "ms", scale = 1e3 }\n',
    "perf-startup": 'kind = "pyperf"\nprogram = "bm_python_startup/run_benchmark.py"\narguments = ["--no-site"]\n'
    f"{PYPERF}"
    'metric = { label = "ms", scale = 1e3 }\n',
    "suite": 'kind = "pytest-benchmark"\nprogram = "suite"\n'
    """requirements = ["pytest-benchmark", "py-cpuinfo==8.0.0; python_version < '3'"]\n"""
    'metric = { label = "us", scale = 1e6 }\n',
    "lines": 'kind = "command"\n'
    "[[benchmarks]]\nname = \"both\"\nset_up = [\"-c\", \"open('/scratch/x', 'w').write('made before')\"]\n"
    'command = ["sh", "-c", "cat {scratch}/x && python -c pass"]\nexpected = ["made before"]\n'
    'metric = { label = "ms", scale = 1e3 }\n'
    '[[benchmarks]]\nname = "cut-short"\ncommand = ["echo", "half of"]\nexpected = ["half of it"]\n'
    'metric = { label = "ms", scale = 1e3 }\n',
    # Of one variant alone: each of them has a container of its own for what pip does not find.
    "unresolved": 'requires_python = ">=3.13"\n'
    '[[benchmarks]]\nname = "needs"\ncommand = ["-c", "pass"]\nrequirements = ["six==99"]\n'
    'metric = { label = "ms", scale = 1e3 }\n'
    '[[benchmarks]]\nname = "needs-none"\ncommand = ["-c", "import os; assert \'PYTHONPATH\' not in os.environ"]\n'
    'metric = { label = "ms", scale = 1e3 }\n',
}

# What a program of any kind takes at least: a sleep of a known length, for two units of work.
FEW_LOCKS = """\
summary = "locks that nobody else wants, beside two commands"
program = "locks.py"
unit = "loop"
deadline_s = 60
quick = { warmups = 0, values = 2 }
full = { warmups = 0, values = 2 }
details = [{ label = "switches per loop", of = "work_voluntary_switches", per = "unit" }]
[[benchmarks]]
name = "uncontended"
arguments = ["--what", "uncontended"]
metric = { label = "ns", scale = 1e9 }
[[benchmarks]]
name = "slow"
full_only = true
arguments = ["--what", "queue"]
metric = { label = "ns", scale = 1e9 }
[[limits]]
name = "sleep"
command = ["sh", "-c", "sleep 0.2 && echo > {scratch}/done"]
benchmarks = ["uncontended", "slow"]
unit_count = 2
[[limits]]
name = "broken"
command = ["sh", "-c", "echo no such disk >&2; exit 3"]
benchmarks = ["uncontended"]
unit_count = 1
"""


@dataclass(frozen=True)
class Measured:
    """The experiment's folder, what `interlock matrix` printed, and what experiment.json says."""

    folder: Path
    printed: str
    described: Experiment

    def cell(self, variant: str, workload: str) -> CellResult:
        """Return the cell of the plain variant, in no mode."""
        wanted = (variant, None, workload)
        (found,) = [one for one in self.described.cells if (one.variant, one.mode, one.workload) == wanted]
        return found


def measure(
    root: Path, folder: Path, variants: list[str], own: dict[str, list[str]], brought: tuple[str, ...] = ()
) -> Measured:
    """Measure these variants, benchmarks of our own and what users bring, in a project of its own in `folder`.

    All that they bring, unless some of it is named: of that nothing fails.
    """
    project = copy_project(root, folder / "project", variants, list(own))
    chosen = [f"{workload}/{name}" for workload, names in own.items() for name in names]
    for workload in own:
        measure_little(project / f"workloads/{workload}.toml", profiled=workload not in UNPROFILED)
    others = brought or tuple(WORKLOADS)
    bring(project, others)
    if not brought:
        (project / "workloads/few-locks.toml").write_text(FEW_LOCKS)
        others = (*others, "few-locks")
    done = interlock(
        project, "matrix", "--variants", ",".join(variants), "--baseline", QUICK, "--quick", "--rounds", "2",
        "--workloads", ",".join((*chosen, *others)),
        "--results", str(folder / "results"), code=0 if brought else CELLS_FAILED,
    )  # fmt: skip
    found = store.latest_experiment(folder / "results")
    return Measured(found, done.stdout, store.read_experiment(found))


def measure_little(path: Path, *, profiled: bool) -> None:
    """Take two values of each process with --quick, in place of up to 24, and no profile unless one is read."""
    text = re.sub(r"(?<=\[quick\]\n)warmups = \d+\nvalues = \d+\n", "warmups = 0\nvalues = 2\n", path.read_text())
    path.write_text(text if profiled else re.sub(r"^profile_metric = .*\n", "", text, flags=re.MULTILINE))


def bring(project: Path, names: tuple[str, ...]) -> None:
    """Add what users bring: other tools' programs, command lines, packages, and what is wrong with them."""
    programs = importlib.resources.files("pyperformance") / "data-files/benchmarks"
    for name in ("bm_concurrent_imap", "bm_python_startup"):
        shutil.copytree(Path(str(programs / name)), project / "workloads" / name)
    (project / "workloads/suite").mkdir()
    (project / "workloads/suite/test_sums.py").write_text(SUITE)
    for name in names:
        head, _, benchmarks = WORKLOADS[name].partition("[[benchmarks]]")
        rest = f"[[benchmarks]]{benchmarks}" if benchmarks else ""
        (project / f"workloads/{name}.toml").write_text(f'summary = "a test\'s"\n{head}{REST}{rest}')
