"""Lock files of uv, Poetry and PDM: what is read is what the same tools export, and each error names file and key."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement

from interlock.engine.packages import dependency_files
from interlock.engine.packages.dependency_files import Dependencies
from interlock.engine.packages.lock_files import Selection
from interlock.engine.packages.pythons import allows
from interlock.errors import RequirementsError

LOCKS = Path(__file__).parents[2] / "corpus/locks"
SELECTIONS = {
    "none": Selection(),
    "web": Selection.of(["web"], []),
    "types": Selection.of([], ["Types"]),
    "full-test": Selection.of(["full"], ["test"]),
}
FILES = [LOCKS / "uv/uv.lock", LOCKS / "poetry/poetry.lock", LOCKS / "pdm/pylock.toml"]


def environment(version: str, platform: str = "linux") -> dict[str, str]:
    """What an interpreter of this version says to markers."""
    full = f"{version}.1"
    own = {"python_version": version, "python_full_version": full, "implementation_version": full}
    return {**cast(dict[str, str], default_environment()), **own, "sys_platform": platform}


def read(file: Path, selection: Selection = SELECTIONS["none"]) -> Dependencies:
    return dependency_files.read([str(file)], lambda path: path.read_text(encoding="utf-8"), Path.exists, selection)


def asked(file: Path, selection: Selection, where: dict[str, str]) -> set[str]:
    return {line.text.partition(" --hash")[0] for line in read(file, selection).at(where).lines}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
@pytest.mark.parametrize("named", SELECTIONS)
@pytest.mark.parametrize("where", [("3.10", "linux"), ("3.14", "linux"), ("3.14", "win32")], ids=str)
def test_what_a_lock_asks_for_is_what_its_own_tool_exports(file: Path, named: str, where: tuple[str, str]) -> None:
    here = environment(*where)
    exported = map(Requirement, (file.parent / f"{named}.txt").read_text(encoding="utf-8").splitlines())
    expected = {f"{one.name}{one.specifier}" for one in exported if not one.marker or one.marker.evaluate(here)}
    assert asked(file, SELECTIONS[named], here) == expected
    assert len(expected) >= 2


def test_an_export_of_uv_as_pylock_is_what_its_own_lock_asks_for() -> None:
    for version in ("3.10", "3.14"):
        here = environment(version)
        export = asked(LOCKS / "uv-export/pylock.toml", SELECTIONS["none"], here)
        assert export == asked(LOCKS / "uv/uv.lock", SELECTIONS["full-test"], here)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_each_line_has_its_hashes_and_its_place_in_the_file(file: Path) -> None:
    wanted = read(file).at(environment("3.14"))
    assert wanted.hashed
    text = file.read_text(encoding="utf-8").splitlines()
    for line in wanted.lines:
        assert text[line.number - 1] == f'name = "{line.name}"'
        sums = [word.removeprefix("--hash=") for word in line.text.split()[1:]]
        assert len(sums) == 2
        assert all(one.removeprefix("sha256:") in file.read_text(encoding="utf-8") for one in sums)


def test_beside_a_line_without_a_hash_no_line_has_one(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("six\n")
    names = [str(LOCKS / "uv/uv.lock"), str(tmp_path / "more.txt")]
    found = dependency_files.read(names, lambda path: path.read_text(encoding="utf-8"), Path.exists)
    lines = found.at(environment("3.14")).lines
    assert not any("--hash" in line.text for line in lines)
    assert {"six", "click==8.5.1"} <= {line.text for line in lines}


def changed(folder: Path, file: Path, change: Callable[[str], str]) -> Path:
    shutil.copy(file, folder)
    copy = folder / file.name
    copy.write_text(change(copy.read_text(encoding="utf-8")), encoding="utf-8")
    return copy


UV, POETRY, PDM = FILES
PYPROJECT = LOCKS / "uv/pyproject.toml"
CLICK = '[[package]]\nname = "click"'
IN_DEFAULT = '\\"default\\" in dependency_groups'


@pytest.mark.parametrize(
    ("file", "old", "new", "key"),
    [
        (UV, "version = 1\n", "version = 2\n", "version"),
        (UV, "version = 1\n", "version = 1\nconflicts = [[]]\n", "conflicts"),
        (UV, '{ name = "click" }', '{ name = "clack" }', "package"),
        (UV, '{ name = "click" }', '{ name = "click", marker = "no marker" }', "markers"),
        (UV, f'{CLICK}\nversion = "8.5.1"', CLICK, "package click"),
        (UV, 'requires-python = ">=3.10"', 'requires-python = "new"', "requires-python"),
        (POETRY, 'lock-version = "2.1"', 'lock-version = "2.0"', "metadata.lock-version"),
        (POETRY, 'lock-version = "2.1"', 'lock-version = "3.0"', "metadata.lock-version"),
        (POETRY, f'{CLICK}\nversion = "8.5.1"', CLICK, "package click"),
        (POETRY, "python_version >= \\\"3.12\\\"", "python is new", "markers"),
        (POETRY, "python_version >= \\\"3.12\\\"", "sys_platform ~= 'linux'", "markers"),
        (PDM, 'lock-version = "1.0"', 'lock-version = "2.0"', "lock-version"),
        (PDM, 'lock-version = "1.0"', "", "lock-version"),
        (PDM, 'name = "click"', "name = 7", "packages[2].name"),
        (PDM, IN_DEFAULT, "extras == 'x'", "package attrs"),
        (PDM, IN_DEFAULT, "extra == 'x'", "package attrs"),
    ],
)  # fmt: skip
def test_a_broken_lock_is_refused_with_its_file_and_key(
    tmp_path: Path, file: Path, old: str, new: str, key: str
) -> None:
    copy = changed(tmp_path, file, lambda text: text.replace(old, new))
    assert copy.read_text(encoding="utf-8") != file.read_text(encoding="utf-8")
    with pytest.raises(RequirementsError) as caught:
        read(copy)
    assert (caught.value.file, caught.value.key) == (str(copy), key)
    assert caught.value.todo


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_what_is_no_toml_and_an_extra_that_is_not_there_are_refused(tmp_path: Path, file: Path) -> None:
    with pytest.raises(RequirementsError, match=r"not valid TOML.*line 1"):
        read(changed(tmp_path, file, lambda _: "<<<<<<< HEAD\n"))
    with pytest.raises(RequirementsError, match=r"--extra: there is no extra 'wob'\. Did you mean 'web'"):
        read(file, Selection.of(["wob"], []))
    with pytest.raises(RequirementsError, match="no group 'tset'"):
        read(file, Selection.of([], ["tset"]))


PLACES = """\
version = 1
requires-python = ">=3.10"

