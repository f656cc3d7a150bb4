"""docs/variants.md has all that variants/ says, in tables that are tables, and no figure but a recorded one."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.overlay import SHARED_FILES
from interlock.catalog.project import Catalog
from interlock.catalog.variants import SourceKind, SupportPhase, Variant
from interlock.report import variants_page
from interlock.results.experiments import BuildRecord, Built, Outcome, State
from tests.builders import ROOT, make_base, make_build_record, make_built

NAMES = sorted(path.stem for path in (ROOT / "variants").glob("*.toml") if path.stem not in SHARED_FILES)
NAME = "cpython-3.13"
PIPES = "no a|b,\nno <c> either"
CELL = re.compile(r"(?<!\\)\|")


@cache
def known() -> Catalog:
    return catalogs.load(ROOT)


def built(name: str = NAME, base_bytes: int | None = 77_800_000, **changes: Any) -> Built:
    return make_built(name).model_copy(update={"base": make_base(size_bytes=base_bytes), **changes})


def failed(state: State, reason: str) -> Built:
    return make_built(NAME, Outcome(state=state, reason=reason))


def changed(**changes: Any) -> Catalog:
    """The project's catalog with a variant that is otherwise."""
    variant = known().variants[NAME].model_copy(update=changes)
    return known().model_copy(update={"variants": {**known().variants, NAME: variant}})


