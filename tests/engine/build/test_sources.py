"""What goes into a build's context of the files that it needs: from the user's folder, and from pip's index."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from interlock.catalog.variants import Prefix, Variant
from interlock.engine.build import sources
from interlock.engine.build.sources import tar_of_paths
from interlock.errors import EngineError, RequirementsError, SourceUnavailableError
from tests.builders import FROM_PREFIX, make_download, make_library, make_variant, make_wheel

MIRROR = "INTERLOCK_SOURCE_MIRROR"
WHEEL = "toy-1.0-cp39-cp39-manylinux2014_x86_64.whl"
RELEASE = "pip/toy==1.0"


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MIRROR, raising=False)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is all that pip knows of."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def needs(sha256: str, file: str = WHEEL, place: str = RELEASE) -> Variant:
    """A variant whose finish needs one file."""
    download = make_download(file, sha256=sha256, places=[place])
    return make_variant(finish={"steps": ["a.sh"], "downloads": [download]})


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_mirror_that_is_a_folder_goes_into_the_context_with_what_the_variant_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scheme: str
) -> None:
    library, missing = make_library("pth.tgz"), make_library("other.tgz")
    for name in ("pth.tgz", "Python-3.13.1.tgz", "unrelated.tgz", "wheel.whl"):
        (tmp_path / name).write_bytes(name.encode())
    monkeypatch.setenv(MIRROR, f"{scheme}{tmp_path}")
    finish = {"steps": ["a.sh"], "downloads": [make_download("wheel.whl")]}
    variant = make_variant(libraries=[library, missing], finish=finish)
    assert sources.mirror_url() == ""
    assert sources.local_files(variant, tmp_path / "cache") == {
        "sources/pth.tgz": b"pth.tgz",
        "sources/Python-3.13.1.tgz": b"Python-3.13.1.tgz",
        "finish-sources/wheel.whl": b"wheel.whl",
    }


def test_a_mirror_that_is_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(MIRROR, f"{tmp_path}/nowhere")
    with pytest.raises(EngineError) as caught:
        sources.local_files(make_variant(), tmp_path)
    assert caught.value.key == MIRROR
    assert f"'{tmp_path}/nowhere'" in caught.value.found


@pytest.mark.parametrize(
    "file",
    [
        WHEEL,
        "toy-1.0-py3-none-any.whl",
        "toy-1.0-py2.py3-none-any.whl",
        "toy-1.0-py3-none-manylinux2010_x86_64.whl",
        "toy-1.0-cp39-cp39-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "toy-1.0-cp313-cp313t-musllinux_1_2_aarch64.whl",
    ],
)
def test_a_wheel_of_pips_index_is_found_whichever_interpreter_it_is_for_and_then_kept(
    index: Path, tmp_path: Path, file: str
) -> None:
    sha256 = make_wheel(index, file)
    variant, cache, data = needs(sha256, file), tmp_path / "cache", (index / file).read_bytes()
    assert sources.local_files(variant, cache) == {f"finish-sources/{file}": data}
    (index / file).unlink()
    assert sources.local_files(variant, cache) == {f"finish-sources/{file}": data}, "from the cache"
    assert [path.name for path in (cache / "downloads").iterdir()] == [sha256], "and nothing else is left there"


@pytest.mark.parametrize("file", [WHEEL, "toy-1.0.tar.gz", "toy.zip", "toy-1.0-cp39-cp39-linux_x86_64.tar"])
@pytest.mark.parametrize("is_there", [True, False])
def test_what_pips_index_lacks_or_is_no_wheel_or_has_another_sum_is_left_to_the_build(
    index: Path, tmp_path: Path, file: str, is_there: bool
) -> None:
    if is_there and file == WHEEL:
        make_wheel(index, file)
    elif is_there:
        (index / file).write_bytes(b"")
    assert sources.local_files(needs("0" * 64, file), tmp_path / "cache") == {}
    assert not list(tmp_path.glob("cache/downloads/*"))


def test_pip_is_not_asked_for_what_has_another_place(index: Path, tmp_path: Path) -> None:
    sha256 = make_wheel(index, WHEEL)
    assert sources.local_files(needs(sha256, place=f"https://sources.invalid/{WHEEL}"), tmp_path / "cache") == {}
    assert not (tmp_path / "cache").exists()


def test_the_users_folder_comes_before_pips_index(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = make_wheel(index, WHEEL)
    (tmp_path / WHEEL).write_bytes(b"the user's own")
    monkeypatch.setenv(MIRROR, str(tmp_path))
    assert sources.local_files(needs(sha256), tmp_path / "cache") == {f"finish-sources/{WHEEL}": b"the user's own"}


def names(places: dict[str, Path | bytes]) -> dict[str, tarfile.TarInfo]:
    with tar_of_paths(places) as stream, tarfile.open(fileobj=stream) as tar:
        return {entry.name: entry for entry in tar}


def test_a_projects_folder_is_there_whole_but_for_what_was_made_or_installed_in_it(tmp_path: Path) -> None:
    for file in ("pyproject.toml", "src/app/__init__.py", ".git/HEAD", "env/pyvenv.cfg", "env/bin/python", ".nox/x"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "link").symlink_to("pyproject.toml")
    os.mkfifo(tmp_path / "pipe")
    found = names({"/audit/local/0": tmp_path})
    files = {name for name, entry in found.items() if not entry.isdir()}
    below = "audit/local/0"
    assert files == {f"{below}/{file}" for file in ("pyproject.toml", "src/app/__init__.py", ".git/HEAD", "link")}
    assert found[f"{below}/link"].issym()


def test_everything_belongs_to_root_and_texts_are_files(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_text("wheel")
    found = names({"/x/a.whl": tmp_path / "a.whl", "/x/t.txt": b"text"})
    assert {name: entry.size for name, entry in found.items()} == {"x/a.whl": 5, "x/t.txt": 4}
    assert {(entry.uid, entry.uname) for entry in found.values()} == {(0, "root")}


def test_a_file_that_is_named_by_a_link_goes_along_itself(tmp_path: Path) -> None:
    (tmp_path / "real.pem").write_text("certificates")
    (tmp_path / "link.pem").symlink_to("real.pem")
    assert names({"/audit/ca.pem": tmp_path / "link.pem"})["audit/ca.pem"].isreg()


def test_what_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequirementsError, match=r"gone: .*no such file or directory"):
        tar_of_paths({"/x": tmp_path / "gone"})


VARIANT = make_variant("pyenv-3.12", **FROM_PREFIX)
PACKED = [
    "bin/pip3",
    "bin/python3",
    "bin/python3.12",
    "include/python3.12/Python.h",
    "lib/python3.12/lib-dynload/_ssl.so",
    "lib/python3.12/os.py",
    "lib/python3.12/site-packages/attest/__init__.py",
    "lib/python3.12/tested.py",
    "lib/python3.12/unittest/case.py",
]
LEFT_OUT = [
    "bin/idle3",
    "lib/libpython3.12.a",
    "lib/python3.12/__pycache__/os.cpython-312.pyc",
    "lib/python3.12/old.pyo",
    "lib/python3.12/idlelib/idle.py",
    "lib/python3.12/lib-dynload/_tkinter.cpython-312.so",
    "lib/python3.12/site-packages/numpy/tests/test_all.py",
    "lib/python3.12/test/test_os.py",
    "lib/python3.12/tkinter/__init__.py",
    "lib/python3.12/turtledemo/clock.py",
    "lib/python2.7/lib-tk/Tkinter.py",
    "share/man/man1/python3.1",
]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A prefix of empty files; python3 is a link to python3.12."""
    folder = tmp_path / "versions/3.12"
    for path in (*PACKED, *LEFT_OUT):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"")
    (folder / "bin/python3").unlink()
    (folder / "bin/python3").symlink_to("python3.12")
    return folder