[[package]]
name = "shop"
version = "1.0"
source = { editable = "." }
dependencies = [{ name = "cart" }, { name = "tax" }, { name = "pay" }, { name = "post" }]

[[package]]
name = "cart"
source = { editable = "libs/cart" }
dependencies = [{ name = "shop" }]

[[package]]
name = "tax"
version = "2"
source = { git = "https://example.org/tax?subdirectory=py&rev=main#0123abc" }

[[package]]
name = "pay"
version = "3"
source = { url = "https://example.org/pay-3.tar.gz" }
sdist = { hash = "sha256:00" }

[[package]]
name = "post"
version = "4"
source = { path = "wheels/post-4-py3-none-any.whl" }
wheels = [{ filename = "post-4-py3-none-any.whl", hash = "sha256:11" }]
"""


def test_packages_from_elsewhere_are_asked_for_there_and_the_project_itself_is_not(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text(PLACES)
    (tmp_path / "libs/cart").mkdir(parents=True)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/post-4-py3-none-any.whl").write_bytes(b"")
    found = read(tmp_path / "uv.lock").at(environment("3.14"))
    assert {(line.name, line.text, line.path) for line in found.lines} == {
        ("cart", "cart @ file://{path}", tmp_path / "libs/cart"),
        ("tax", "tax @ git+https://example.org/tax@0123abc#subdirectory=py", None),
        ("pay", "pay @ https://example.org/pay-3.tar.gz", None),
        ("post", "post @ file://{path}", tmp_path / "wheels/post-4-py3-none-any.whl"),
    }
    places = [PLACES.splitlines()[line.number - 1] for line in found.lines]
    assert places == [f'name = "{line.name}"' for line in found.lines]


def test_paths_of_a_lock_are_below_its_own_folder_whatever_the_current_one_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("libs/cart", "api/libs/cart", "api/wheels"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "api/wheels/post-4-py3-none-any.whl").write_bytes(b"")
    (tmp_path / "api/uv.lock").write_text(PLACES)
    monkeypatch.chdir(tmp_path)
    found = read(Path("api/uv.lock")).at(environment("3.14"))
    assert [line.path for line in found.lines if line.name == "cart"] == [Path("api/libs/cart")]


POETRYS = """\
[[package]]
name = "tax"
version = "2"
groups = ["main"]
files = []

