"""What excludes an image, and what is only a risk."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from interlock.analysis.pick.exclusions import (
    LocalImage,
    elsewhere_unmeasured,
    exclusion_reasons,
    image_to_name,
    risks_of,
    unmeasured,
    version_numbers,
)
from interlock.catalog.variants import SupportPhase
from interlock.results.answers import ModuleImport, Origin, PackageAudit, VariantAudit
from interlock.results.experiments import Built, Outcome, State
from tests.builders import FROM_ARCHIVE, FROM_PREFIX, OK, make_built, make_cell, make_facts, make_release, make_variant
from tests.picks import SIX, make_evidence, queue

FREE = {"proof": {"thread_flavour": "free-threaded", "gil": "off", "thread_library": "libc.so.6"}}
GIL_ON = [{"name": "gil-on", "summary": "a mode", "environment": {"PYTHON_GIL": "1"}, "gil": "on"}]


def why(variant: dict[str, Any] | None = None, *, label: str = "x", **more: Any) -> list[str]:
    """The reasons against a variant (or a mode of it) that has figures and is otherwise unremarkable."""
    return exclusion_reasons(make_evidence(queue(**{label: SIX}), variants={"x": variant or {}}, **more), label)


def support(phase: str, end_of_life: str | None = None) -> dict[str, Any]:
    return {"support": {"phase": phase, "end_of_life": end_of_life}}


def test_nothing_speaks_against_what_is_supported_and_has_its_figures() -> None:
    assert why() == []


@pytest.mark.parametrize(
    ("phase", "end_of_life", "expected"),
    [
        ("end-of-life", "2020-01-01", ["end of life since 2020-01-01"]),
        ("end-of-life", None, ["end of life"]),
        # Its file says 'security', but the day has passed.
        ("security", "2026-11-20", ["end of life since 2026-11-20"]),
        ("security", "2026-11-21", []),
        ("prerelease", "2031-10-31", ["a prerelease"]),
        ("bugfix", None, []),
    ],
)
def test_what_upstream_does_not_support_today_is_excluded(
    phase: str, end_of_life: str | None, expected: list[str]
) -> None:
    assert why(support(phase, end_of_life)) == expected


@pytest.mark.parametrize(
    ("phase", "end_of_life"), [("end-of-life", "2020-01-01"), ("security", "2026-11-20"), ("prerelease", None)]
)
def test_leave_is_for_the_phase_that_it_names(phase: str, end_of_life: str | None) -> None:
    both = frozenset({SupportPhase.END_OF_LIFE, SupportPhase.PRERELEASE})
    mine = SupportPhase.PRERELEASE if phase == "prerelease" else SupportPhase.END_OF_LIFE
    assert why(support(phase, end_of_life), allowed=frozenset({mine})) == []
    assert why(support(phase, end_of_life), allowed=both - {mine}) != []


@pytest.mark.parametrize(
    ("until", "end_of_life", "expected"),
    [
        ("2029-10", "2029-10-31", []),
        ("2029-10-31", "2029-10-31", []),
        ("2029", "2029-10-31", []),
        ("2029-11", "2029-10-31", ["2029-10-31", "2029-11"]),
        ("2030", "2029-10-31", ["2029-10-31", "2030"]),
        ("2030", None, ["2030"]),
    ],
)
def test_support_must_last_until_the_month(until: str, end_of_life: str | None, expected: list[str]) -> None:
    reasons = why(support("bugfix", end_of_life), supported_until=until)
    assert len(reasons) == bool(expected)
    assert all(one in reason for reason in reasons for one in expected)


def test_what_has_ended_is_not_excluded_twice_for_its_end() -> None:
    assert why(support("end-of-life", "2020-01-01"), supported_until="2027") == ["end of life since 2020-01-01"]
    allowed = frozenset({SupportPhase.END_OF_LIFE})
    (reason,) = why(support("end-of-life", "2020-01-01"), supported_until="2027", allowed=allowed)
    assert all(one in reason for one in ("2020-01-01", "2027"))


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [((3,), True), ((3, 9), True), ((3, 13), True), ((3, 13, 1), True), ((3, 13, 2), False), ((3, 14), False)],
)
def test_an_older_python_than_wanted_is_excluded(wanted: tuple[int, ...], fits: bool) -> None:
    reasons = why({"version": "3.13.1"}, min_python=wanted)
    assert len(reasons) == (not fits)
    assert all("3.13.1" in one and ".".join(map(str, wanted)) in one for one in reasons)


def test_a_prerelease_is_of_its_release() -> None:
    assert version_numbers("3.15.0rc2") == (3, 15, 0)


def test_more_memory_than_the_limit_is_excluded_and_the_limit_itself_is_not() -> None:
    rss_bytes = {"x": 40_000_000}
    assert why(rss_bytes=rss_bytes, max_rss_bytes=40_000_000) == []
    (reason,) = why(rss_bytes=rss_bytes, max_rss_bytes=39_000_000)
    assert re.findall(r"[\d.]+ MB", reason) == ["40.0 MB", "39.0 MB"]


def images(outcome: Outcome) -> dict[str, list[Built]]:
    return {"images": [make_built("base"), make_built("x", outcome)]}


def test_an_image_that_could_not_be_had_is_the_one_reason_for_its_cells() -> None:
    outcome = Outcome(state=State.UNAVAILABLE, reason="github.com:\n no route.")
    evidence = make_evidence(
        {"base": {"locks/queue": SIX}, "x": {"startup/pass": SIX}}, experiment=images(outcome), max_rss_bytes=1
    )
    assert exclusion_reasons(evidence, "x") == ["unavailable: github.com: no route"]


def test_what_has_no_figure_in_a_benchmark_that_counts_is_excluded_with_its_outcome() -> None:
    figures = {
        "base": {"locks/queue": SIX, "locks/alone": SIX, "startup/pass": SIX},
        "half": {"locks/queue": SIX, "startup/pass": SIX},
        "other": {"startup/pass": SIX},
    }
    evidence = make_evidence(figures, weights=["locks", "startup"])
    assert exclusion_reasons(evidence, "half") == ["locks/alone failed: 'alone' crashed"]
    assert exclusion_reasons(evidence, "other") == []
    assert (unmeasured(evidence, "half"), unmeasured(evidence, "other")) == ([], ["locks"])
    assert exclusion_reasons(make_evidence(figures, weights=["locks/queue"]), "half") == []


NOT_REACHED = Outcome(state=State.NOT_MEASURED, reason="Ctrl-C came first")


def test_what_the_end_of_an_experiment_came_before_is_not_measured_and_not_excluded() -> None:
    """A Ctrl-C excluded every row that waited for its build or its first values."""
    figures = {"base": {"locks/queue": SIX}, "x": {"startup/pass": SIX}}
    cells = [make_cell("base"), make_cell("x", outcome=NOT_REACHED), make_cell("x", "startup")]
    for changed in ({"cells": cells}, images(NOT_REACHED)):
        evidence = make_evidence(figures, experiment=changed)
        assert exclusion_reasons(evidence, "x") == []
        assert unmeasured(evidence, "x") == ["locks"]
    evidence = make_evidence(figures, experiment={"cells": [make_cell("base")], **images(NOT_REACHED)})
    assert elsewhere_unmeasured(evidence) == ["x"]


def test_a_cell_that_is_ok_and_has_lost_its_file_is_not_measured() -> None:
    lost = replace(make_evidence(queue(x=SIX)), figures=make_evidence(queue()).figures)
    assert exclusion_reasons(lost, "x") == []
    assert unmeasured(lost, "x") == ["locks"]


def test_variants_of_the_project_that_the_experiment_has_not_are_named_if_they_meet_the_constraints() -> None:
    evidence = make_evidence(queue(), min_python=(3, 9))
    added = {"new": make_variant("new"), "old": make_variant("old", version="3.8.1")}
    evidence.catalog.variants.update(added)
    assert elsewhere_unmeasured(evidence) == ["new"]


def test_of_what_stands_for_another_one_an_archive_is_an_image_too_and_this_machines_own_is_none() -> None:
    evidence = make_evidence(queue())
    stand_ins = {"fetched": FROM_ARCHIVE, "installed": FROM_PREFIX}
    evidence.catalog.variants.update(
        {name: make_variant(name, stands_for="base", **source) for name, source in stand_ins.items()}
    )
    assert elsewhere_unmeasured(evidence) == ["fetched"]


def test_a_variant_or_mode_that_the_project_has_no_more_is_excluded() -> None:
    evidence = make_evidence(queue(x=SIX, **{"base+fast": SIX}), variants={"base": {"modes": []}})
    del evidence.catalog.variants["x"]
    (no_variant,) = exclusion_reasons(evidence, "x")
    assert no_variant.startswith("x ")
    (no_mode,) = exclusion_reasons(evidence, "base+fast")
    assert "'fast'" in no_mode


def test_a_mode_that_preloads_one_of_the_instruments_is_excluded_since_no_image_has_them() -> None:
    modes = [{"name": "waking", "summary": "a mode", "environment": {"LD_PRELOAD": "/interlock/waking.so"}}]
    assert len(why({"modes": modes}, label="x+waking")) == 1
    assert why({"modes": GIL_ON}, label="x+gil-on") == []


def audited(*packages: PackageAudit, **more: Any) -> dict[str, VariantAudit]:
    return {"x": VariantAudit(variant="x", outcome=OK, packages=list(packages), **more)}


def switching() -> PackageAudit:
    imported = ModuleImport(module="lxml.etree", gil_by="lxml.etree", gil_package="lxml")
    where = "requirements.txt:7 lxml"
    return PackageAudit(name="lxml", version="6.1.3", requirement=where, origin=Origin.WHEEL, imports=[imported])


def test_a_package_that_cannot_be_had_or_imported_excludes() -> None:
    packages = [
        PackageAudit(name="orjson", requirement="requirements.txt:3 orjson", origin=Origin.FAILED, reason="no cargo."),
        PackageAudit(
            name="uvloop",
            version="0.22.1",
            needed_by=["uvicorn"],
            origin=Origin.BUILT,
            imports=[ModuleImport(module="uvloop", error="ImportError: no libuv")],
        ),
        PackageAudit(name="six", version="1.17.0", origin=Origin.WHEEL, imports=[ModuleImport(module="six")]),
    ]
    not_installed, not_imported = why(audits=audited(*packages))
    assert not_installed.startswith("orjson (requirements.txt:3 orjson) ")
    assert not_installed.endswith(": no cargo")
    assert all(part in not_imported for part in ("'uvloop'", "uvloop 0.22.1", "uvicorn"))
    assert not_imported.endswith(": ImportError: no libuv")


def test_a_gil_that_comes_back_excludes_a_free_threaded_build_and_no_other() -> None:
    (reason,) = why(FREE, audits=audited(switching()))
    assert all(part in reason for part in ("lxml.etree", "lxml 6.1.3", "requirements.txt:7 lxml", "GIL"))
    assert why(audits=audited(switching())) == []
    assert why({**FREE, "modes": GIL_ON}, label="x+gil-on", audits=audited(switching())) == []


def test_an_extension_module_that_another_package_imports_is_named_with_its_owner() -> None:
    """pandas, imported, loads numpy's; nobody owns the last one."""
    imports = [
        ModuleImport(module="pandas", gil_by="numpy.core", gil_package="numpy"),
        ModuleImport(module="pandas.x", gil_by="lost"),
    ]
    packages = [
        PackageAudit(name="numpy", version="1.0", needed_by=["pandas"], origin=Origin.WHEEL),
        PackageAudit(name="pandas", version="2.0", origin=Origin.WHEEL, imports=imports),
    ]
    owned, lost = why(FREE, audits=audited(*packages))
    assert all(part in owned for part in ("numpy.core", "numpy 1.0", "pandas"))
    assert lost.startswith("lost ")


