"""variants/ and workloads/ are read whole, or one error says which file and key to mend."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.catalog import project as catalogs
from interlock.catalog.types import MOUNT
from interlock.catalog.variants import PRODUCTION, Finish, Mode, Source, Surroundings
from interlock.errors import CatalogError, UsageError
from tests.builders import PROMISED, ROOT, edit, make_variant, make_workload

PTH = "variants/cpython-2.7-pth.toml"
CONDITIONS = "workloads/conditions.toml"
CLAIMS = "workloads/claims.toml"
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


def refused(project: Path) -> CatalogError:
    with pytest.raises(CatalogError) as caught:
        catalogs.load(project)
    return caught.value


def refusal(project: Path) -> str:
    with pytest.raises(CatalogError) as caught:
        catalogs.load(project)
    return str(caught.value)


def test_the_real_catalog_has_every_promised_variant() -> None:
    assert set(PROMISED) <= catalogs.load(ROOT).variants.keys()


def test_a_new_variant_is_one_new_file(project: Path) -> None:
    text = (project / "variants/debian-3.13.toml").read_text(encoding="utf-8")
    (project / "variants/mine.toml").write_text(text.replace('tag = "3.13-debian"', 'tag = "mine"'), encoding="utf-8")
    assert catalogs.load(project).variants.keys() - catalogs.load(ROOT).variants.keys() == {"mine"}


def test_the_variant_on_pth_carries_its_library_its_control_and_its_proof() -> None:
    variant = catalogs.load(ROOT).variants["cpython-2.7-pth"]
    assert [part.file for part in variant.parts] == ["pth-2.0.7.tar.gz", "Python-2.7.18.tgz"]
    assert variant.control == "cpython-2.7"
    assert variant.proof.thread_library == "libpth.so.20"
    assert variant.major == "2"


def test_every_control_has_the_version_series_of_its_variant() -> None:
    variants = catalogs.load(ROOT).variants
    pairs = [(variant, variants[variant.control]) for variant in variants.values() if variant.control]
    assert pairs
    for variant, control in pairs:
        assert variant.version.split(".")[:2] == control.version.split(".")[:2], variant.name


def test_the_mode_of_2007_preloads_a_library_that_the_instruments_have() -> None:
    (mode,) = (one for one in catalogs.load(ROOT).variants["cpython-2.7"].modes if one.name == "waking-sem-post")
    library = Path(mode.environment["LD_PRELOAD"])
    assert library.parent == Path(MOUNT)
    assert (ROOT / "dockerfiles/instruments" / library.with_suffix(".c").name).is_file()
    assert f"-o {library.name} " in (ROOT / "dockerfiles/instruments/make.sh").read_text(encoding="utf-8")


def test_each_condition_differs_from_production_in_one_thing() -> None:
    conditions = catalogs.load(ROOT).conditions
    assert list(conditions) == [
        "seccomp-unconfined",
        "interpreter-on-tmpfs",
        "scratch-on-image",
        "interpreter-on-image",
        "interpreter-on-bind-mount",
    ]
    usual = dict(PRODUCTION)
    for name, condition in conditions.items():
        changed = {key for key in Surroundings.model_fields if getattr(condition, key) != usual[key]}
        assert changed == {name.partition("-")[0]}, name


def test_an_unknown_key_names_file_key_and_value(project: Path) -> None:
    edit(project, PTH, 'tag = "2.7-pth"', 'tag = "2.7-pth"\ncolour = "red"')
    error = refused(project)
    assert (error.file, error.key) == (PTH, "colour")
    assert "'red'" in error.found


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('family = "gnu-pth"', 'famly = "gnu-pth"', "family"),
        ('thread_flavour = "gnu-pth"', 'thread_flavor = "gnu-pth"', "thread_flavour"),
        ("parallel = false", "paralel = false", "parallel"),
    ],
)
def test_a_misspelt_key_is_answered_with_the_nearest_one(project: Path, old: str, new: str, key: str) -> None:
    path = project / PTH
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, f"{old}\n{new}"), encoding="utf-8")
    assert f"'{key}'?" in refusal(project)


def test_an_unknown_key_in_a_table_is_named_with_its_table(project: Path) -> None:
    edit(project, PTH, 'gil = "on"', 'gil = "on"\nspeed = 9')
    error = refused(project)
    assert (error.file, error.key) == (PTH, "proof.speed")
    assert "9" in error.found


def test_a_missing_sum_is_named_with_its_source(project: Path) -> None:
    edit(project, PTH, 'sha256 = "da3080e3b488f648a3d7a4560ddee895284c3380b11d6de75edb986526b9a814"\n', "")
    error = refused(project)
    assert (error.file, error.key) == (PTH, "interpreter.sha256")
    assert Source.model_fields["sha256"].description, "what the key is for is in the schema's description"
    assert Source.model_fields["sha256"].description.rstrip(".") in error.todo


def test_a_sum_of_the_wrong_length_is_shown(project: Path) -> None:
    edit(project, PTH, "da3080e3b488f648a3d7a4560ddee895284c3380b11d6de75edb986526b9a814", "da3080e3")
    error = refused(project)
    assert (error.file, error.key) == (PTH, "interpreter.sha256")
    assert "'da3080e3'" in error.found
    assert "[0-9a-f]{64}" in error.todo


def test_two_variants_with_one_tag_are_both_named(project: Path) -> None:
    edit(project, PTH, 'tag = "2.7-pth"', 'tag = "2.7"')
    error = refused(project)
    assert (error.file, error.key) == (PTH, "tag")
    assert "variants/cpython-2.7.toml" in error.found
    assert "'localhost/interlock/python:2.7-trixie'" in error.found


@pytest.mark.parametrize(
    ("key", "right", "wrong", "nearest"),
    [
        ("control", "cpython-2.7", "cpython-2.7-pht", "cpython-2.7-pth"),
        ("base", "trixie", "trixy", "trixie"),
        ("family", "gnu-pth", "pth", "gnu-pth"),
    ],
)
def test_a_reference_to_nothing_names_the_nearest_name(
    project: Path, key: str, right: str, wrong: str, nearest: str
) -> None:
    edit(project, PTH, f'{key} = "{right}"', f'{key} = "{wrong}"')
    error = refused(project)
    assert (error.file, error.key) == (PTH, key)
    assert f"'{wrong}'" in error.found
    assert f"'{nearest}'" in error.todo


def test_invalid_toml_is_named_with_its_line(project: Path) -> None:
    edit(project, PTH, "[proof]", "[proof")
    error = refused(project)
    assert (error.file, error.key) == (PTH, "")
    lines = (project / PTH).read_text(encoding="utf-8").splitlines()
    assert f"line {lines.index('[proof') + 1}" in error.found


def test_a_file_that_is_not_text_is_named(project: Path) -> None:
    (project / PTH).write_bytes(b"\xff\xfe\x00")
    error = refused(project)
    assert (error.file, error.key) == (PTH, "")


@pytest.mark.parametrize("patch", ["missing.patch", "missing.diff"])
def test_a_patch_that_is_not_there_is_named(project: Path, patch: str) -> None:
    edit(project, PTH, "parallel = false", f'patches = ["{patch}"]\nparallel = false')
    error = refused(project)
    assert (error.file, error.key) == (PTH, "patches")
    assert f"variants/patches/{patch}" in error.found


def test_a_patch_that_is_there_is_accepted_and_read(project: Path) -> None:
    (project / "variants/patches").mkdir(exist_ok=True)
    (project / "variants/patches/mend.patch").write_text("--- a\n", encoding="utf-8")
    edit(project, PTH, "parallel = false", 'patches = ["mend.patch"]\nparallel = false')
    assert catalogs.load(project).variants["cpython-2.7-pth"].libraries[0].patches == ["mend.patch"]
    assert catalogs.read_texts(project).patches["mend.patch"] == "--- a\n"


def test_a_patch_that_the_catalog_accepts_is_read_whatever_its_ending(project: Path) -> None:
    (project / "variants/patches").mkdir(exist_ok=True)
    (project / "variants/patches/mend.diff").write_text("--- a\n", encoding="utf-8")
    edit(project, PTH, "parallel = false", 'patches = ["mend.diff"]\nparallel = false')
    catalogs.load(project)
    assert catalogs.read_texts(project).patches["mend.diff"] == "--- a\n"


@pytest.mark.parametrize(
    ("old", "new", "key", "file"),
    [
        ('["renew-config-guess.sh"]', '["no.sh"]', "prepare", "steps/no.sh"),
        (
            "parallel = false",
            'signature = { key = "no.asc", places = ["https://example.org/a.asc"] }\nparallel = false',
            "signature.key",
            "keys/no.asc",
        ),
        ("[proof]", '[finish]\nsteps = ["no.sh"]\n\n[proof]', "finish.steps", "steps/no.sh"),
    ],
    ids=["prepare", "signature", "finish"],
)
def test_a_script_or_a_key_that_is_not_there_is_named(project: Path, old: str, new: str, key: str, file: str) -> None:
    edit(project, PTH, old, new)
    error = refused(project)
    assert (error.file, error.key) == (PTH, key)
    assert f"variants/{file}" in error.found


def test_scripts_and_keys_that_are_there_are_accepted_and_read(project: Path) -> None:
    for folder, name in (("steps", "a.sh"), ("steps", "b.sh"), ("keys", "somebody.asc")):
        (project / "variants" / folder).mkdir(exist_ok=True)
        (project / "variants" / folder / name).write_text(f"# {name}\n", encoding="utf-8")
    signature = 'signature = { key = "somebody.asc", places = ["pool/main/p/pth.asc"] }'
    edit(project, PTH, 'prepare = ["renew-config-guess.sh"]', f'prepare = ["a.sh"]\n{signature}')
    edit(project, PTH, "[proof]", '[finish]\nsteps = ["b.sh"]\n\n[proof]')
    variant = catalogs.load(project).variants["cpython-2.7-pth"]
    assert variant.libraries[0].prepare == ["a.sh"]
    assert variant.finish == Finish(steps=["b.sh"])
    texts = catalogs.read_texts(project)
    assert (texts.steps["a.sh"], texts.steps["b.sh"]) == ("# a.sh\n", "# b.sh\n")
    assert texts.keys["somebody.asc"] == "# somebody.asc\n"


def test_the_texts_of_generated_files_are_the_templates_and_what_they_share() -> None:
    texts = catalogs.read_texts(ROOT)
    templates = {path.name for path in (ROOT / "dockerfiles").glob("*.j2")}
    assert texts.templates.keys() == {*templates, "fetch.sh"}
    for folder, read in (("patches", texts.patches), ("steps", texts.steps), ("keys", texts.keys)):
        assert read.keys() == {path.name for path in (ROOT / "variants" / folder).iterdir()}


BORROWER = """
summary = "3.13 with its library in a zip file"
version = "3.13.5"
base = "trixie"
tag = "borrower"
family = "imports"
build_of = "cpython-3.13"