[package.source]
type = "git"
url = "git@example.org:shop/tax.git"
reference = "main"
resolved_reference = "0123abc"

[metadata]
lock-version = "2.1"
"""


def test_an_address_of_git_alone_becomes_one_of_pip(tmp_path: Path) -> None:
    (tmp_path / "poetry.lock").write_text(POETRYS)
    (line,) = read(tmp_path / "poetry.lock").at(environment("3.14")).lines
    assert (line.text, line.path) == ("tax @ git+ssh://git@example.org/shop/tax.git@0123abc", None)


EXCLUSIVE = """\
[[package]]
name = "torch"
version = "1"
groups = ["main"]
markers = "extra != \\"gpu\\" and python_version >= \\"3\\""
files = []

[[package]]
name = "torch"
version = "2"
groups = ["main"]
markers = "extra == \\"gpu\\" and extra != \\"cpu\\""
files = []

[extras]
cpu = ["torch"]
gpu = ["torch"]
web = []

[metadata]
lock-version = "2.1"
"""


@pytest.mark.parametrize(
    ("extras", "expected"),
    [([], {"torch==1"}), (["web"], {"torch==1"}), (["web", "gpu"], {"torch==2"}), (["cpu", "gpu"], set())],
    ids=str,
)
def test_an_extra_can_take_the_place_of_what_is_there_without_it(
    tmp_path: Path, extras: list[str], expected: set[str]
) -> None:
    (tmp_path / "poetry.lock").write_text(EXCLUSIVE)
    assert asked(tmp_path / "poetry.lock", Selection.of(extras, []), environment("3.14")) == expected


@pytest.mark.parametrize("file", [*FILES, PYPROJECT], ids=lambda file: file.parent.name + file.suffix)
def test_a_file_for_another_python_says_so_and_may_lack_the_sums_of_this_ones_wheels(
    tmp_path: Path, file: Path
) -> None:
    old, new = (f'python{"-versions" if file is POETRY else ""} = "{text}"\n' for text in (">=3.10", ">=3.10,<3.14"))
    copy = changed(tmp_path, file, lambda text: new.join(text.rsplit(old, 1) if file is POETRY else text.split(old, 1)))
    inside, outside = (read(copy).at(environment(version)) for version in ("3.13", "3.14"))
    assert (inside.hashed, outside.hashed) == {PYPROJECT: (False, False), POETRY: (True, True)}.get(file, (True, False))
    assert inside.notes == []
    (note,) = outside.notes
    assert note.startswith(f"{copy} is for Python >=3.10,<3.14, not for 3.14.1: ")
    assert {line.text.partition(" --hash")[0] for line in outside.lines} == asked(
        file, SELECTIONS["none"], environment("3.14")
    )


@pytest.mark.parametrize(
    ("python", "has", "has_not"),
    [
        ("", ["2.7.18", "3.15.0b1"], []),
        (">=3.10,<3.14", ["3.13.2"], ["3.14.0", "3.14.0b1", "3.9.1"]),
        (">=3.15", ["3.15.0b1", "3.15.0a7+"], ["3.14.9"]),
        ("==3.13.*", ["3.13.0rc1"], ["3.14.0"]),
        ("^3.10", ["3.14.1"], ["3.9.9", "4.0.0"]),
        ("~3.11", ["3.11.4"], ["3.12.0"]),
        ("~3.11.2", ["3.11.4"], ["3.11.1", "3.12.0"]),
        ("~3", ["3.14.0"], ["2.7.0"]),
        ("~=3.11", ["3.14.0"], ["3.10.0"]),
        ("3.12.*", ["3.12.4"], ["3.13.0"]),
        ("*", ["2.7.18"], []),
        (">= 3.8 <3.9 || >=3.10.*, != 3.11.*", ["3.8.1", "3.12.0"], ["3.9.1", "3.11.1"]),
    ],
)
def test_a_range_of_pythons_is_read_in_the_words_of_pep_440_and_of_poetry(
    python: str, has: list[str], has_not: list[str]
) -> None:
    assert [version for version in (*has, *has_not) if allows(python, version)] == has


# As pip 26.3 writes it, but for the URL and the sum.
OF_PIP = """\
lock-version = "1.0"
created-by = "pip"

[[packages]]
name = "six"
version = "1"

