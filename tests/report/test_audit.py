"""What an audit shows of packages in variants, what it holds against whom, and when its gate stays shut."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from rich.console import Console

from interlock.catalog.variants import Gil
from interlock.errors import AuditError
from interlock.report import audit as audits
from interlock.report.audit import GIL_SWITCHED_ON, NOT_AUDITED, NOT_IMPORTABLE, NOT_INSTALLABLE
from interlock.results.answers import Audit, ModuleImport, Origin, PackageAudit, VariantAudit
from interlock.results.experiments import Outcome, State
from tests.builders import OK, ROOT

CONTROL, FREE, NEWER = "cpython-3.13", "cpython-3.13t", "cpython-3.14t"
SWITCHES = ModuleImport(module="lxml.etree", gil_by="lxml.etree", gil_package="lxml")
USES = ModuleImport(module="scrape", gil_by="lxml.etree", gil_package="lxml")


def package(name: str, *imports: ModuleImport, **more: Any) -> PackageAudit:
    data = {"name": name, "version": "1.0", "requirement": f"r.txt:1 {name}", "origin": Origin.WHEEL}
    return PackageAudit.model_validate({**data, "imports": imports or [ModuleImport(module=name)], **more})


def failed(name: str, reason: str = "no C library", **more: Any) -> PackageAudit:
    return package(name, origin=Origin.FAILED, reason=reason, **more)


def broken(name: str, error: str = "ImportError: no") -> PackageAudit:
    return package(name, ModuleImport(module=name, error=error))


def make(*, free: list[PackageAudit], control: list[PackageAudit] | None = None, **more: Any) -> Audit:
    variants = [VariantAudit(variant=FREE, outcome=OK, gil=Gil.OFF, packages=free, **more)]
    if control is not None:
        variants.insert(0, VariantAudit(variant=CONTROL, outcome=OK, gil=Gil.ON, packages=control))
    return Audit(requirements=["r.txt"], control=None if control is None else CONTROL, variants=variants)


def shown(audit: Audit) -> str:
    console = Console(width=140)
    with console.capture() as capture:
        console.print(audits.terminal(audit))
    return capture.get()


def kinds(audit: Audit) -> list[tuple[str, str, bool]]:
    return [(one.fault.kind, one.fault.name, one.counts) for one in audits.problems(audit)]


def test_the_gate_opens_if_all_packages_come_and_the_gil_stays_off() -> None:
    audit = make(free=[package("requests"), package("six", origin=Origin.BUILT, build_s=1.5)], control=[package("six")])
    assert audits.problems(audit) == []
    audits.require(audit)
    (line,) = [one for one in shown(audit).splitlines() if one.startswith("cpython-3.13t: ")]
    assert re.findall(r"\b[0-9]+\b", line.partition(": ")[2]) == ["2", "1", "1", "2"]


def test_a_gil_that_comes_back_shuts_the_gate_and_names_module_package_line_and_importers() -> None:
    audit = make(free=[package("lxml", SWITCHES), package("scrape", USES)])
    assert kinds(audit) == [(GIL_SWITCHED_ON, "lxml", True)]
    with pytest.raises(AuditError, match=r"^r\.txt: .*: lxml 1\.0 on cpython-3\.13t\. "):
        audits.require(audit)
    text = shown(audit)
    assert re.search(r"^ *lxml 1\.0 \(r\.txt:1 lxml\) on cpython-3\.13t\n +lxml\.etree .*\bscrape\b", text, re.M)
    assert re.search(r"^cpython-3\.13t: 2 .* 2 .*\blxml$", text.splitlines()[-1])


def test_all_switchers_of_a_package_are_one_problem() -> None:
    imports = [
        ModuleImport(module=f"lxml.{name}", gil_by=f"lxml.{name}", gil_package="lxml") for name in ("sax", "etree")
    ]
    (found,) = audits.problems(make(free=[package("lxml", *imports)]))
    assert found.fault.reason.startswith("lxml.etree, lxml.sax ")


def test_in_the_table_who_switches_it_on_is_told_from_who_imports_that() -> None:
    lines = [
        line.split() for line in shown(make(free=[package("lxml", SWITCHES), package("scrape", USES)])).splitlines()
    ]
    assert ["lxml", "1.0", "wheel,", "GIL", "on"] in lines
    assert ["scrape", "1.0", "wheel,", "GIL", "on", "by", "lxml"] in lines


ALONE = VariantAudit(variant=CONTROL, outcome=OK, gil=Gil.ON, packages=[failed("x")])


@pytest.mark.parametrize(
    ("audit", "expected"),
    [
        (make(free=[package("lxml")], further=[USES]), [(GIL_SWITCHED_ON, "lxml", True)]),
        (make(free=[broken("x")], control=[package("x")]), [(NOT_IMPORTABLE, "x", True)]),
        (make(free=[], further=[ModuleImport(module="app", error="no")]), [(NOT_IMPORTABLE, "app", True)]),
        (make(free=[package("x")], control=[failed("x")]), []),
        (Audit(requirements=["r.txt"], control=CONTROL, variants=[ALONE]), [(NOT_INSTALLABLE, "x", True)]),
    ],
    ids=["a named module switches", "only the variant", "a named module", "only the control", "a control alone"],
)
def test_faults_of_the_audited_variants_count_and_those_of_the_control_if_it_is_alone(
    audit: Audit, expected: list[tuple[str, str, bool]]
) -> None:
    assert kinds(audit) == expected


def test_a_package_that_cannot_be_had_counts_even_if_the_control_has_it_not_either_which_is_said() -> None:
    audit = make(free=[failed("mysqlclient")], control=[failed("mysqlclient", "other words")])
    assert kinds(audit) == [(NOT_INSTALLABLE, "mysqlclient", True)]
    assert "mysqlclient 1.0 (r.txt:1 mysqlclient) on cpython-3.13t, as on cpython-3.13, " in shown(audit)
    with pytest.raises(AuditError, match=r"mysqlclient 1\.0 on cpython-3\.13t"):
        audits.require(audit)


def test_a_module_that_the_control_cannot_import_either_is_shown_and_does_not_count() -> None:
    audit = make(free=[broken("django")], control=[broken("django")])
    assert kinds(audit) == [(NOT_IMPORTABLE, "django", False)]
    audits.require(audit)
    assert "ImportError: no" in shown(audit)


def test_a_variant_that_cannot_be_asked_does_not_pass_in_silence() -> None:
    reason = Outcome(state=State.UNSUPPORTED, reason="it has no pip")
    audit = Audit(requirements=["r.txt"], variants=[VariantAudit(variant="cpython-2.5", outcome=reason)])
    assert kinds(audit) == [(NOT_AUDITED, "cpython-2.5", True)]
    assert shown(audit).startswith(f"{NOT_AUDITED}\n  cpython-2.5\n    unsupported: it has no pip")


def test_one_problem_of_several_variants_is_told_once_with_all_of_them() -> None:
    audit = make(free=[failed("x")])
    audit = audit.model_copy(
        update={"variants": [*audit.variants, audit.variants[0].model_copy(update={"variant": NEWER})]}
    )
    (found,) = audits.problems(audit)
    assert found.variants == [FREE, NEWER]


def test_a_version_that_is_not_the_same_everywhere_stands_in_each_cell() -> None:
    audit = make(free=[package("numpy", version="2.4")], control=[package("numpy", version="2.5"), package("tomli")])
    lines = [line.split() for line in shown(audit).splitlines()]
    assert ["numpy", "2.5", "wheel", "2.4", "wheel"] in lines
    assert ["tomli", "1.0", "wheel", "-"] in lines


def test_the_json_has_every_package_and_import() -> None:
    read = json.loads(make(free=[package("lxml", SWITCHES)], control=[]).model_dump_json())
    assert (read["schema_version"], read["control"], read["requirements"]) == (1, CONTROL, ["r.txt"])
    assert read["variants"][1]["packages"][0]["imports"] == [
        {"module": "lxml.etree", "error": "", "gil_by": "lxml.etree", "gil_package": "lxml"}
    ]


def test_a_reason_with_brackets_is_shown_as_it_is() -> None:
    assert "error[E0277]: [bold] text" in shown(make(free=[failed("x", "error[E0277]: [bold] text")]))


def test_what_fails_for_different_reasons_is_named_once_in_the_gates_sentence() -> None:
    free, newer = (
        VariantAudit(variant=name, outcome=OK, gil=Gil.OFF, packages=[failed("x", f"words of {name}")])
        for name in (FREE, NEWER)
    )
    with pytest.raises(AuditError, match=r": x 1\.0 on cpython-3\.13t and cpython-3\.14t\. "):
        audits.require(Audit(requirements=["r.txt"], variants=[free, newer]))


@pytest.mark.parametrize("model", [Audit, VariantAudit, PackageAudit, ModuleImport], ids=lambda model: model.__name__)
def test_every_key_of_the_json_is_in_the_documentation(model: type[Audit]) -> None:
    rows = [
        line for line in (ROOT / "docs/audit.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    ]
    documented = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])}
    assert set(model.model_fields) <= documented


def test_a_gil_is_said_to_stay_off_with_what_was_not_tried() -> None:
    audit = make(free=[], untried=3)
    assert "3 extension modules" in audits.summary(audit.variants[0], audit)
    audit = make(free=[])
    assert "extension modules" not in audits.summary(audit.variants[0], audit)


def test_a_note_stands_below_the_line_of_its_variant_and_the_gate_stays_open() -> None:
    audit = make(free=[package("six")], control=[package("six")], notes=["uv.lock is for Python <3.13"])
    audits.require(audit)
    *_, line, note = shown(audit).splitlines()
    assert (line.partition(":")[0], note.strip()) == (FREE, "note: uv.lock is for Python <3.13")
