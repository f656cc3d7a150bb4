"""Names of registries: what engines would take for something else is refused, with the right way to write it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import UsageError
from interlock.registries import HOST, LONGEST_NAME, NAMESPACE, Registry, parse_registry

TAG = "interlock/python:3.14t-trixie"
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
        assert HOST.fullmatch(found.host.partition(":")[0])
        assert NAMESPACE.fullmatch(found.namespace)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "'' has no host's name before the first slash ('')"),
        ("registry.example", "'registry.example' has no namespace"),
        ("registry.example/", "'registry.example/' has no namespace"),
        ("registry.example:/team", "has no port between 1 and 65535 ('')"),
        ("registry.example:0/team", "has no port between 1 and 65535 ('0')"),
        ("registry.example:65536/team", "has no port between 1 and 65535 ('65536')"),
        ("registry.example:five/team", "has no port between 1 and 65535 ('five')"),
        ("registry.example:\u0665/team", "has no port"),
        ("https://registry.example/team", "starts with https://, which engines choose themselves"),
        ("team/images", "names no host: engines take 'team' for a part of a name at Docker Hub"),
        ("registry.example/Team", "has capitals in its namespace"),
        ("registry.example/team/", "has a namespace that no registry takes ('team/')"),
        ("registry.example/team//x", "has a namespace that no registry takes"),
        ("registry.example/team:latest", "has a tag, which each variant has of its own"),
        ("-registry.example/team", "has no host's name"),
        ("[::1]:5000/team", "has no host's name"),
        (f"registry.example/{'x' * LONGEST_NAME}", "is too long"),
    ],
)
def test_what_is_no_registry_is_told_why(text: str, found: str) -> None:
    assert found in refusal(text).found


def test_a_password_in_a_name_is_refused_and_not_shown() -> None:
    assert "secret" not in str(refusal("me:secret@registry.example/team"))


def test_images_of_docker_hub_are_named_as_engines_name_them() -> None:
    assert Registry("docker.io", "team").name_of(TAG) == "team/python:3.14t-trixie"


def test_a_hash_is_a_tag_of_the_same_repository() -> None:
    found = Registry("registry.example:5000", "team")
    assert found.hashed(TAG, HASH) == "registry.example:5000/team/python:hash-0123456789ab"
    assert found.repository_of(TAG) == "team/python"
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", found.hashed(TAG, HASH).rpartition(":")[2])