def find(*places: str) -> Path:
    return sources.find_prefix(VARIANT, Prefix(places=list(places)))


def packed(folder: Path) -> tarfile.TarFile:
    data = sources.pack(folder, sources.packed_files(folder))
    return tarfile.open(fileobj=io.BytesIO(data))


def content(tar: tarfile.TarFile, path: str) -> bytes:
    data = tar.extractfile(path)
    assert data is not None
    return data.read()


def test_the_first_place_that_exists_is_taken_below_a_variable_the_home_folder_or_behind_a_link(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "versions/3.13"
    (other / "bin").mkdir(parents=True)
    assert find(f"{tmp_path}/versions/3.11", str(prefix), str(other)) == prefix
    assert find(str(other), str(prefix)) == other
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    assert find("$PYENV_ROOT/versions/3.12", str(prefix)) == prefix, "the variable is not set"
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "versions"))
    assert find("$PYENV_ROOT/versions/3.12") == find("~/3.12") == prefix
    (tmp_path / "current").symlink_to(prefix)
    assert find(f"{tmp_path}/current") == prefix


def test_where_no_place_exists_all_of_them_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceUnavailableError) as caught:
        find("$PYENV_ROOT/versions/3.12", f"{tmp_path}/empty")
    assert (caught.value.file, caught.value.key) == ("variants/pyenv-3.12.toml", "prefix.places")
    assert all(place in caught.value.found for place in ("$PYENV_ROOT/versions/3.12", f"{tmp_path}/empty"))


