"""What may go wrong after a switch."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.model import Built, ModuleImport, Origin, PackageAudit, VariantAudit
from interlock.pick.risks import Local, image_of, risks_of
from tests.builders import OK, make_built, make_cell, make_facts
from tests.picks import SIX, make_material

FREE = {"proof": {"thread_flavour": "free-threaded", "gil": "off", "thread_library": "libc.so.6"}}
UNTRIED = "your dependencies were not tried on it"


def risks(variant: dict[str, Any] | None = None, local: Local = Local.MEASURED, **more: Any) -> list[str]:
    """Of a variant x beside a baseline of Python 3.13.1; without the support, which is always said."""
    figures = {"base": {"locks/queue": SIX}, "x": {"locks/queue": SIX}}
    support, *others = risks_of(make_material(figures, variants={"x": variant or {}}, **more), "x", local)
    assert support.startswith("support: ")
    return others


def audited(*packages: PackageAudit) -> dict[str, Any]:
    return {"audits": {"x": VariantAudit(variant="x", outcome=OK, packages=list(packages))}}


@pytest.mark.parametrize(
    ("support", "said"),
    [
        ({"phase": "bugfix", "end_of_life": "2029-10-31"}, "support: bugs are still mended; end of life 2029-10-31"),
        ({"phase": "security", "end_of_life": "2029-10-31"}, "support: security fixes alone; end of life 2029-10-31"),
        ({"phase": "bugfix"}, "support: bugs are still mended; end of life on no day that upstream names"),
    ],
)
def test_the_support_phase_and_its_end_are_always_said(support: dict[str, Any], said: str) -> None:
    material = make_material({"base": {"locks/queue": SIX}}, variants={"base": {"support": support}})
    assert next(iter(risks_of(material, "base", Local.MEASURED))) == said


def test_dependencies_that_nobody_tried_are_a_risk_and_more_so_without_a_gil() -> None:
    assert risks() == [f"{UNTRIED}: `--needs requirements.txt` does"]
    assert risks(FREE) == [
        f"{UNTRIED}, and whether an extension module switches the GIL back on: `--needs requirements.txt` does"
    ]


def test_a_package_without_a_wheel_is_a_risk_and_one_with_a_wheel_is_none() -> None:
    wheel = PackageAudit(name="six", version="1.17.0", origin=Origin.WHEEL)
    built = PackageAudit(
        name="orjson", version="3.11.0", requirement="requirements.txt:3 orjson", origin=Origin.BUILT, build_s=48.2
    )
    assert risks(**audited(wheel)) == []
    assert risks(**audited(wheel, built)) == [
        "no wheel for orjson 3.11.0 (requirements.txt:3 orjson): built here in 48 s"
    ]


def test_what_cannot_be_imported_on_the_baseline_either_is_said() -> None:
    imports = [ModuleImport(module="six.optional", error="ImportError")]
    package = PackageAudit(name="six", version="1.17.0", origin=Origin.WHEEL, imports=imports)
    assert risks(**audited(package)) == ["cannot be imported, nor on base: six.optional"]


def test_another_release_line_means_installing_anew_and_another_patch_does_not() -> None:
    assert risks({"version": "3.14.0"}, **audited()) == [
        "Python 3.14 instead of 3.13: dependencies must be installed anew"
    ]
    assert risks({"version": "3.13.9"}, **audited()) == []


def test_a_file_that_makes_another_version_than_the_measured_one_is_a_risk() -> None:
    facts = {"facts": {"x": make_facts(version="3.13.0")}}
    assert risks(experiment=facts, **audited()) == ["measured as 3.13.0, while variants/x.toml makes 3.13.1"]
    assert risks(experiment={"facts": {"x": make_facts(version="3.13.1")}}, **audited()) == []


def test_another_implementation_than_cpython_is_a_risk() -> None:
    proof = {"thread_flavour": "pthread", "gil": "on", "thread_library": "libc.so.6", "implementation": "pypy"}
    assert risks({"proof": proof}, **audited()) == [
        "pypy, not CPython: extension modules are slow on it, or cannot be had"
    ]


def test_what_a_cell_noted_is_a_risk_if_its_workload_counts() -> None:
    note = "GIL off at start, on after the work: module 'x' switched it on"
    cells = [make_cell("base"), make_cell("x", notes=[note]), make_cell("x", "startup", notes=["not asked for"])]
    assert risks(experiment={"cells": cells}, **audited()) == [f"locks: {note}"]


def test_a_variant_that_could_be_built_with_more_optimisation_says_so() -> None:
    assert risks({"release": {"configure": ["--with-lto"]}}, **audited()) == [
        "built without profile-guided and link-time optimisation: for production measure and pick with --release"
    ]
    assert risks({"release": {"configure": ["--with-lto"]}}, profile="release", **audited()) == []


def test_an_image_here_that_is_not_the_measured_one_is_a_risk() -> None:
    (risk,) = risks(local=Local.OTHER, **audited())
    assert risk.startswith("the image of this name here is not the measured one")
    assert risks(local=Local.ABSENT, **audited()) == []


def test_declared_differences_from_the_official_image_are_risks() -> None:
    assert risks({"differences": {"tkinter": "no slim image has the Tk"}}, **audited()) == [
        "not as in python:X-slim: tkinter: no slim image has the Tk"
    ]


MEASURED = make_built("x").model_copy(update={"content_hash": "a", "tag": "interlock/python:x-old"})
HERE = MEASURED.model_copy(update={"image_id": "sha256:here", "tag": "interlock/python:x"})
OTHER = HERE.model_copy(update={"content_hash": "b"})
PUSHED = MEASURED.model_copy(update={"digest": "registry.example.com/python@sha256:1"})


@pytest.mark.parametrize(
    ("measured", "here", "expected"),
    [
        (MEASURED, HERE, (HERE, Local.MEASURED)),
        (PUSHED, None, (PUSHED, Local.MEASURED)),
        (PUSHED, OTHER, (PUSHED, Local.MEASURED)),
        (MEASURED, OTHER, (OTHER, Local.OTHER)),
        (MEASURED, None, (MEASURED.model_copy(update={"tag": HERE.tag}), Local.ABSENT)),
    ],
)
def test_the_image_to_name_is_the_measured_one_if_it_can_be_had(
    measured: Built, here: Built | None, expected: tuple[Built, Local]
) -> None:
    assert image_of(measured, HERE.tag, here, answers=True) == expected


def test_without_an_engine_nobody_knows_what_is_here() -> None:
    assert image_of(MEASURED, HERE.tag, None, answers=False)[1] is Local.UNKNOWN
