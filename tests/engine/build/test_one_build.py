"""One build: by docker's command where BuildKit is, else by the engine; here both say what we want."""

from __future__ import annotations

import json
import os
import select
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker import DockerClient
from docker.errors import ImageNotFound

from interlock.engine.build import one_build
from interlock.engine.build.image import build_failure
from interlock.engine.client import Address
from interlock.errors import EngineError, SourceUnavailableError
from tests.builders import make_program, make_variant
from tests.fakes import Answer, Asked, as_json, serving

FILES = {"Dockerfile": b"FROM x\nRUN make\n", "build.sh": b"make\n"}

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
STREAM = b'{"stream":"Step 1/2 : RUN make"}'
ENDED = (
    b'{"errorDetail":{"code":137,"message":"returned a non-zero code: 137"},"error":"returned a non-zero code: 137"}'
)


def chunks(*parts: bytes) -> Answer:
    """An answer as engines send events; without an empty part at its end it is cut."""
    return Answer(raw=CHUNKED + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts))


# What an engine says of a build, and whether it answers afterwards.
BROKEN = {
    "it refuses": (as_json({"message": "database is locked"}, 500), True),
    "it hangs up": (Answer(closes=True), True),
    "it dies within a step": (chunks(STREAM), True),
    "it ends without a word": (chunks(STREAM, b""), True),
    "it ends the step because it is stopped": (chunks(STREAM, ENDED, b""), False),
}


@pytest.mark.parametrize(("answer", "goes_on"), BROKEN.values(), ids=BROKEN.keys())
def test_an_engine_that_fails_within_a_build_is_not_a_variant_that_cannot_be_built(
    answer: Answer, goes_on: bool
) -> None:
    with building(answer, goes_on) as client, pytest.raises(EngineError) as caught:
        one_build.run_build(client, FILES, [], lambda _: None)
    assert caught.value.todo


def test_a_step_that_fails_while_the_engine_is_well_is_a_failed_build() -> None:
    log: list[str] = []
    with building(chunks(STREAM, ENDED, b""), True) as client:
        assert one_build.run_build(client, FILES, log, lambda _: None) is None
    assert one_build.EXIT_CODE.format(137) in "".join(log)


@pytest.mark.parametrize(
    "problem",
    [
        "failed to set parent sha256:b4f0",
        "unknown parent image ID sha256:b4f0",
        'unable to find image "sha256:b4f0"',
    ],
)
def test_a_step_that_somebody_removed_meanwhile_is_built_again(problem: str) -> None:
    failed = chunks(json.dumps({"error": problem}).encode(), b"")
    log: list[str] = []
    with building(failed, True, chunks(b'{"aux": {"ID": "sha256:1234"}}', b"")) as client:
        assert one_build.run_build(client, {}, log, print) == "sha256:1234"
    assert not one_build.STEP_REMOVED.search("".join(log))


@contextmanager
def building(answer: Answer, goes_on: bool, *later: Answer) -> Iterator[DockerClient]:
    """A client of an engine that answers so to builds, one after the other, and that is gone then unless it goes on."""
    asked: list[Asked] = []
    answers = [answer, *later]

    def said(one: Asked) -> Answer:
        if "/build" in one.path:
            return answers.pop(0)
        is_over = any("/build" in earlier.path for earlier in asked[:-1])
        return Answer(closes=True) if is_over and not goes_on else Answer(200, b"OK")

    with serving(said, asked) as port, closing(DockerClient(f"tcp://127.0.0.1:{port}", version="1.41")) as client:
        yield client


def test_steps_are_told_from_the_rest_of_the_log() -> None:
    text = "interlock: step fetching a.tgz\nmake: interlock: step no\ninterlock: step compiling the interpreter\n"
    assert one_build.STEP.findall(text) == ["fetching a.tgz", "compiling the interpreter"]


# What BuildKit prints of a step that ends with fetch.sh's code for a source that is nowhere, now and by an old engine.
NOWHERE = """\
#1 [internal] load build definition from Dockerfile
#7 [build 2/3] RUN sh /interlock/build.sh
#7 0.103 interlock: step fetching a.tgz
#7 0.251 interlock: tried https://sources.invalid/a.tgz: curl: (6) Could not resolve host: sources.invalid
#7 ERROR: {}
------
 > [build 2/3] RUN sh /interlock/build.sh:
0.251 interlock: tried https://sources.invalid/a.tgz: curl: (6) Could not resolve host: sources.invalid
------
ERROR: failed to solve: {}
"""
FAILURES = (
    'process "/bin/sh -c sh /interlock/build.sh" did not complete successfully: exit code: 69',
    "executor failed running [/bin/sh -c sh /interlock/build.sh]: exit code: 69",
)
DOCKER = """\
[ "$1" = buildx ] && { echo github.com/docker/buildx v0.13.1 abcdef; exit; }
cd {folder}; printf '%s\\n' "$@" > words; env > environment; cat > context.tar; cat said
[ -f sleeps ] && { touch began; exec sleep 60; }
[ -f id ] && cp id "$3"
[ -f metadata.json ] && cp metadata.json "$5"
exit $(cat code)
"""


class WithDocker:
    """A machine whose `docker` has BuildKit: it prints what we say and keeps what it is given."""

    def __init__(self, folder: Path, said: str, code: int) -> None:
        self.folder = folder
        make_program(folder / "docker", DOCKER.replace("{folder}", str(folder)))
        (folder / "said").write_text(said)
        (folder / "code").write_text(str(code))

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()


