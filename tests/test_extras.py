"""Without the extras everything that needs none works, and what needs one names the line that installs it."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from interlock.cli.main import EXTRA_OF, app
from interlock.errors import MissingExtraError
from interlock.extras import EXTRAS, LazyModule
from tests.builders import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# The module of each project that only an extra brings.
MODULES = {
    "altair": "altair",
    "ansible-core": "ansible",
    "debsbom": "debsbom",
    "numpy": "numpy",
    "pyarrow": "pyarrow",
    "pyperf": "pyperf",
    "scipy": "scipy",
    "vl-convert-python": "vl_convert",
}
# A module that is None in sys.modules cannot be found or imported.
WITHOUT = "import sys; sys.modules |= dict.fromkeys({}); from interlock.cli.main import main; main()"


def without_extras(*words: str) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(repr(sorted(MODULES.values())))
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def brought_by(extra: str) -> set[str]:
    """The modules that an extra installs, with those of the extras that it names."""
    lines = [Requirement(line) for line in PROJECT["optional-dependencies"][extra]]
    inner = [brought_by(name) for one in lines if one.name == PROJECT["name"] for name in one.extras]
    return {MODULES[one.name] for one in lines if one.name != PROJECT["name"]}.union(*inner)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_the_modules_that_its_commands_need(extra: str) -> None:
    assert set(EXTRAS[extra]) <= brought_by(extra)


def test_all_brings_everything() -> None:
    assert brought_by("all") == set(MODULES.values())
    assert {one.name for one in map(Requirement, PROJECT["dependencies"])}.isdisjoint(MODULES)


@pytest.mark.parametrize(("command", "extra"), EXTRA_OF.items())
def test_a_command_without_its_extra_says_the_line_that_installs_it(
    command: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in MODULES.values():
        monkeypatch.setitem(sys.modules, name, None)
    needed = {"sbom": ["a"], "trial": ["."], "fleet": ["-i", "x"], "compare": ["a", "b"], "why": ["a", "b/c"]}
    words = needed.get(command, [])
    with pytest.raises(MissingExtraError) as found:
        app([command, *words], standalone_mode=False)
    assert f"pip install 'interlock[{extra}]'" in found.value.todo
    assert found.value.exit_code == 2


def test_every_command_is_loaded_without_extras() -> None:
    """Their options are shown by --help, whatever is installed."""
    program = WITHOUT.replace("import main; main()", "import COMMANDS, load_command; [*map(load_command, COMMANDS)]")
    command = [sys.executable, "-c", program.format(repr(sorted(MODULES.values())))]
    subprocess.run(command, check=True)


@pytest.mark.parametrize("words", [(), ("--workload", "download=3", "--workload", "startup=1", "--cpus", "4", "--why")])
def test_a_pick_from_the_shipped_figures_needs_no_extra(words: tuple[str, ...]) -> None:
    done = without_extras("pick", *words)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_module_is_loaded_when_it_is_used_and_one_that_is_not_there_is_named() -> None:
    assert LazyModule("json", "measure").loads("[1]") == [1]
    with pytest.raises(MissingExtraError, match=r"needs no_such_module.*'interlock\[measure\]'"):
        _ = LazyModule("no_such_module", "measure").anything
    with pytest.raises(AttributeError):
        _ = LazyModule("json", "measure").nothing


def test_the_help_of_a_pick_loads_neither_data_models_nor_engines() -> None:
    loaded = "import sys, interlock.cli.pick; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert {"pydantic", "docker", "jinja2", "numpy", "psutil"}.isdisjoint(done.stdout.split())
