"""Builds into a prefix: what they are told, and what is expected of a machine that is not this one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.variants import Variant
from interlock.engine.build import builds
from interlock.engine.host import packages, prefixes
from interlock.engine.host.account import MYSELF, Account
from interlock.engine.protocol import BuildOptions
from interlock.engine.side_by_side import side_by_side
from interlock.errors import EngineError
from interlock.results.experiments import Built, PackageSet, State
from tests.builders import FROM_IMAGE, FROM_PREFIX, ROOT, make_built, make_program, make_variant
from tests.engine.host.test_sandbox import is_running
from tests.integration.toys import toy_tarball, toy_variant


def expected(variant: Variant) -> Built:
    known = catalogs.load(ROOT).model_copy(update={"variants": {variant.name: variant}})
    (found,) = prefixes.expect(known, [variant.name], BuildOptions(ROOT, ROOT / "none"))
    return found


def test_of_another_machine_its_own_prefixes_are_expected_and_nothing_that_needs_containers() -> None:
    assert expected(make_variant(**FROM_PREFIX)).outcome.state is State.OK
    assert expected(make_variant(**FROM_IMAGE)).outcome.state is State.UNAVAILABLE


def test_a_source_is_expected_by_all_that_its_build_reads() -> None:
    variants = catalogs.load(ROOT).variants
    one, again, other = (expected(variants[name]) for name in ("cpython-3.13", "cpython-3.13", "cpython-3.14"))
    assert one.outcome.state is other.outcome.state is State.OK
    assert one.content_hash == again.content_hash != other.content_hash


@pytest.fixture
def toy(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], prefixes.PrefixBuilder]:
    """What builds the variant `toy`, whose configure runs these lines of shell first."""

    def builder(configure: str) -> prefixes.PrefixBuilder:
        toy_variant(project, "toy", "toy.tgz", toy_tarball(tmp_path / "mirror", "toy.tgz", configure=configure))
        options = BuildOptions(project, tmp_path / "cache")
        return prefixes.PrefixBuilder(catalogs.load(project), options, lambda *_: None)

    monkeypatch.setenv("INTERLOCK_SOURCE_MIRROR", str(tmp_path / "mirror"))
    return builder


@pytest.mark.needs("gcc")
def test_what_a_build_starts_bears_the_mark_of_the_experiment_that_it_is_for(
    toy: Callable[[str], prefixes.PrefixBuilder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(prefixes.EXPERIMENT, "fleet-abc.ash.build")
    monkeypatch.setenv("ANOTHER", "of the user's own")
    (one,) = builds.build(toy(f"env > {tmp_path}/seen"), ["toy"])
    assert one.outcome.state is State.OK, one.outcome.reason
    seen = (tmp_path / "seen").read_text().splitlines()
    assert f"{prefixes.EXPERIMENT}=fleet-abc.ash.build" in seen
    assert not [line for line in seen if line.startswith("ANOTHER=")]


@pytest.mark.parametrize("text", ["", "{", '{"prefix": 1}', "[" * 20_000])
def test_packages_whose_record_was_cut_short_are_installed_anew(tmp_path: Path, text: str) -> None:
    record = tmp_path / "packages/abc" / packages.PACKAGES_RECORD
    record.parent.mkdir(parents=True)
    record.write_text(text)
    assert packages._packages_record(record) is None
    packages.HostInstaller(catalogs.load(ROOT), tmp_path, lambda *_: None).tidy()
    assert not record.parent.exists()


def installed(tmp_path: Path, install: str, lines: list[str]) -> PackageSet:
    """What is said of packages if the prefix's `pip install` does this."""
    (tmp_path / "prefix/bin").mkdir(parents=True)
    make_program(tmp_path / "prefix/bin/python", f'[ "$3" != install ] || {{ {install}; }}')
    installer = packages.HostInstaller(catalogs.load(ROOT), tmp_path / "cache", lambda *_: None)
    image = make_built("one").model_copy(update={"image_id": str(tmp_path / "prefix")})
    return installer.ensure(image, lines)


def test_packages_that_cannot_be_installed_are_named_with_pips_reason(tmp_path: Path) -> None:
    pip = 'echo note >&2; echo "ERROR: no answer" >&2; exit 1'
    outcome = installed(tmp_path, pip, ["one==1", "two==2"]).outcome
    assert outcome.state is State.FAILED
    assert "one==1, two==2: ERROR: no answer" in outcome.reason
    assert "note" not in outcome.reason


def test_a_pip_that_is_late_is_ended_with_all_that_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "INSTALL_S", 2)
    outcome = installed(tmp_path, f"sleep 60 & echo $! > {tmp_path}/compiler; sleep 60", ["one==1"]).outcome
    assert outcome.state is State.FAILED
    assert outcome.reason.endswith(" 2 s")
    assert not is_running(int((tmp_path / "compiler").read_text()))


def test_the_versions_of_packages_are_read_from_what_pip_leaves_whatever_its_version(tmp_path: Path) -> None:
    names = "Foo_Bar-1.0.dist-info old.one-2-py3.6.egg-info foo_bar x-info bare.egg-info a.b-info"
    install = f'while [ "$1" != --target ]; do shift; done; mkdir -p "$2"; cd "$2"; mkdir {names}'
    assert installed(tmp_path, install, ["foo.bar"]).versions == {"foo-bar": "1.0", "old-one": "2"}


def test_a_copy_of_pips_settings_goes_with_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PIP_CONFIG_FILE", raising=False)
    settings = tmp_path / "home/.pip/pip.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text("[global]\n")
    another = Account("another", os.getuid(), os.getgid())
    copy = Path(prefixes.network_settings(tmp_path / "cache", another)["HOME"], prefixes.PIP_SETTINGS[0])
    assert copy.read_text() == "[global]\n"
    settings.unlink()
    for _ in range(2):
        prefixes.network_settings(tmp_path / "cache", another)
        assert not copy.exists()


def test_what_pip_is_told_of_the_users_own_installations_is_not_told_it_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_USER", "PIP_REQUIRE_VIRTUALENV"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    told = prefixes.network_settings(tmp_path, MYSELF)
    assert (told["PIP_USER"], told["PIP_REQUIRE_VIRTUALENV"]) == ("0", "0")
    assert told["PIP_INDEX_URL"] == "https://index.example/simple"


@pytest.mark.needs("gcc")
def test_a_disk_of_this_machine_that_is_full_is_told_as_one(
    toy: Callable[[str], prefixes.PrefixBuilder], tmp_path: Path
) -> None:
    with pytest.raises(EngineError) as raised:
        builds.build(toy("echo cannot write: No space left on device; exit 1"), ["toy"])
    assert f"df -h {tmp_path}/cache" in raised.value.todo


@pytest.mark.needs("gcc")
def test_a_prefix_that_two_build_at_the_same_time_is_built_once(
    toy: Callable[[str], prefixes.PrefixBuilder], tmp_path: Path
) -> None:
    builder = toy(f"echo began >> {tmp_path}/began; sleep 0.5")
    plan = builder.plan(builder.known.variants["toy"])
    made = sorted(built.reused for built in side_by_side(builder.make, [plan, plan], 2))
    assert made == [False, True]
    assert (tmp_path / "began").read_text().count("began") == 1
