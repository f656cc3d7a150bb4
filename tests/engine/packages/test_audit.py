"""From what containers answered to the rows of an audit: which imports are asked for, and who is held to account."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from interlock.catalog.variants import Gil
from interlock.engine.ended import Ended
from interlock.engine.packages import audit
from interlock.engine.packages.audit import (
    Distribution,
    ImportJob,
    ImportResult,
    import_jobs,
    imports_by_package,
    owners,
    package_rows,
    untried,
)
from interlock.engine.packages.pip_container import PipContainer
from interlock.engine.packages.pip_report import Resolved
from interlock.engine.packages.requirements import Line, Requirements
from interlock.engine.packages.resolving import Resolution, Resolver, Unmet, Wheel, with_options, with_user
from interlock.results.answers import ModuleImport, Origin
from tests.builders import ROOT
from tests.workloads.test_syntax import vermin

# No other test, and no other run of this one, sleeps for so long.
SECONDS = f"60.{os.getpid()}"
LXML = Distribution("lxml", "6.1.3", ["lxml/__init__.py", "lxml/etree.cpython-314t.so", "lxml/_path.cpython-314t.so"])
SCRAPE = Distribution("Scrape.It", "1.0", ["scrape/__init__.py"])
PIP = Distribution("pip", "26.0", ["pip/__init__.py"])
LACKS = "ImportError: libfoo.so.1: cannot open shared object file: No such file or directory"


def resolved(name: str, *needs: str, is_wheel: bool = True) -> Resolved:
    return Resolved(name, "1.0", f"{name} @ x", "x", is_wheel, [Requirement(one) for one in needs])


def wheel(name: str, **more: object) -> Wheel:
    data = {"path": f"/w/{name}.whl", **more}
    return Wheel(resolved(name, is_wheel="build_s" not in more), **data)  # type: ignore[arg-type]


def test_each_top_level_module_has_a_process_and_the_extension_modules_have_one_together() -> None:
    wheels = [wheel("lxml"), wheel("Scrape.It")]
    jobs = import_jobs([LXML, SCRAPE, PIP], wheels, Gil.OFF, ["app.main"])
    assert [job.modules for job in import_jobs([LXML, SCRAPE, PIP], wheels, Gil.ON, [])] == [["lxml"], ["scrape"]]
    assert [(job.package, job.modules, job.is_sweep) for job in jobs] == [
        ("lxml", ["lxml"], False),
        ("lxml", ["lxml._path", "lxml.etree"], True),
        ("scrape-it", ["scrape"], False),
        ("", ["app.main"], False),
    ]


def test_an_extension_module_that_is_named_is_imported_once_in_a_process_of_its_own() -> None:
    named = ["lxml.etree", "lxml._path"]
    for count, swept in ((1, [["lxml._path"]]), (2, [])):
        jobs = import_jobs([LXML], [wheel("lxml")], Gil.OFF, named[:count])
        assert [job.modules for job in jobs if job.is_sweep] == swept
        assert [job.modules for job in jobs if not job.package] == [[name] for name in named[:count]]


def test_what_a_sweep_had_no_time_for_is_counted() -> None:
    jobs = [ImportJob("x", ["x.a", "x.b", "x.c"], 1, is_sweep=True), ImportJob("y", ["y"], 1)]
    hung = ImportResult("x.a", "did not end within 1 s", "")
    assert untried(jobs, [[hung], [ImportResult("y", "", "")]]) == 2


def test_the_switcher_is_named_with_its_own_package_whoever_imported_it() -> None:
    jobs = [ImportJob("scrape-it", ["scrape"], 1), ImportJob("", ["app"], 1), ImportJob("x", ["x"], 1)]
    answers = [
        [ImportResult("scrape", "", "lxml.etree")],
        [ImportResult("app", "", "lxml.etree")],
        [ImportResult("x", "", "made.up")],
    ]
    found = imports_by_package(jobs, answers, owners([LXML, SCRAPE]))
    assert found == {
        "scrape-it": [ModuleImport(module="scrape", gil_by="lxml.etree", gil_package="lxml")],
        "": [ModuleImport(module="app", gil_by="lxml.etree", gil_package="lxml")],
        "x": [ModuleImport(module="x", gil_by="made.up", gil_package="x")],
    }


def test_of_extension_modules_it_is_told_who_switches_and_of_those_built_here_who_lacks_a_library() -> None:
    built, *_ = [one for one in import_jobs([LXML], [wheel("lxml", build_s=1.0)], Gil.ON, []) if one.is_sweep]
    ready, *_ = [one for one in import_jobs([LXML], [wheel("lxml")], Gil.OFF, []) if one.is_sweep]
    answers = [
        ImportResult("lxml.a", "", ""),
        ImportResult("lxml.b", "ImportError: not meant to be imported", ""),
        ImportResult("lxml.c", LACKS, ""),
        ImportResult("lxml.d", "TypeError: too late", "lxml.d"),
    ]
    lacks = ModuleImport(module="lxml.c", error=LACKS)
    switches = ModuleImport(module="lxml.d", gil_by="lxml.d", gil_package="lxml")
    assert imports_by_package([built], [answers], owners([LXML]))["lxml"] == [lacks, switches]
    assert imports_by_package([ready], [answers], owners([LXML]))["lxml"] == [switches]


def test_a_row_says_how_its_package_came_and_who_asked() -> None:
    line = Line("lxml>=6", "r.txt", 3, "lxml")
    resolution = Resolution(
        [
            (resolved("lxml", "Six>1"), line),
            (resolved("six"), None),
            (resolved("yaml", is_wheel=False), None),
        ],
        [Unmet("mysqlclient", "no pkg-config", Line("{path}[x]", "r.txt", 1, path=Path("lib")), needed_by=["app"])],
    )
    wheels = [wheel("lxml"), wheel("six"), wheel("yaml", build_s=2.5)]
    lxml, mysqlclient, six, yaml = package_rows(resolution, wheels, {}, {"six": [ModuleImport(module="six")]})
    assert (lxml.origin, lxml.requirement) == (Origin.WHEEL, "r.txt:3 lxml>=6")
    assert (mysqlclient.origin, mysqlclient.reason, mysqlclient.needed_by) == (Origin.FAILED, "no pkg-config", ["app"])
    assert mysqlclient.requirement == "r.txt:1 lib[x]"
    assert (six.needed_by, six.imports) == (["lxml"], [ModuleImport(module="six")])
    assert (yaml.origin, yaml.build_s) == (Origin.BUILT, 2.5)


class Refusing(PipContainer):
    """A container whose pip can do nothing."""

    def put(self, places: object) -> None:
        pass

    def run(self, *_: object, **__: object) -> Ended:
        return Ended(1, "ERROR: no")


def test_what_has_no_name_is_told_by_its_folder_or_by_its_address_without_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    address = Line("git+https://me:secret@example.org/x", "r.txt", 2)
    wanted = Requirements([Line("{path}", "r.txt", 1, path=Path()), address])
    nothing: Any = None
    found = Resolver(Refusing(nothing), wanted, lambda _: None).resolve()
    assert [one.name for one in found.failures] == [tmp_path.name, "git+https://example.org/x"]


def test_no_index_is_asked_for_wheels_of_what_comes_from_a_named_place() -> None:
    asked = Line("a==1.0", "r.txt", 1, "a")
    here = Line("lib @ file://{path}", "r.txt", 2, "lib", Path("lib"))
    there = Line("own @ https://example.org/own-1.0.zip", "r.txt", 3, "own")
    source = replace(resolved("x", is_wheel=False), place="https://example.org/x.zip")
    packages = [(replace(source, name="deep"), None), (replace(source, name="own"), there), (resolved("ready"), None)]
    failures = [Unmet("a", "no", asked), Unmet("lib", "no", here), Unmet("far", "no")]
    assert Resolution(packages, failures).without_wheel == {"deep": "1.0", "a": "1.0", "far": ""}


@pytest.mark.parametrize(
    ("line", "reported", "user"),
    [
        ("x @ git+https://${TOKEN}@example.org/x@main", "", "${TOKEN}@"),
        ("git+https://me:secret@example.org/x", "", "me:secret@"),
        ("x @ git+ssh://git@example.org/x", "git@", "git@"),
        ("x==1", "", ""),
    ],
)
def test_what_is_fetched_again_is_fetched_as_the_user_of_its_line(line: str, reported: str, user: str) -> None:
    package = replace(resolved("x"), spec=f"x @ git+https://{reported}example.org/x@0a")
    assert with_user(package, Line(line, "r.txt", 1)).spec == f"x @ git+https://{user}example.org/x@0a"


def test_what_is_built_is_built_with_the_options_of_its_line() -> None:
    line = Line("x[y]==1 ; os_name == 'posix' --hash=sha256:00 --config-settings=a=b --hash sha256:11", "r.txt", 1)
    assert with_options(resolved("x", is_wheel=False), line).spec == "x @ x --config-settings=a=b"
    for package, other in ((resolved("x"), line), (resolved("x", is_wheel=False), None)):
        assert with_options(package, other) is package


def test_a_wheel_that_could_not_be_built_or_installed_is_a_failure_without_imports() -> None:
    resolution = Resolution([(resolved("a"), None), (resolved("b", is_wheel=False), None)], [])
    wheels = [wheel("a"), wheel("b", path="", build_s=9.0, reason="x.c:1: error: no")]
    rows = package_rows(resolution, wheels, {"a": "cannot be installed: no"}, {"a": [ModuleImport(module="a")]})
    assert [(row.origin, row.reason, row.imports, row.build_s) for row in rows] == [
        (Origin.FAILED, "cannot be installed: no", [], None),
        (Origin.FAILED, "x.c:1: error: no", [], 9.0),
    ]


EXTENSION = "cpython-314t-x86_64-linux-gnu.so"
LXML_RECORD = [
    "../../../bin/lxml-tool",
    "lxml-6.1.3.dist-info/METADATA",
    "lxml/__init__.py",
    "lxml/__pycache__/__init__.cpython-314.pyc",
    f"lxml/etree.{EXTENSION}",
    "lxml/etree.pyx",
    f"lxml/_elementpath.{EXTENSION}",
    "lxml/html/__init__.py",
    f"lxml/tests/_speed.{EXTENSION}",
]
CFFI = [f"_cffi_backend.{EXTENSION}", "cffi/__init__.py", "cffi/api.py", "_private.py"]


@pytest.mark.parametrize(
    ("files", "top", "extensions"),
    [
        (LXML_RECORD, ["lxml"], ["lxml._elementpath", "lxml.etree"]),
        (CFFI, ["cffi"], ["_cffi_backend"]),
        (["six.py", f"ujson.{EXTENSION}", "abi.abi3.so"], ["abi", "six", "ujson"], ["abi", "ujson"]),
        ([f"pkg/__init__.{EXTENSION}", f"x/_testbuffer.{EXTENSION}"], ["pkg"], ["pkg"]),
        (
            ["foo.py", "tests/__init__.py", "test_foo.py", "foo_tests/__init__.py", "conftest.py", "setup.py"],
            ["foo"],
            [],
        ),
        (["google/cloud/storage/__init__.py", "google/cloud/storage/blob.py"], ["google.cloud.storage"], []),
        (["google/api.py", "google/_helper.py", "docs/conf.py"], ["google.api"], []),
        (["foo-bar/x.py", "1st.py", "foo.pth", "foo/data.json", "../lib/x.py", "/etc/x.py"], [], []),
        (["numpy.libs/libgfortran-040039e1.so.5.0.0", "numpy.libs/libquadmath-96973f99.so", "foo/libx-1.so"], [], []),
    ],
    ids=["package", "private", "single files", "built in", "tests", "namespace", "its parts", "none", "libraries"],
)
def test_what_people_import_and_what_may_switch_the_gil_on_is_told_by_file_names(
    files: list[str], top: list[str], extensions: list[str]
) -> None:
    assert (audit.top_modules(files), audit.extension_modules(files)) == (top, extensions)


@pytest.mark.parametrize(
    ("module", "owner"),
    [("lxml.etree", "lxml"), ("_cffi_backend", "cffi"), ("ns.two.made.up", "b"), ("ns", ""), ("json", "")],
)
def test_the_owner_of_a_module_is_who_has_its_file_or_that_of_its_nearest_parent(module: str, owner: str) -> None:
    files = {"LXML": LXML_RECORD, "cffi": CFFI, "a": ["ns/one/__init__.py"], "b": ["ns/two/__init__.py"]}
    assert audit.owner_of(module, audit.owners(Distribution(name, "1", some) for name, some in files.items())) == owner


@pytest.mark.parametrize(
    "name", ["pydantic", "jinja2", "markupsafe", "hypothesis", "pytest", "packaging", "rich", "scipy"]
)
def test_every_top_level_module_of_a_real_package_can_be_found_by_python(name: str) -> None:
    files = [str(path) for path in importlib.metadata.files(name) or []]
    found = audit.top_modules(files)
    assert found, name
    assert [module for module in found if importlib.util.find_spec(module) is None] == []


PROGRAM = ROOT / "src/interlock/engine/inside/audit.py"
MODULES = {
    "plain": "VALUE = 1",
    "noisy": "import sys; print('{\"module\": \"lie\"}'); sys.stderr.write('noise\\n')",
    "broken": "raise ImportError('libtoy.so.1: cannot open shared object file')",
    "two_lines": "raise ValueError('first\\nsecond')",
    "no_utf_8": "import os; raise ImportError(os.fsdecode(b'/\\xff'))",
    "leaves": "import sys; sys.exit(0)",
    "vanishes": "import os; os._exit(3)",
    "crashes": "import os; os.write(2, b'Fatal error\\n'); os.kill(os.getpid(), 11)",
    "hangs": "import time; time.sleep(60)",
    "leaves_a_child": "import subprocess; subprocess.Popen(['sleep', '" + SECONDS + "'])",
    "starts_a_thread": "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()",
    "floods": "import sys\nwhile True: sys.stderr.write('x' * 2**20 + '\\n')",
    "lies": 'import os\nfor fd in range(3, 20):\n  try: os.write(fd, b\'x}\\n[]}\\n{"module": "json"}\\n{}\\n\')\n'
    "  except OSError: pass",
    "which_folder": "import os, sys; raise OSError(os.getcwd() + ' ' + ' '.join(sys.path))",
}


HANG_S = 1.5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules; the program is beside them in a folder of its own."""
    path = tmp_path_factory.mktemp("modules")
    for module, text in MODULES.items():
        (path / f"{module}.py").write_text(text + "\n")
    (path / "own").mkdir()
    (path / "own/audit.py").write_bytes(PROGRAM.read_bytes())
    return path