def test_a_module_that_cannot_be_imported_on_the_baseline_either_is_not_the_variants_doing() -> None:
    def package(*errors: str) -> PackageAudit:
        imports = [ModuleImport(module=name, error="ImportError") for name in errors]
        return PackageAudit(name="six", version="1.17.0", origin=Origin.WHEEL, imports=imports)

    mine, beside = audited(package("six.optional", "six.new")), VariantAudit(variant="base", outcome=OK)
    found = why(audits={**mine, "base": beside.model_copy(update={"packages": [package("six.optional")]})})
    (reason,) = found
    assert all(part in reason for part in ("'six.new'", "six 1.17.0", "ImportError"))
    assert len(why(audits=mine)) == 2


def test_dependencies_that_could_not_be_tried_exclude() -> None:
    outcome = Outcome(state=State.FAILED, reason="pip is missing.")
    audits = {"x": VariantAudit(variant="x", outcome=outcome)}
    (reason,) = why(audits=audits)
    assert reason.endswith(": pip is missing")


def test_every_reason_is_given_not_the_first_alone() -> None:
    found = why(support("end-of-life", "2020-01-01"), min_python=(3, 14), max_rss_bytes=1_000_000)
    assert [reason.split()[0] for reason in found] == ["end", "Python", "a"]


