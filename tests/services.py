"""Try the released programs of examples/services on the builds that are shipped, and record what came of it.

    python -m tests.services [NAME ...] [--cpus N] [--budget 140s] [--equals | --slower PER_CENT]

A service that is recorded in results/services is left out, unless it is named. With --equals each image is tried
against the same one under another name, twice; with --slower against one whose processes spend so many per cent more
CPU time.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from interlock.analysis.comparison import Row, Table
from interlock.analysis.pick.advice import estimate_of, machine_text, speed_of
from interlock.analysis.trials import Figure, TrialChange, decisive, gil_text, judge, reported_by
from interlock.analysis.verdicts import Verdict
from interlock.cli.images import build_options
from interlock.cli.options import open_project, parse_duration
from interlock.cli.report import load_experiment
from interlock.engine.docker import connect
from interlock.engine.packages import dependency_files
from interlock.report.trials import busy_text
from interlock.results import store
from interlock.results.answers import Estimate
from interlock.results.experiments import Built, Experiment, State
from interlock.results.files import write_atomically
from interlock.results.services import FOLDER, PROOFS, ProofRun, ProofRuns, ServiceFigure, ServiceRecord, ServiceRow
from interlock.results.trials import OWN
from interlock.untrusted import read_text
from tests.builders import ROOT

SERVICES = ROOT / "examples/services"
BASELINE = "cpython-3.13"
OWN_IMAGE = "FROM python:3.13-slim"
SLOWED = "localhost/interlock-slowed/python:3.13-slim"
CPUS = (1, 2)
BUDGET_S = 140.0  # for each number of CPUs
TWICE = 2
# After each 10 ms of CPU time it spends what is due: in threads, greenlets and event loops, and in processes that fork.
SLOWER = """
import atexit, os, signal, time
def catch_up(number, frame):
    global before
    due = time.process_time()
    due += {share} * (due - before)
    while time.process_time() < due:
        pass
    begin()
def begin():
    global before
    before = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, 0.01)
signal.signal(signal.SIGPROF, catch_up)
begin()
os.register_at_fork(after_in_child=begin)
atexit.register(signal.setitimer, signal.ITIMER_PROF, 0)
"""

# Figures as people read them, in the units of a trial's details: CPU time that decides in ms, images in MB.
SCALES = {Figure.CPU: 1e3, Figure.IMAGE: 1e-6}


@contextmanager
def copy_of(name: str, image: str) -> Iterator[Path]:
    """Yield a copy of a service's folder on this image, with the certificate that this machine's pip needs."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, name)
        shutil.copytree(SERVICES / name, copy)
        file = copy / "Dockerfile"
        file.write_text(file.read_text().replace(OWN_IMAGE, f"FROM {image}"))
        if authority := os.environ.get("PIP_CERT"):
            shutil.copy(authority, copy / "ca.crt")
        yield copy


def baseline_image() -> Built:
    """Return the image that all are compared with; SystemExit if it is not built."""
    paths, known = open_project()
    (built,) = connect().look_up(known, [BASELINE], build_options(paths))
    if built.outcome.state is not State.OK:
        raise SystemExit(f"there is no image of {BASELINE}: interlock build {BASELINE}")
    return built


def image_arguments() -> list[str]:
    """Return the options of a build by which pip finds this machine's index."""
    known = {"PIP_CERT": "ca.crt", "PIP_INDEX_URL": os.environ.get("PIP_INDEX_URL", "")}
    given = [f"{key}={value}" for key, value in known.items() if os.environ.get(key)]
    return [word for setting in given for word in ("--build-arg", setting)]


def tried(name: str, image: str, options: Sequence[str]) -> tuple[Experiment, list[Table], float]:
    """Try a service and return its experiment, its tables, and the minutes that all took."""
    begun_s, results = time.monotonic(), ROOT / "results"
    shutil.rmtree(results / f"services-{name}", ignore_errors=True)
    with copy_of(name, image) as copy:
        words = ["trial", ".", "--name", f"services-{name}", "--results", str(results), "--no-syscalls", "--keep"]
        command = [sys.executable, "-m", "interlock", *words, *image_arguments(), *options]
        process = subprocess.Popen(command, cwd=copy)
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.wait()  # it removes what it started; `run` would kill it before
            raise
    folder = results / f"services-{name}"
    if not (folder / "experiment.json").is_file():
        raise SystemExit(f"{name}: nothing was measured (exit code {code})")
    experiment, tables, _ = load_experiment(folder)
    return experiment, list(tables), (time.monotonic() - begun_s) / 60


