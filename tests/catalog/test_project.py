"""variants/ and workloads/ are read whole, or one error says which file and key to mend."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from interlock import untrusted
from interlock.catalog import project as catalogs
from interlock.catalog.types import MOUNT
from interlock.catalog.variants import Finish
from interlock.errors import CatalogError, UsageError
from tests.builders import PROMISED, ROOT, edit

PTH = "variants/cpython-2.7-pth.toml"
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


SUM = "da3080e3b488f648a3d7a4560ddee895284c3380b11d6de75edb986526b9a814"
PLAIN, SOURCES = "variants/cpython-2.7.toml", "variants/sources.toml"
PLACE = "https://ftp.gnu.org/gnu/pth/pth-2.0.7.tar.gz"
MODE = '[[modes]]\nname = "quiet"\nsummary = "without a word"\n'
# What is written in place of what, the key that the error names, and what it says.
SLIPS: list[tuple[str, str, str, str, list[str]]] = [
    (PTH, 'tag = "2.7-pth"', 'tag = "2.7-pth"\ncolour = "red"', "colour", ["'red'"]),
    (PTH, 'gil = "on"', 'gil = "on"\nspeed = 9', "proof.speed", ["9"]),
    (PTH, 'family = "gnu-pth"', 'family = "gnu-pth"\nfamly = "gnu-pth"', "famly", ["'family'?"]),
    (PTH, 'gil = "on"', 'gil = "on"\nthread_flavor = "x"', "proof.thread_flavor", ["'thread_flavour'?"]),
    (PTH, "parallel = false", "paralel = false", "libraries.0.paralel", ["'parallel'?"]),
    (SOURCES, f'sha256 = "{SUM}"\n', "", "sources.2.7.18.sha256", ["the key is missing", "SHA-256 of the file"]),
    (SOURCES, SUM, "da3080e3", "sources.2.7.18.sha256", ["'da3080e3'", "[0-9a-f]{64}"]),
    (PTH, 'source = "2.7.18"\n', "", "source", ["the key is missing"]),
    (PTH, 'source = "2.7.18"', 'source = "2.7.81"', "source", ["'2.7.81'", "'2.7.18'"]),
    (PTH, 'source = "2.7.18"', 'source = "2.7.18"\nversion = "2.7.18"', "version", ["the source's"]),
    (PTH, 'source = "pth-2.0.7"', 'source = "pth-2.0"', "libraries.source", ["'pth-2.0'", "'pth-2.0.7'"]),
    ("variants/debian-3.13.toml", 'version = "3.13.5"\n', "", "version", ["the key is missing"]),
    ("variants/debian-3.13.toml", 'version = "3.13.5"', 'source = "3.13"\nversion = "3.13.5"', "source", ["'3.13'"]),
    (PTH, 'tag = "2.7-pth"', 'tag = "2.7"', "tag", [PLAIN, "'localhost/interlock/python:2.7-trixie'"]),
    (PTH, 'control = "cpython-2.7"', 'control = "cpython-2.7-pht"', "control", ["-pht'", "'cpython-2.7-pth'"]),
    (PTH, 'base = "trixie"', 'base = "trixy"', "base", ["'trixy'", "'trixie'"]),
    (PTH, 'family = "gnu-pth"', 'family = "pth"', "family", ["'pth'", "'gnu-pth'"]),
    *(
        (SOURCES, f'"{PLACE}"', f'"{place}"', "sources.pth-2.0.7.places.0", [f"'{place}'"])
        for place in ("ftp://e/a.tgz", "dists/a.tgz", "https://e/$(id)", "pool/a;b", "https://e/a b", "pip/a b==1")
    ),
    (PTH, "parallel = false", 'patches = ["no.patch"]\nparallel = false', "patches", ["variants/patches/no.patch"]),
    (PTH, '["renew-config-guess.sh"]', '["no.sh"]', "prepare", ["variants/steps/no.sh"]),
    (SOURCES, '"thomas-wouters.asc"', '"no.asc"', "sources.3.13.5.signature.key", ["variants/keys/no.asc"]),
    (SOURCES, 'file = "Python-3.13.15.tar.xz"', 'file = "Python-3.13.18.tar.xz"', "sources.3.13.15.sha256", [SOURCES]),
    (PTH, "[proof]", '[finish]\nsteps = ["no.sh"]\n\n[proof]', "finish.steps", ["variants/steps/no.sh"]),
    (PLAIN, 'patches = ["', f'patches = ["{"9" * 300}', "interpreter.patches.0", ["200"]),
    (PLAIN, 'name = "waking-sem-post"', 'name = "twin"', "modes", ["'twin'", "reserved"]),
    (PLAIN, 'name = "waking-sem-post"', 'name = "a+b"', "modes.0.name", ["'a+b'"]),
    (PLAIN, "{ LD_PRELOAD", "{ LD-PRELOAD", "modes.0.environment.LD-PRELOAD.[key]", ["'LD-PRELOAD'"]),
    (PLAIN, "environment = { LD_PRELOAD", "enviroment = { LD_PRELOAD", "modes.0.enviroment", ["'environment'?"]),
    ("workloads/import-stdlib.toml", 'rights = ["root"]\n', "", "rights", ["cold benchmarks"]),
    # The key that is there says more than the one that is missing for it.
    ("workloads/startup.toml", "\ndeadline_s", "\ndeadlines_s", "deadlines_s", ["'deadline_s'?"]),
    (PTH, "[proof]", f"{MODE}{MODE}[proof]", "", ["'quiet'"]),
    ("variants/cpython-3.13-shared.toml", '["libpython"]', '["libpyton"]', "keeps", ["'libpyton'", "'libpython'"]),
    ("variants/official-3.13.toml", "@sha256:", "-", "image.reference", ["found 'python:"]),
]


@pytest.mark.parametrize(("file", "old", "new", "key", "said"), SLIPS)
def test_a_slip_is_one_error_with_file_key_what_was_found_and_what_to_do(
    project: Path, file: str, old: str, new: str, key: str, said: list[str]
) -> None:
    path = project / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    error = refused(project)
    assert (error.file, error.key) == (file, key)
    assert error.todo
    assert [one for one in said if one not in str(error)] == []


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


@pytest.mark.parametrize("name", ["mend.patch", "mend.diff"])
def test_a_patch_that_is_there_is_accepted_and_read_whatever_its_ending(project: Path, name: str) -> None:
    (project / "variants/patches").mkdir(exist_ok=True)
    (project / "variants/patches" / name).write_text("--- a\n", encoding="utf-8")
    edit(project, PTH, "parallel = false", f'patches = ["{name}"]\nparallel = false')
    assert catalogs.load(project).variants["cpython-2.7-pth"].libraries[0].patches == [name]
    assert catalogs.read_texts(project).patches[name] == "--- a\n"


def test_scripts_and_keys_that_are_there_are_accepted_and_read(project: Path) -> None:
    for folder, name in (("steps", "a.sh"), ("steps", "b.sh"), ("keys", "somebody.asc")):
        (project / "variants" / folder).mkdir(exist_ok=True)
        (project / "variants" / folder / name).write_text(f"# {name}\n", encoding="utf-8")
    edit(project, SOURCES, 'key = "thomas-wouters.asc"', 'key = "somebody.asc"')
    edit(project, PTH, 'prepare = ["renew-config-guess.sh"]', 'prepare = ["a.sh"]')
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
    assert texts.templates.keys() == {*templates, "fetch.sh", "optimise.sh"}
    for folder, read in (("patches", texts.patches), ("steps", texts.steps), ("keys", texts.keys)):
        assert read.keys() == {path.name for path in (ROOT / "variants" / folder).iterdir()}


BORROWER = """
summary = "3.13 with its library in a zip file"
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
    assert (one.libraries, one.build_packages, one.optimise) == (
        owner.libraries,
        owner.build_packages,
        owner.optimise,
    )
    assert (one.shared_build, one.build_of, one.build_name) == ("cpython-3.13", None, "cpython-3.13")
    assert one.finish == Finish(steps=["zip.sh"])
    assert one.optimisations == owner.optimisations
    assert one.modes == [], "a mode is the variant's own"