[[packages.wheels]]
name = "six-1-TAGS.whl"
url = "https://example.org/six-1-TAGS.whl"

[packages.wheels.hashes]
sha256 = "00"
"""


@pytest.mark.parametrize(
    ("tags", "is_hashed"), [("py3-none-any", True), ("cp313-cp313-manylinux_2_28_x86_64", False)], ids=str
)
def test_a_lock_for_one_interpreter_has_not_the_sum_of_anothers_wheel(
    tmp_path: Path, tags: str, is_hashed: bool
) -> None:
    (tmp_path / "pylock.toml").write_text(OF_PIP.replace("TAGS", tags))
    wanted = read(tmp_path / "pylock.toml").at(environment("3.14"))
    assert ([line.name for line in wanted.lines], wanted.hashed) == (["six"], is_hashed)


WORKSPACE = """\
version = 1
requires-python = ">=3.10"

[manifest]
members = ["shop"]

[manifest.dependency-groups]
dev = [
    { name = "pay", extras = ["card"], marker = "sys_platform == 'linux'" },
    { name = "shop", editable = "shop" },
]
docs = [{ name = "text" }]

[[package]]
name = "shop"
source = { editable = "shop" }

[[package]]
name = "pay"
version = "1"
source = { registry = "https://pypi.org/simple" }
resolution-markers = ["python_full_version < '3.12'"]

[[package]]
name = "pay"
version = "2"
source = { registry = "https://pypi.org/simple" }
resolution-markers = ["python_full_version >= '3.14'", "python_full_version == '3.13.*'"]

[package.optional-dependencies]
card = [{ name = "card" }]

[[package]]
name = "card"
version = "3"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "text"
version = "4"
source = { registry = "https://pypi.org/simple" }
"""


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (("3.10", "linux"), {"pay==1"}),
        (("3.14", "linux"), {"pay==2", "card==3"}),
        (("3.14", "win32"), set()),
    ],
    ids=["3.10", "3.14", "win32"],
)
def test_a_group_of_a_workspace_that_is_no_project_is_found(
    tmp_path: Path, where: tuple[str, str], expected: set[str]
) -> None:
    (tmp_path / "uv.lock").write_text(WORKSPACE)
    assert asked(tmp_path / "uv.lock", Selection.of([], ["dev"]), environment(*where)) == expected
    assert asked(tmp_path / "uv.lock", SELECTIONS["none"], environment(*where)) == set()


# As uv 0.13.9 writes it, but for versions.
BESIDE = """\
version = 1

[manifest]
members = ["shop"]

[[package]]
name = "lib"
source = { directory = "../lib" }

[[package]]
name = "shop"
source = { editable = "shop" }
dependencies = [{ name = "lib" }]
"""
GROUP_ALONE = """\
version = 1

[manifest.dependency-groups]
dev = [{ name = "lib", directory = "../lib" }]

[[package]]
name = "lib"
source = { directory = "../lib" }
"""


@pytest.mark.parametrize(("text", "groups"), [(BESIDE, []), (GROUP_ALONE, ["dev"])], ids=["member", "group"])
def test_what_a_workspace_needs_from_a_folder_is_no_member_of_it(text: str, groups: list[str], tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/uv.lock").write_text(text)
    found = read(tmp_path / "workspace/uv.lock", Selection.of([], groups)).at(environment("3.14"))
    assert [(line.name, line.path) for line in found.lines] == [("lib", tmp_path / "workspace/../lib")]


def test_where_a_lock_tells_no_members_all_folders_are_taken_for_members(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text(BESIDE.replace('[manifest]\nmembers = ["shop"]\n', ""))
    assert asked(tmp_path / "uv.lock", SELECTIONS["none"], environment("3.14")) == set()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uv.lock", "version = 1\nmanifest = 7\n"),
        ("uv.lock", 'version = 1\n[[package]]\nname = "a"\nsource = 3\n'),
        ("poetry.lock", '[metadata]\nlock-version = "2.1"\n[[package]]\nname = "a"\ngroups = 7\n'),
        (
            "pylock.toml",
            'lock-version = "1.0"\ncreated-by = "x"\n[[packages]]\nname = "a"\n'
            'archive = { url = "https://[::1/a.whl", hashes = { sha256 = "00" } }\n',
        ),
    ],
    ids=["manifest", "source", "groups", "url"],
)
def test_what_no_tool_writes_is_an_error_with_the_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(RequirementsError) as error:
        read(tmp_path / name)
    assert error.value.file == str(tmp_path / name)
