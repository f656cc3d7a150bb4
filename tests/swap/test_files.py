"""A file's name tells its kind; compose files, manifests and devcontainer.json change in their image lines alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import SwapError
from interlock.swap import FoundPath
from interlock.swap.files import picked, reverted_file, swapped_before, swapped_file
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
        FoundPath(4, "python3.12", "python3.14t", False, "edit it by hand: only a Dockerfile's are edited"),
    )


@pytest.mark.parametrize(
    ("file", "text", "where", "found"),
    [
        ("c.yaml", "a: [", "c.yaml:1", "is not valid YAML"),
        ("c.yaml", "a: \x01", "c.yaml", "is not valid YAML"),
        ("c.yaml", "- a\n", "c.yaml", "is neither a compose file"),
        ("c.yaml", "", "c.yaml", "is neither a compose file"),
        ("c.yaml", "services: {a: {build: x}}", "c.yaml", "names no image"),
        ("c.yaml", "services:\n", "c.yaml", "names no image"),
        ("c.yaml", "services:\n  a:\n    image: >-\n      python:3.12\n", "c.yaml:3", "over several lines"),
        ("c.yaml", "services: {a: {image: node:22}}", "c.yaml", "no service starts from a Python image"),
        ("c.yaml", "services: {a: {image: $I}}", "c.yaml:1", "I has no default here"),
        ("c.yaml", 'services: {a: {x: "1\n  2", image: python:3.12}}', "c.yaml:2", "no comment can stand above"),
        ("c.yaml", "services: {a: {image: python:3}, b: {image: x}}", "c.yaml:1", "several images on one line"),
        ("d.json", "{", "d.json:1", "is not valid JSON"),
        ("d.json", "[]", "d.json", "has no JSON object"),
        ("d.json", "", "d.json", "has no JSON object"),
        ("d.json", '{"image": 1}', "d.json:1", "is no string"),
        ("d.json", '{"build": {"dockerfile": "x"}}', "d.json", "names no image"),
        ("d.json", '{"image": "bitnami/python:3.12"}', "d.json:1", "more than Python"),
    ],
)
def test_what_names_no_python_image_is_refused(file: str, text: str, where: str, found: str) -> None:
    with pytest.raises(SwapError, match=found) as raised:
        after(file, text)
    assert raised.value.file == where


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


@given(st.lists(plain, max_size=4), st.lists(plain, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_any_manifest_is_swapped_so_that_it_comes_back_or_refused(
    before: list[str], behind: list[str], end: str
) -> None:
    text = end.join([*before, "services:", "  a:", "    image: python:3.12", *behind])
    try:
        swapped = after("compose.yaml", text)
    except SwapError:
        return
    assert reverted_file("compose.yaml", swapped) == text


@given(st.text(max_size=8), st.text(alphabet=' \t\r\n,{}[]"/*:a', max_size=8))
def test_any_devcontainer_is_swapped_so_that_it_comes_back_or_refused(name: str, between: str) -> None:
    text = f'{{"name": "{name}",{between}"image": "python:3.12"}}'
    try:
        swapped = after("devcontainer.json", text)
    except SwapError:
        return
    assert reverted_file("devcontainer.json", swapped) == text


def test_what_a_swap_would_be_for_is_told_as_it_is_now() -> None:
    text = after("Dockerfile", "FROM python:3.12 AS a\nFROM node\n")
    assert [one.image for one in picked("Dockerfile", text, None)] == [PLAIN.reference]
    assert [one.image for one in picked("compose.yaml", COMPOSE, "a")] == ["python:3.12-slim"]


def test_what_was_swapped_is_told_by_its_comment() -> None:
    assert [one.line for one in swapped_before("D", after("D", "ARG B=python:3.12\nFROM $B\nFROM node\n"))] == [3]
    assert [one.name for one in swapped_before("c.yml", after("c.yml", COMPOSE, "b"))] == ["b"]
    assert swapped_before("D", "FROM interlock/python:3.13-trixie\n") == []
