"""What is missing is found by looking, and named with the packages of the distribution at hand."""

from __future__ import annotations

import errno
import hashlib
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.catalog import project as catalogs
from interlock.engine.build.image import read_context
from interlock.engine.host import checks, fetching, toolchain
from interlock.engine.host.prefixes import PrefixBuilder
from interlock.engine.host.toolchain import Need
from interlock.engine.protocol import BuildOptions
from interlock.errors import EngineError, SourceUnavailableError
from tests.builders import ROOT, make_program

PRESENT = Need("sh", "dash", "bash")
ABSENT = Need("no-such-program", "some-package", "some-package-devel")
NO_HEADER = Need("no/such/header.h", "libnone-dev", "none-devel")


@pytest.mark.needs("gcc")
def test_a_program_is_looked_for_by_path_and_a_header_by_the_compiler() -> None:
    assert toolchain.missing([PRESENT, ABSENT, Need("stdio.h", "libc6-dev", "glibc-devel"), NO_HEADER]) == [
        ABSENT,
        NO_HEADER,
    ]


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    yield
    toolchain.compiler.cache_clear()
    toolchain.identity.cache_clear()


@pytest.fixture
def builder(tmp_path: Path) -> PrefixBuilder:
    return PrefixBuilder(catalogs.load(ROOT), BuildOptions(ROOT, tmp_path), lambda *_: None)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it but what a test puts there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_packages_are_named_for_debian_and_for_fedora(programs: Path) -> None:
    assert toolchain.install_command([ABSENT, NO_HEADER]) == "apt-get install some-package libnone-dev"
    make_program(programs / "dnf", ":")
    assert toolchain.install_command([ABSENT, NO_HEADER]) == "dnf install some-package-devel none-devel"