def trial_defaults(name: str) -> dict[str, str]:
    """Return the `trial` of a service's interlock.toml."""
    defaults: dict[str, str] = tomllib.loads((SERVICES / name / "interlock.toml").read_text())["trial"]
    return defaults


def record(name: str, cpus: Sequence[int], budget_s: float) -> ServiceRecord:
    """Try a service on these numbers of CPUs, and return what is recorded of it."""
    defaults, built = trial_defaults(name), baseline_image()
    # A sweep needs a load: a batch is tried on each number of CPUs for itself.
    sweeps = "load" in defaults and len(cpus) > 1
    asked = [["--sweep"]] if sweeps else [["--cpus", str(count)] for count in cpus]
    limit_s = budget_s * len(cpus) / len(asked)
    trials = [tried(name, built.tag, [*options, "--budget", f"{limit_s:g}s"]) for options in asked]
    experiment = trials[0][0]
    pins = dependency_files.read([str(SERVICES / name / "requirements.txt")], read_text, Path.exists).here().lines
    programs = [line for line in (SERVICES / name / "requirements.in").read_text().split() if line]
    program = programs[0].partition("[")[0]
    (version,) = [line.text for line in pins if line.name == program]
    kept = [(described, [table for table in some if table.cores in cpus]) for described, some, _ in trials]
    return ServiceRecord(
        name=name,
        title=(SERVICES / name / "README.md").read_text().splitlines()[0].removeprefix(f"# {name}: "),
        program=version,
        packages=sorted(line.name for line in pins),
        load=defaults.get("load") or defaults["cmd"],
        machine=machine_text(experiment.host),
        measured=experiment.started[:10],
        minutes=round(sum(minutes for *_, minutes in trials), 1),
        baseline=BASELINE,
        versions={BASELINE: built.version} | experiment.versions,
        bound={table.cores: busy_text([table]) for _, tables in kept for table in tables},
        rows=[row for described, tables in kept for row in service_rows(described, tables, BASELINE)],
    )


def service_rows(experiment: Experiment, tables: Sequence[Table], baseline: str) -> list[ServiceRow]:
    """Return each variant on each number of CPUs, after the trial's own image, which is that of the baseline."""
    return [row for table in tables for row in _rows_of(experiment, table, baseline)]


def _rows_of(experiment: Experiment, table: Table, baseline: str) -> Iterator[ServiceRow]:
    judged = {row.label: row for row in judge(experiment, table)}
    tried = experiment.trial.tried if experiment.trial else {}
    sizes = {image.variant: float(image.size_bytes) for image in experiment.images if image.size_bytes}
    for row in table.rows:
        verdict, known = judged.get(row.label), _values(table, row)
        if known and row.label in sizes:
            known[Figure.IMAGE] = sizes[row.label] * SCALES[Figure.IMAGE]
        yield ServiceRow(
            label=baseline if row.label == OWN else row.label,
            cpus=table.cores,
            verdict=verdict.verdict.value if verdict else "",
            problem=verdict.problem if verdict else "",
            gil=gil_text(tried.get(row.label)),
            figures=_figures(known, {change.figure: change for change in verdict.changes} if verdict else {}),
        )


def _values(table: Table, row: Row) -> dict[Figure, float]:
    """Return what is known of a row, as people read it: what decides is first."""
    known, decides = {}, decisive(table)
    if row.seconds:
        known[decides] = 1 / row.seconds if decides is Figure.RATE else row.seconds * SCALES.get(decides, 1)
    return known | {figure: reported.value for figure, reported in reported_by(row).items()}


def _figures(known: dict[Figure, float], changes: dict[Figure, TrialChange]) -> dict[str, ServiceFigure]:
    figures = {}
    for figure, value in known.items():
        change = changes.get(figure)
        figures[figure.value] = ServiceFigure(
            value=round_to(value),
            ratio=_ratio(change) if change else None,
            shows=change.verdict.value if change else "",
        )
    return figures


def _ratio(change: TrialChange) -> Estimate:
    """Return a figure divided by the user's own: of a rate its cost is the inverse."""
    return rounded((speed_of if change.figure is Figure.RATE else estimate_of)(change.cost))


def rounded(exact: Estimate) -> Estimate:
    """Return a ratio with as many digits as records have."""
    high = None if exact.high is None else round_to(exact.high)
    return Estimate(estimate=round_to(exact.estimate), low=round_to(exact.low), high=high)


