"""Who does not meet the demands, and every reason why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.model import (
    Built,
    ModuleImport,
    Origin,
    Outcome,
    PackageAudit,
    State,
    SupportPhase,
    VariantAudit,
)
from interlock.pick.exclusions import reasons, version_of
from tests.builders import OK, make_built
from tests.picks import SIX, make_material

FREE = {"proof": {"thread_flavour": "free-threaded", "gil": "off", "thread_library": "libc.so.6"}}
GIL_ON = [{"name": "gil-on", "summary": "a mode", "environment": {"PYTHON_GIL": "1"}, "gil": "on"}]


def why(variant: dict[str, Any] | None = None, *, label: str = "x", **more: Any) -> list[str]:
    """The reasons against a variant (or a mode of it) that has figures and is otherwise unremarkable."""
    figures = {"base": {"locks/queue": SIX}, label: {"locks/queue": SIX}}
    return reasons(make_material(figures, variants={"x": variant or {}}, **more), label)


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
        ("2029-11", "2029-10-31", ["supported until 2029-10-31, not 2029-11"]),
        ("2030", "2029-10-31", ["supported until 2029-10-31, not 2030"]),
        ("2030", None, ["nobody says that it is supported until 2030"]),
    ],
)
def test_support_must_last_until_the_month(until: str, end_of_life: str | None, expected: list[str]) -> None:
    assert why(support("bugfix", end_of_life), supported_until=until) == expected


def test_what_has_ended_is_not_excluded_twice_for_its_end() -> None:
    assert why(support("end-of-life", "2020-01-01"), supported_until="2027") == ["end of life since 2020-01-01"]
    allowed = frozenset({SupportPhase.END_OF_LIFE})
    assert why(support("end-of-life", "2020-01-01"), supported_until="2027", allowed=allowed) == [
        "supported until 2020-01-01, not 2027"
    ]


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [((3,), True), ((3, 9), True), ((3, 13), True), ((3, 13, 1), True), ((3, 13, 2), False), ((3, 14), False)],
)
def test_an_older_python_than_wanted_is_excluded(wanted: tuple[int, ...], fits: bool) -> None:
    expected = [] if fits else [f"Python 3.13.1 is older than {'.'.join(map(str, wanted))}"]
    assert why({"version": "3.13.1"}, min_python=wanted) == expected


def test_a_prerelease_is_of_its_release() -> None:
    assert version_of("3.15.0rc2") == (3, 15, 0)


def test_more_memory_than_the_limit_is_excluded_and_the_limit_itself_is_not() -> None:
    rss_bytes = {"x": 40_000_000}
    assert why(rss_bytes=rss_bytes, max_rss_bytes=40_000_000) == []
    assert why(rss_bytes=rss_bytes, max_rss_bytes=39_000_000) == ["a process takes 40.0 MB, more than 39.0 MB"]


def images(outcome: Outcome) -> dict[str, list[Built]]:
    return {"images": [make_built("base"), make_built("x", outcome)]}


def test_an_image_that_could_not_be_had_is_the_one_reason_for_its_cells() -> None:
    outcome = Outcome(state=State.UNAVAILABLE, reason="github.com:\n no route.")
    material = make_material(
        {"base": {"locks/queue": SIX}, "x": {"startup/pass": SIX}}, experiment=images(outcome), max_rss_bytes=1
    )
    assert reasons(material, "x") == ["unavailable: github.com: no route"]


def test_what_has_no_figure_in_a_benchmark_that_counts_is_excluded_with_its_outcome() -> None:
    figures = {
        "base": {"locks/queue": SIX, "locks/alone": SIX, "startup/pass": SIX},
        "half": {"locks/queue": SIX, "startup/pass": SIX},
        "other": {"startup/pass": SIX},
    }
    material = make_material(figures, weights=["locks", "startup"])
    assert reasons(material, "half") == ["locks/alone failed: 'alone' crashed"]
    assert reasons(material, "other") == ["locks was not measured"]
    assert reasons(make_material(figures, weights=["locks/queue"]), "half") == []


def test_a_cell_that_is_ok_and_has_lost_its_file_is_excluded() -> None:
    material = make_material({"base": {"locks/queue": SIX}, "x": {"locks/queue": SIX}})
    lost = {key: cell for key, cell in material.values.items() if key[0] != "x"}
    assert reasons(replace(material, values=lost), "x") == ["locks has no figure"]


def test_a_variant_or_mode_that_the_project_has_no_more_is_excluded() -> None:
    figures = {"base": {"locks/queue": SIX}, "x": {"locks/queue": SIX}, "base+fast": {"locks/queue": SIX}}
    material = make_material(figures, variants={"base": {"modes": []}})
    del material.catalog.variants["x"]
    assert reasons(material, "x") == ["variants/ has no x any more"]
    assert reasons(material, "base+fast") == ["base has no mode 'fast' any more"]


def test_a_mode_that_preloads_one_of_the_instruments_is_excluded_since_no_image_has_them() -> None:
    modes = [{"name": "waking", "summary": "a mode", "environment": {"LD_PRELOAD": "/interlock/waking.so"}}]
    assert why({"modes": modes}, label="x+waking") == [
        "its mode needs a library of the measuring instruments, which no image has"
    ]
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
    assert why(audits=audited(*packages)) == [
        "orjson (requirements.txt:3 orjson) cannot be had: no cargo",
        "'uvloop' of uvloop 0.22.1 (for uvicorn) cannot be imported: ImportError: no libuv",
    ]


def test_a_gil_that_comes_back_excludes_a_free_threaded_build_and_no_other() -> None:
    expected = ["lxml.etree of lxml 6.1.3 (requirements.txt:7 lxml) switches the GIL back on"]
    assert why(FREE, audits=audited(switching())) == expected
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
    assert why(FREE, audits=audited(*packages)) == [
        "numpy.core of numpy 1.0 (for pandas) switches the GIL back on",
        "lost switches the GIL back on",
    ]


def test_a_module_that_cannot_be_imported_on_the_baseline_either_is_not_the_variants_doing() -> None:
    def package(*errors: str) -> PackageAudit:
        imports = [ModuleImport(module=name, error="ImportError") for name in errors]
        return PackageAudit(name="six", version="1.17.0", origin=Origin.WHEEL, imports=imports)

    mine, beside = audited(package("six.optional", "six.new")), VariantAudit(variant="base", outcome=OK)
    found = why(audits={**mine, "base": beside.model_copy(update={"packages": [package("six.optional")]})})
    assert found == ["'six.new' of six 1.17.0 cannot be imported: ImportError"]
    assert len(why(audits=mine)) == 2


def test_dependencies_that_could_not_be_tried_exclude() -> None:
    outcome = Outcome(state=State.FAILED, reason="pip is missing.")
    audits = {"x": VariantAudit(variant="x", outcome=outcome)}
    assert why(audits=audits) == ["its dependencies could not be tried: pip is missing"]


def test_every_reason_is_given_not_the_first_alone() -> None:
    found = why(support("end-of-life", "2020-01-01"), min_python=(3, 14), max_rss_bytes=1_000_000)
    assert found == [
        "end of life since 2020-01-01",
        "Python 3.13.1 is older than 3.14",
        "a process takes 10.0 MB, more than 1.0 MB",
    ]