def test_tests_byte_code_static_libraries_and_what_needs_tk_are_left_out(prefix: Path) -> None:
    assert [str(path) for path in sources.packed_files(prefix)] == PACKED


def test_a_link_to_a_folder_is_packed_as_a_link_and_not_walked(prefix: Path) -> None:
    (prefix / "lib64").symlink_to("lib")
    with packed(prefix) as tar:
        assert tar.getmember("usr/local/lib64").linkname == "lib"
        assert not [name for name in tar.getnames() if name.startswith("usr/local/lib64/")]


def test_the_identity_of_a_prefix_tells_a_change_in_size_time_mode_or_name(prefix: Path) -> None:
    def identity() -> str:
        return sources.identity(prefix, sources.packed_files(prefix))

    seen = [identity()]
    assert identity() == seen[0]
    path = prefix / "lib/python3.12/os.py"
    for change in (
        lambda: path.write_bytes(b"pass"),
        lambda: os.utime(path, (1, 1)),
        lambda: path.chmod(0o755),
        lambda: path.rename(path.with_name("nt.py")),
    ):
        change()
        seen.append(identity())
    assert len(set(seen)) == 5
    (prefix / "lib/python3.12/test/test_os.py").write_bytes(b"pass")
    assert identity() == seen[-1], "what is not packed does not count"


def test_a_prefix_is_packed_below_usr_local_as_roots_and_twice_as_the_same_bytes(prefix: Path) -> None:
    (prefix / "bin/python3.12").chmod(0o4700)
    (prefix / "lib/python3.12/os.py").chmod(0o600)
    os.utime(prefix / "lib/python3.12/os.py", (86400, 86400))
    with packed(prefix) as tar:
        assert tar.getnames() == [f"usr/local/{path}" for path in PACKED]
        assert {(member.uid, member.gid, member.uname, member.gname) for member in tar} == {(0, 0, "root", "root")}
        assert tar.getmember("usr/local/bin/python3.12").mode == 0o755
        assert tar.getmember("usr/local/lib/python3.12/os.py").mode == 0o644
        assert tar.getmember("usr/local/lib/python3.12/os.py").mtime == 86400
    files = sources.packed_files(prefix)
    assert sources.pack(prefix, files) == sources.pack(prefix, files)


def test_links_still_lead_where_they_led(prefix: Path) -> None:
    (prefix / "bin/python").symlink_to(prefix / "bin/python3.12")
    (prefix / "bin/sh").symlink_to("/bin/sh")
    with packed(prefix) as tar:
        names = ("python3", "python", "sh")
        links = {name: tar.getmember(f"usr/local/bin/{name}").linkname for name in names}
    assert links == {"python3": "python3.12", "python": "/usr/local/bin/python3.12", "sh": "/bin/sh"}


