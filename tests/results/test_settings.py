"""What an experiment was asked to measure is told again by one command."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.results.settings import Settings, Where
from tests.builders import make_settings

ALWAYS = "--variants a,b --workloads locks"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, f"{ALWAYS} --quick --rounds 3 --baseline a --seed 7"),
        ({"rounds_limit": 10}, f"{ALWAYS} --quick --baseline a --seed 7"),
        ({"budget_s": 600.0}, f"{ALWAYS} --quick --rounds 3 --baseline a --seed 7 --budget 600s"),
        ({"budget_s": 1_080_000.0}, f"{ALWAYS} --quick --rounds 3 --baseline a --seed 7 --budget 1080000s"),
        (
            {"workloads": ["startup", "locks"], "benchmarks": {"locks": ["queue", "contended"]}},
            "--variants a,b --workloads startup,locks/queue,locks/contended --quick --rounds 3 --baseline a --seed 7",
        ),
        (
            {"quick": False, "profiled": False, "why": True, "seed": 0},
            f"{ALWAYS} --rounds 3 --baseline a --seed 0 --no-profile --why",
        ),
    ],
)
def test_its_options_name_every_choice(changes: dict[str, Any], said: str) -> None:
    settings = make_settings(["a", "b"]).model_copy(update=changes)
    assert settings.options == said.split()
    assert settings.command == f"interlock matrix {said}"


def test_a_word_stands_for_many_names_only_for_who_repeats_it() -> None:
    words = {"variants_word": "core", "workloads_word": "all", "where": Where(results="/r")}
    settings = make_settings(["a", "b"]).model_copy(update=words)
    assert settings.command.startswith("interlock matrix --variants core --workloads all ")
    assert settings.command.endswith(" --results /r")
    assert settings.options == make_settings(["a", "b"]).options


def test_the_baseline_is_a_row_once() -> None:
    settings = make_settings(["a", "a+slow", "b"])
    assert settings.to_build == ["a", "b"]
    assert settings.with_baseline("b").variants == settings.variants
    assert settings.with_baseline("c").variants == [*settings.variants, "c"]


def test_a_record_without_what_came_later_is_read() -> None:
    document = make_settings(["a"]).model_dump(exclude={"where", "variants_word", "workloads_word"})
    assert Settings.model_validate(document) == make_settings(["a"])