def run(folder: Path, *jobs: list[str]) -> list[dict[str, Any]]:
    """What the program prints, but for its first line; only what hangs has no time to start on a busy machine."""
    limits_s = [HANG_S if "hangs" in job else 20 for job in jobs]
    asked = [{"modules": job, "deadline_s": limit_s} for job, limit_s in zip(jobs, limits_s, strict=True)]
    (folder / "jobs.json").write_text(json.dumps(asked))
    done = subprocess.run(
        [sys.executable, str(folder / "own/audit.py"), str(folder / "jobs.json"), str(os.getuid())],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    first, *lines = map(json.loads, done.stdout.splitlines())
    assert first == {"bare": None}
    return lines


def errors(folder: Path, *jobs: list[str]) -> dict[str, str]:
    return {line["module"]: line["error"] for line in run(folder, *jobs)}


def test_each_module_is_answered_for_in_order_and_what_it_prints_is_no_answer(folder: Path) -> None:
    lines = run(folder, ["plain"], ["noisy"], ["json"])
    assert [(line["module"], line["error"], line["by"]) for line in lines] == [
        ("plain", "", ""),
        ("noisy", "", ""),
        ("json", "", ""),
    ]


def test_an_exception_is_told_by_its_last_line(folder: Path) -> None:
    assert errors(folder, ["broken"], ["two_lines"], ["no_such_module"], ["leaves"]) == {
        "broken": "ImportError: libtoy.so.1: cannot open shared object file",
        "two_lines": "ValueError: first\nsecond",
        "no_such_module": "ModuleNotFoundError: No module named 'no_such_module'",
        "leaves": "SystemExit: 0",
    }


def test_an_error_with_a_byte_that_is_no_utf_8_can_be_written(folder: Path) -> None:
    answers = audit.parse("\n".join(map(json.dumps, run(folder, ["no_utf_8"]))), ImportResult)
    (found,) = imports_by_package([ImportJob("x", ["no_utf_8"], 1)], [answers], {})["x"]
    assert "/\ufffd" in found.model_dump_json()


def test_a_module_that_ends_its_process_does_not_keep_the_next_from_being_imported(folder: Path) -> None:
    assert errors(folder, ["plain", "vanishes", "crashes", "noisy"]) == {
        "plain": "",
        "vanishes": "ended with exit code 3",
        "crashes": "ended by SIGSEGV: Fatal error",
        "noisy": "",
    }


def test_what_a_module_writes_between_the_answers_or_without_end_is_its_own_error(folder: Path) -> None:
    said = errors(folder, ["lies", "plain"], ["floods"], ["json"])
    assert {name: error for name, error in said.items() if name != "floods"} == {"lies": "", "plain": "", "json": ""}
    assert said["floods"].endswith("File too large")
    assert all(len(error) < 1000 for error in said.values())


def test_a_hang_is_a_result_and_takes_no_longer_than_its_deadline(folder: Path) -> None:
    started = time.monotonic()
    found = errors(folder, ["hangs"], ["plain"])
    assert f"{HANG_S} s" in found["hangs"]
    assert found["plain"] == ""
    assert time.monotonic() - started < 20


def test_when_the_time_of_a_job_is_up_the_rest_of_it_is_left_unasked(folder: Path) -> None:
    assert list(errors(folder, ["hangs", "plain", "noisy"], ["json"])) == ["hangs", "json"]


@pytest.mark.parametrize("module", ["leaves_a_child", "starts_a_thread"])
def test_what_an_import_leaves_running_keeps_nobody_waiting(folder: Path, module: str) -> None:
    started = time.monotonic()
    assert errors(folder, [module]) == {module: ""}
    assert time.monotonic() - started < 55
    assert subprocess.run(["pgrep", "-f", f"^sleep {SECONDS}$"], capture_output=True, check=False).stdout == b""


def test_the_programs_own_folder_is_not_where_modules_come_from(folder: Path) -> None:
    said = errors(folder, ["which_folder"])["which_folder"]
    assert said.startswith("OSError: /tmp ")
    assert "own" not in said


def test_what_is_installed_here_is_what_python_says() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--packages"], capture_output=True, text=True, check=True, timeout=60
    )
    found = {one.key: (one.version, len(one.files)) for one in audit.parse(done.stdout, Distribution)}
    for name in ("pydantic", "jinja2", "packaging"):
        assert found[name] == (importlib.metadata.version(name), len(importlib.metadata.files(name) or []))


def test_the_program_runs_on_every_interpreter_whose_pip_has_a_report() -> None:
    found = vermin(PROGRAM, oldest=["3.6"])
    assert found.returncode == 0, found.stdout