def test_a_file_with_two_names_has_its_bytes_under_both(prefix: Path) -> None:
    (prefix / "bin/python3.12").write_bytes(b"an interpreter")
    os.link(prefix / "bin/python3.12", prefix / "bin/python3.12m")
    with packed(prefix) as tar:
        assert content(tar, "usr/local/bin/python3.12") == b"an interpreter"
        assert content(tar, "usr/local/bin/python3.12m") == b"an interpreter"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#!{prefix}/bin/python3.12\nprint('{prefix}/x')\n", "#!/usr/local/bin/python3.12\nprint('{prefix}/x')\n"),
        ("#!{prefix}/bin/python3.12", "#!/usr/local/bin/python3.12"),
        ("#!/bin/sh\nexec {prefix}/bin/python3.12\n", "#!/bin/sh\nexec {prefix}/bin/python3.12\n"),
        ("#!{prefix}2/bin/python\n", "#!{prefix}2/bin/python\n"),
        ("{prefix}/bin/python3.12\n", "{prefix}/bin/python3.12\n"),
    ],
)
def test_a_script_names_its_interpreter_where_the_image_has_it(prefix: Path, text: str, expected: str) -> None:
    (prefix / "bin/pip3").write_text(text.format(prefix=prefix), encoding="utf-8")
    with packed(prefix) as tar:
        assert content(tar, "usr/local/bin/pip3").decode() == expected.format(prefix=prefix)


@pytest.mark.needs("curl")
def test_the_libraries_that_a_program_links_are_packed_and_the_c_library_is_not(prefix: Path) -> None:
    curl = shutil.which("curl")
    assert curl
    shutil.copy(curl, prefix / "bin/python3.12")
    found = sources.libraries(prefix, sources.packed_files(prefix))
    names = [library.name for library in found]
    assert "libz.so.1" in names
    assert not {name for name in names if name.startswith(("libc.so", "libm.so", "libpthread.so", "ld-linux"))}
    assert names == sorted(names)
    with packed(prefix) as tar:
        for library in found:
            assert content(tar, f"opt/interlock/{library.name}") == library.read_bytes()
            assert tar.getmember(f"opt/interlock/{library.name}").isreg(), "not the link to it"


def test_a_library_in_the_prefix_is_not_packed_twice(prefix: Path) -> None:
    for name in ("libm.so.6", "libfirst.so.1"):
        (prefix / "lib" / name).write_bytes(b"")
    library, program = prefix / "lib/libfirst.so.1", prefix / "bin/python3.12"
    cc = shutil.which("cc")
    if cc is None:
        pytest.skip("no C compiler is installed")
    for words, text in (
        (["-shared", "-o", str(library)], "int first(void) { return 1; }\n"),
        (
            [str(library), f"-Wl,-rpath,{prefix}/lib", "-o", str(program)],
            "int first(void); int main(void) { return first(); }\n",
        ),
    ):
        source = prefix.parent / "source.c"
        source.write_text(text, encoding="utf-8")
        subprocess.run([cc, str(source), *words], check=True)
    assert sources.libraries(prefix, sources.packed_files(prefix)) == []


def test_the_c_library_and_its_parts_are_the_images_own_and_libraries_with_like_names_are_packed() -> None:
    own = ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0", "libcrypt.so.1"]
    others = ["libcrypto.so.3", "libcom_err.so.2", "libmpdec.so.3", "libnsl.so.2", "libdb-5.3.so"]
    assert [name for name in own + others if sources.LIBC.match(name)] == own


@pytest.mark.skipif(Path(sys.base_prefix) in sources.SYSTEM, reason="this interpreter is the system's own")
def test_the_interpreter_that_runs_this_can_be_packed() -> None:
    place = Path(sys.base_prefix).resolve()
    assert find(str(place)) == place
    files = sources.packed_files(place)
    assert Path(os.path.realpath(sys.executable)).relative_to(place) in files
    assert not [path for path in files if path.suffix == ".pyc"]
