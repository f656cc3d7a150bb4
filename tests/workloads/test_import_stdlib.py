"""Every module of the standard library, once."""

import importlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from interlock.measure.kinds.kind import CANNOT
from tests.workloads.conftest import HANG_S, ONCE, WORKLOADS, Refusal, Report, Run

LISTS = WORKLOADS / "import-stdlib"
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
CALIBRATION = ["--loops", "auto", "--warmups", "0", "--values", "0"]
NOTHING = ["--loops", "0", "--warmups", "0", "--values", "1"]
# Says on stderr at the end which modules of the list are there, and which were there when the program asked first.
WITNESS = """
import atexit, sys
def tell():
    names = open(%r).read().split()
    there = [name for name in names if name in sys.modules]
    sys.stderr.write("there: %%s\\n" %% " ".join(there))
atexit.register(tell)
"""


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A copy of the program beside a list of these modules for the interpreter that runs the tests."""

    def make(*names: str, version: str = HERE) -> Path:
        (tmp_path / "import-stdlib").mkdir(exist_ok=True)
        (tmp_path / "import-stdlib" / f"{version}.txt").write_text("\n".join(names) + "\n")
        shutil.copy(WORKLOADS / "import_stdlib.py", tmp_path)
        return tmp_path / "import_stdlib.py"

    return make


def test_every_module_of_the_list_is_there_afterwards_and_counted_unless_the_start_had_it(
    listed: Callable[..., Path], run_program: Run, report: Report
) -> None:
    names = ["json", "json.tool", "os", "sys", "wave", "xml.dom.minidom"]
    program = listed(*names)
    witness = WITNESS % str(program.parent / "import-stdlib" / f"{HERE}.txt")
    before = run_program(str(program), *NOTHING, sabotage=witness).stderr.split()[1:]
    assert "os" in before
    assert "json.tool" not in before
    assert run_program(str(program), *ONCE, sabotage=witness).stderr.split()[1:] == names
    assert report(str(program), *ONCE)["inner_loops"] == len(names) - len(before)


def test_what_they_import_besides_is_counted_by_itself(listed: Callable[..., Path], report: Report) -> None:
    found = report(str(listed("xml.dom.minidom")), *ONCE)
    assert found["inner_loops"] == 1
    # xml, xml.dom, xml.dom.domreg, xml.dom.minicompat, xml.dom.xmlbuilder ...
    assert found["metadata"]["modules_imported"] >= 6


@pytest.mark.parametrize("arguments", [[], ONCE, CALIBRATION])
def test_a_process_imports_the_list_once(listed: Callable[..., Path], report: Report, arguments: list[str]) -> None:
    found = report(str(listed("json", "wave")), *arguments)
    assert found["loops"] == 1
    assert len(found["values"]) + len(found["calibration"]) == 1


@pytest.mark.parametrize("more", [["--loops", "2"], ["--values", "2"], ["--warmups", "1"]])
def test_a_second_time_is_refused(listed: Callable[..., Path], refusal: Refusal, more: list[str]) -> None:
    assert "work not done: " in refusal(str(listed("json", "wave")), *ONCE, *more)


def test_zero_loops_import_nothing(listed: Callable[..., Path], report: Report) -> None:
    found = report(str(listed("no_such_module")), *NOTHING)
    assert (found["loops"], found["inner_loops"]) == (0, 1)
    assert "modules_imported" not in found["metadata"]


def test_a_module_that_cannot_be_imported_is_named(listed: Callable[..., Path], report: Report) -> None:
    said = report(str(listed("json", "no_such_module")), *ONCE)["unsupported"]
    assert re.match(r"no_such_module\b.*\bModuleNotFoundError\b", said)


def test_a_whole_process_that_cannot_import_one_says_so_last(listed: Callable[..., Path], refusal: Refusal) -> None:
    last = refusal(str(listed("json", "no_such_module")), "--whole").splitlines()[-1]
    assert last.startswith(f"{CANNOT}no_such_module cannot be imported: ")


def test_a_module_that_is_gone_after_its_import_is_an_error(
    listed: Callable[..., Path], refusal: Refusal, tmp_path: Path
) -> None:
    vanish = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    (tmp_path / "vanishing.py").write_text("import json, sys; sys.modules['vanishing'] = json\n")
    (tmp_path / "culprit.py").write_text("import sys; del sys.modules['vanishing']\n")
    assert re.search(
        r"work not done: .*\b2\b.*\b1\b.*\bvanishing\b",
        refusal(str(listed("vanishing", "culprit")), *ONCE, sabotage=vanish),
    )


def test_a_version_without_a_list_is_unsupported(listed: Callable[..., Path], report: Report) -> None:
    said = report(str(listed("json", version="1.5")), *ONCE)["unsupported"]
    assert HERE in said


# A clock that stands still but for modules that move it: by so many seconds.
CLOCK = "import time; time.moved = [1.0]; time.perf_counter = lambda: time.moved[0]"
SLOW = "import time; time.moved[0] += %s"


def test_the_slowest_modules_are_named_with_their_times(
    listed: Callable[..., Path], report: Report, tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(SLOW % 0.125)
    (tmp_path / "slower.py").write_text(SLOW % 0.25)
    found = report(str(listed("json", "slow", "slower", "wave")), *ONCE, sabotage=CLOCK)
    assert found["values"] == [0.375]
    assert found["metadata"]["slowest_module_s"] == 0.25
    assert found["metadata"]["slowest_modules"] == "slower 250.0 ms, slow 125.0 ms, wave 0.0 ms, json 0.0 ms"


@pytest.fixture
def program(module: Callable[[str], ModuleType]) -> ModuleType:
    return module("import_stdlib")


def essence(code: CodeType) -> tuple[object, ...]:
    return code.co_code, code.co_names, code.co_varnames, code.co_firstlineno


@pytest.mark.parametrize("name", ["json.tool", "xml.dom.minidom", "posixpath"])
def test_the_code_that_is_made_again_is_the_modules_own(program: ModuleType, name: str) -> None:
    """From a .pyc file, and of a module that is frozen into the interpreter."""
    __import__(name)
    module = sys.modules[name]
    code = program.maker_of(module)()
    made = {essence(one) for one in code.co_consts if hasattr(one, "co_code")}
    mine = [one for one in vars(module).values() if getattr(one, "__module__", None) == name]
    functions = [one.__code__ for one in mine if hasattr(one, "__code__")]
    assert functions
    # Not the objects: those that have run compare unequal on some versions.
    assert {essence(one) for one in functions} <= made


@pytest.mark.parametrize("name", ["sys", "_json"])
def test_a_module_without_byte_code_has_nothing_to_make(program: ModuleType, name: str) -> None:
    __import__(name)
    assert program.maker_of(sys.modules[name])() is None


def test_a_module_that_is_compiled_at_each_import_has_nothing_to_make(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_source.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert program.maker_of(importlib.import_module("only_source"))() is None


def test_unmarshalling_is_a_share_of_the_imports(report: Report, listed: Callable[..., Path]) -> None:
    share = report(str(listed("json", "wave", "xml.dom.minidom")), *ONCE)["metadata"]["unmarshalling_share"]
    assert 0 < share < 1


def test_unmarshalling_is_cpu_time_whatever_the_clock_says(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the clock it was 23 to 310 % of the imports, because the other rows had their turns meanwhile."""
    monkeypatch.setattr(program, "maker_of", lambda _: lambda: time.sleep(0.2))
    assert program.time_unmarshalling([ModuleType("waits")]) < 0.1


