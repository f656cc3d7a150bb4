"""`matrix` is the main job, `tests` everything that CI checks. Sessions call the command line and hold no logic."""

import shutil

import nox

nox.options.sessions = ["tests"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True


@nox.session
def matrix(session: nox.Session) -> None:
    """Check the set-up, build, measure, profile and report: `nox -s matrix -- --quick --yes`."""
    session.install("-e", ".[fleet]")
    session.run("interlock", "matrix", *session.posargs)


@nox.session
def fleet(session: nox.Session) -> None:
    """The same on many hosts: `nox -s fleet -- -i inventory.yml --quick`."""
    session.install("-e", ".[fleet]")
    session.run("interlock", "fleet", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Lint, types, layers, generated files, unit tests, then integration tests with the real engine."""
    session.install("-e", ".[fleet,test]")
    lint(session)
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        session.run("playwright", "install", "--with-deps", "chromium")
    session.run("pytest", *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """What Interlock costs and how far its figures can be trusted: printed, never asserted. Name a file for a part."""
    session.install("-e", ".[fleet,test,benchmarks]")
    session.run("pytest", "--benchmark-enable", *(session.posargs or ["tests/benchmarks"]))


def lint(session: nox.Session) -> None:
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("lint-imports")
    session.run("interlock", "render", "--check")
