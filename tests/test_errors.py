"""Names that do not exist get a suggestion; an error says where, what was found and what to do."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from interlock.cli.main import EXTRA_OF, app
from interlock.errors import (
    EXTRAS,
    CatalogError,
    ClaimError,
    InterlockError,
    LazyModule,
    MissingExtraError,
    RegistryError,
    RequirementsError,
    StoreError,
    UsageError,
    did_you_mean,
    last_line,
    missing_option,
    nearest,
    nearest_name,
)
from tests.builders import ROOT

VARIANTS = [f"cpython-3.{minor}{flavour}" for minor in range(7, 15) for flavour in ("", "t")]
VARIANTS += ["debian-3.13", "debian-3.14", "cpython-2.7-pth", "nogil-3.9"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("3.14", "cpython-3.14"),
        ("3.14t", "cpython-3.14t"),
        ("pth", "cpython-2.7-pth"),
        ("CPython-3.9", "cpython-3.9"),
        ("cpython3.8", "cpython-3.8"),
        ("debain-3.13", "debian-3.13"),
        ("zzz", None),
    ],
)
def test_a_wrong_name_has_a_nearest_known_name(name: str, meant: str | None) -> None:
    assert nearest_name(name, VARIANTS) == meant


def test_of_many_known_names_only_the_nearest_is_shown() -> None:
    assert re.findall("'(.+?)'", nearest("3.14", VARIANTS)) == ["cpython-3.14"]
    assert nearest("zzz", VARIANTS).count(",") < len(VARIANTS) - 1


def test_of_few_known_names_all_are_shown() -> None:
    assert re.search(r"'startup'.*: locks, startup\.$", nearest("startp", ["startup", "locks"]))
    assert nearest("x", ["locks"]).endswith(": locks.")
    assert nearest("x", []).endswith(": none.")


def test_a_name_that_is_like_none_gets_no_question() -> None:
    assert "'startup'" in did_you_mean("startp", ["startup", "locks"])
    assert did_you_mean("zzz", ["startup", "locks"]) == ""


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (CatalogError(file="variants/a.toml", key="tag", found="x", todo="y"), "variants/a.toml, key 'tag': "),
        (StoreError(file="a.json", found="x", todo="y"), "a.json: "),
        (RequirementsError(file="r.txt", key="line 3", found="x", todo="y"), "r.txt, line 3: "),
        (ClaimError(file="results/a", key="no-calls", found="x", todo="y"), "results/a, no-calls: "),
        (RegistryError(key="example.org:5000", found="x", todo="y"), "example.org:5000: "),
        (UsageError(key="--to", found="x", todo="y"), "--to: "),
        (missing_option("--to", "y"), ""),
        (UsageError(found="x", todo="y"), ""),
    ],
)
def test_an_error_begins_with_its_file_and_its_key_or_option(error: InterlockError, where: str) -> None:
    assert str(error) == f"{where}{error.found}. {error.todo}"


def test_an_error_is_the_same_after_its_way_from_another_process() -> None:
    error = StoreError(file="a.json", key="units", found="'x' is no number", todo="Write a number.")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    assert (type(again), vars(again), str(again)) == (StoreError, vars(error), str(error))


def test_the_last_line_is_quoted_with_both_its_ends_but_not_for_pages() -> None:
    assert last_line("a\nb\n") == "b"
    quoted = last_line("first" + "x" * 100_000 + "last")
    assert quoted.startswith("first")
    assert quoted.endswith("last")
    assert len(quoted) < 1100


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# The module of each project that only an extra brings.
MODULES = {
    "ansible-core": "ansible",
    "cyclonedx-python-lib": "cyclonedx",
    "sigstore": "sigstore",
    "numpy": "numpy",
    "pyperf": "pyperf",
    "scipy": "scipy",
}
# A module that is None in sys.modules cannot be found or imported.
WITHOUT = "import sys; sys.modules |= dict.fromkeys({}); from interlock.cli.main import main; main()"


def without_extras(*words: str) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(repr(sorted(MODULES.values())))
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


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
    assert f"pip install '.[{extra}]'" in found.value.todo
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
    with pytest.raises(MissingExtraError, match=r"needs no_such_module.*'\.\[measure\]'"):
        _ = LazyModule("no_such_module", "measure").anything
    with pytest.raises(AttributeError):
        _ = LazyModule("json", "measure").nothing