def risks(variant: dict[str, Any] | None = None, local: LocalImage = LocalImage.MEASURED, **more: Any) -> list[str]:
    """Of a variant x beside a baseline of Python 3.13.1; without the support, which is always said."""
    support, *others = risks_of(make_evidence(queue(x=SIX), variants={"x": variant or {}}, **more), "x", local)
    assert support.startswith("support: ")
    return others


@pytest.mark.parametrize(
    ("support", "said"),
    [
        ({"phase": "bugfix", "end_of_life": "2029-10-31"}, ("bug fixes", "2029-10-31")),
        ({"phase": "security", "end_of_life": "2029-10-31"}, ("security fixes only", "2029-10-31")),
        ({"phase": "bugfix"}, ("bug fixes", "not announced")),
        # Its file says 'security', but the day has passed.
        ({"phase": "security", "end_of_life": "2026-11-20"}, ("no fixes", "2026-11-20")),
    ],
)
def test_the_support_phase_and_its_end_are_always_said(support: dict[str, Any], said: tuple[str, str]) -> None:
    evidence = make_evidence(queue(), variants={"base": {"support": support}})
    first = next(iter(risks_of(evidence, "base", LocalImage.MEASURED)))
    assert first.startswith("support: ")
    assert all(part in first for part in said)


