"""variants/ and workloads/ are read whole, or one error says which file and key to mend."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import catalog
from interlock.errors import CatalogError, UsageError
from tests.builders import PROMISED, ROOT, edit

PTH = "variants/cpython-2.7-pth.toml"
WORKLOAD = """
summary = "a probe"
unit = "turn"
deadline_s = 5
quick = { warmups = 0, values = 1 }
full = { warmups = 0, values = 1 }
"""
BENCHMARK = """
[[benchmarks]]
name = "turn"
metric = { label = "s", scale = 1 }
profile_metric = { label = "futex", scale = 1 }
"""


def refusal(project: Path) -> str:
    with pytest.raises(CatalogError) as caught:
        catalog.load(project)
    return str(caught.value)


def test_the_real_catalog_has_every_promised_variant() -> None:
    assert set(PROMISED) <= set(catalog.load(ROOT).variants)


def test_the_variant_on_pth_carries_its_library_its_control_and_its_proof() -> None:
    variant = catalog.load(ROOT).variants["cpython-2.7-pth"]
    assert [part.file for part in variant.parts] == ["pth-2.0.7.tar.gz", "Python-2.7.18.tgz"]
    assert variant.control == "cpython-2.7"
    assert variant.proof.thread_library == "libpth.so.20"
    assert variant.major == "2"


def test_every_control_has_the_version_series_of_its_variant() -> None:
    variants = catalog.load(ROOT).variants
    pairs = [(variant, variants[variant.control]) for variant in variants.values() if variant.control]
    assert pairs
    for variant, control in pairs:
        assert variant.version.split(".")[:2] == control.version.split(".")[:2], variant.name


def test_an_unknown_key_names_file_key_and_value(project: Path) -> None:
    edit(project, PTH, 'tag = "2.7-pth"', 'tag = "2.7-pth"\ncolour = "red"')
    assert refusal(project) == (
        f"{PTH}, key 'colour': unknown key (its value is 'red'). Remove it or correct its spelling."
    )


def test_an_unknown_key_in_a_table_is_named_with_its_table(project: Path) -> None:
    edit(project, PTH, 'gil = "on"', 'gil = "on"\nspeed = 9')
    assert refusal(project).startswith(f"{PTH}, key 'proof.speed': unknown key (its value is 9)")


def test_a_missing_sum_is_named_with_its_source(project: Path) -> None:
    edit(project, PTH, 'sha256 = "da3080e3b488f648a3d7a4560ddee895284c3380b11d6de75edb986526b9a814"\n', "")
    text = refusal(project)
    assert text.startswith(f"{PTH}, key 'interpreter.sha256': the key is missing.")
    assert "Add it (variants/variant.schema.json has all of them)." in text


def test_a_sum_of_the_wrong_length_is_shown(project: Path) -> None:
    edit(project, PTH, "da3080e3b488f648a3d7a4560ddee895284c3380b11d6de75edb986526b9a814", "da3080e3")
    text = refusal(project)
    assert text.startswith(f"{PTH}, key 'interpreter.sha256': found 'da3080e3'.")
    assert "[0-9a-f]{64}" in text


def test_two_variants_with_one_tag_are_both_named(project: Path) -> None:
    edit(project, PTH, 'tag = "2.7-pth"', 'tag = "2.7"')
    assert refusal(project) == (
        f"{PTH}, key 'tag': 'interlock/python:2.7-trixie' is the tag of variants/cpython-2.7.toml too. "
        "Give each variant a tag of its own."
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            'control = "cpython-2.7"',
            'control = "cpython-2.8"',
            "key 'control': 'cpython-2.8' does not exist. Name one of: ",
        ),
        ('base = "trixie"', 'base = "potato"', "key 'base': 'potato' does not exist. Name one of: trixie."),
    ],
)
def test_a_reference_to_nothing_names_what_exists(project: Path, old: str, new: str, expected: str) -> None:
    edit(project, PTH, old, new)
    text = refusal(project)
    assert text.startswith(f"{PTH}, {expected}")
    assert "trixie" in text or "cpython-2.7-nothreads" in text


def test_invalid_toml_is_named_with_its_line(project: Path) -> None:
    edit(project, PTH, "[proof]", "[proof")
    text = refusal(project)
    assert text.startswith(f"{PTH}: not valid TOML: ")
    assert "line 7" in text
    assert text.endswith("Correct the syntax there.")


def test_a_file_that_is_not_text_is_named(project: Path) -> None:
    (project / PTH).write_bytes(b"\xff\xfe\x00")
    assert refusal(project).startswith(f"{PTH}: not valid TOML: ")


@pytest.mark.parametrize("patch", ["missing.patch", "missing.diff"])
def test_a_patch_that_is_not_there_is_named(project: Path, patch: str) -> None:
    edit(project, PTH, "parallel = false", f'patches = ["{patch}"]\nparallel = false')
    assert refusal(project) == (
        f"{PTH}, key 'patches': variants/patches/{patch} does not exist. Add the file or correct the name."
    )


def test_a_patch_that_is_there_is_accepted_and_read(project: Path) -> None:
    (project / "variants/patches").mkdir(exist_ok=True)
    (project / "variants/patches/mend.patch").write_text("--- a\n", encoding="utf-8")
    edit(project, PTH, "parallel = false", 'patches = ["mend.patch"]\nparallel = false')
    assert catalog.load(project).variants["cpython-2.7-pth"].libraries[0].patches == ["mend.patch"]
    assert catalog.patches(project)["mend.patch"] == "--- a\n"


def test_a_patch_that_the_catalog_accepts_is_read_whatever_its_ending(project: Path) -> None:
    (project / "variants/patches").mkdir(exist_ok=True)
    (project / "variants/patches/mend.diff").write_text("--- a\n", encoding="utf-8")
    edit(project, PTH, "parallel = false", 'patches = ["mend.diff"]\nparallel = false')
    catalog.load(project)
    assert catalog.patches(project) == {"mend.diff": "--- a\n"}


def test_one_archive_with_two_sums_names_both_variants(project: Path) -> None:
    edit(project, PTH, "da3080e3", "00000000")
    assert refusal(project) == (
        f"{PTH}, key 'sha256': Python-2.7.18.tgz has another sum than in variants/cpython-2.7.toml. "
        "Use the sum that upstream publishes in both."
    )


@pytest.mark.parametrize(
    "place", ["ftp://example.org/a.tgz", "dists/a.tgz", "https://example.org/$(id)", "pool/a;b", "https://e/a b"]
)
def test_a_place_that_is_no_plain_url_is_refused(project: Path, place: str) -> None:
    edit(project, PTH, '"https://ftp.gnu.org/gnu/pth/pth-2.0.7.tar.gz"', f'"{place}"')
    text = refusal(project)
    assert text.startswith(f"{PTH}, key 'libraries.0.places.0': found '{place}'.")
    assert "(https?://|pool/)" in text


def test_a_workload_with_nothing_to_run_is_refused(project: Path) -> None:
    (project / "workloads/probe.toml").write_text(WORKLOAD + BENCHMARK, encoding="utf-8")
    text = refusal(project)
    assert text.startswith("workloads/probe.toml: benchmark 'turn' needs either its own command or the workload's")
    assert text.endswith("Correct the file.")


def test_a_workload_whose_program_is_not_there_is_refused(project: Path) -> None:
    (project / "workloads/probe.toml").write_text(f'program = "probe.py"{WORKLOAD}{BENCHMARK}', encoding="utf-8")
    assert refusal(project) == (
        "workloads/probe.toml, key 'program': workloads/probe.py does not exist. Add the file or correct the name."
    )


def test_two_benchmarks_of_one_name_are_refused_because_their_values_would_be_mixed(project: Path) -> None:
    text = f'program = "locks.py"{WORKLOAD}{BENCHMARK}{BENCHMARK}'
    (project / "workloads/probe.toml").write_text(text, encoding="utf-8")
    assert "turn" in refusal(project)


def test_a_missing_shared_file_is_named(project: Path) -> None:
    (project / "variants/profiles.toml").unlink()
    assert refusal(project) == "variants/profiles.toml: the file is missing. Restore it from git."


def test_a_shared_file_with_a_bare_key_is_refused(project: Path) -> None:
    (project / "variants/profiles.toml").write_text('optimise = "-O3"\n', encoding="utf-8")
    assert refusal(project).startswith("variants/profiles.toml, key 'optimise")


def test_a_profile_that_a_variant_has_must_exist(project: Path) -> None:
    text = (project / "variants/profiles.toml").read_text(encoding="utf-8")
    (project / "variants/profiles.toml").write_text(text.split("[release]")[0], encoding="utf-8")
    assert "release" in refusal(project)


def test_find_root_finds_the_project_from_a_folder_below_it(project: Path) -> None:
    assert catalog.find_root(project / "variants") == project


def test_find_root_outside_a_project_says_what_it_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        catalog.find_root(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: no folder from here up has variants/bases.toml and workloads/. "
        "Run interlock inside a clone of the project."
    )


@pytest.mark.parametrize("wanted", [None, []])
def test_no_wanted_name_means_all_of_them(wanted: list[str] | None) -> None:
    assert catalog.select_names(["b", "a"], wanted, "variant") == ["b", "a"]


def test_wanted_names_keep_their_order_and_come_once() -> None:
    assert catalog.select_names(["a", "b", "c"], ["c", "a", "c"], "variant") == ["c", "a"]


def test_a_name_that_does_not_exist_is_shown_with_those_that_do() -> None:
    with pytest.raises(UsageError, match=r"there is no workload 'z'\. Choose from: a, b\."):
        catalog.select_names(["a", "b"], ["a", "z"], "workload")


@given(st.lists(st.sampled_from("abc"), min_size=1))
def test_a_selection_has_each_wanted_name_once(wanted: list[str]) -> None:
    chosen = catalog.select_names("abc", wanted, "variant")
    assert sorted(chosen) == sorted(set(wanted))
