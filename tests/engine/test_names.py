"""Names of registries: what engines would take for something else is refused, with the right way to write it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.names import LONGEST_NAME, NAME, Registry, parse_registry
from interlock.errors import UsageError

TAG = "localhost/interlock/python:3.14t-trixie"
HASH = "0123456789abcdef" * 4

labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
ports = st.integers(1, 65535).map(str)
hosts = st.one_of(
    st.lists(labels, min_size=2, max_size=4).map(".".join),
    st.tuples(labels, ports).map(":".join),
    st.just("localhost"),
)
namespaces = st.lists(st.from_regex(r"[a-z0-9]+(([._]|__|-+)[a-z0-9]+){0,2}", fullmatch=True), min_size=1, max_size=3)


def refusal(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse_registry(text, "--registry")
    assert caught.value.key == "--registry"
    return caught.value


@given(hosts, namespaces.map("/".join).filter(lambda text: len(text) < 150))
def test_a_host_and_a_namespace_are_told_apart(host: str, namespace: str) -> None:
    found = parse_registry(f"{host}/{namespace}", "--registry")
    assert (found.host, found.namespace, found.name) == (host, namespace, f"{host}/{namespace}")
    assert found.name_of(TAG) == f"{host}/{namespace}/python:3.14t-trixie"


@given(st.text(max_size=60))
def test_any_text_is_a_registry_by_the_engines_grammar_or_refused_with_the_option(text: str) -> None:
    try:
        found = parse_registry(text, "--registry")
    except UsageError:
        assert "HOST[:PORT]/NAMESPACE" in refusal(text).todo
    else:
        assert found.name == text
        assert NAME.fullmatch(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "registry.example",
        "registry.example/",
        "registry.example:/team",
        "registry.example:five/team",
        "registry.example:\u0665/team",
        "https://registry.example/team",
        "team/images",
        "registry.example/Team",
        "registry.example/team/",
        "registry.example/team//x",
        "registry.example/team:latest",
        "-registry.example/team",
        "[::1]:5000/team",
        f"registry.example/{'x' * LONGEST_NAME}",
    ],
)
def test_what_is_no_registry_is_refused_with_the_option_and_the_text(text: str) -> None:
    error = refusal(text)
    assert repr(text) in error.found or f"'{text}'" in error.found
    assert "HOST[:PORT]/NAMESPACE" in error.todo


def test_a_password_in_a_name_is_refused_and_not_shown() -> None:
    assert "secret" not in str(refusal("me:secret@registry.example/team"))


def test_images_of_docker_hub_are_named_as_engines_name_them() -> None:
    assert Registry("docker.io", "team").name_of(TAG) == "team/python:3.14t-trixie"


def test_a_hash_is_a_tag_of_the_same_repository() -> None:
    found = Registry("registry.example:5000", "team")
    assert found.hashed(TAG, HASH) == "registry.example:5000/team/python:hash-0123456789ab"
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", found.hashed(TAG, HASH).rpartition(":")[2])
