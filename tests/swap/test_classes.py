"""Classes of files as people have them: what a swap says of each, against the right answer beside it.

`python -m tests.swap.test_classes` prints the table of docs/swap.md: inputs, right, missed and false alarms by class.
"""

from __future__ import annotations

import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import load
from interlock.errors import SwapError
from interlock.swap import files
from interlock.swap.caveats import Weight
from interlock.swap.copied import beside
from interlock.swap.image_names import NewImage, new_image
from tests.builders import ROOT

FOLDER = Path(__file__).parent / "corpus"
CLASSES = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.toml"))]
CASES = [pytest.param(case, id=case["name"]) for held in CLASSES for case in held["case"]]


@cache
def image(name: str) -> NewImage:
    variants = load(ROOT).variants
    return new_image(variants[name], f"{variants[name].image_tag}@sha256:{'a' * 64}", variants.values())


@dataclass(frozen=True)
class Said:
    """What a swap says of a case: lines that it warns of, why it refuses, and the lines that it gives."""

    warnings: tuple[tuple[str, int, str], ...] = ()
    refused: str = ""
    lines: tuple[str, ...] = ()


def said_of(case: dict[str, Any], folder: Path) -> Said:
    name = case.get("file", "Dockerfile")
    path = folder / name
    text = case["text"].lstrip("\n")
    for file, content in {**case.get("beside", {}), name: text}.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(content, encoding="utf-8")
    to = image(case.get("to", "cpython-3.14t"))
    try:
        made = swapped(path, text, to, case.get("stage"))
    except SwapError as error:
        return Said(refused=str(error))
    told = tuple((one.weight.value, one.line, one.text) for one in made.warnings)
    return Said(told, lines=tuple(made.text.splitlines()))


def swapped(path: Path, text: str, to: NewImage, stage: str | None) -> Any:
    return files.swapped_file(path.name, text, to, stage, paths=True, beside=beside(path))


def missed(case: dict[str, Any], said: Said) -> Iterator[str]:
    for expected in case.get("says", []):
        weight, line, words = parts(expected)
        there = [one for one in said.warnings if one[0] == weight and one[1] == line]
        if not any(all(word in text for word in words) for _, _, text in there):
            yield expected
    if "refused" in case:
        line, word = case["refused"].split(" ", 1)
        if f":{line}" not in said.refused or word not in said.refused:
            yield f"refused {case['refused']}"
    yield from (line for line in case.get("gives", []) if line not in said.lines)


def alarms(case: dict[str, Any], said: Said) -> Iterator[str]:
    expected = [parts(one) for one in case.get("says", [])]
    froms = {at for at, line in enumerate(case["text"].lstrip("\n").splitlines(), 1) if line.upper().startswith("FROM")}
    for weight, line, text in said.warnings:
        heavy = weight == Weight.BREAKS.value or (weight == Weight.MAY_BREAK.value and line not in froms and line)
        if heavy and not case.get("others") and not any(one[:2] == (weight, line) for one in expected):
            yield f"{weight} {line} {text}"
    yield from (word for word in case.get("never", []) if any(word in text for _, _, text in said.warnings))
    if said.refused and "refused" not in case:
        yield said.refused


def parts(expected: str) -> tuple[str, int, list[str]]:
    weight = next(one.value for one in Weight if expected.startswith(one.value))
    line, *words = expected.removeprefix(weight).split()
    return weight, int(line), words


def in_folder(case: dict[str, Any], folder: Path) -> tuple[list[str], list[str]]:
    """What is missed of, and wrongly said of, a file that only a walk through its folder finds."""
    path = folder / case["file"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(case["text"], encoding="utf-8")
    to = image("cpython-3.14t")

    def action(file: Path, text: str) -> files.PlannedFile:
        made = swapped(file, text, to, None)
        return files.PlannedFile(file, text, made.text, made.warnings, made.paths)

    made = files.plan(folder, action)
    line = case.get("swapped") or case.get("left")
    changed = [file.after.splitlines()[case["swapped"]] for file in made.changed] if "swapped" in case else made.changed
    told = [str(error) for error in made.left]
    told += [f"x:{one.line}" for file in made.files for one in file.warnings if file.before == file.after]
    if "swapped" in case:
        return ([] if changed and to.reference in str(changed) else ["not swapped"]), told
    if "left" in case:
        return ([] if any(f":{line}" in one for one in told) else ["not named"]), ["swapped"] * len(made.changed)
    return [], [*told, *["swapped"] * len(made.changed)]


def verdict(case: dict[str, Any], folder: Path) -> tuple[list[str], list[str]]:
    if {"swapped", "left", "silent"} & case.keys():
        return in_folder(case, folder)
    said = said_of(case, folder)
    return [*missed(case, said)], [*alarms(case, said)]


@pytest.mark.parametrize("case", CASES)
def test_what_is_right_is_said_and_nothing_else(case: dict[str, Any], tmp_path: Path) -> None:
    assert verdict(case, tmp_path) == ([], [])


@pytest.mark.parametrize("held", CLASSES, ids=lambda held: held["class"])
def test_a_class_has_six_members_or_more_and_some_of_which_nothing_is_said(held: dict[str, Any]) -> None:
    assert len(held["case"]) >= 6
    assert len({case["name"] for case in held["case"]}) == len(held["case"])


def table() -> Iterator[str]:
    yield "| class | inputs | right | missed | false alarms |"
    yield "|---|---|---|---|---|"
    for held in CLASSES:
        verdicts = []
        for case in held["case"]:
            with tempfile.TemporaryDirectory() as folder:
                verdicts.append((case["name"], *verdict(case, Path(folder))))
        right = sum(not lacks and not wrong for _, lacks, wrong in verdicts)
        counts = [len(verdicts), right, sum(len(one[1]) for one in verdicts), sum(len(one[2]) for one in verdicts)]
        yield f"| {held['class']} | {' | '.join(map(str, counts))} |"
        if "-v" in sys.argv:
            yield from (f"    {one}" for one in verdicts if one[1] or one[2])


if __name__ == "__main__":
    for row in table():
        print(row)