def test_a_build_is_shared_whichever_of_the_two_files_comes_first(project: Path, borrower: str) -> None:
    (project / borrower).rename(project / "variants/zzz.toml")
    assert catalogs.load(project).variants["zzz"].interpreter is not None


@pytest.mark.parametrize("owner", ["cpython-9.9", "official-3.13", "debian-3.13", "borrower", "cpython-3.13"])
def test_a_variant_without_a_build_or_with_a_finish_of_its_own_cannot_lend_one(
    project: Path, borrower: str, owner: str
) -> None:
    edit(project, "variants/cpython-3.13.toml", "[proof]", '[finish]\nsteps = ["zip.sh"]\n\n[proof]')
    edit(project, borrower, 'build_of = "cpython-3.13"', f'build_of = "{owner}"')
    error = refused(project)
    assert (error.file, error.key) == (borrower, "build_of")
    assert f"'{owner}'" in error.found


def test_a_catalog_at_versions_has_those_that_a_variant_may_be_built_from() -> None:
    known = catalogs.load(ROOT)
    older = known.variants["cpython-3.13"].versions[-1]
    pinned = known.at({"cpython-3.13": older, "cpython-3.14": "9.9.9", "gone": "1.0.0"})
    assert pinned.variants["cpython-3.13"].versions == [older]
    assert pinned.variants["cpython-3.14"] == known.variants["cpython-3.14"]


