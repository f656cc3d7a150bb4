"""The GIL probe, run by this machine's interpreter with a GIL that is made up."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.client import Address
from interlock.engine.run import trials
from interlock.engine.run.trials import CLASSIC, BuildSetup, Recipe, find_builder, last_words
from interlock.errors import BuildError, EngineError
from tests.builders import extract

if TYPE_CHECKING:
    from docker import DockerClient

# What a free-threaded interpreter has: `sys._is_gil_enabled`, here as a list that the program changes.
PRETENCE = "import sys\ngil = [False]\nsys._is_gil_enabled = lambda: gil[0]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The GIL probe as a container gets it."""
    with tarfile.open(fileobj=io.BytesIO(trials.gil_probe_archive())) as tar:
        extract(tar, tmp_path)
    return tmp_path / trials.GIL_FOLDER.strip("/")


def run(folder: Path, program: str, *path: Path) -> str:
    """Runs the program with the GIL probe; what it printed."""
    (folder / "pretence.py").write_text(PRETENCE)
    # The pretence must be there before the GIL probe looks.
    source = folder / "sitecustomize.py"
    source.write_text("import pretence\n" + source.read_text().replace("import pretence\n", ""))
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, (folder, *path)))}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


def said(folder: Path) -> list[list[str]]:
    return [path.read_text().split() for path in sorted(folder.glob("*.gil"))]


def test_every_user_may_write_beside_the_witness() -> None:
    with tarfile.open(fileobj=io.BytesIO(trials.gil_probe_archive())) as tar:
        modes = {entry.name: entry.mode for entry in tar}
    assert modes == {"interlock-gil": 0o1777, "interlock-gil/sitecustomize.py": 0o644}


def test_a_gil_that_stays_off_is_said(folder: Path) -> None:
    run(folder, "import json")
    ((_, start, now, *_),) = said(folder)
    assert (start, now) == ("0", "0")


def test_a_gil_that_comes_back_is_said_with_what_was_loaded_last(folder: Path) -> None:
    run(folder, "import pretence, _testcapi, colorsys\npretence.gil[0] = True\nopen('/dev/null')\nimport _testbuffer")
    ((_, start, now, module),) = said(folder)
    assert (start, now, module) == ("0", "1", "_testcapi")


def test_a_forked_process_speaks_for_itself(folder: Path) -> None:
    child = "pretence.gil[0] = True; open('/dev/null'); os._exit(0)"
    program = f"import os, pretence\nif os.fork() == 0:\n    {child}\nos.wait()"
    run(folder, program)
    assert sorted(words[2] for words in said(folder)) == ["0", "1"]


def test_a_forked_process_in_which_nothing_changes_is_heard_as_well(folder: Path) -> None:
    run(folder, "import os\nif os.fork() == 0:\n    open('/dev/null')\n    os._exit(0)\nos.wait()")
    assert [words[1:3] for words in said(folder)] == [["0", "0"], ["0", "0"]]


