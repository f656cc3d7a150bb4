"""Names that do not exist get a suggestion; an error says where, what was found and what to do."""

from __future__ import annotations

import ast
import pickle

import pytest

from interlock.errors import (
    CatalogError,
    InterlockError,
    StoreError,
    UsageError,
    did_you_mean,
    last_line,
    missing_option,
    nearest,
    nearest_name,
)
from tests.builders import ROOT

VARIANTS = [f"cpython-3.{minor}{flavour}" for minor in range(7, 15) for flavour in ("", "t")]
VARIANTS += ["debian-3.13", "debian-3.14", "cpython-2.7-pth", "nogil-3.9"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("3.14", "cpython-3.14"),
        ("3.14t", "cpython-3.14t"),
        ("pth", "cpython-2.7-pth"),
        ("CPython-3.9", "cpython-3.9"),
        ("cpython3.8", "cpython-3.8"),
        ("debain-3.13", "debian-3.13"),
        ("zzz", None),
    ],
)
def test_a_wrong_name_has_a_nearest_known_name(name: str, meant: str | None) -> None:
    assert nearest_name(name, VARIANTS) == meant


def test_of_many_known_names_only_the_nearest_is_shown() -> None:
    assert nearest("3.14", VARIANTS) == "Did you mean 'cpython-3.14'?"
    assert nearest("zzz", VARIANTS).count(",") < len(VARIANTS) - 1


def test_of_few_known_names_all_are_shown() -> None:
    assert nearest("startp", ["startup", "locks"]) == "Did you mean 'startup'? There are: locks, startup."
    assert nearest("x", ["locks"]) == "There is: locks."
    assert nearest("x", []) == "There are: none."


def test_a_name_that_is_like_none_gets_no_question() -> None:
    assert did_you_mean("startp", ["startup", "locks"]) == "Did you mean 'startup'?"
    assert did_you_mean("zzz", ["startup", "locks"]) == ""


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (CatalogError(file="variants/a.toml", key="tag", found="x", todo="y"), "variants/a.toml, key 'tag': "),
        (StoreError(file="a.json", found="x", todo="y"), "a.json: "),
        (UsageError(key="--to", found="x", todo="y"), "--to: "),
        (missing_option("--to", "y"), ""),
        (UsageError(found="x", todo="y"), ""),
    ],
)
def test_an_error_begins_with_its_file_and_its_key_or_option(error: InterlockError, where: str) -> None:
    assert str(error) == f"{where}{error.found}. {error.todo}"


def test_no_message_sends_a_user_to_the_source_code() -> None:
    texts = [
        (path.name, node.value)
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert len(texts) > 1000
    assert [(name, text) for name, text in texts if "src/interlock" in text] == []


def test_an_error_is_the_same_after_its_way_from_another_process() -> None:
    error = StoreError(file="a.json", key="units", found="'x' is no number", todo="Write a number.")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    assert (type(again), vars(again), str(again)) == (StoreError, vars(error), str(error))


def test_the_last_line_is_quoted_with_both_its_ends_but_not_for_pages() -> None:
    assert last_line("a\nb\n") == "b"
    quoted = last_line("first" + "x" * 100_000 + "last")
    assert quoted.startswith("first")
    assert quoted.endswith("last")
    assert len(quoted) < 1100
