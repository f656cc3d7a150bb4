"""A file of any kind is swapped, taken back, and checked."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import StoreError, SwapError
from interlock.swap import files
from interlock.swap.dockerfile import read_dockerfile
from interlock.swap.files import (
    interlock_tag,
    lines_to_swap,
    name_with_tag,
    outdated_lines,
    reverted_file,
    swapped_file,
    swapped_lines,
)
from interlock.swap.paths import FoundVersion
from tests.swap.samples import FREE, PLAIN

COMPOSE = "services:\n  a:\n    image: python:3.12-slim # c\n  b:\n    image: 'python:3.12'\n  c: {build: .}\n"
POD = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: python:3.12\n"
DEVCONTAINER = '{\n  // why\n  "image": "python:3.12-slim",\n}\n'

plain = st.text(alphabet="ab #'\"{}[]-:&*!|>\t/,", max_size=12)


def after(file: str, text: str, stage: str | None = None) -> str:
    return swapped_file(file, text, PLAIN, stage, paths=True).text


def test_a_services_image_is_edited_within_its_quotes() -> None:
    assert after("compose.yaml", COMPOSE) == (
        f"services:\n  a:\n    # interlock: was python:3.12-slim\n    image: {PLAIN.reference} # c\n"
        f"  b:\n    # interlock: was python:3.12\n    image: '{PLAIN.reference}'\n  c: {{build: .}}\n"
    )


def test_one_service_is_swapped_by_its_name() -> None:
    text = after("compose.yaml", COMPOSE, "b")
    assert text.count(PLAIN.reference) == 1
    assert reverted_file("compose.yaml", text, "a") == text
    assert reverted_file("compose.yaml", text, "B") == COMPOSE


def test_a_second_swap_keeps_the_first_original() -> None:
    once = after("compose.yaml", COMPOSE)
    twice = swapped_file("compose.yaml", once, FREE, None, paths=False)
    assert "was python:3.12-slim" in twice.text
    assert [one.line for one in twice.warnings if "is slim" in one.text] == [7]
    assert reverted_file("compose.yaml", twice.text) == COMPOSE


def test_a_containers_image_is_edited() -> None:
    text = after("pod.yml", POD)
    assert text.endswith(f"  - name: a\n    # interlock: was python:3.12\n    image: {PLAIN.reference}\n")
    assert reverted_file("pod.yml", text) == POD


def test_a_devcontainers_image_is_edited() -> None:
    text = after(".devcontainer/devcontainer.json", DEVCONTAINER)
    assert f'\n  // interlock: was python:3.12-slim\n  "image": "{PLAIN.reference}",\n' in text
    assert reverted_file("devcontainer.json", text) == DEVCONTAINER


def test_versions_beside_an_image_are_found_and_left_to_the_person() -> None:
    text = "services:\n  a:\n    image: python:3.12\n    command: python3.12\n  b:\n    command: python3.12\n"
    assert swapped_file("compose.yaml", text, FREE, None, paths=True).paths == (
        FoundVersion(4, "python3.12", "python3.14t", False, "edit it by hand: only a Dockerfile's are edited"),
    )


@pytest.mark.parametrize(
    ("file", "text", "where", "key"),
    [
        ("c.yaml", "a: [", "c.yaml:1", ""),
        ("c.yaml", "a: \x01", "c.yaml", ""),
        ("c.yaml", "- a\n", "c.yaml", ""),
        ("c.yaml", "", "c.yaml", ""),
        ("c.yaml", "services: {a: {build: x}}", "c.yaml", ""),
        ("c.yaml", "services:\n", "c.yaml", ""),
        ("c.yaml", "services:\n  a:\n    image: >-\n      python:3.12\n", "c.yaml:3", ""),
        ("c.yaml", "services: {a: {image: node:22}}", "c.yaml", ""),
        ("c.yaml", "services: {a: {image: $I}}", "c.yaml:1", ""),
        ("c.yaml", 'services: {a: {x: "1\n  2", image: python:3.12}}', "c.yaml:2", ""),
        ("c.yaml", "services: {a: {image: python:3}, b: {image: x}}", "c.yaml:1", ""),
        ("d.json", "{", "d.json:1", ""),
        ("d.json", "[]", "d.json", ""),
        ("d.json", "", "d.json", ""),
        ("d.json", '{"image": 1}', "d.json:1", "image"),
        ("d.json", '{"build": {"dockerfile": "x"}}', "d.json", ""),
        ("d.json", '{"image": "bitnami/python:3.12"}', "d.json:1", ""),
    ],
)
def test_what_names_no_python_image_is_refused(file: str, text: str, where: str, key: str) -> None:
    with pytest.raises(SwapError) as raised:
        after(file, text)
    assert (raised.value.file, raised.value.key) == (where, key)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("c.yaml", "# interlock: was python:3.12\nservices: {a: {image: 'x', c: 1}, b: {image: y}}\n"),
        ("c.yaml", "# interlock: was a\n# interlock: was b\nservices: {a: {image: x}}\n"),
        ("c.yaml", "# interlock: paths were a\nservices: {a: {image: x}}\n"),
        ("d.json", '// interlock: was a\n{\n"image": "x"}\n'),
        ("d.json", '// interlock: was json:\n{"image": "x"}\n'),
    ],
)
def test_a_comment_that_fits_no_image_line_is_refused(file: str, text: str) -> None:
    with pytest.raises(SwapError, match="the comment 'interlock"):
        reverted_file(file, text)


def test_a_one_line_file_gets_its_comment_above() -> None:
    text = after("d.json", '\ufeff{"name": "Größe", "image": "python:3.12"}')
    assert text == f'\ufeff// interlock: was python:3.12\n{{"name": "Größe", "image": "{PLAIN.reference}"}}'
    assert reverted_file("d.json", text) == '\ufeff{"name": "Größe", "image": "python:3.12"}'


def comes_back_or_is_refused(file: str, text: str) -> bool:
    try:
        swapped = after(file, text)
    except SwapError:
        return True
    return reverted_file(file, swapped) == text


@given(st.lists(plain, max_size=4), st.lists(plain, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_any_manifest_is_swapped_so_that_it_comes_back_or_refused(
    before: list[str], behind: list[str], end: str
) -> None:
    assert comes_back_or_is_refused(
        "compose.yaml", end.join([*before, "services:", "  a:", "    image: python:3.12", *behind])
    )


@given(st.text(max_size=8), st.text(alphabet=' \t\r\n,{}[]"/*:a', max_size=8))
def test_any_devcontainer_is_swapped_so_that_it_comes_back_or_refused(name: str, between: str) -> None:
    assert comes_back_or_is_refused("devcontainer.json", f'{{"name": "{name}",{between}"image": "python:3.12"}}')


def test_what_a_swap_would_be_for_is_told_as_it_is_now() -> None:
    text = after("Dockerfile", "FROM python:3.12 AS a\nFROM node\n")
    assert [one.image for one in lines_to_swap("Dockerfile", text, None)] == [PLAIN.reference]
    assert [one.image for one in lines_to_swap("compose.yaml", COMPOSE, "a")] == ["python:3.12-slim"]


def test_what_was_swapped_is_told_by_its_comment() -> None:
    assert [one.line for one in swapped_lines("D", after("D", "ARG B=python:3.12\nFROM $B\nFROM node\n"))] == [3]
    assert [one.name for one in swapped_lines("c.yml", after("c.yml", COMPOSE, "b"))] == ["b"]
    assert swapped_lines("D", "FROM localhost/interlock/python:3.13-trixie\n") == []


TAG = "localhost/interlock/python:3.14t-trixie"


def problems(image: str, expected: str | None = TAG, now: str | None = None) -> list[str]:
    return outdated_lines(read_dockerfile(f"ARG A\nFROM {image}\n").stages, expected, {name_with_tag(image): now})


@pytest.mark.parametrize(
    ("image", "now"),
    [
        (TAG, None),
        (f"{TAG}@sha256:1", "sha256:1"),
        ("registry:5000/interlock/python:3.14t-trixie@sha256:1", "sha256:1"),
        ("registry:5000/interlock/python:3.14t-trixie", None),
        ("interlock/python:3.14t-trixie@sha256:1", "sha256:1"),
    ],
)
def test_the_picked_tag_with_its_digest_is_right(image: str, now: str | None) -> None:
    assert problems(image, now=now) == problems(image, None, now) == []


@pytest.mark.parametrize(
    ("image", "now", "named"),
    [
        ("python:3.14", None, ("python:3.14", TAG)),
        (f"{TAG}-release", None, (f"{TAG}-release", f"not {TAG}")),
        ("localhost/interlock/python@sha256:1", "sha256:1", ("localhost/interlock/python@sha256:1", TAG)),
        ("interlock/python:3.14t-trixie", None, ("public registry",)),
        (TAG, "sha256:2", (TAG, "sha256:2")),
        (f"{TAG}@sha256:1", "sha256:2", ("sha256:1", TAG, "sha256:2")),
        (f"{TAG}@sha256:1", None, ("sha256:1", TAG)),
    ],
)
def test_anything_else_is_a_problem_of_its_line(image: str, now: str | None, named: tuple[str, ...]) -> None:
    (sentence,) = problems(image, now=now)
    assert sentence.startswith("2: ")
    assert all(name in sentence for name in named)


def test_without_a_pick_any_image_of_ours_will_do_and_no_other() -> None:
    assert problems("localhost/interlock/python:3.13-trixie", None) == []
    assert problems("python:3.13", None) == ["2: names python:3.13, not an image of Interlock"]


def test_a_tag_is_the_same_in_every_registry() -> None:
    assert (
        interlock_tag("localhost:5000/team/interlock/python:3.13-trixie@sha256:1")
        == "localhost/interlock/python:3.13-trixie"
    )
    assert interlock_tag("python:3.13") is None
    assert name_with_tag(f"a.example/{TAG}@sha256:1") == f"a.example/{TAG}"


def test_in_a_namespace_of_a_teams_own_an_image_is_known_by_the_comment_of_a_swap() -> None:
    """Without it the name may be a mirror of the official image."""
    image = "registry:5000/team/python:3.14t-trixie@sha256:1"
    assert interlock_tag(image) is None
    assert interlock_tag(image, swapped=True) == "localhost/interlock/python:3.14t-trixie"
    assert interlock_tag("registry:5000/team/other:3.14t-trixie", swapped=True) is None
    lines = read_dockerfile(f"FROM node\nFROM {image}\n").stages[1:]
    now: dict[str, str | None] = {name_with_tag(image): "sha256:1"}
    assert outdated_lines(lines, "localhost/interlock/python:3.14t-trixie", now, {2}) == []
    assert outdated_lines(lines, None, now, {2}) == []
    (problem,) = outdated_lines(lines, "localhost/interlock/python:3.14t-trixie", now, {1})
    assert problem.startswith(f"2: names {image}, not localhost/interlock/python:3.14t-trixie")


@pytest.mark.parametrize(
    "data", [b"", b"a", b"a\r\nb\n", b"\xef\xbb\xbfFROM x", b"# Gr\xfc\xdfe\n", bytes(range(1, 256))]
)
def test_any_bytes_come_back(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    files.replace_file(file, files.read_file(file))
    assert file.read_bytes() == data


def test_the_mode_and_the_attributes_stay(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o2640)
    attributes = {}
    try:
        os.setxattr(file, "user.note", b"mine")
        attributes["user.note"] = b"mine"
    except OSError:
        pass  # a file system without them
    files.replace_file(file, "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o2640
    assert {name: os.getxattr(file, name) for name in attributes} == attributes


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    os.chown(file, 1234, 4321)
    file.chmod(0o600)
    files.replace_file(file, "new")
    assert (file.stat().st_uid, file.stat().st_gid, stat.S_IMODE(file.stat().st_mode)) == (1234, 4321, 0o600)


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    files.replace_file(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_nothing_else_is_left_in_the_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    files.replace_file(file, "new")
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_cannot_be_replaced_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        files.replace_file(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_is_gone_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        files.replace_file(tmp_path / "file", "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (lambda path: path.write_text("FROM x", encoding="utf-16"), "zero bytes"),
        (lambda path: None, "cannot be read: No such file"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, make: object, problem: str) -> None:
    make(tmp_path / "x")  # type: ignore[operator]
    with pytest.raises(StoreError, match=problem):
        files.read_file(tmp_path / "x")


BOMB = "services:\n  a0: &a0 {image: python:3.13-slim}\n" + "".join(
    f"  a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]\n" for number in range(1, 12)
)
HUGE = "FROM python:3.13-slim\n" + "RUN echo\n" * 20_000


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("compose.yaml", BOMB),
        ("compose.yaml", "services: &a\n  web: {image: python:3.13-slim, <<: *a}\n  more: *a\n"),
        ("deployment.yaml", "apiVersion: v1\nkind: Pod\nspec: &a\n  containers: [*a, {image: python:3.13-slim}]\n"),
        ("compose.yaml", "services: &a [*a]\n"),
        ("compose.yaml", "%YAML 9.9\n---\nservices: {}\n"),
        ("compose.yaml", "services: " + "[" * 5000),
        ("compose.yaml", "services: " + "{<<: " * 400 + "{}" + "}" * 400 + "\n"),
        ("compose.yaml", "services:\n" + "".join(f"  s{n}: {{image: python:3.13-slim}}\n" for n in range(20_000))),
        ("compose.yaml", "services:\n" + "".join(f"  s{n}:\n    image: python:3.13-slim\n" for n in range(200))),
        ("Dockerfile", HUGE),
        ("Dockerfile", "FROM python:3.13-slim AS a\n" * 490),
        ("Dockerfile", "FROM python:3.13-slim\n" + "RUN echo\n" * 1990),
        ("Dockerfile", "FROM python:3.13-slim\nRUN " + "[" * 100_000),
    ],
    ids=lambda text: text[:20].splitlines()[0],
)
def test_what_grows_when_it_is_read_takes_two_seconds_at_most_or_is_refused(file: str, text: str) -> None:
    start = time.process_time()
    with suppress(SwapError):
        swapped_file(file, text, PLAIN, None, paths=True)
    assert time.process_time() - start < 2