def test_the_images_own_sitecustomize_runs_as_well(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('own', __name__)\n")
    assert run(folder, "print('program')", own).splitlines() == ["own sitecustomize", "program"]


def test_an_interpreter_without_the_question_says_nothing(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run([sys.executable, "-c", "import json"], env=environment, check=True, timeout=60)
    assert said(folder) == [] or sys.version_info >= (3, 13)


def test_a_line_that_cannot_be_written_disturbs_nobody(folder: Path) -> None:
    # The process keeps its id, and where its line would be there is a folder.
    shell = 'rm "$PYTHONPATH/$$.gil"; mkdir "$PYTHONPATH/$$.gil"; exec "$0" -c "print(1)"'
    assert run(folder, f"import os, sys\nos.execv('/bin/sh', ['sh', '-c', {shell!r}, sys.executable])") == "1\n"


# Docker 20.10's classic builder with pip 25.1, and BuildKit by buildx 0.13.
CLASSIC_LOG = """\
DEPRECATED: The legacy builder is deprecated and will be removed in a future release.
            Install the buildx component to build images with BuildKit:
            https://docs.docker.com/go/buildx/

Step 6/10 : RUN pip install --no-cache-dir --requirement requirements.txt
 ---> Running in 5c0ee72ee574
      RuntimeError: CFFI does not support the free-threaded build of CPython 3.13.
      [end of output]
  note: This error originates from a subprocess, and is likely not a problem with pip.
error: subprocess-exited-with-error
[notice] A new release of pip is available: 25.1.1 -> 26.3
hint: See above for details.
Removing intermediate container 5c0ee72ee574
The command '/bin/sh -c pip install --no-cache-dir --requirement requirements.txt' returned a non-zero code: 1
"""
BUILDKIT_LOG = """\
#7 [3/3] RUN echo "gcc: fatal error: no input files" && test -e /app/junk
#7 0.247 gcc: fatal error: no input files
#7 ERROR: executor failed running [/bin/sh -c echo "gcc: fatal error: no input files"]: exit code: 1
------
 > [3/3] RUN echo "gcc: fatal error: no input files" && test -e /app/junk:
0.247 gcc: fatal error: no input files
------
Dockerfile:3
--------------------
   3 | >>> RUN echo "gcc: fatal error: no input files" && test -e /app/junk
--------------------
ERROR: failed to solve: executor failed running [/bin/sh -c echo]: exit code: 1
"""


def test_the_classic_builders_last_words_are_what_went_wrong_without_the_noise() -> None:
    words = last_words(CLASSIC_LOG)
    assert words.startswith("RuntimeError: CFFI does not support the free-threaded build of CPython 3.13. / error: ")
    assert words.endswith("returned a non-zero code: 1")
    assert "note:" not in words
    assert "notice" not in words
    assert "buildx" not in words


def test_buildkits_last_words_are_the_failed_steps() -> None:
    assert last_words(BUILDKIT_LOG) == (
        "gcc: fatal error: no input files / "
        "ERROR: failed to solve: executor failed running [/bin/sh -c echo]: exit code: 1"
    )


def test_a_log_without_a_cause_is_said_by_its_last_lines() -> None:
    assert last_words("one\ntwo\n") == "one / two"
    assert last_words("")


@given(st.text())
def test_any_log_has_last_words(log: str) -> None:
    assert last_words(log)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Step 3/7 : RUN pip install x", "RUN pip install x"),
        ("#7 [build 2/4] COPY . .", "COPY . ."),
        ("#7 [2/4] run make", "run make"),
        ("Step 1/7 : ENV A=1", None),
        ("#3 [internal] load metadata", None),
        ("#7 0.3 RUN x", None),
    ],
)
def test_steps_that_take_time_are_shown(line: str, step: str | None) -> None:
    found = trials.STEP.match(line)
    assert (found[1] if found else None) == step


def test_the_ignore_file_of_a_dockerfile_bears_its_name(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, tmp_path / "web.Dockerfile")
    assert recipe.ignore_file is None
    (tmp_path / "web.Dockerfile.dockerignore").write_text("junk\n")
    assert recipe.ignore_file == tmp_path / "web.Dockerfile.dockerignore"


def test_a_machine_without_the_docker_command_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineError, match="apt-get install"):
        find_builder()


def test_buildkit_is_named_where_the_user_has_it_and_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho github.com/docker/buildx v0.13.1 abcdef\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.delenv("DOCKER_BUILDKIT", raising=False)
    assert find_builder() == "BuildKit by github.com/docker/buildx v0.13.1"
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    assert find_builder() == CLASSIC
    docker.write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.delenv("DOCKER_BUILDKIT")
    assert find_builder() == CLASSIC