def test_a_control_is_built_from_the_channel_of_its_variant() -> None:
    """Places are asked once: both are of the same release, whichever that is. The fork has a source of its own."""
    variants = catalogs.load(ROOT).variants
    pairs = [(one, variants[one.control]) for one in variants.values() if one.control and one.interpreter]
    assert {one.name for one, control in pairs if one.source != control.source} == {"nogil-3.9"}


def test_a_file_of_the_finish_has_one_sum_as_every_other(project: Path, borrower: str) -> None:
    text = (project / borrower).read_text(encoding="utf-8")
    download = '[[finish.downloads]]\nfile = "Python-3.13.5.tar.xz"\nplaces = ["pip/a==1"]\n'
    (project / borrower).write_text(f'{text}{download}sha256 = "{"0" * 64}"\n', encoding="utf-8")
    error = refused(project)
    assert error.key == "sha256"
    assert "Python-3.13.5.tar.xz" in error.found


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
        ("", "", ["'turn'", "command"]),
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


def test_a_missing_shared_file_is_named(project: Path) -> None:
    (project / "variants/families.toml").unlink()
    assert refused(project).file == "variants/families.toml"


def test_a_shared_file_with_a_bare_key_is_refused(project: Path) -> None:
    (project / "variants/families.toml").write_text('title = "Locks"\n', encoding="utf-8")
    assert str(refused(project)).startswith("variants/families.toml, key 'title")


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


def test_claims_are_no_workload_and_are_read_with_their_names_and_sources(project: Path) -> None:
    assert "claims" not in catalogs.load(project).workloads
    name, first = next(iter(catalogs.load_claims(project).claims.items()))
    assert name == first.name == "pth-futex-calls-today"
    assert first.source.title == "GNU pth instead of pthread: hardcore python tuning"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tolerance = 0.001", "tolerence = 0.001", [", key 'claims.pth-futex-calls-today.tolerence': "]),
        ("[sources.gnu-pth]", "[sources.gnu]", [": claim 'pth-futex-calls-today' ", "'gnu-pth'"]),
        (
            'metric = "works"\n',
            'metric = "works"\nagainst = "cpython-2.7"\n',
            [", key 'claims.pth-is-supported': ", "'works'", "'against'"],
        ),
    ],
)
def test_a_slip_in_a_claim_is_named_with_the_claim(project: Path, old: str, new: str, said: list[str]) -> None:
    edit(project, CLAIMS, old, new)
    with pytest.raises(CatalogError) as caught:
        catalogs.load_claims(project)
    assert str(caught.value).startswith(f"{CLAIMS}{said[0]}")
    assert all(one in str(caught.value) for one in said)


@pytest.mark.parametrize(
    ("text", "key", "named"),
    [
        ("[claims", "", ""),
        ("", "claims", ""),
        ("claims = 3", "claims", "3"),
        ("[claims]", "claims", "{}"),
        ("[claims]\nhalf = 0.5", "claims.half", "0.5"),
        ("sources = 3\n[claims.half]", "sources", "3"),
        ("[claims.half]\nsource = 3", "claims.half.workload", ""),
        ("[claims.half]\nsource = []", "claims.half.workload", ""),
        ("[claim.half]", "claim", ""),
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


def test_what_to_do_about_a_file_depends_on_why_it_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    todos = set()
    for number in (errno.EACCES, errno.EISDIR):
        cannot = Mock(side_effect=OSError(number, os.strerror(number)))
        monkeypatch.setattr(untrusted, "read_text", cannot)
        with pytest.raises(CatalogError) as caught:
            catalogs.load_claims(tmp_path, tmp_path / "gate.toml")
        assert os.strerror(number) in caught.value.found
        todos.add(caught.value.todo)
    assert len(todos) == 2


def test_find_root_outside_a_project_says_what_it_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        catalogs.find_root(tmp_path)
    assert caught.value.file == str(tmp_path)
    assert all(name in caught.value.found for name in ("variants/bases.toml", "workloads/", "dockerfiles/"))


def test_a_variant_that_keeps_what_its_kind_of_source_lacks_declares_no_difference(project: Path) -> None:
    variants = catalogs.load(project).variants
    assert "libpython" in variants["cpython-3.13"].differences
    assert "libpython" not in variants["cpython-3.13-shared"].differences


def test_a_program_that_is_not_there_is_found_before_anything_is_measured(project: Path) -> None:
    known = catalogs.load(project)
    catalogs.require_programs(project, known.workloads.values())
    moved = known.workloads["locks"].model_copy(update={"program": "lock.py"})
    with pytest.raises(CatalogError, match=r"'locks\.py'") as caught:
        catalogs.require_programs(project, [moved])
    assert (caught.value.file, caught.value.key) == ("workloads/locks.toml", "program")
