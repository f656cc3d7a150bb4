"""A Dockerfile in fewer steps makes the same image."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog import rendering
from interlock.catalog.variants import SourceKind
from interlock.engine.build.steps import INSTRUCTION, in_few_steps
from tests.builders import ROOT

ARGUMENTS = {"TRAIN": "stored", "JOBS": "2", "INTERLOCK_SOURCE_MIRROR": "", "REBUILD": ""}
KNOWN, TEXTS = catalogs.load(ROOT), catalogs.read_texts(ROOT)


def written(name: str) -> str:
    variant = KNOWN.variants[name]
    return rendering.render(variant.at(variant.version), KNOWN, TEXTS)["Dockerfile"]


def instructions(dockerfile: str) -> list[str]:
    return [one.replace("\\\n", "") for one in INSTRUCTION.findall(dockerfile)]


def steps_after(stage: str, dockerfile: str) -> list[str]:
    """Return the words that the steps of a stage begin with."""
    _, _, rest = dockerfile.partition(f"\nFROM {stage}\n")
    own, _, _ = rest.partition("\nFROM ")
    return [one.split()[0] for one in INSTRUCTION.findall(own)]


def configured(dockerfile: str, values: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the words of all ENV, LABEL and CMD instructions."""
    found: dict[str, list[str]] = {"ENV": [], "LABEL": [], "CMD": []}
    for one in instructions(dockerfile):
        kind, _, rest = one.partition(" ")
        for name, value in values.items():
            rest = rest.replace(f"${{{name}}}", value)
        if kind in found:
            found[kind] += shlex.split(rest)
    return found


def commands(dockerfile: str, values: Mapping[str, str]) -> list[str]:
    """Return what the build stage runs, one after the other, with the values of its arguments."""
    runs = [one.removeprefix("RUN ") for one in instructions(dockerfile) if one.startswith("RUN ")]
    text = " && ".join(runs)
    for name, value in values.items():
        text = text.replace(f'"${name}"', f'"{value}"')
    return text.split(" && ")


def copied(dockerfile: str) -> list[str]:
    found = [one.split()[1:-1] for one in instructions(dockerfile) if one.startswith("COPY ")]
    return sorted(word for words in found for word in words)


@pytest.mark.parametrize("name", sorted(KNOWN.variants))
@pytest.mark.parametrize("is_shared", [False, True])
def test_the_same_is_copied_run_and_configured_in_fewer_steps(name: str, is_shared: bool) -> None:
    before, values = written(name), ARGUMENTS
    after = in_few_steps(before, values, {"a": "1"}, is_shared=is_shared)
    labels = configured(before, values)
    assert configured(after, {}) == {**labels, "LABEL": [*labels["LABEL"], "a=1"]}
    assert commands(after, {}) == commands(before, values)
    assert copied(after) == copied(before)
    assert len(INSTRUCTION.findall(after)) < len(INSTRUCTION.findall(before)) + 1


def test_a_build_is_two_steps_and_the_image_four() -> None:
    after = in_few_steps(written("cpython-2.7"), ARGUMENTS, {"a": "1"})
    assert steps_after("toolchain AS build", after) == ["COPY", "RUN"]
    assert sorted(steps_after("runtime", after)) == ["CMD", "COPY", "ENV", "LABEL"]
    assert "ARG" not in after.partition("\nFROM ")[2].split()


def test_a_build_that_another_variant_starts_from_has_a_step_of_its_own() -> None:
    after = in_few_steps(written("cpython-3.13"), ARGUMENTS, {}, is_shared=True)
    assert steps_after("toolchain AS build", after) == ["COPY", "RUN", "COPY", "RUN"]
    assert "finish.sh" not in " ".join(instructions(after.partition("sh /interlock/build.sh")[0]))


def test_stages_that_variants_share_stay_in_the_engines_cache() -> None:
    before = written("cpython-3.13")
    after = in_few_steps(before, ARGUMENTS, {})
    shared, _, _ = before.partition("FROM toolchain AS build")
    assert instructions(after)[: len(instructions(shared))] == instructions(shared)


def test_the_address_of_a_mirror_and_what_builds_again_stay_arguments() -> None:
    values = {**ARGUMENTS, "INTERLOCK_SOURCE_MIRROR": "https://user:word@host", "REBUILD": "7"}
    after = in_few_steps(written("cpython-2.7"), values, {})
    assert "word@host" not in after
    assert 'INTERLOCK_SOURCE_MIRROR="$INTERLOCK_SOURCE_MIRROR"' in after
    assert steps_after("toolchain AS build", after) == ["ARG", "ARG", "COPY", "RUN"]


def test_in_a_label_nothing_is_expanded() -> None:
    labels = {"a.b": "1", "c": 'it\'s "$HOME" \\ 2'}
    text = in_few_steps('FROM x\nCMD ["python"]\n', {}, labels)
    assert text.splitlines() == ["FROM x", 'CMD ["python"]', r'''LABEL "a.b"="1" "c"="it's \"\$HOME\" \\ 2"''']


def test_every_kind_of_source_is_tried() -> None:
    assert {one.kind for one in KNOWN.variants.values()} == set(SourceKind)
    assert re.search("shared_build='", repr(KNOWN.variants["cpython-3.13-zip"]))
