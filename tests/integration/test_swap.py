"""Swapped files are built by the real engine and come back as they were; digests are those of a real registry."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ImageNotFound

from interlock.engine.build.image import read_context
from interlock.engine.build.one_build import run_build
from interlock.engine.ownership import OWNER_LABEL, PID
from interlock.engine.registry import registry_digest
from interlock.engine.run import leftovers
from interlock.engine.run.user_images import MADE
from interlock.results.experiments import Built
from tests.builders import Entry
from tests.integration.images import NO_THREADS, QUICK, Images
from tests.integration.registries import Registry, push
from tests.integration.resources import run

OLD = "localhost/library/python:2.6-slim"
DOCKERFILE = """\
ARG TAG=2.6-slim
FROM localhost/library/python:$TAG AS build
RUN mkdir -p /install/lib/python2.6/site-packages && \\
    echo 'word = 6 * 7' > /install/lib/python2.6/site-packages/mod.py

# the second of two that agree
FROM localhost/library/python:2.6-slim
COPY --from=build /install/lib/python2.6/site-packages/ /usr/local/lib/python2.6/site-packages/
CMD ["python2.6", "-c", "import mod, sys; print(mod.word, sys.version_info[:2])"]
"""

# What is swapped for an image of any variant; its command is the old one's.
RUNS = """\
FROM python:3.12-slim AS build
FROM python:3.12-slim
CMD ["python3.12", "-c", "pass"]
"""

# The whole interpreter goes into another base, in paths with a build argument that the image sets itself.
COPIED = """\
ARG PYTHON_VERSION=2.6
FROM localhost/library/python:$PYTHON_VERSION-slim AS py
FROM {base}
ARG PYTHON_VERSION
COPY --from=py /usr/local/bin/python2.6 /usr/local/bin/
COPY --from=py /usr/local/lib/python${{PYTHON_VERSION}} /usr/local/lib/python${{PYTHON_VERSION}}/
RUN ln -s /usr/local/bin/python2.6 /usr/local/bin/python
CMD ["python", "-c", "import os; print(os.__file__)"]
"""
UV = "localhost/astral-sh/uv:python2.6-slim"
# As uv's documentation has it. This uv is a script: the real one is in tests/proofs/test_installers.py.
WITH_UV = f"""\
FROM {UV} AS builder
RUN uv sync
FROM {OLD}
COPY --from=builder /app /app
CMD ["cat", "/app/made-with"]
"""
UV_IMAGE = f"""\
FROM {OLD}
RUN cd /usr/local/bin \
 && echo '#!/bin/sh\\nmkdir /app && echo "$PYTHON_VERSION $(command -v uvx)" > /app/made-with' > uv \
 && chmod 755 uv && cp uv uvx
ENV PYTHON_VERSION=2.6
"""


@pytest.fixture(scope="module")
def image(client: Any, built: Images) -> Iterator[Built]:
    """An image of a variant; the 'old' image has the same content under a name of Python's, as a mirror has it."""
    image = built[NO_THREADS]
    client.images.get(image.tag).tag(*OLD.rsplit(":", 1))
    yield image
    client.images.remove(OLD)


def output_of(client: Any, folder: Path) -> str:
    """What the container of a built folder prints; what the build made is gone afterwards, and nothing else is."""
    log: list[str] = []
    try:
        image_id = run_build(client, read_context(folder), log, lambda _: None, network_mode="none")
        assert image_id, "".join(log)
        return run(client, image_id)
    finally:
        leftovers.remove_images(client, list(reversed(MADE.findall("".join(log)))))


