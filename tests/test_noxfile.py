"""The sessions that judge what another program says."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from tests.builders import ROOT

pytest.importorskip("nox")
GOOD = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "1", "vulns": [{"id": "PYSEC-1"}]}
# Of pip-audit 2.9 where nothing answers: it says 'No known vulnerabilities found' and ends with 0.
UNKNOWN = {"name": "c", "skip_reason": "Dependency not found on PyPI and could not be audited: c (1)"}


@cache
def noxfile() -> ModuleType:
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("audited", "words"),
    [([GOOD, BAD], "b"), ([GOOD, UNKNOWN], "1 of 2"), ([UNKNOWN, UNKNOWN], "2 of 2"), ([], "0 of 0")],
)
def test_a_dependency_of_which_nothing_is_known_is_a_problem_as_a_known_vulnerability_is(
    audited: list[dict[str, Any]], words: str
) -> None:
    assert words in noxfile().problem_of(audited)


def test_dependencies_without_a_known_vulnerability_are_none() -> None:
    assert noxfile().problem_of([GOOD, GOOD]) == ""


def test_advisories_are_asked_for_of_all_that_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    files = noxfile().files_to_audit()

    def named(some: Iterable[str]) -> set[str]:
        return {word for file in some for word in (ROOT / file).read_text().split() if "==" in word}

    assert named(files) == named(noxfile().LOCKED)
    assert len(files) < len(noxfile().LOCKED)