def test_dependencies_that_nobody_tried_are_a_risk_and_more_so_without_a_gil() -> None:
    (untested,), (without_gil,) = risks(), risks(FREE)
    assert "`--needs requirements.txt`" in untested
    assert "GIL" in without_gil
    assert "GIL" not in untested


def test_a_package_without_a_wheel_is_a_risk_and_one_with_a_wheel_is_none() -> None:
    wheel = PackageAudit(name="six", version="1.17.0", origin=Origin.WHEEL)
    built = PackageAudit(
        name="orjson", version="3.11.0", requirement="requirements.txt:3 orjson", origin=Origin.BUILT, build_s=48.2
    )
    assert risks(audits=audited(wheel)) == []
    assert risks(audits=audited(wheel, notes=["for another Python"])) == ["for another Python"]
    (risk,) = risks(audits=audited(wheel, built))
    assert "orjson 3.11.0 (requirements.txt:3 orjson)" in risk
    assert risk.endswith("48 s")


def test_what_cannot_be_imported_on_the_baseline_either_is_said() -> None:
    imports = [ModuleImport(module="six.optional", error="ImportError")]
    package = PackageAudit(name="six", version="1.17.0", origin=Origin.WHEEL, imports=imports)
    (risk,) = risks(audits=audited(package))
    assert risk.endswith(": six.optional")


