"""Variables in the words of users' files, and that none of them grows without end."""

from __future__ import annotations

import time

import pytest

from interlock.errors import SwapError
from interlock.swap.files import swapped_dockerfile
from interlock.swap.variables import NoValue, expand, name_pattern, sole_variable
from tests.swap.samples import PLAIN


@pytest.mark.parametrize(
    "word", ["${A:-" * 5000 + "x" + "}" * 5000, "${A" * 10_000, "$A" * 101, "{" * 10_000 + "}" * 20_000]
)
def test_a_word_with_braces_or_references_without_end_stays_as_it_is(word: str) -> None:
    start = time.process_time()
    assert expand(word, {}) == word
    assert time.process_time() - start < 2


def test_a_default_may_have_defaults_of_its_own() -> None:
    assert expand("${A:-${B:-${C:-x}-slim}}", {}) == "x-slim"
    assert expand("}${A:-{x}}{", {}) == "}{x}{"


def test_dollar_signs_that_are_no_variables_stay() -> None:
    assert expand(r"a$ $1 \$A $$ ${", {"A": "x"}) == r"a$ $1 \$A $$ ${"


def test_a_word_is_one_variable_only_if_nothing_stands_beside_it() -> None:
    assert getattr(sole_variable("${A:-b}"), "name", None) == "A"
    assert sole_variable("${A}b") is None
    assert sole_variable("$A$B") is None


def test_the_first_variable_without_a_value_is_the_one_that_is_told() -> None:
    with pytest.raises(NoValue, match="B"):
        expand("$A$B$C", {"A": "1"})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        # Each ARG is two of the one above: 456 bytes took 24 s and 3 GiB.
        ("ARG A0=python\n" + "".join(f"ARG A{n + 1}=$A{n}$A{n}\n" for n in range(30)) + "FROM $A30\n", ":30"),
        # Each variable may be any part of the name: more than a minute.
        (f"FROM node AS {'a' * 200}\nFROM {'a$A' * 20}b\n", ""),
    ],
)
def test_no_file_makes_a_word_or_a_search_without_end(text: str, line: str) -> None:
    start = time.process_time()
    with pytest.raises(SwapError) as refused:
        swapped_dockerfile(text, PLAIN, None, paths=False)
    assert refused.value.file == f"Dockerfile{line}"
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("name", "fitting"),
    [("base-amd64", True), ("base-", False), ("xbase-amd64", False), ("base-a-b", True), ("base-a", True)],
)
def test_a_name_fits_parts_with_something_between_them(name: str, fitting: bool) -> None:
    assert bool(name_pattern(["base-", ""]).fullmatch(name)) is fitting
    assert bool(name_pattern(["base-", "-slim"]).fullmatch(f"{name}-slim")) is fitting
    assert name_pattern([name, name]).fullmatch(f"{name}x{name}")
    assert not name_pattern([name, name]).fullmatch(f"{name}{name}")