def client_of(components: str = "Engine", *, goes: bool = False, known: str = "sha256:1234") -> Any:
    """A client that `open_client` would give, of an engine that knows one image; it may be gone."""

    def ping() -> bool:
        if goes:
            raise ConnectionError("[Errno 111] Connection refused")
        return True

    def get(image_id: str) -> Any:
        if image_id != known:
            raise ImageNotFound(image_id)
        return SimpleNamespace(id=known)

    version = {"Components": [{"Name": components}]}
    api = SimpleNamespace(close=lambda: None)
    return SimpleNamespace(
        address=Address("unix:///x.sock"), version=lambda: version, api=api, ping=ping, images=SimpleNamespace(get=get)
    )


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("BUILDX_BUILDER", "another")
    monkeypatch.delenv("DOCKER_BUILDKIT", raising=False)
    return lambda said, code: WithDocker(tmp_path, said, code)


def test_buildkit_gets_the_context_and_the_options_and_no_value_of_an_argument_in_its_words(docker: Any) -> None:
    machine = docker("#5 0.100 interlock: step compiling\n#5 1.500 cc -c a.c\n", 0)
    (machine.folder / "id").write_text("sha256:1234\n")
    log: list[str] = []
    steps: list[str] = []
    arguments = {"MIRROR": "https://me:secret@mirror.example", "EMPTY": ""}
    options: dict[str, Any] = {"target": "symbols", "labels": {"a": "b c"}, "network_mode": "none"}
    made = one_build.run_build(client_of(), FILES, log, steps.append, buildargs=arguments, **options)
    assert made == "sha256:1234"
    assert steps == ["compiling"]
    assert log == ["interlock: step compiling\n", "cc -c a.c\n"]
    given = machine.read("words").splitlines()
    assert given[5:] == [
        *("--build-arg", "MIRROR", "--label", "a=b c", "--target", "symbols", "--network", "none", "-")
    ]
    seen = machine.read("environment").splitlines()
    assert {"MIRROR=https://me:secret@mirror.example", "DOCKER_HOST=unix:///x.sock"} <= set(seen)
    assert not [line for line in seen if line.startswith(("BUILDX_BUILDER", "EMPTY"))]
    with tarfile.open(machine.folder / "context.tar") as context:
        assert {name: context.extractfile(name).read() for name in context.getnames()} == FILES  # type: ignore[union-attr]


def test_an_image_has_the_id_that_the_engine_knows_it_by(docker: Any) -> None:
    machine = docker("", 0)
    (machine.folder / "id").write_text("sha256:1234")
    (machine.folder / "metadata.json").write_text('{"containerimage.digest": "sha256:5678", "other": 1}')
    for known in ("sha256:1234", "sha256:5678"):
        assert one_build.run_build(client_of(known=known), FILES, [], lambda _: None) == known
    assert one_build.run_build(client_of(known="sha256:9"), FILES, [], lambda _: None) is None


@pytest.mark.parametrize("words", FAILURES)
def test_the_exit_code_of_a_step_is_what_buildkit_says_of_it(docker: Any, words: str) -> None:
    docker(NOWHERE.format(words, words), 1)
    log: list[str] = []
    assert one_build.run_build(client_of(), FILES, log, lambda _: None) is None
    error = build_failure("".join(log), make_variant(), "x.log")
    assert isinstance(error, SourceUnavailableError)
    assert error.found == "sources.invalid: Could not resolve host: sources.invalid"


def test_an_engine_that_goes_while_buildkit_builds_is_the_engines_failure(docker: Any) -> None:
    docker("ERROR: Cannot connect to the Docker daemon\n", 1)
    with pytest.raises(EngineError):
        one_build.run_build(client_of(goes=True), FILES, [], lambda _: None)


def test_builds_of_threads_end_with_the_run(docker: Any) -> None:
    machine = docker("", 0)
    (machine.folder / "sleeps").touch()
    made: list[str | None] = []
    thread = threading.Thread(target=lambda: made.append(one_build.run_build(client_of(), FILES, [], lambda _: None)))
    thread.start()
    while not (machine.folder / "began").exists():
        time.sleep(0.01)
    one_build.end_all()
    thread.join(20)
    assert made == [None]


def test_what_an_interrupted_command_started_in_its_session_ends_with_it() -> None:
    def interrupted(line: str) -> str:
        raise KeyboardInterrupt(line)

    held, holds = os.pipe()
    command = ["sh", "-c", "sleep 60 & echo begun; wait"]
    with pytest.raises(KeyboardInterrupt):
        one_build.follow(command, [], interrupted, start_new_session=True, pass_fds=[holds])
    os.close(holds)
    assert select.select([held], [], [], 20)[0], "nobody holds the pipe any more"
    os.close(held)


def test_podman_and_a_user_who_wants_no_buildkit_have_the_engines_builder(
    docker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker("", 0)
    assert one_build.has_buildkit(client_of())
    assert not one_build.has_buildkit(client_of("Podman Engine"))
    assert not one_build.has_buildkit(DockerClient("tcp://127.0.0.1:9", version="1.41"))
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    assert not one_build.has_buildkit(client_of())
    text, given = one_build.written_for(client_of(), "FROM x\nARG A=\nRUN make\n", {"A": "1"}, {"l": "1"})
    assert text.count(b"LABEL") == 1
    assert given["labels"] == {}


def test_an_engine_is_asked_once_what_builds_for_it(docker: Any) -> None:
    machine, client = docker("", 0), client_of()
    assert one_build.has_buildkit(client)
    make_program(machine.folder / "docker", "exit 1")
    assert one_build.has_buildkit(client)
    assert not one_build.has_buildkit(client_of())
