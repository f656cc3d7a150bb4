"""The user's own defaults: one file of two, each key an option's, and bad ones named."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.catalog.defaults import Defaults, own_table, read_defaults
from interlock.errors import CatalogError

TEXT = """\
variants = ["cpython-3.14", "cpython-3.14t+gil-on"]
workloads = { "download/single" = 3, startup = 1, "download/many" = 0.5 }
cpus = 4
[trial]
http = ":8000/health"
healthy_within = 5
[audit]
requirement = ["uv.lock"]
extra = ["web"]
"""


def in_pyproject(text: str) -> str:
    tables = text.replace("[trial]", "[tool.interlock.trial]").replace("[audit]", "[tool.interlock.audit]")
    return f'[project]\nname = "shop"\n[tool.interlock]\n{tables}'


def test_both_files_say_the_same_and_each_command_takes_its_own(tmp_path: Path) -> None:
    (tmp_path / "interlock.toml").write_text(TEXT)
    own = read_defaults(tmp_path / "interlock.toml")
    (tmp_path / "pyproject.toml").write_text(in_pyproject(TEXT))
    assert read_defaults(tmp_path / "pyproject.toml") == own
    assert own.options("pick") == {
        "workload": ("workloads", ["download/single=3", "startup=1", "download/many=0.5"]),
        "cpus": ("cpus", 4),
    }
    labels = ("variants", "cpython-3.14,cpython-3.14t+gil-on")
    rows = ("variants", "cpython-3.13,cpython-3.14,cpython-3.14t+gil-on")
    names = "download/single,startup,download/many"
    assert own.options("matrix") == {"variants": rows, "workloads": ("workloads", names)}
    assert own.options("trial") == {
        "variants": labels,
        "http": ("trial.http", ":8000/health"),
        "healthy_within": ("trial.healthy_within", 5),
    }
    assert own.options("audit") == {
        "variants": ("variants", "cpython-3.14,cpython-3.14t"),
        "requirement": ("audit.requirement", ["uv.lock"]),
        "extra": ("audit.extra", ["web"]),
    }


def test_without_a_key_nothing_is_taken() -> None:
    assert all(not Defaults().options(command) for command in ("pick", "matrix", "trial", "audit"))


def test_a_folder_has_one_of_them(tmp_path: Path) -> None:
    assert own_table(tmp_path) is None
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "shop"\n# [tool.interlock]\n')
    assert own_table(tmp_path) is None
    (tmp_path / "interlock.toml").write_text("")
    assert own_table(tmp_path) == tmp_path / "interlock.toml"
    (tmp_path / "pyproject.toml").write_text("[tool.interlock.trial]\n")
    with pytest.raises(CatalogError, match=r"interlock\.toml: pyproject\.toml has \[tool\.interlock\] too"):
        own_table(tmp_path)
    (tmp_path / "interlock.toml").unlink()
    assert own_table(tmp_path) == tmp_path / "pyproject.toml"


@pytest.mark.parametrize(
    "text",
    [
        "[tool.interlock]\ncpus = 4",
        "[tool]\ninterlock.cpus = 4",
        "tool.interlock.cpus = 4",
        '[tool."interlock"]\ncpus = 4',
    ],
)
def test_a_table_counts_in_whichever_way_it_is_written(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    found = own_table(tmp_path)
    assert found == tmp_path / "pyproject.toml"
    assert read_defaults(found).cpus == 4


@pytest.mark.parametrize("text", ['note = """\n[tool.interlock]\n"""', "tool = 3 # interlock", "[tool]\n# interlock"])
def test_what_only_looks_like_a_table_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert own_table(tmp_path) is None


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("cpus = 4", "cpu = 4", "cpu"),
        ("cpus = 4", "cpus = 0", "cpus"),
        ("startup = 1", "startup = -1", "workloads.startup"),
        ('http = ":8000/health"', "http = 8000", "trial.http"),
        ('extra = ["web"]', 'extra = "web"', "audit.extra"),
        ('extra = ["web"]', 'extras = ["web"]', "audit.extras"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(tmp_path: Path, old: str, new: str, key: str) -> None:
    for name, text, prefix in (("interlock.toml", TEXT, ""), ("pyproject.toml", in_pyproject(TEXT), "tool.interlock.")):
        (tmp_path / name).write_text(text.replace(old, new))
        with pytest.raises(CatalogError) as caught:
            read_defaults(tmp_path / name)
        assert (caught.value.file, caught.value.key) == (name, prefix + key)