def test_code_that_cannot_be_made_again_leaves_the_share_unknown(program: ModuleType) -> None:
    lost = ModuleType("lost")
    lost.__spec__ = type("Spec", (), {"origin": "frozen", "loader_state": None, "name": "no.such", "cached": None})()
    assert program.time_unmarshalling([lost]) is None


@pytest.mark.parametrize("path", sorted(LISTS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_list_is_sorted_by_package_and_has_no_private_name(path: Path) -> None:
    names = path.read_text().split()
    assert names == sorted(set(names))
    assert not [name for name in names if any(part.startswith("_") for part in name.split("."))]
    assert {"json", "xml.dom.minidom"} <= set(names) or path.stem == "2.5"
    assert not {"antigravity", "this", "turtle"} & set(names)
    # A submodule's package is imported by it in any case; the list says so.
    assert {name.rpartition(".")[0] for name in names if "." in name} <= set(names)


def test_a_list_is_made_of_what_can_be_imported_without_a_trace(tmp_path: Path) -> None:
    """The rule of make_list.py, on a library of which each module breaks it in its own way but two."""
    library = {
        "good.py": "",
        "package/__init__.py": "",
        "package/inner.py": "",
        "package/_private.py": "",
        "package/tests/__init__.py": "",
        "prints.py": "print('hello')",
        "fails.py": "import no_such_module",
        "starts.py": "import threading, time; threading.Thread(target=time.sleep, args=(1,)).start()",
        "forks.py": "import os, time\nif os.fork() == 0: time.sleep(1); os._exit(0)",
        "waits.py": "import os; os.system('true')",
        "writes.py": "open('file', 'w').close()",
        "vanishes.py": "import sys; sys.modules[__name__] = None",
        "installed.py": "",
        "ends.py": "import os; os._exit(0)",
        "this.py": "",
        "installs.py": f"import sys; sys.path.append({str(tmp_path / 'site-packages')!r}); import installed",
    }
    for name, source in library.items():
        path = tmp_path / ("site-packages" if name == "installed.py" else "library") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    stub = (
        f"import os, sys; sys.argv = ['make_list']; here = {str(tmp_path / 'library')!r}\n"
        "import os as real\nos.environ['PYTHONPATH'] = here\n"
        f"source = open({str(LISTS / 'make_list.py')!r}).read()\n"
        "real.__file__ = here + '/os.py'\n"
        "exec(compile(source, 'make_list.py', 'exec'), {'__name__': '__main__'})\n"
    )
    done = subprocess.run([sys.executable, "-c", stub], capture_output=True, text=True, timeout=10 * HANG_S, check=True)
    assert done.stdout.split() == ["good", "package", "package.inner"]
    left_out = {line.split(": ")[1] for line in done.stderr.splitlines() if line.startswith("left out")}
    assert left_out == {"prints", "fails", "starts", "forks", "waits", "writes", "vanishes", "ends", "installs"}