@pytest.mark.slow
def test_a_service_is_swapped_built_run_and_taken_back(swap: Entry, client: Any, image: Built, tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text(DOCKERFILE)
    code, _, err = swap(file, "--to", NO_THREADS, "--paths", "--write")
    assert code == 1, "a name of this machine alone is not written unasked"
    assert "--local" in err
    assert file.read_text() == DOCKERFILE
    code, _, err = swap(file, "--to", NO_THREADS, "--paths", "--write", "--local", "--try")
    assert code == 0
    assert f"{image.tag} " in err
    assert "ended with 0: its last lines: (42, (2, 7))" in err
    assert output_of(client, tmp_path) == "(42, (2, 7))"
    assert swap(file, "--check", "--to", NO_THREADS)[0] == 0
    assert swap(file, "--revert", "--write")[0] == 0
    assert file.read_text() == DOCKERFILE


@pytest.mark.slow
def test_an_interpreter_that_is_copied_into_another_base_runs_there_after_a_swap(
    swap: Entry, client: Any, image: Built, tmp_path: Path
) -> None:
    assert image.base
    file = tmp_path / "Dockerfile"
    file.write_text(COPIED.format(base=image.base.reference))
    assert swap(file, "--to", NO_THREADS, "--paths", "--write", "--local")[0] == 0
    assert output_of(client, tmp_path) == "/usr/local/lib/python2.7/os.pyc"


@pytest.mark.slow
@pytest.mark.usefixtures("image")
def test_a_builder_of_uvs_is_swapped_with_the_runtime_and_keeps_uv(swap: Entry, client: Any, tmp_path: Path) -> None:
    log: list[str] = []
    made = run_build(client, {"Dockerfile": UV_IMAGE.encode()}, log, lambda _: None, tag=UV)
    assert made, "".join(log)
    file = tmp_path / "Dockerfile"
    file.write_text(WITH_UV)
    try:
        assert swap(file, "--to", NO_THREADS, "--write", "--local")[0] == 0
        assert output_of(client, tmp_path) == "2.7.18 /usr/local/bin/uvx"
        assert swap(file, "--revert", "--write")[0] == 0
        assert file.read_text() == WITH_UV
    finally:
        client.images.remove(UV)


@pytest.mark.usefixtures("quick")
def test_what_does_not_start_is_not_written(swap: Entry, client: Any, tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text(RUNS)
    before = made_by_swaps(client)
    code, _, err = swap(file, "--to", QUICK, "--write", "--local", "--try")
    assert code == 6
    assert "python3.12" in err, "the command that the new image does not have"
    assert file.read_text() == RUNS
    assert made_by_swaps(client) - before == set()


@pytest.mark.usefixtures("quick")
def test_what_is_tried_is_built_with_the_given_build_arguments(swap: Entry, tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text('FROM python:3.12-slim\nARG WORD\nRUN test "$WORD" = given\nCMD ["true"]\n')
    words = (file, "--to", QUICK, "--write", "--local", "--try")
    assert swap(*words)[0] == 5
    assert "interlock:" not in file.read_text()
    assert swap(*words, "--build-arg", "WORD=given")[0] == 0
    assert "interlock:" in file.read_text()


def made_by_swaps(client: Any) -> set[str]:
    """The containers and images of this process's swaps; others build and swap meanwhile."""
    owned = {"filters": {"label": f"{PID}={os.getpid()}"}, "all": True}
    found = [*client.containers.list(**owned, ignore_removed=True), *client.images.list(**owned)]
    return {one.id for one in found if one.labels[OWNER_LABEL].startswith("swap-")}


@pytest.mark.slow
def test_without_paths_the_swapped_file_builds_and_does_not_run(
    swap: Entry, client: Any, image: Built, tmp_path: Path
) -> None:
    """What --paths is for: nothing fails before the container starts."""
    file = tmp_path / "Dockerfile"
    file.write_text(DOCKERFILE.replace('"python2.6"', '"python"'))
    _, _, err = swap(file, "--to", NO_THREADS, "--write", "--local")
    assert re.search(r"python2\.6 -> python2\.7 .*--paths", err)
    with pytest.raises(Exception, match="No module named mod"):
        output_of(client, tmp_path)


def digests_below(client: Any, address: str, *images: Any) -> list[str]:
    """The names by digest that a push leaves with an image."""
    ids = [getattr(one, "image_id", one) for one in images]
    digests = [digest for one in ids for digest in client.images.get(one).attrs["RepoDigests"]]
    return [digest for digest in dict.fromkeys(digests) if digest.startswith(address)]


def remove(client: Any, names: list[str]) -> None:
    for name in names:
        with suppress(ImageNotFound):
            client.images.remove(name)


def test_an_image_in_a_registry_is_pinned_and_its_digest_checked(
    swap: Entry, client: Any, quick: Built, registry: Registry, tmp_path: Path
) -> None:
    """Pushed, pinned, current; pushed anew with another content, no longer current."""
    name = f"{registry.address}/{quick.tag}"
    other = client.images.build(fileobj=io.BytesIO(f"FROM {quick.tag}\nLABEL other=1\n".encode()), rm=True)[0]
    file = tmp_path / "Dockerfile"
    file.write_text(RUNS)
    try:
        digest = push(client, quick.tag, name)
        code, out, err = swap(file, "--to", QUICK, "--write")
        assert code == 0
        assert f"+FROM {name}@{digest}" in out
        assert "no registry" not in err
        elsewhere = tmp_path / "other.Dockerfile"
        elsewhere.write_text("FROM --platform=linux/s390x python:2.7-slim\n")
        assert "is for linux/s390x" in swap(elsewhere, "--to", QUICK)[2]
        assert swap(file, "--check")[0] == 0
        newer = push(client, other.id, name)
        code, _, err = swap(file, "--check", "--to", QUICK)
        assert code == 1
        assert all(part in err for part in (digest, name, newer))
    finally:
        remove(client, [name, *digests_below(client, registry.address, quick, other.id), other.id])


def test_a_registry_that_does_not_answer_is_told_and_makes_no_line_stale(
    swap: Entry, client: Any, quick: Built, registry: Registry, tmp_path: Path
) -> None:
    name = f"{registry.address}/{quick.tag}"
    file = tmp_path / "Dockerfile"
    file.write_text(RUNS)
    try:
        push(client, quick.tag, name)
        assert registry_digest(client, f"{name}-other") is None
        assert swap(file, "--to", QUICK, "--write")[0] == 0
        registry.stop()
        elsewhere = tmp_path / "other.Dockerfile"
        elsewhere.write_text(RUNS)
        _, out, err = swap(elsewhere, "--to", QUICK)
        assert f"+FROM {name}@sha256:" in out
        assert f"{name.rsplit(':', 1)[0]}@sha256:" in err
        code, _, err = swap(file, "--check")
        assert code == 0, "this engine has that digest"
        assert registry.address in err
        remove(client, [name, *digests_below(client, registry.address, quick)])
        code, _, err = swap(file, "--check")
        assert code == 4
        assert registry.address in err
        registry.start()
        assert swap(file, "--check")[0] == 0
    finally:
        remove(client, [name, *digests_below(client, registry.address, quick)])