def test_no_command_is_shown_for_what_no_package_has(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_program(programs / "dnf", ":")
    monkeypatch.setattr(toolchain, "needs", lambda **_: (*toolchain.PTH_NEEDS, ABSENT))
    monkeypatch.setattr(toolchain, "missing", list)
    (check,) = checks.of_packages()
    assert (check.found.split()[0], check.fix) == ("1", "dnf install some-package-devel")
    monkeypatch.setattr(toolchain, "needs", lambda **_: toolchain.PTH_NEEDS)
    assert list(checks.of_packages()) == []


def test_without_a_compiler_a_source_is_unavailable_and_everything_that_is_needed_is_named_at_once(
    programs: Path, builder: PrefixBuilder
) -> None:
    make_program(programs / "make", ":")
    with pytest.raises(SourceUnavailableError) as raised:
        builder.plan(builder.known.variants["cpython-3.13"])
    assert raised.value.todo.startswith("apt-get install gcc libc6-dev patch")
    assert " make" not in raised.value.todo


def test_an_interpreter_by_another_compiler_needs_that_one_and_is_known_by_it(
    programs: Path, builder: PrefixBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_gcc, by_clang = builder.known.variants["cpython-3.14"], builder.known.variants["cpython-3.14-clang"]
    monkeypatch.setattr(toolchain, "PROGRAMS", ())
    builder.plan(by_gcc)
    with pytest.raises(SourceUnavailableError) as raised:
        builder.plan(by_clang)
    assert raised.value.todo == "apt-get install clang-19."
    plans = []
    for version in ("19.1.7", "19.1.8"):
        make_program(programs / "clang-19", f"echo clang version {version}")
        toolchain.compiler.cache_clear()
        toolchain.identity.cache_clear()
        plans.append(builder.plan(by_clang).content_hash)
    assert len({*plans}) == 2


@pytest.mark.needs("gcc")
def test_the_instruments_are_compiled_by_what_pip_brings_where_there_is_no_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def wheel(requirements: Path, folder: Path) -> str:
        assert "ziglang==" in requirements.read_text(encoding="utf-8")
        (folder / "ziglang").mkdir(parents=True)
        make_program(folder / "ziglang/zig", 'shift; exec /usr/bin/gcc "$@"')
        (folder / "ziglang/zig").chmod(0o644)
        return ""

    monkeypatch.setattr(toolchain, "missing", list)
    monkeypatch.setattr(fetching, "wheels", wheel)
    made = toolchain.ensure_instruments(ROOT, tmp_path)
    assert {"launch", "waking_sem_post.so"} <= {path.name for path in made.iterdir()}
    assert [path.name for path in tmp_path.iterdir()] == ["instruments"]


def test_without_a_compiler_and_an_index_the_packages_of_one_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(toolchain, "missing", list)
    monkeypatch.setattr(fetching, "wheels", lambda *_: "no index answers")
    with pytest.raises(EngineError, match="no index answers") as raised:
        toolchain.ensure_instruments(ROOT, tmp_path)
    assert "gcc libc6-dev" in raised.value.todo


def test_instruments_are_made_anew_once_the_tools_of_another_probe_are_here(programs: Path) -> None:
    before = toolchain.instruments_identity({})
    make_program(programs / "strace", ":")
    assert toolchain.instruments_identity({}) != before


@pytest.mark.needs("gcc")
def test_a_library_that_is_missing_is_a_part_of_what_a_build_is_known_by(monkeypatch: pytest.MonkeyPatch) -> None:
    before = toolchain.identity(toolchain.GCC)
    monkeypatch.setattr(toolchain, "LIBRARIES", (*toolchain.LIBRARIES, NO_HEADER))
    toolchain.identity.cache_clear()
    assert toolchain.identity(toolchain.GCC) != before


@pytest.mark.needs("gcc")
def test_a_system_that_does_not_say_which_it_is_has_an_identity_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> None:
        raise OSError(errno.ENOENT, "Unable to read files /etc/os-release, /usr/lib/os-release")

    toolchain.identity.cache_clear()
    monkeypatch.setattr(platform, "freedesktop_os_release", nowhere)
    assert f"host {platform.system()} {platform.machine()}" in toolchain.identity(toolchain.GCC)


@pytest.fixture
def project_of_pth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose only instrument is what modes preload: a copy of tmp_path/source, if that is there."""
    for name in ("_compile_programs", "_make_profiler", "_copy_strace"):
        monkeypatch.setattr(toolchain, name, lambda *_: None)
    monkeypatch.setattr(toolchain, "missing", lambda _: [])
    instruments = tmp_path / "project/dockerfiles/instruments"
    instruments.mkdir(parents=True)
    (instruments / "fetch.sh").touch()
    without = f'exit "$(cat {tmp_path}/code)"'
    script = f'[ -f {tmp_path}/source ] || {without}; cp {tmp_path}/source "$PREFIX/{toolchain.PTH}"'
    (instruments / "pth.sh").write_text(script)
    (tmp_path / "code").write_text("69")
    return tmp_path / "project"


def test_instruments_that_another_process_made_meanwhile_are_taken(
    project_of_pth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_another(*_: object) -> None:
        made = tmp_path / "cache/instruments" / toolchain.instruments_identity(files)
        made.mkdir()
        (made / "launch").touch()

    files = read_context(project_of_pth / "dockerfiles/instruments")
    monkeypatch.setattr(toolchain, "_copy_strace", by_another)
    made = toolchain.ensure_instruments(project_of_pth, tmp_path / "cache")
    assert [path.name for path in made.iterdir()] == ["launch"]
    assert [path.name for path in made.parent.iterdir()] == [made.name]


@pytest.mark.parametrize("code", toolchain.NO_SOURCE)
def test_what_modes_preload_is_made_once_a_place_has_its_source(
    project_of_pth: Path, tmp_path: Path, code: int
) -> None:
    (tmp_path / "code").write_text(str(code))
    made = toolchain.ensure_instruments(project_of_pth, tmp_path / "cache")
    assert list(made.iterdir()) == []
    (tmp_path / "source").write_text("a library")
    assert toolchain.ensure_instruments(project_of_pth, tmp_path / "cache") == made
    assert [path.name for path in made.iterdir()] == [toolchain.PTH]
    assert [path.name for path in made.parent.iterdir()] == [made.name]


def test_what_modes_preload_is_made_of_what_the_users_own_folder_has(
    project_of_pth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror, instruments = tmp_path / "my mirror", project_of_pth / "dockerfiles/instruments"
    mirror.mkdir()
    (mirror / "one.tar.gz").write_bytes(b"a source")
    sha256 = hashlib.sha256(b"a source").hexdigest()
    shutil.copy(ROOT / "dockerfiles/instruments/fetch.sh", instruments)
    fetched = f'HERE=$BUILD_DIR; . "$HERE/fetch.sh"; fetch one.tar.gz {sha256} https://127.0.0.1:1/'
    (instruments / "pth.sh").write_text(f'cd "$BUILD_DIR"; {fetched}; cp one.tar.gz "$PREFIX/{toolchain.PTH}"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERLOCK_SOURCE_MIRROR", mirror.name)
    made = toolchain.ensure_instruments(project_of_pth, tmp_path / "cache")
    assert (made / toolchain.PTH).read_bytes() == b"a source"