@pytest.mark.parametrize(
    "address", [Address("unix:///run/user/1000/docker.sock", "rootless"), Address("unix:///run/podman/podman.sock")]
)
def test_a_users_build_runs_in_the_engine_of_the_trial_whatever_the_environment_names(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    monkeypatch.setenv("BUILDX_BUILDER", "another")
    log: list[str] = []
    assert trials._run(address, ["env"], None, log, print) == 0
    seen = dict(line.rstrip("\n").partition("=")[::2] for line in log if line.startswith(("DOCKER_", "BUILDX_")))
    assert {name: seen[name] for name in seen if name in {"DOCKER_HOST", "DOCKER_CONTEXT", "BUILDX_BUILDER"}} == (
        address.environment
    )


REMOVED = "failed to export image: failed to set parent sha256:b4f0: unknown parent image ID sha256:b4f0"
# A `docker` whose first build finds the image of a step gone, or that never builds.
ONCE_GONE = """#!/bin/sh
while [ "$1" != --iidfile ]; do shift; done
[ -e {seen} ] && {{ echo sha256:1234 > "$2"; exit {code}; }}
touch {seen}
echo '{said}'
exit 1
"""


@pytest.fixture
def workshop(tmp_path: Path) -> BuildSetup:
    """A workshop whose engine has no images but the one that a build is said to make."""
    image = SimpleNamespace(attrs={"Size": 1})
    client = SimpleNamespace(api=SimpleNamespace(images=lambda **_: []), images=SimpleNamespace(get=lambda _: image))
    return BuildSetup(cast("DockerClient", client), Address(""), "trial-1", tmp_path / "work", tmp_path, CLASSIC)


def put_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, said: str, code: int) -> None:
    docker = tmp_path / "docker"
    docker.write_text(ONCE_GONE.format(seen=tmp_path / "seen", said=said, code=code))
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")


def test_a_step_that_somebody_removed_meanwhile_is_built_again(
    workshop: BuildSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_docker(tmp_path, monkeypatch, said=REMOVED, code=0)
    (tmp_path / "work").mkdir()
    recipe = Recipe(tmp_path, tmp_path / "Dockerfile")
    assert trials.build_user_image(workshop, recipe, "one", "FROM scratch\n", print).image_id == "sha256:1234"


@pytest.mark.parametrize(("said", "code"), [(REMOVED, 1), ("no such file", 0)])
def test_what_fails_again_or_otherwise_is_a_failed_build(
    workshop: BuildSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, code: int
) -> None:
    put_docker(tmp_path, monkeypatch, said=said, code=code)
    (tmp_path / "work").mkdir()
    with pytest.raises(BuildError):
        trials.build_user_image(workshop, Recipe(tmp_path, tmp_path / "Dockerfile"), "one", "FROM scratch\n", print)


def test_a_step_from_the_cache_is_another_builds() -> None:
    log = "Step 2/3 : RUN a\n ---> Using cache\n ---> aaaaaaaaaaaa\nStep 3/3 : RUN b\n ---> Running in 1\n"
    log += " ---> bbbbbbbbbbbb\n"
    assert trials._left(log, before=set()) == ("bbbbbbbbbbbb",)


@pytest.mark.parametrize("data", [b"", b"no tar", gzip.compress(bytes(10_240)), gzip.compress(b"x")[:-4], bytes(100)])
def test_a_container_that_sends_no_tar_has_written_nothing(data: bytes) -> None:
    sandbox: Any = SimpleNamespace(container=SimpleNamespace(get_archive=lambda _: (iter([data]), {})))
    assert trials.read_gil_probe(sandbox) == []


@pytest.mark.parametrize(
    "text",
    [
        "------\n > [2/3] RUN pip install x:\n" + "0.312:\n" * 60_000,
        "------\n > x\n" * 60_000,
        "------\n > x:\n" * 60_000,
    ],
    ids=["no end", "no name", "many"],
)
def test_the_last_words_of_a_log_take_no_longer_than_its_length(text: str) -> None:
    start_s = time.process_time()
    assert trials.last_words(text)
    assert time.process_time() - start_s < 2


def test_the_last_words_are_of_the_step_that_failed_last() -> None:
    steps = [f"------\n > [{number}/3] RUN x:\n0.312 ERROR: no {number}\n------\n" for number in (1, 2)]
    assert (
        trials.last_words("".join(["#7 0.1 error: else\n", *steps, "Dockerfile:2\n"])) == "ERROR: no 2 / Dockerfile:2"
    )
