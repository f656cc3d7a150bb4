"""A user's own Dockerfile: the command that builds it, what that is given, and what it says when it fails."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.build import one_build
from interlock.engine.client import Address
from interlock.engine.run import user_images
from interlock.engine.run.user_images import CLASSIC, BuildSetup, Recipe, UserBuilder, find_builder
from interlock.errors import BuildError, EngineError
from tests.builders import make_program

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
    words = one_build.last_words(CLASSIC_LOG)
    assert words.startswith("RuntimeError: CFFI does not support the free-threaded build of CPython 3.13. / error: ")
    assert words.endswith("returned a non-zero code: 1")
    assert "note:" not in words
    assert "notice" not in words
    assert "buildx" not in words


TWO_FAILED = [f"------\n > [{number}/3] RUN x:\n0.312 ERROR: no {number}\n------\n" for number in (1, 2)]
FAILED = "ERROR: failed to solve: executor failed running [/bin/sh -c echo]: exit code: 1"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (BUILDKIT_LOG, f"gcc: fatal error: no input files / {FAILED}"),
        ("".join(["#7 0.1 error: else\n", *TWO_FAILED, "Dockerfile:2\n"]), "ERROR: no 2 / Dockerfile:2"),
        ("one\ntwo\n", "one / two"),
        ("", "its log is empty"),
    ],
    ids=["the failed step", "the step that failed last", "no cause", "nothing"],
)
def test_the_last_words_of_a_log_are_the_failed_steps_or_else_its_last_lines(log: str, words: str) -> None:
    assert one_build.last_words(log) == words


@given(st.text())
def test_any_log_has_last_words(log: str) -> None:
    assert one_build.last_words(log)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Step 3/7 : RUN pip install x", "RUN pip install x"),
        ("STEP 3/7: RUN pip install x", "RUN pip install x"),
        ("[2/2] STEP 1/2: COPY . .", "COPY . ."),
        ("#7 [build 2/4] COPY . .", "COPY . ."),
        ("#7 [2/4] run make", "run make"),
        ("Step 1/7 : ENV A=1", None),
        ("#3 [internal] load metadata", None),
        ("#7 0.3 RUN x", None),
    ],
)
def test_steps_that_take_time_are_shown(line: str, step: str | None) -> None:
    found = user_images.STEP.match(line)
    assert (found[1] if found else None) == step


HOST = "unix:///run/x.sock"


def client_of(components: str = "Engine", api: str = "1.45") -> Any:
    """A client of an engine that has no images but the one that a build is said to make."""
    image = SimpleNamespace(id="sha256:1234", attrs={"Size": 1})
    version = {"ApiVersion": api, "Components": [{"Name": components}]}
    return SimpleNamespace(
        address=Address(HOST),
        version=lambda: version,
        api=SimpleNamespace(images=lambda **_: []),
        images=SimpleNamespace(get=lambda _: image),
    )


@pytest.mark.parametrize(("components", "package"), [("Engine", "docker-cli"), ("Podman Engine", "podman")])
def test_a_machine_without_the_engines_command_is_told_how_to_get_it(
    components: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineError, match=f"apt-get install {package}"):
        find_builder(client_of(components))


def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> None:
    """A program of this name before all others."""
    make_program(tmp_path / name, script)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")


def test_buildkit_is_named_where_the_user_has_it_and_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, monkeypatch, "docker", "echo github.com/docker/buildx v0.13.1 abcdef\n")
    monkeypatch.delenv("DOCKER_BUILDKIT", raising=False)
    found = find_builder(client_of())
    assert found.name == "BuildKit by github.com/docker/buildx v0.13.1"
    assert (found.is_buildkit, found.takes_contexts) == (True, True)
    assert not find_builder(client_of(api="1.41")).takes_contexts
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    assert find_builder(client_of()) == CLASSIC
    put(tmp_path, monkeypatch, "docker", "exit 1\n")
    monkeypatch.delenv("DOCKER_BUILDKIT")
    assert find_builder(client_of()) == CLASSIC


def test_podman_builds_by_its_own_command_whatever_plugin_docker_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("docker", "podman"):
        put(tmp_path, monkeypatch, name, "echo github.com/docker/buildx v0.13.1 abcdef\n")
    found = find_builder(client_of("Podman Engine"))
    assert (found.command, found.is_buildkit, found.takes_contexts) == (("podman", "--url", HOST), False, False)


@pytest.mark.parametrize(
    "address", [Address("unix:///run/user/1000/docker.sock", "rootless"), Address("unix:///run/podman/podman.sock")]
)
def test_a_users_build_runs_in_the_engine_of_the_trial_whatever_the_environment_names(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    monkeypatch.setenv("BUILDX_BUILDER", "another")
    log: list[str] = []
    assert one_build.follow(["env"], log, str, env=one_build.docker_environment(address)) == 0
    seen = dict(line.rstrip("\n").partition("=")[::2] for line in log if line.startswith(("DOCKER_", "BUILDX_")))
    assert {name: seen[name] for name in seen if name in {"DOCKER_HOST", "DOCKER_CONTEXT", "BUILDX_BUILDER"}} == (
        address.environment
    )


REMOVED = "failed to export image: failed to set parent sha256:b4f0: unknown parent image ID sha256:b4f0"
# A `docker` whose first build finds the image of a step gone, or that never builds.
ONCE_GONE = """\
while [ "$1" != --iidfile ]; do shift; done
[ -e {seen} ] && {{ echo sha256:1234 > "$2"; exit {code}; }}
touch {seen}
echo '{said}'
exit 1
"""


@pytest.fixture
def workshop(tmp_path: Path) -> BuildSetup:
    (tmp_path / "work").mkdir()
    return BuildSetup(client_of(), "trial-1", tmp_path / "work", tmp_path, CLASSIC)


# A program that keeps its words, one in a line, and says that it has made an image.
KEEPS_WORDS = """printf '%s\\n' "$@" > {0}/words
while [ "$1" != --iidfile ]; do shift; done
echo sha256:1234 > "$2"
"""
PODMAN = UserBuilder("Podman", ("podman", "--url", HOST))


def words_of(workshop: BuildSetup, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    put(workshop.cache, monkeypatch, workshop.builder.command[0], KEEPS_WORDS.format(workshop.cache))
    user_images.build_user_image(workshop, recipe, "one", print)
    return (workshop.cache / "words").read_text().splitlines()


def test_a_users_file_is_built_where_it_is_with_their_options_and_no_value_that_the_environment_has(
    workshop: BuildSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    recipe = Recipe(tmp_path, tmp_path / "D", {"TOKEN": "secret", "A": "b"}, ("--target", "x"))
    words = words_of(workshop, recipe, monkeypatch)
    assert words[-9:] == [
        *("--target", "x", "--build-arg", "TOKEN", "--build-arg", "A=b", "--file", str(tmp_path / "D"), str(tmp_path))
    ]


@pytest.mark.parametrize("name", ["Dockerfile", "web.Dockerfile"])
def test_a_copy_is_built_with_the_ignore_rules_of_its_dockerfile_beside_it(
    workshop: BuildSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / f"{name}.dockerignore").write_text("junk\n")
    words = words_of(workshop, Recipe(tmp_path, tmp_path / name, text="FROM x\n"), monkeypatch)
    file = Path(words[words.index("--file") + 1])
    assert file.read_text() == "FROM x\n"
    assert file.with_name(f"{file.name}.dockerignore").read_text() == "junk\n"
    assert words[-1] == str(tmp_path)


def test_podmans_command_is_led_to_the_engine_of_the_trial(
    workshop: BuildSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = words_of(replace(workshop, builder=PODMAN), Recipe(tmp_path, tmp_path / "D"), monkeypatch)
    assert words[:3] == ["--url", HOST, "build"]


def put_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, said: str, code: int) -> None:
    put(tmp_path, monkeypatch, "docker", ONCE_GONE.format(seen=tmp_path / "seen", said=said, code=code))


def test_a_step_that_somebody_removed_meanwhile_is_built_again(
    workshop: BuildSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_docker(tmp_path, monkeypatch, said=REMOVED, code=0)
    recipe = Recipe(tmp_path, tmp_path / "Dockerfile", text="FROM scratch\n")
    assert user_images.build_user_image(workshop, recipe, "one", print).image_id == "sha256:1234"


@pytest.mark.parametrize(("said", "code"), [(REMOVED, 1), ("no such file", 0)])
def test_what_fails_again_or_otherwise_is_a_failed_build(
    workshop: BuildSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, code: int
) -> None:
    put_docker(tmp_path, monkeypatch, said=said, code=code)
    with pytest.raises(BuildError):
        user_images.build_user_image(workshop, Recipe(tmp_path, tmp_path / "Dockerfile"), "one", print)


def test_a_step_from_the_cache_is_another_builds() -> None:
    log = "Step 2/3 : RUN a\n ---> Using cache\n ---> aaaaaaaaaaaa\nStep 3/3 : RUN b\n ---> Running in 1\n"
    log += " ---> bbbbbbbbbbbb\n"
    assert user_images._left(log, before=set()) == ("bbbbbbbbbbbb",)
    log = f"STEP 1/2: RUN a\n--> Using cache {'a' * 64}\n--> aaaaaaaaaaaa\nSTEP 2/2: RUN b\n--> bbbbbbbbbbbb\n"
    assert user_images._left(log, before=set()) == ("bbbbbbbbbbbb",)


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
    assert one_build.last_words(text)
    assert time.process_time() - start_s < 2


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"Labels": {"interlock.experiment": "trial-2"}}, True),
        ({"Cmd": ["other"]}, False),
        ({"Env": ["A=1"]}, False),
        ({"Healthcheck": {"Test": ["CMD-SHELL", "curl -f localhost:8000"]}}, False),
    ],
)
def test_an_image_is_known_by_what_it_holds_and_how_it_starts(changes: dict[str, object], same: bool) -> None:
    config = {"Cmd": ["python", "app.py"], "Env": ["A=0"], "Labels": {"interlock.experiment": "trial-1"}}
    made, other = ({"Config": one, "RootFS": {"Layers": ["sha256:1"]}} for one in (config, config | changes))
    assert (user_images._content_hash(made) == user_images._content_hash(other)) is same
    further = {"Config": config, "RootFS": {"Layers": ["sha256:1", "sha256:2"]}}
    assert user_images._content_hash(made) != user_images._content_hash(further)