def round_to(value: float, digits: int = 4) -> float:
    """Return a figure with so many significant digits."""
    return float(f"{value:.{digits}g}")


def slowed_image(per_cent: float) -> str:
    """Build the baseline's image with a loop in every process, and return its name."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "slower.py").write_text(SLOWER.format(share=per_cent / 100))
        Path(folder, "slower.pth").write_text("import slower\n")
        base, place = baseline_image().tag, "/usr/local/lib/python3.13/site-packages/"
        Path(folder, "Dockerfile").write_text(f"FROM {base}\nCOPY slower.py slower.pth {place}\n")
        subprocess.run(["docker", "build", "-q", "-t", SLOWED, folder], check=True)
    return SLOWED


def proved(name: str, slower: float, cpus: int, budget_s: float) -> ProofRun:
    """Try a service on the plain image against the same, or a slowed one, and return what was said."""
    image = slowed_image(slower) if slower else baseline_image().tag
    options = ["--variants", BASELINE, "--cpus", str(cpus), "--budget", f"{budget_s:g}s"]
    experiment, (table,), minutes = tried(name, image, options)
    (row,) = [row for row in judge(experiment, table) if row.label == BASELINE]
    differ = {Verdict.FASTER} if slower else {Verdict.FASTER, Verdict.SLOWER}
    return ProofRun(
        service=name,
        machine=machine_text(experiment.host),
        ratio=rounded(estimate_of(row.comparison.ratio)) if row.comparison else None,
        verdict=row.verdict.value,
        # What decides is what an injected loop must be found by; of equals no figure may differ.
        different=[each.figure.value for each in row.changes[: 1 if slower else None] if each.verdict in differ],
        minutes=round_to(minutes, 2),
    )


def write(path: Path, model: ServiceRecord | ProofRuns) -> None:
    """Write a record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, model.model_dump_json(indent=1, exclude_defaults=True) + "\n")
    print(f"recorded  {path.relative_to(ROOT)}", flush=True)


def proof_path(root: Path, slower: float) -> Path:
    """Return the file of the proofs with an image that is slowed by so many per cent."""
    return root / FOLDER / (f"{PROOFS}slower-{slower:g}.json" if slower else f"{PROOFS}equals.json")


def prove(names: Sequence[str], *, named: bool, slower: float, cpus: int, budget_s: float) -> None:
    """Try each service against an image of which the answer is known, and record it after each."""
    path = proof_path(ROOT, slower)
    for name in names:
        known = store.read_json(path, ProofRuns).runs if path.is_file() else []
        wanted = 1 if slower or named else TWICE
        there = 0 if named else sum(run.service == name for run in known)
        for _ in range(there, wanted):
            known = [*known, proved(name, slower, cpus, budget_s)]
            write(path, ProofRuns(slower=slower, runs=known))


def main(words: Sequence[str] | None = None) -> None:
    """Try the services that are named, or those that are not recorded yet."""
    every = sorted(path.parent.name for path in SERVICES.glob("*/interlock.toml"))
    parser = argparse.ArgumentParser(
        prog="nox -s services --", description=(__doc__ or "").split("\n\n", maxsplit=1)[0]
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"Services (default: those without a record): {', '.join(every)}."
    )
    parser.add_argument("--cpus", type=int, metavar="N", help="CPUs of the service (default: 1 and 2; of a proof 1).")
    parser.add_argument(
        "--budget",
        default=f"{BUDGET_S:g}s",
        metavar="DURATION",
        help="Limit for measuring, on each number of CPUs (default: %(default)s).",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--equals", action="store_true", help="Try the same image under two names, each service twice.")
    kind.add_argument(
        "--slower", type=float, default=0.0, metavar="PER_CENT", help="Try against an image that is slower."
    )
    asked = parser.parse_args(words)
    if unknown := set(asked.names) - set(every):
        parser.error(f"no such service: {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    budget_s = parse_duration(asked.budget, "--budget")
    if asked.equals or asked.slower:
        prove(
            asked.names or every, named=bool(asked.names), slower=asked.slower, cpus=asked.cpus or 1, budget_s=budget_s
        )
        return
    for name in asked.names or every:
        path = ROOT / FOLDER / f"{name}.json"
        if asked.names or not path.is_file():
            write(path, record(name, [asked.cpus] if asked.cpus else CPUS, budget_s))
    print(shlex.join(["next", "interlock", "render"]))


if __name__ == "__main__":
    main()
