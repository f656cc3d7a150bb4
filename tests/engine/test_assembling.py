"""From what containers answered to the rows of an audit: which imports are asked for, and who is held to account."""

from __future__ import annotations

from pathlib import Path

from interlock.engine.assembling import imports_of, jobs_of, packages_of
from interlock.engine.importing import Answer, Job
from interlock.engine.resolving import Failure, Resolution
from interlock.engine.wheels import Wheel
from interlock.installed import Distribution, owners
from interlock.model import Gil, ModuleImport, Origin
from interlock.pip_report import Resolved
from interlock.requirements import Line

LXML = Distribution("lxml", "6.1.3", ["lxml/__init__.py", "lxml/etree.cpython-314t.so", "lxml/_path.cpython-314t.so"])
SCRAPE = Distribution("Scrape.It", "1.0", ["scrape/__init__.py"])
PIP = Distribution("pip", "26.0", ["pip/__init__.py"])
LACKS = "ImportError: libfoo.so.1: cannot open shared object file: No such file or directory"


def resolved(name: str, *, is_wheel: bool = True, needed_by: list[str] | None = None) -> Resolved:
    return Resolved(name, "1.0", f"{name} @ x", "x", is_wheel, requested=True, needed_by=needed_by or [])


def wheel(name: str, **more: object) -> Wheel:
    data = {"path": f"/w/{name}.whl", **more}
    return Wheel(resolved(name, is_wheel="build_s" not in more), **data)  # type: ignore[arg-type]


def test_each_top_level_module_has_a_process_and_the_extension_modules_have_one_together() -> None:
    jobs = jobs_of([LXML, SCRAPE, PIP], [wheel("lxml"), wheel("Scrape.It")], Gil.OFF, ["app.main"])
    assert [(job.package, job.modules, job.is_sweep) for job in jobs] == [
        ("lxml", ["lxml"], False),
        ("lxml", ["lxml._path", "lxml.etree"], True),
        ("scrape-it", ["scrape"], False),
        ("", ["app.main"], False),
    ]


def test_where_the_gil_is_on_extension_modules_are_asked_only_of_what_was_built_here() -> None:
    assert [job.modules for job in jobs_of([LXML], [wheel("lxml")], Gil.ON, [])] == [["lxml"]]
    assert [job.is_sweep for job in jobs_of([LXML], [wheel("lxml", build_s=3.0)], Gil.ON, [])] == [False, True]


def test_what_is_not_installed_is_not_imported() -> None:
    assert jobs_of([LXML], [wheel("lxml", path="", reason="no C library")], Gil.OFF, []) == []


def test_the_switcher_is_named_with_its_own_package_whoever_imported_it() -> None:
    jobs = [Job("scrape-it", ["scrape"], 1), Job("", ["app"], 1), Job("x", ["x"], 1)]
    answers = [[Answer("scrape", "", "lxml.etree")], [Answer("app", "", "lxml.etree")], [Answer("x", "", "made.up")]]
    found = imports_of(jobs, answers, owners([LXML, SCRAPE]))
    assert found == {
        "scrape-it": [ModuleImport(module="scrape", gil_by="lxml.etree", gil_package="lxml")],
        "": [ModuleImport(module="app", gil_by="lxml.etree", gil_package="lxml")],
        "x": [ModuleImport(module="x", gil_by="made.up", gil_package="x")],
    }


def test_of_extension_modules_it_is_told_who_switches_and_who_lacks_a_library() -> None:
    sweep = Job("lxml", ["lxml.a", "lxml.b", "lxml.c", "lxml.d"], 1, is_sweep=True)
    answers = [
        Answer("lxml.a", "", ""),
        Answer("lxml.b", "ImportError: not meant to be imported", ""),
        Answer("lxml.c", LACKS, ""),
        Answer("lxml.d", "TypeError: too late", "lxml.d"),
    ]
    assert imports_of([sweep], [answers], owners([LXML]))["lxml"] == [
        ModuleImport(module="lxml.c", error=LACKS),
        ModuleImport(module="lxml.d", gil_by="lxml.d", gil_package="lxml"),
    ]


def test_a_row_says_how_its_package_came_and_who_asked() -> None:
    line = Line("lxml>=6", "r.txt", 3, "lxml")
    resolution = Resolution(
        [
            (resolved("lxml"), line),
            (resolved("six", needed_by=["lxml"]), None),
            (resolved("yaml", is_wheel=False), None),
        ],
        [Failure("mysqlclient", "no pkg-config", "2.3.1", needed_by=["app"])],
    )
    wheels = [wheel("lxml"), Wheel(resolved("six", needed_by=["lxml"]), "/w/six.whl"), wheel("yaml", build_s=2.5)]
    lxml, mysqlclient, six, yaml = packages_of(resolution, wheels, {}, {"six": [ModuleImport(module="six")]})
    assert (lxml.origin, lxml.requirement) == (Origin.WHEEL, "r.txt:3 lxml>=6")
    assert (mysqlclient.origin, mysqlclient.reason, mysqlclient.needed_by) == (Origin.FAILED, "no pkg-config", ["app"])
    assert (six.needed_by, six.imports) == (["lxml"], [ModuleImport(module="six")])
    assert (yaml.origin, yaml.build_s) == (Origin.BUILT, 2.5)


def test_a_wheel_that_could_not_be_built_or_installed_is_a_failure_without_imports() -> None:
    resolution = Resolution([(resolved("a"), None), (resolved("b", is_wheel=False), None)], [])
    wheels = [wheel("a"), wheel("b", path="", build_s=9.0, reason="x.c:1: error: no")]
    rows = packages_of(resolution, wheels, {"a": "cannot be installed: no"}, {"a": [ModuleImport(module="a")]})
    assert [(row.origin, row.reason, row.imports, row.build_s) for row in rows] == [
        (Origin.FAILED, "cannot be installed: no", [], None),
        (Origin.FAILED, "x.c:1: error: no", [], 9.0),
    ]


def test_paths_of_this_machine_are_shown_as_people_wrote_them() -> None:
    failed = Failure("lib", "no", line=Line("{path}[x]", "r.txt", 1, path=Path("lib")))
    (row,) = packages_of(Resolution([], [failed]), [], {}, {})
    assert row.requirement == "r.txt:1 lib[x]"
