"""`matrix` is the main job, `tests` everything that CI checks. Sessions call the command line and hold no logic."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nox

nox.options.sessions = ["tests"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True


@nox.session
def matrix(session: nox.Session) -> None:
    """Check the set-up, build, measure, profile and report: `nox -s matrix -- --quick --yes`."""
    install(session, "all")
    session.run("interlock", "matrix", *session.posargs)


@nox.session
def fleet(session: nox.Session) -> None:
    """The same on many hosts: `nox -s fleet -- -i inventory.yml --quick`."""
    install(session, "all")
    session.run("interlock", "fleet", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Everything that CI checks: lint, then types beside all tests on two workers, one of which measures."""
    install(session, "test")
    lint(session)
    with types_checked(session):
        run_pytest(session)


@nox.session
def unit(session: nox.Session) -> None:
    """Lint, types and all tests that need no engine: two minutes, in a random order."""
    install(session, "test")
    lint(session)
    with types_checked(session):
        run_pytest(session, "-m", "not engine", "--ignore", "tests/integration", "--random-order")


@nox.session
def proofs(session: nox.Session) -> None:
    """What takes too long for every change (docs/proofs.md): hours. Name a file for a part."""
    install(session, "test")
    session.run("pytest", "--durations=0", *(session.posargs or ["tests/proofs"]))


@nox.session
def torture(session: nox.Session) -> None:
    """Faults and hostile input, many of each, and a table (docs/reliability.md): 40 minutes. Name a file for a part."""
    install(session, "fleet", "test")
    session.run("pytest", *(session.posargs or ["tests/torture"]))


@nox.session
def benchmarks(session: nox.Session) -> None:
    """What Interlock costs and how far its figures can be trusted: printed, never asserted. Name a file for a part."""
    install(session, "test", "benchmarks")
    session.run("pytest", "--benchmark-enable", *(session.posargs or ["tests/benchmarks"]))


@nox.session
def recording(session: nox.Session) -> None:
    """Record docs/recording.sh in a terminal: docs/recording.cast, and as a picture that moves docs/recording.svg."""
    install(session, "fleet")
    session.install("asciinema==2.4.0", "termtosvg==1.1.0", "setuptools<81")
    cast = "docs/recording.cast"
    session.run("asciinema", "rec", "--overwrite", "--cols=110", "--rows=32", "-i2", "-c", "sh docs/recording.sh", cast)
    session.run("termtosvg", "render", cast, "docs/recording.svg", "-M", "2000")


@nox.session
def lock(session: nox.Session) -> None:
    """Write constraints.txt anew: what pyproject.toml asks for, `-- --upgrade` in its newest versions."""
    session.install("-c", "constraints.txt", "uv")
    session.run(
        "uv", "pip", "compile", "pyproject.toml", "--all-extras", "--universal", "--no-annotate", "--quiet",
        "--custom-compile-command", "nox -s lock", "--output-file", "constraints.txt", *session.posargs,
    )  # fmt: skip


def install(session: nox.Session, *extras: str) -> None:
    """Install Interlock in the versions that every host has: docs/decisions/0023-constraints.md."""
    session.install("-c", "constraints.txt", "-e", f".[{','.join(extras)}]")


def run_pytest(session: nox.Session, *options: str) -> None:
    """Run the tests on two workers (tests/conftest.py says which of them has what); the slowest end the log."""
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        session.run("playwright", "install", "--with-deps", "chromium")
    # Tests start hundreds of Pythons; without byte code each of them compiles Interlock anew.
    session.run(
        "pytest", "-n2", "--dist=loadscope", "--durations=40", *options, *session.posargs,
        env={"PYTHONDONTWRITEBYTECODE": ""},
    )  # fmt: skip


def lint(session: nox.Session) -> None:
    """Check style, layers and that generated files are up to date: three seconds."""
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports")
    session.run("interlock", "render", "--check")


@contextmanager
def types_checked(session: nox.Session) -> Iterator[None]:
    """Check types beside what runs meanwhile: without its cache mypy has one core busy for half a minute."""
    with subprocess.Popen([Path(session.bin, "mypy")], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield
        finally:
            said, _ = process.communicate()
            session.log(f"mypy: {said.rstrip()}")
    if process.returncode:
        session.error("mypy found errors, which are above")