def test_another_release_line_means_a_reinstallation_and_another_patch_does_not() -> None:
    (risk,) = risks({"version": "3.14.0"}, audits=audited())
    assert re.findall(r"3\.[0-9]+", risk)[:2] == ["3.14", "3.13"]
    assert risks({"version": "3.13.9"}, audits=audited()) == []


def test_a_file_that_makes_another_version_than_the_measured_one_is_a_risk() -> None:
    facts = {"facts": {"x": make_facts(version="3.13.0")}}
    (risk,) = risks(experiment=facts, audits=audited())
    assert re.findall(r"[\d.]+\d", risk) == ["3.13.0", "3.13.1"]
    assert risks(experiment={"facts": {"x": make_facts(version="3.13.1")}}, audits=audited()) == []


def test_a_variant_with_fallbacks_says_each_version_that_it_may_be_built_from() -> None:
    facts = {"facts": {"x": make_facts(version="3.12.9")}}
    (risk,) = risks({"fallbacks": [make_release("3.13.0")]}, experiment=facts, audits=audited())
    assert re.findall(r"[\d.]+\d", risk) == ["3.12.9", "3.13.1", "3.13.0"]


def test_another_implementation_than_cpython_is_a_risk() -> None:
    proof = {"thread_flavour": "pthread", "gil": "on", "thread_library": "libc.so.6", "implementation": "pypy"}
    (risk,) = risks({"proof": proof}, audits=audited())
    assert risk.startswith("pypy, not CPython")


def test_what_a_cell_noted_is_a_risk_if_its_workload_counts() -> None:
    note = "GIL off at start, on after the work: module 'x' switched it on"
    cells = [make_cell("base"), make_cell("x", notes=[note]), make_cell("x", "startup", notes=["not asked for"])]
    assert risks(experiment={"cells": cells}, audits=audited()) == [f"locks: {note}"]


def test_an_image_here_that_is_not_the_measured_one_is_a_risk() -> None:
    assert len(risks(local=LocalImage.OTHER, audits=audited())) == 1
    assert risks(local=LocalImage.ABSENT, audits=audited()) == []


def test_declared_differences_from_the_official_image_are_risks() -> None:
    (risk,) = risks({"differences": {"tkinter": "no slim image has the Tk"}}, audits=audited())
    assert risk.endswith("tkinter: no slim image has the Tk")


MEASURED = make_built("x").model_copy(update={"content_hash": "a", "tag": "localhost/interlock/python:x-old"})
HERE = MEASURED.model_copy(update={"image_id": "sha256:here", "tag": "localhost/interlock/python:x"})
OTHER = HERE.model_copy(update={"content_hash": "b"})
PUSHED = MEASURED.model_copy(update={"digest": "registry.example.com/python@sha256:1"})


@pytest.mark.parametrize(
    ("measured", "here", "expected"),
    [
        (MEASURED, HERE, (HERE, LocalImage.MEASURED)),
        (PUSHED, None, (PUSHED, LocalImage.MEASURED)),
        (PUSHED, OTHER, (PUSHED, LocalImage.MEASURED)),
        (MEASURED, OTHER, (OTHER, LocalImage.OTHER)),
        (MEASURED, None, (MEASURED.model_copy(update={"tag": HERE.tag}), LocalImage.ABSENT)),
    ],
)
def test_the_image_to_name_is_the_measured_one_if_it_can_be_had(
    measured: Built, here: Built | None, expected: tuple[Built, LocalImage]
) -> None:
    assert image_to_name(measured, HERE.tag, here, answers=True) == expected


def test_without_an_engine_nobody_knows_what_is_here() -> None:
    assert image_to_name(MEASURED, HERE.tag, None, answers=False)[1] is LocalImage.UNKNOWN
