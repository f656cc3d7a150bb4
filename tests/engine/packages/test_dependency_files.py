"""pyproject.toml: the lines of its dependencies, of extras and of groups, as uv and pip take them."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from interlock.engine.packages import dependency_files
from interlock.engine.packages.lock_files import Selection
from interlock.engine.packages.requirements import Line
from interlock.errors import RequirementsError
from tests.engine.packages.test_lock_files import LOCKS

PYPROJECT = (LOCKS / "uv/pyproject.toml").read_text(encoding="utf-8")
EXTRAS = "[project.optional-dependencies]\n"


def read(text: str, extras: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> list[Line]:
    selection = Selection.of(extras, groups)
    return dependency_files.read(["pyproject.toml"], lambda _: text, lambda _: False, selection).here().lines


def test_the_lines_are_those_of_the_file_with_the_markers_that_pip_evaluates() -> None:
    lines = read(PYPROJECT)
    assert [line.name for line in lines] == ["click", "attrs", "attrs", "colorama"]
    assert lines[1].text == "attrs<24 ; python_version < '3.12'"
    assert all(line.text in PYPROJECT.splitlines()[line.number - 1] for line in lines)


def test_a_line_has_the_number_of_itself_and_not_of_a_longer_word() -> None:
    text = "[project]\nname = 'my-click'\ndependencies = [\n  'click-log',\n  'click',\n]\n"
    assert [(line.name, line.number) for line in read(text)] == [("click-log", 4), ("click", 5)]


def test_an_extra_that_names_another_and_a_group_that_includes_one_bring_both_once() -> None:
    lines = read(PYPROJECT, ("Full", "web"), ("test", "types"))
    assert [line.name for line in lines][4:] == [
        "pluggy",
        "httpx",
        "iniconfig",
        "typing-extensions",
        "typing-extensions",
    ]
    assert "httpx[http2]>=0.27" in [line.text for line in lines]


def test_a_group_that_names_the_project_itself_brings_its_extras_and_no_release_of_it() -> None:
    text = PYPROJECT.replace('types = ["typing-extensions>=4.12"]', 'types = ["Shop[web]", "six"]')
    named = [line.name for line in read(text, groups=("types",))]
    assert "six" in named
    assert "shop" not in named
    assert set(named) == {*(line.name for line in read(text, ("web",))), "six"}


def test_an_extra_that_is_named_under_a_marker_brings_its_lines_under_it() -> None:
    text = """[project]
name = "shop"
[project.optional-dependencies]
all = ["shop[web,cli] ; python_version < '3'", "shop[cli]", "shop[all] ; python_version < '3.1'"]
web = ["httpx[http2]>=1 ; os_name == 'posix' or os_name == 'nt'", "shop[deep] ; os_name == 'nt'"]
cli = ["click"]
deep = ["six"]
"""
    selection = Selection.of(("all",), ())
    wanted = dependency_files.read(["pyproject.toml"], lambda _: text, lambda _: False, selection)
    lines = [Requirement(line.text) for line in wanted.here().lines]
    always = [line.name for line in lines if not line.marker]

    def under(version: str, system: str) -> set[str]:
        environment = {"python_version": version, "os_name": system}
        return {line.name for line in lines if line.marker is None or line.marker.evaluate(environment)}

    assert always == ["click"]
    assert under("2.7", "nt") == {"httpx", "click", "six"}
    assert under("2.7", "posix") == {"httpx", "click"}
    assert under("3.14", "nt") == {"click"}
    assert next(str(line.specifier) for line in lines if line.name == "httpx") == ">=1"
    assert [line.number for line in wanted.here().lines if line.name == "six"] == [7]


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("click>=8", "click >= ", "project.dependencies"),
        ('"click>=8"', "8", "project.dependencies"),
        ("dependencies = [\n", "dynamic = ['dependencies']\nother = [\n", "project.dynamic"),
        ("shop[web]", "shop[wob]", "project.optional-dependencies.full"),
        ('{include-group = "types"}', '{include-group = "tpyes"}', "dependency-groups"),
        ('types = ["typing-extensions>=4.12"]', 'types = [{include-group = "test"}]', "dependency-groups"),
        ('types = ["typing-extensions>=4.12"]', 'types = "typing-extensions"', "dependency-groups"),
        ("iniconfig>=2", "iniconfig>>2", "dependency-groups"),
        (EXTRAS, f"[tool.uv.sources]\nclick = {{path = 'x'}}\n{EXTRAS}", "tool.uv.sources.click"),
        (EXTRAS, "[project.optional-dependencies.more]\n", "project.optional-dependencies.more"),
    ],
)  # fmt: skip
def test_what_pip_could_not_do_is_refused_with_file_and_key(old: str, new: str, key: str) -> None:
    assert old in PYPROJECT
    with pytest.raises(RequirementsError) as caught:
        read(PYPROJECT.replace(old, new), ("full",) if ".more" not in key else ("more",), ("test",))
    assert (caught.value.file, caught.value.key) == ("pyproject.toml", key)
    assert caught.value.todo


def test_a_poetry_project_is_led_to_its_lock_and_another_toml_to_what_is_read() -> None:
    with pytest.raises(RequirementsError, match=r"poetry\.lock"):
        read("[tool.poetry.dependencies]\nflask = '^3'\n")
    with pytest.raises(RequirementsError, match=r"pylock\.toml"):
        dependency_files.read(["setup.toml"], lambda _: "", Path.exists)