[support]
phase = "security"

[proof]
thread_flavour = "pthread"
gil = "on"
thread_library = "libc.so.6"

[finish]
steps = ["zip.sh"]
"""


@pytest.fixture
def borrower(project: Path) -> str:
    """A variant that shares the build of 3.13."""
    (project / "variants/borrower.toml").write_text(BORROWER, encoding="utf-8")
    (project / "variants/steps").mkdir(exist_ok=True)
    (project / "variants/steps/zip.sh").write_text("", encoding="utf-8")
    return "variants/borrower.toml"


def test_a_variant_that_shares_a_build_has_all_of_it_and_its_own_finish(project: Path, borrower: str) -> None:
    variants = catalogs.load(project).variants
    one, owner = variants["borrower"], variants["cpython-3.13"]
    assert one.parts == owner.parts != []
    assert (one.libraries, one.build_packages, one.release) == (
        owner.libraries,
        owner.build_packages,
        owner.release,
    )
    assert (one.shared_build, one.build_of, one.build_name) == ("cpython-3.13", None, "cpython-3.13")
    assert one.finish == Finish(steps=["zip.sh"])
    assert one.profiles == owner.profiles
    assert one.modes == [], "a mode is the variant's own"


def test_a_build_is_shared_whichever_of_the_two_files_comes_first(project: Path, borrower: str) -> None:
    (project / borrower).rename(project / "variants/zzz.toml")
    assert catalogs.load(project).variants["zzz"].interpreter is not None


@pytest.mark.parametrize("owner", ["cpython-9.9", "official-3.13", "debian-3.13", "borrower"])
def test_a_variant_without_a_build_cannot_lend_one(project: Path, borrower: str, owner: str) -> None:
    edit(project, borrower, 'build_of = "cpython-3.13"', f'build_of = "{owner}"')
    error = refused(project)
    assert (error.file, error.key) == (borrower, "build_of")
    assert f"'{owner}'" in error.found


def test_a_variant_that_finishes_in_a_way_of_its_own_cannot_lend_its_build(project: Path, borrower: str) -> None:
    edit(project, "variants/cpython-3.13.toml", "[proof]", '[finish]\nsteps = ["zip.sh"]\n\n[proof]')
    error = refused(project)
    assert (error.file, error.key) == (borrower, "build_of")
    assert "'cpython-3.13'" in error.found


def test_a_file_cannot_say_who_lends_to_it_but_by_build_of(project: Path, borrower: str) -> None:
    edit(project, borrower, 'build_of = "cpython-3.13"', 'shared_build = "cpython-3.13"')
    assert refusal(project).startswith(f"{borrower}, key 'shared_build': unknown key")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ('[prefix]\nplaces = ["~/python"]\n[image]\nreference = "x@sha256:{sum}"\n', ("image", "prefix")),
    ],
)
def test_a_variant_whose_interpreter_comes_from_no_place_or_two_names_those_found(
    project: Path, borrower: str, text: str, found: tuple[str, ...]
) -> None:
    (project / borrower).write_text(
        BORROWER.replace('build_of = "cpython-3.13"\n', "").split("[finish]")[0] + text.replace("{sum}", "0" * 64),
        encoding="utf-8",
    )
    error = refused(project)
    assert (error.file, error.key) == (borrower, "")
    kinds, _, named = error.found.rpartition("found")
    assert all(kind in kinds for kind in ("interpreter", "image", "prefix", "packages", "build_of"))
    assert tuple(kind for kind in ("interpreter", "image", "prefix", "packages") if kind in named) == found


def test_an_image_without_a_digest_is_refused(project: Path) -> None:
    text = (project / "variants/official-3.13.toml").read_text(encoding="utf-8")
    pinned = text[text.index("@sha256:") :].split('"')[0]
    edit(project, "variants/official-3.13.toml", pinned, "")
    assert refusal(project).startswith("variants/official-3.13.toml, key 'image.reference': found 'python:")


def test_a_file_of_the_finish_has_one_sum_as_every_other(project: Path, borrower: str) -> None:
    text = (project / borrower).read_text(encoding="utf-8")
    download = '[[finish.downloads]]\nfile = "Python-3.13.5.tar.xz"\nplaces = ["pip/a==1"]\n'
    (project / borrower).write_text(f'{text}{download}sha256 = "{"0" * 64}"\n', encoding="utf-8")
    error = refused(project)
    assert error.key == "sha256"
    assert "Python-3.13.5.tar.xz" in error.found


def test_one_archive_with_two_sums_names_both_variants(project: Path) -> None:
    edit(project, PTH, "da3080e3", "00000000")
    text = refusal(project)
    assert text.startswith(f"{PTH}, key 'sha256': Python-2.7.18.tgz ")
    assert "variants/cpython-2.7.toml" in text


@pytest.mark.parametrize(
    "place",
    ["ftp://example.org/a.tgz", "dists/a.tgz", "https://example.org/$(id)", "pool/a;b", "https://e/a b", "pip/a b==1"],
)
def test_a_place_that_is_no_plain_url_is_refused(project: Path, place: str) -> None:
    edit(project, PTH, '"https://ftp.gnu.org/gnu/pth/pth-2.0.7.tar.gz"', f'"{place}"')
    text = refusal(project)
    assert text.startswith(f"{PTH}, key 'libraries.0.places.0': found '{place}'.")
    assert "((https?://|pool/)" in text


def test_a_workload_with_nothing_to_run_is_refused(project: Path) -> None:
    (project / "workloads/probe.toml").write_text(WORKLOAD + BENCHMARK, encoding="utf-8")
    error = refused(project)
    assert error.file == "workloads/probe.toml"
    assert "'turn'" in error.found
    assert "command" in error.found


def test_a_program_that_is_not_there_is_its_own_cells_failure_and_no_other_workload_s(project: Path) -> None:
    (project / "workloads/probe.toml").write_text(f'program = "probe.py"{WORKLOAD}{BENCHMARK}', encoding="utf-8")
    assert catalogs.load(project).workloads["probe"].program == "probe.py"


def test_every_program_that_a_workload_of_the_project_names_is_there() -> None:
    for workload in catalogs.load(ROOT).workloads.values():
        for program in {workload.program_of(benchmark) for benchmark in workload.benchmarks} - {None}:
            assert (ROOT / f"workloads/{program}").is_file(), workload.name


@pytest.mark.parametrize(
    ("head", "key", "named"),
    [
        ('requirements = ["a b"]', "requirements.0", ["'a b'"]),
        ('requirements = ["a @ file:///a"]', "requirements.0", ["'a @ file:///a'"]),
        ('requires_python = "new"', "requires_python", ["'new'"]),
        ('kind = "pyperf"', "", ["'pyperf'", "program"]),
        ('kind = "pyperf"\nprogram = "../a.py"', "program", ["'../a.py'"]),
        ('kind = "pyperf"\nprogram = "a.py"\nmetric = { label = "s", scale = 1 }', "", ["'pyperf'", "metric"]),
        ('kind = "pyperf"\nprogram = "a.py"', "", ["'profile_metric'", "'pyperf'", "'turn'"]),
        ('kind = "command"\nprogram = "a.py"', "", ["'command'"]),
        ('program = "a.py"\narguments = ["x"]', "", ["'arguments'", "'metric'", "pyperf"]),
        ('kind = "perf"', "kind", ["'perf'"]),
    ],
)
def test_what_is_wrong_with_a_workload_that_a_user_brings_is_named(
    project: Path, head: str, key: str, named: list[str]
) -> None:
    (project / "workloads/probe.toml").write_text(f"{head}{WORKLOAD}{BENCHMARK}", encoding="utf-8")
    error = refused(project)
    assert (error.file, error.key) == ("workloads/probe.toml", key)
    assert all(one in str(error) for one in named), error


def test_two_benchmarks_of_one_name_are_refused_because_their_values_would_be_mixed(project: Path) -> None:
    text = f'program = "locks.py"{WORKLOAD}{BENCHMARK}{BENCHMARK}'
    (project / "workloads/probe.toml").write_text(text, encoding="utf-8")
    assert "turn" in refusal(project)


def test_a_missing_shared_file_is_named(project: Path) -> None:
    (project / "variants/profiles.toml").unlink()
    assert refused(project).file == "variants/profiles.toml"


def test_a_shared_file_with_a_bare_key_is_refused(project: Path) -> None:
    (project / "variants/profiles.toml").write_text('optimise = "-O3"\n', encoding="utf-8")
    assert refusal(project).startswith("variants/profiles.toml, key 'optimise")


def test_a_profile_that_a_variant_has_must_exist(project: Path) -> None:
    text = (project / "variants/profiles.toml").read_text(encoding="utf-8")
    (project / "variants/profiles.toml").write_text(text.split("[release]")[0], encoding="utf-8")
    assert "release" in refusal(project)


def test_a_condition_that_asks_for_what_no_engine_has_is_shown(project: Path) -> None:
    edit(project, CONDITIONS, 'seccomp = "unconfined"', 'seccomp = "none"')
    assert refusal(project).startswith(f"{CONDITIONS}, key 'seccomp-unconfined.seccomp': found 'none'.")


def test_a_condition_outside_of_any_table_is_refused(project: Path) -> None:
    (project / CONDITIONS).write_text('seccomp = "unconfined"\n', encoding="utf-8")
    error = refused(project)
    assert (error.file, error.key) == (CONDITIONS, "seccomp")
    assert "'unconfined'" in error.found


def test_a_condition_cannot_be_called_what_the_twin_is_called(project: Path) -> None:
    edit(project, CONDITIONS, "[scratch-on-image]", "[twin]")
    error = refused(project)
    assert (error.file, error.key) == (CONDITIONS, "twin")


def test_a_workload_with_cold_benchmarks_asks_to_be_the_owner_of_its_files(project: Path) -> None:
    assert catalogs.load(project).workloads["import-stdlib"].rights == ["root"]
    edit(project, "workloads/import-stdlib.toml", 'rights = ["root"]\n', "")
    error = refused(project)
    assert (error.file, error.key) == ("workloads/import-stdlib.toml", "rights")


@pytest.mark.parametrize("kept", ["benchmarks", "limits"])
def test_a_workload_that_writes_to_a_disk_asks_for_it(project: Path, kept: str) -> None:
    assert catalogs.load(project).workloads["download"].rights == ["disk"]
    path = project / "workloads/download.toml"
    begin = '"--destination", "{disk}"' if kept == "limits" else "{disk}/limit"
    path.write_text(path.read_text().replace(begin, begin.replace("{disk}", "{scratch}")))
    edit(project, "workloads/download.toml", 'rights = ["disk"]\n', 'rights = ["root"]\n')
    error = refused(project)
    assert (error.file, error.key) == ("workloads/download.toml", "rights")
    assert '["root", "disk"]' in error.todo


@pytest.mark.parametrize(
    ("name", "owner"),
    [("twin", "reserved"), ("scratch-on-image", CONDITIONS)],
)
def test_a_mode_cannot_be_called_what_else_stands_behind_the_plus(project: Path, name: str, owner: str) -> None:
    edit(project, "variants/cpython-2.7.toml", 'name = "waking-sem-post"', f'name = "{name}"')
    error = refused(project)
    assert (error.file, error.key) == ("variants/cpython-2.7.toml", "modes")
    assert f"'{name}'" in error.found
    assert owner in error.found


def test_two_modes_of_one_name_are_refused(project: Path) -> None:
    mode = '[[modes]]\nname = "quiet"\nsummary = "without a word"\n'
    path = project / PTH
    path.write_text(path.read_text(encoding="utf-8") + mode * 2, encoding="utf-8")
    error = refused(project)
    assert error.file == PTH
    assert "'quiet'" in error.found


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('name = "waking-sem-post"', 'name = "a+b"', "modes.0.name"),
        ("{ LD_PRELOAD", "{ LD-PRELOAD", "modes.0.environment.LD-PRELOAD"),
        ("environment = { LD_PRELOAD", "enviroment = { LD_PRELOAD", "modes.0.enviroment"),
    ],
)
def test_a_slip_in_a_mode_is_named_with_its_place(project: Path, old: str, new: str, key: str) -> None:
    edit(project, "variants/cpython-2.7.toml", old, new)
    assert refusal(project).startswith(f"variants/cpython-2.7.toml, key '{key}")


def claims_refusal(project: Path) -> str:
    with pytest.raises(CatalogError) as caught:
        catalogs.load_claims(project)
    return str(caught.value)


def test_claims_are_no_workload_and_are_read_with_their_names_and_sources(project: Path) -> None:
    assert "claims" not in catalogs.load(project).workloads
    claims = catalogs.load_claims(project)
    assert claims[0].name == "pth-futex-calls-today"
    assert claims[0].source.title == "GNU pth instead of pthread: hardcore python tuning"


def test_a_slip_in_a_claim_is_named_with_the_claim(project: Path) -> None:
    edit(project, CLAIMS, "tolerance = 0.001", "tolerence = 0.001")
    assert claims_refusal(project).startswith(f"{CLAIMS}, key 'claims.pth-futex-calls-today.tolerance': ")


def test_a_claim_whose_source_the_file_lacks_is_named(project: Path) -> None:
    edit(project, CLAIMS, "[sources.gnu-pth]", "[sources.gnu]")
    text = claims_refusal(project)
    assert text.startswith(f"{CLAIMS}: claim 'pth-futex-calls-today' ")
    assert "'gnu-pth'" in text


@pytest.mark.parametrize(
    ("text", "key", "named"),
    [
        ("[claims", "", ""),
        ("", "claims", ""),
        ("claims = 3", "claims", "3"),
        ("[claims]", "claims", "{}"),
        ("[claims]\nhalf = 0.5", "claims.half", "0.5"),
        ("sources = 3\n[claims.half]", "sources", "3"),
        ("[claims.half]\nsource = 3", "claims.half.statement", ""),
        ("[claims.half]\nsource = []", "claims.half.statement", ""),
        ("[claim.half]", "claims", ""),
    ],
)
def test_a_file_of_claims_that_is_none_is_refused(tmp_path: Path, text: str, key: str, named: str) -> None:
    (tmp_path / "gate.toml").write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError) as caught:
        catalogs.load_claims(tmp_path, tmp_path / "gate.toml")
    assert (caught.value.file, caught.value.key) == ("gate.toml", key)
    assert named in caught.value.found


def test_a_file_of_claims_outside_of_the_project_is_named_whole(project: Path, tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as caught:
        catalogs.load_claims(project, tmp_path / "gate.toml")
    assert caught.value.file == f"{tmp_path}/gate.toml"


def test_find_root_finds_the_project_from_a_folder_below_it(project: Path) -> None:
    assert catalogs.find_root(project / "variants") == project


def test_find_root_outside_a_project_says_what_it_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        catalogs.find_root(tmp_path)
    assert caught.value.file == str(tmp_path)
    assert all(name in caught.value.found for name in ("variants/bases.toml", "workloads/"))


@pytest.mark.parametrize("wanted", [None, []])
def test_no_wanted_name_means_all_of_them(wanted: list[str] | None) -> None:
    assert catalogs.select_names(["b", "a"], wanted, "variant") == ["b", "a"]


def test_wanted_names_keep_their_order_and_come_once() -> None:
    assert catalogs.select_names(["a", "b", "c"], ["c", "a", "c"], "variant") == ["c", "a"]


def test_a_name_that_does_not_exist_is_shown_with_those_that_do() -> None:
    with pytest.raises(UsageError, match=r"workload 'z'.*a, b"):
        catalogs.select_names(["a", "b"], ["a", "z"], "workload")


@given(st.lists(st.sampled_from("abc"), min_size=1))
def test_a_selection_has_each_wanted_name_once(wanted: list[str]) -> None:
    chosen = catalogs.select_names("abc", wanted, "variant")
    assert sorted(chosen) == sorted(set(wanted))


VARIANTS = {
    "a": make_variant("a", modes=[Mode(name="slow", summary="slowly"), Mode(name="loud", summary="loudly")]),
    "b": make_variant("b"),
}


@pytest.mark.parametrize("wanted", [None, [], ["all"]])
def test_no_wanted_label_means_every_variant_and_every_mode_of_it(wanted: list[str] | None) -> None:
    assert catalogs.select_labels(VARIANTS, wanted) == ["a", "a+slow", "a+loud", "b"]


def test_a_variant_that_is_named_alone_is_taken_without_its_modes() -> None:
    assert catalogs.select_labels(VARIANTS, ["a"]) == ["a"]


def test_a_mode_is_taken_without_its_variant_if_it_alone_is_named() -> None:
    assert catalogs.select_labels(VARIANTS, ["b", "a+loud", "b"]) == ["b", "a+loud"]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("a+quick", ["a", "'quick'", "loud, slow"]),
        ("b+slow", ["b", "'slow'"]),
        ("a+", ["a", "''", "loud, slow"]),
        ("a+twin", ["'twin'", "loud, slow"]),
        ("c+slow", ["'c'", "a, b"]),
    ],
)
def test_a_label_of_nothing_is_answered_with_what_there_is(label: str, expected: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        catalogs.select_labels(VARIANTS, [label])
    assert [text for text in expected if text not in str(caught.value)] == []


def test_the_core_set_has_what_is_declared_so_and_no_mode_with_its_variant(project: Path) -> None:
    known = catalogs.load(project)
    core = catalogs.select_labels(known.variants, ["core"])
    assert {"cpython-2.7", "cpython-2.7+waking-sem-post", "cpython-3.13", "debian-3.13"} <= set(core)
    assert "cpython-2.7+pth-preload" not in core
    declared = {name for name, variant in known.variants.items() if variant.core}
    assert {label for label in core if "+" not in label} == declared
    assert catalogs.select_workloads(known.workloads, ["core"]) == ["download", "import-loop", "locks", "startup"]
    quick = [
        known.workloads[name].for_experiment(quick=True) for name in ("download", "import-loop", "locks", "startup")
    ]
    # Nothing has to be built by pip before the first value.
    assert [benchmark.name for one in quick for benchmark in one.benchmarks if one.requirements_of(benchmark)] == []


def test_without_anything_declared_the_core_set_is_everything() -> None:
    assert catalogs.select_labels(VARIANTS, ["core"]) == ["a", "a+slow", "a+loud", "b"]
    workloads = {name: make_workload(name=name) for name in ("x", "y")}
    assert catalogs.select_workloads(workloads, ["core"]) == ["x", "y"]


@pytest.mark.parametrize(("chosen", "word"), [(["a", "b"], "all"), (["b"], "core"), (["a"], ""), (["b", "a"], "")])
def test_a_word_stands_for_all_names_or_for_the_core_set(chosen: list[str], word: str) -> None:
    assert catalogs.word_for(chosen, ["a", "b"], ["b"]) == word


@given(st.lists(st.sampled_from(["a", "a+slow", "a+loud", "b"]), min_size=1))
def test_a_choice_of_labels_selects_itself_again(wanted: list[str]) -> None:
    chosen = catalogs.select_labels(VARIANTS, wanted)
    assert catalogs.select_labels(VARIANTS, chosen) == chosen
    assert set(chosen) == set(wanted)


def test_a_variant_that_keeps_what_its_kind_of_source_lacks_declares_no_difference(project: Path) -> None:
    variants = catalogs.load(project).variants
    assert "libpython" in variants["cpython-3.13"].differences
    assert "libpython" not in variants["cpython-3.13-shared"].differences
    edit(project, "variants/cpython-3.13-shared.toml", 'keeps = ["libpython"]', 'keeps = ["libpyton"]')
    with pytest.raises(CatalogError, match=r"cpython-3.13-shared.toml, key 'keeps': .*'libpyton'.*'libpython'"):
        catalogs.load(project)


def test_a_name_that_is_too_long_for_a_file_is_refused(project: Path) -> None:
    edit(project, "variants/cpython-2.7.toml", 'patches = ["', f'patches = ["{"9" * 300}')
    error = refused(project)
    assert error.file == "variants/cpython-2.7.toml"
    assert "patches" in error.key
