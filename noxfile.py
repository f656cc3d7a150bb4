"""`matrix` is the main job, `tests` everything that CI checks. Sessions call the command line and hold no logic."""

import json
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import nox

nox.options.sessions = ["tests"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True
# pip installs all that is needed: that uv is not there is no news.
logging.getLogger("nox").addFilter(lambda record: record.msg != "uv binary not found.")

# Where pytest writes the names of the tests that failed.
FAILED = Path(".pytest_cache/v/cache/lastfailed")
# Of what hypothesis makes up, .ci/run tries four times as much (tests/conftest.py).
QUICK = "--hypothesis-profile=quick"
# So many tests may fail for what else the machine does (docs/decisions/0016-tests-tried-again.md).
MOST_TRIED_AGAIN = 5


@nox.session
def matrix(session: nox.Session) -> None:
    """Check the set-up, build, measure, profile and report: `nox -s matrix -- --quick --yes`."""
    install(session, "all")
    become(session, "interlock", "matrix", *session.posargs)


@nox.session
def fleet(session: nox.Session) -> None:
    """The same on many hosts: `nox -s fleet -- -i inventory.yml --quick`."""
    install(session, "all")
    become(session, "interlock", "fleet", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Lint, types and all tests, on four workers, three of them with an engine; with options of pytest tests alone."""
    install(session, "test")
    with nullcontext() if session.posargs else checked(session):
        # Workers with an engine wait for it half of their time.
        run_pytest(session, "-n4", "-m", "not slow", QUICK)


@nox.session
def unit(session: nox.Session) -> None:
    """Lint, types and all tests that need no engine: two minutes, in a random order."""
    install(session, "test")
    with checked(session):
        # A test that waits leaves its core to the third worker.
        run_pytest(
            session, "-n3", "-m", "not engine and not slow", "--ignore=tests/integration", "--random-order", QUICK
        )


@nox.session
def proofs(session: nox.Session) -> None:
    """What takes too long for every change (docs/proofs.md): hours. Name a file for a part."""
    install(session, "test")
    session.run("pytest", "--durations=0", *(session.posargs or ["tests/proofs"]))


@nox.session
def torture(session: nox.Session) -> None:
    """Faults and hostile input, many of each: 40 minutes. docs/reliability.md gets figures; name a file for a part."""
    install(session, "test")
    session.run("python", "-m", "tests.promises", *(session.posargs or ["tests/torture"]))


@nox.session
def advisories(session: nox.Session) -> None:
    """List all dependencies' licences; fail if one has a known vulnerability, or nobody answers who would know.

    Options are pip-audit's: `-- --vulnerability-service osv`.
    """
    install_locked(session, "test")
    session.run("pip-licenses", "--from", "mixed", "--order", "license", "--format", "markdown")
    report = Path(session.create_tmp(), "advisories.json").resolve()
    audited: list[dict[str, Any]] = []
    for file in files_to_audit():  # one by one: it takes no project in two versions
        report.unlink(missing_ok=True)
        asked = ("--requirement", file, "--require-hashes", "--disable-pip", "--progress-spinner", "off")
        told = ("--format", "json", "--output", str(report), *session.posargs)
        session.run("pip-audit", *asked, *told, success_codes=[0, 1])
        audited += json.loads(report.read_text())["dependencies"] if report.is_file() else [{"skip_reason": file}]
    problem = problem_of(audited)
    if problem:
        session.error(problem)


def files_to_audit() -> list[str]:
    """Return the files of all that is locked, without those that are parts of the first one."""
    pinned = {
        file: {line for line in Path(file).read_text(encoding="utf-8").split() if "==" in line} for file in LOCKED
    }
    first, *others = LOCKED
    return [first, *(file for file in others if not pinned[file] <= pinned[first])]


def problem_of(audited: list[dict[str, Any]]) -> str:
    """Return what is wrong with pip-audit's answer, which ends with 0 also if it could ask about nothing."""
    vulnerable = sorted({one["name"] for one in audited if one.get("vulns")})
    unknown = [one for one in audited if "skip_reason" in one]
    if vulnerable:
        return f"known vulnerabilities: {', '.join(vulnerable)}"
    if unknown or not audited:
        return (
            f"no advisory service answers for {len(unknown)} of {len(audited)} dependencies: nothing is known of them"
        )
    return ""


@nox.session
def benchmarks(session: nox.Session) -> None:
    """What Interlock costs and how far its figures can be trusted: printed, never asserted. Name a file for a part."""
    install(session, "test")
    session.run("pytest", "--benchmark-enable", *(session.posargs or ["tests/benchmarks"]))


@nox.session
def services(session: nox.Session) -> None:
    """Try released programs of others, 6 minutes each, and record what comes of it (docs/services.md): `-- --help`."""
    install(session, "test")
    become(session, "python", "-m", "tests.services", *session.posargs)


@nox.session
def publish(session: nox.Session) -> None:
    """Train, build, check, push and publish variants: `nox -s publish -- HOST/NAMESPACE FOLDER VARIANT ...`.

    --push-only leaves out the last step, and --join FOLDER ... is that step alone. Other options are that step's:
    --key=FILE, --unsigned.
    """
    own = {"--push-only", "--join"}
    options = [word for word in session.posargs if word.startswith("--")]
    words = [word for word in session.posargs if word not in options]
    install(session, "all")
    if "--join" not in options:
        if len(words) < 3:
            session.error("name a registry (HOST/NAMESPACE), a folder to record in, and variants")
        registry, folder, *variants = words
        words = [folder]
        session.run("interlock", "train", *variants)
        session.run("interlock", "build", *variants, "--cache-from", registry)
        session.run("interlock", "check", *variants)
        session.run("interlock", "push", *variants, "--registry", registry, "--record", folder)
    if "--push-only" not in options:
        session.run("interlock", "publish", *words, *(option for option in options if option not in own))


@nox.session
def recording(session: nox.Session) -> None:
    """Record docs/recording.sh in a terminal: docs/recording.cast, and as a picture that moves docs/recording.svg."""
    install(session, "all")
    install_locked(session, "recording")
    cast, command = "docs/recording.cast", "sh docs/recording.sh"
    session.run("asciinema", "rec", "--overwrite", "--cols=110", "--rows=32", "-i3", "-c", command, cast)
    frames = ("-m", "500", "-M", "4000", "-D", "4000")  # two in a second, and time to read the last one
    session.run("termtosvg", "render", cast, "docs/recording.svg", *frames, "-t", "window_frame")


# Each file of versions and hashes, and what it is of. They have test.txt's versions, but for what records.
SELF = ("pyproject.toml", "--group", "build", "--extra")
SAME = ("--constraint", "requirements/test.txt")
LOCKED = {
    "requirements/test.txt": (*SELF, "test"),
    "requirements/all.txt": (*SELF, "all", *SAME),
    "requirements/host.txt": (*SELF, "measure", *SAME),
    "requirements/update.txt": (*SELF, "update", *SAME),
    "requirements/nox.txt": ("--group", "nox", *SAME),
    "requirements/lock.txt": ("--group", "lock", *SAME),
    "requirements/recording.txt": ("--group", "recording"),
    "playbooks/roles/tuning/files/requirements.txt": ("--group", "tuning", *SAME),
}


# Programs of others have versions alone, for the Python that they are compared with.
SERVICES = sorted(Path("examples/services").glob("*/requirements.in"))
SERVICE = ("--python-version", "3.13")


@nox.session
def lock(session: nox.Session) -> None:
    """Write the versions and hashes of what pyproject.toml asks for anew, `-- --upgrade` in its newest versions."""
    install_locked(session, "lock")
    hashed = ("--generate-hashes", "--only-binary", ":all:")
    asking = {file: (*asked, *hashed) for file, asked in LOCKED.items()}
    asking |= {str(file.with_suffix(".txt")): (str(file), *SERVICE) for file in SERVICES}
    for file, asked in asking.items():
        session.run(
            "uv", "pip", "compile", *asked, "--universal", "--no-annotate", "--quiet",
            "--custom-compile-command", "nox -s lock", "--output-file", file, *session.posargs,
        )  # fmt: skip


def become(session: nox.Session, *command: str) -> None:
    """Be this command from here on: signals reach it, its exit code is that of all, and it has the time that it needs.

    nox kills a command half a second after Ctrl-C, and dies of SIGTERM without it: the report of what is known is lost.
    """
    if session.run("true", external=True, silent=True, log=False) is None:  # with --install-only nothing is run
        return
    session.log(" ".join(command))
    path = os.pathsep.join((*(session.bin_paths or ()), os.environ["PATH"]))
    variables = {**os.environ, **session.env, "PATH": path}
    program = shutil.which(command[0], path=path) or command[0]
    os.execve(program, command, {name: value for name, value in variables.items() if value is not None})  # noqa: S606


def install(session: nox.Session, use: str) -> None:
    """Install Interlock in place, with what a use of it needs: docs/decisions/0015-package-and-hashes.md."""
    install_locked(session, use)
    # What builds it is among the locked, and nothing else is fetched.
    session.install("--no-deps", "--no-build-isolation", "-e", ".")


def install_locked(session: nox.Session, use: str) -> None:
    """Install the wheels that requirements/USE.txt has the hashes of, and nothing else."""
    session.install("--require-hashes", "--only-binary", ":all:", "-r", f"requirements/{use}.txt")


def may_install() -> bool:
    """Return whether this user may install packages and is not asked for a password."""
    asks = ["sudo", "-n", "true"]
    return os.geteuid() == 0 or (shutil.which("sudo") is not None and not subprocess.run(asks, check=False).returncode)


def run_pytest(session: nox.Session, *options: str) -> None:
    """Run the tests (tests/conftest.py says which worker has what); the slowest end the log."""
    if not any(map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"))):
        # Where it cannot be had, as without the internet or as an ordinary user, pytest says what it leaves out.
        at_most = {"PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT": "10000"}
        libraries = ["--with-deps"] if may_install() else []  # else playwright asks for root's password
        session.run("playwright", "install", *libraries, "chromium", env=at_most, success_codes=range(256))
    FAILED.unlink(missing_ok=True)  # pytest keeps the names of earlier runs
    # Tests start hundreds of Pythons; without byte code each of them compiles Interlock anew.
    session.run(
        "pytest", "--dist=loadscope", "--durations=40", *options, *session.posargs,
        env={"PYTHONDONTWRITEBYTECODE": ""}, success_codes=[0, 1],
    )  # fmt: skip
    failed = json.loads(FAILED.read_text(encoding="utf-8")) if FAILED.is_file() else {}
    if len(failed) > MOST_TRIED_AGAIN:
        session.error(f"{len(failed)} tests failed")
    if failed:
        session.warn(f"these failed, and are tried once more, alone: {', '.join(failed)}")
        session.run("pytest", *failed)


@contextmanager
def checked(session: nox.Session) -> Iterator[None]:
    """Check style, layers and that generated files are up to date, and types beside what runs meanwhile.

    Without its cache mypy has one core busy for half a minute.
    """
    with subprocess.Popen([Path(session.bin, "mypy")], stdout=subprocess.PIPE, text=True) as process:
        try:
            session.run("ruff", "check")
            session.run("ruff", "format", "--check")
            session.run("lint-imports")
            session.run("interlock", "render", "--check")
            yield
        finally:
            said, _ = process.communicate()
            session.log(f"mypy: {said.rstrip()}")
    if process.returncode:
        session.error("mypy found errors, which are above")