def tables(text: str) -> list[list[list[str]]]:
    """The page's tables, as lists of rows of cells; the line below the head is left out."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    rows = [[[cell.strip() for cell in CELL.split(line)[1:-1]] for line in block.splitlines()] for block in blocks]
    return [[head, *body] for head, _, *body in rows]


def column(text: str, title: str, name: str = NAME) -> str:
    """What the page says of a variant in the first table that has this column and that variant."""
    for head, *rows in tables(text):
        if title in head and head[0] == "variant":
            for row in rows:
                if row[0].strip("[").split("]")[0] == name:
                    return row[head.index(title)]
    raise AssertionError(f"no table has {title} of {name}")


def page(catalog: Catalog, builds: BuildRecord | None, measured: Collection[str] = NAMES) -> str:
    return variants_page.page(catalog, builds, measured)


@cache
def every_page() -> dict[str, str]:
    odd = changed(differences={"no-pip": PIPES}, summary="one|two")
    return {
        "without a record": page(known(), None),
        "with a record": page(known(), make_build_record(built())),
        "with pipes and lines": page(odd, make_build_record(failed(State.FAILED, "a | b\nand <c>"))),
    }


def plain() -> str:
    return every_page()["without a record"]


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_is_on_the_page_with_what_its_file_says(name: str) -> None:
    variant = known().variants[name]
    assert column(plain(), "threads", name) == variant.proof.thread_flavour.value
    assert column(plain(), "GIL", name) == variant.proof.gil.value
    assert variant.version in column(plain(), "version", name)
    assert column(plain(), "control", name) == (variant.control or "-")
    assert "localhost/" + column(plain(), "image", name).strip("`") == variant.image_tag
    assert (variant.support.end_of_life or "no end announced") in column(plain(), "support", name)
    assert column(plain(), "what it is", name) == variant.summary


def test_what_is_compiled_without_profiles_is_named_and_what_was_recorded_otherwise_counted() -> None:
    (line,) = [one for one in plain().splitlines() if one.startswith("What is compiled")]
    assert line.endswith("cpython-2.5, cpython-2.5-pth.")
    before, now = (page(known(), make_build_record(built(optimisations=names))) for names in ([], ["PGO", "LTO"]))
    assert "- 1 built with neither PGO nor LTO instead of PGO and LTO" in before
    assert "PGO" not in now


def test_a_variant_of_which_the_project_has_no_figure_says_so() -> None:
    text = page(known(), None, {NAME})
    never = {name for name in NAMES if variants_page.NEVER_RUN in column(text, "what it is", name)}
    assert never == set(NAMES) - {NAME}
    assert variants_page.NEVER_RUN not in "".join(row[1] for head, *rows in tables(plain()) for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_stands_below_the_title_of_its_family(name: str) -> None:
    title = known().families[known().variants[name].family].title
    section = plain().split(f"\n## {title}\n")[1].split("\n## ")[0]
    assert f"| [{name}](../variants/{name}.toml) |" in section


def test_a_family_without_variants_has_no_section() -> None:
    none = known().model_copy(update={"variants": {NAME: known().variants[NAME]}})
    titles = re.findall("^## (.+)$", page(none, None), re.MULTILINE)
    family = known().families[known().variants[NAME].family].title
    assert titles == [family, "Modes", "Differences from python:X-slim"]


@pytest.mark.parametrize("label", [label for one in known().variants.values() for label in one.labels if "+" in label])
def test_a_mode_is_on_the_page_with_what_it_starts_the_interpreter_with(label: str) -> None:
    name, wanted = label.split("+")
    mode = next(mode for mode in known().variants[name].modes if mode.name == wanted)
    row = next(row for table in tables(plain()) for row in table if row[0] == label)
    assert row[3] == mode.summary
    for variable, value in mode.environment.items():
        assert f"`{variable}={value}`" in row[1]
    assert " ".join(mode.options) in row[1]


@pytest.mark.parametrize("variant", known().variants.values(), ids=lambda one: one.name)
def test_a_variant_s_differences_are_on_the_page_with_their_reasons(variant: Variant) -> None:
    rows = [row for head, *rows in tables(plain()) if head == ["difference", "reason", "variants"] for row in rows]
    for name, reason in variant.differences.items():
        owners = [row[2].split(", ") for row in rows if row[:2] == [name, " ".join(reason.replace("|", "\\|").split())]]
        assert [names for names in owners if any(covers(words, variant) for words in names)], name


def covers(words: str, variant: Variant) -> bool:
    """Whether a name, 'all KIND' or 'all KIND but NAME and NAME' is said of this variant too."""
    all_of, _, without = words.partition(" but ")
    kind = f"all {variants_page.KINDS[variant.kind]}"
    return words == variant.name or (all_of == kind and variant.name not in without.split(" and "))


@pytest.mark.parametrize(("without", "said"), [(1, True), (2, True), (3, False)])
def test_what_one_or_two_of_a_kind_have_not_is_said_of_all_but_them(without: int, said: bool) -> None:
    alike = [name for name, one in known().variants.items() if one.kind is known().variants[NAME].kind]
    owners = sorted(alike)[without:]
    variants = {
        name: one.model_copy(update={"differences": {"no-pip": "none"} if name in owners else {}})
        for name, one in known().variants.items()
    }
    text = page(known().model_copy(update={"variants": variants}), None)
    (row,) = [row for table in tables(text) for row in table if row[:2] == ["no-pip", "none"]]
    assert ([one for one in variants.values() if any(covers(words, one) for words in row[2].split(", "))]) == [
        variants[name] for name in variants if name in owners
    ]
    assert (" but " in row[2]) is said


@pytest.mark.parametrize("name", known().differences)
def test_what_all_images_of_a_kind_differ_in_is_on_the_page(name: str) -> None:
    reason = known().differences[name].reason
    assert any(row[0] == name and reason in row[1:] for table in tables(plain()) for row in table)


@pytest.mark.parametrize(("without", "said"), [(0, "all"), (1, "all but "), (2, ", ")])
def test_what_all_kinds_but_one_differ_in_is_not_said_of_each(without: int, said: str) -> None:
    name = next(iter(known().differences))
    kinds = list(SourceKind)[without:]
    difference = known().differences[name].model_copy(update={"kinds": kinds, "contract": False})
    text = page(known().model_copy(update={"differences": {name: difference}}), None)
    (row,) = [row for table in tables(text) for row in table if row[0] == name and row[2] == difference.reason]
    assert said in row[1]
    assert row[1].startswith("all") is (without < 2)


@pytest.mark.parametrize("name", ["without a record", "with a record", "with pipes and lines"])
def test_every_row_has_as_many_cells_as_its_table_has_columns(name: str) -> None:
    text = every_page()[name]
    found = tables(text)
    assert len(found) > 5
    for head, *rows in found:
        assert rows
        assert {len(row) for row in rows} == {len(head)}


def test_pipes_and_line_ends_of_the_data_stay_within_their_cell() -> None:
    text = every_page()["with pipes and lines"]
    assert "| no-pip | no a\\|b, no <c> either | cpython-3.13 |" in text
    assert column(text, "what it is") == "one\\|two"


def figures(text: str, name: str = NAME) -> list[str]:
    return [column(text, title, name) for title in ("MB", "build s")]


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        (None, ["-", "not recorded"]),
        (built(), ["72, 150", "61"]),
        (built("cpython-3.14"), ["-", "not recorded"]),
        (failed(State.UNAVAILABLE, "example.org: no route"), ["-", "unavailable"]),
        (built(reused=True, duration_s=0.0), ["72, 150", "unchanged"]),
        (built(base_bytes=None), ["not recorded, 150", "61"]),
    ],
)
def test_sizes_and_seconds_are_those_of_the_record(recorded: Built | None, shown: list[str]) -> None:
    assert figures(page(known(), make_build_record(recorded) if recorded else None)) == shown


def test_the_figures_name_their_file_command_and_machine() -> None:
    text, record = every_page()["with a record"], make_build_record()
    for words in (record.command, record.started, "2 cores Example CPU 9000, 8 GiB", "at most 2 builds side by side"):
        assert words in text
    assert "(../results/reference/2026-11-21-builds/builds.json)" in text


@pytest.mark.parametrize(
    ("phase", "day", "words"),
    [
        (SupportPhase.END_OF_LIFE, "2020-01-01", "ended 2020-01-01"),
        (SupportPhase.SECURITY, "2029-10-31", "security to 2029-10-31"),
        (SupportPhase.BUGFIX, None, "bugfix, no end announced"),
    ],
)
def test_support_is_a_phase_and_a_day(phase: SupportPhase, day: str | None, words: str) -> None:
    support = known().variants[NAME].support.model_copy(update={"phase": phase, "end_of_life": day})
    assert column(page(changed(support=support), None), "support") == words


def test_variants_are_in_the_order_of_their_numbers() -> None:
    names = re.findall(r"^\| \[(cpython-3\.[0-9]+)\]", plain(), re.MULTILINE)
    assert names == sorted(names, key=lambda name: int(name.split(".")[1]))
    assert len(names) > 2


def test_the_page_depends_on_nothing_but_its_arguments() -> None:
    turned = known().model_copy(update={"variants": dict(reversed(known().variants.items()))})
    assert page(turned, None) == plain()
    assert page(catalogs.load(ROOT), None) == plain()
