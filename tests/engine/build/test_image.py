"""What an image is built from, and what it is called."""

from __future__ import annotations

import io
import os
import platform
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from interlock import __version__
from interlock.catalog import project as catalogs
from interlock.catalog import rendering
from interlock.catalog.variants import Gil, SourceKind, ThreadFlavour
from interlock.engine.build import image
from interlock.engine.build.image import (
    BASE_ARGUMENT,
    QUESTION,
    TRACKED_FILE,
    broken_mode,
    content_hash,
    contradictions,
    parse_facts,
    project_revision,
    provenance_labels,
    read_context,
    require_proof,
)
from interlock.engine.build.sources import tar_of
from interlock.errors import BuildError, EngineError, SourceUnavailableError
from interlock.results.experiments import BaseImage, Facts, Subject
from tests.builders import (
    FROM_ARCHIVE,
    FROM_IMAGE,
    FROM_PACKAGES,
    FROM_PREFIX,
    ROOT,
    make_base,
    make_facts,
    make_variant,
)

KINDS: dict[SourceKind, dict[str, Any]] = {
    SourceKind.SOURCE: {},
    SourceKind.IMAGE: FROM_IMAGE,
    SourceKind.PREFIX: FROM_PREFIX,
    SourceKind.ARCHIVE: FROM_ARCHIVE,
    SourceKind.PACKAGES: FROM_PACKAGES,
}


@pytest.mark.parametrize("kind", SourceKind)
def test_the_parent_is_handed_to_the_argument_that_the_dockerfile_of_its_kind_has(kind: SourceKind) -> None:
    known = catalogs.load(ROOT)
    files = rendering.render(make_variant(**KINDS[kind]), known, catalogs.read_texts(ROOT))
    before_the_first_stage, _, _ = files["Dockerfile"].partition("\nFROM ")
    assert re.findall(r"^ARG (\w+)=", before_the_first_stage, re.MULTILINE) == [BASE_ARGUMENT[kind]]
    assert f"\nFROM ${{{BASE_ARGUMENT[kind]}}}" in files["Dockerfile"]


FILES = {"Dockerfile": b"FROM x\n", "build.sh": b"make\n", "patches/a.patch": b"--- a\n"}
HASH = content_hash(FILES, "sha256:base")
CONTEXTS = st.dictionaries(
    st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5})?", fullmatch=True), st.binary(max_size=600), max_size=5
)


@pytest.mark.parametrize("path", FILES)
def test_whatever_goes_in_changes_the_hash(path: str) -> None:
    fewer = {name: data for name, data in FILES.items() if name != path}
    others = [FILES | {path: FILES[path] + b" "}, fewer, fewer | {f"{path}2": FILES[path]}, FILES | {f"{path}2": b""}]
    hashes = [content_hash(files, "sha256:base") for files in others]
    hashes += [content_hash(FILES, "sha256:other"), HASH]
    assert len(set(hashes)) == len(hashes)


def test_the_order_of_the_files_does_not_change_the_hash() -> None:
    assert content_hash(dict(reversed(FILES.items())), "sha256:base") == HASH


def test_a_context_is_read_with_the_files_of_its_folders(tmp_path: Path) -> None:
    for path, data in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    assert read_context(tmp_path) == FILES
    assert read_context(tmp_path / "nowhere") == {}


@given(CONTEXTS)
def test_a_tar_holds_the_files_and_is_the_same_every_time(files: dict[str, bytes]) -> None:
    stream = tar_of(files)
    data = stream.read()
    assert tar_of(dict(reversed(files.items()))).read() == data
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = tar.getmembers()
        assert {one.name: tar.extractfile(one).read() for one in members} == files  # type: ignore[union-attr]
    assert [member.name for member in members] == sorted(files)
    assert {(member.uid, member.gid, member.mtime, member.mode) for member in members} <= {(0, 0, 0, 0o644)}


FILE, LOG = "variants/cpython-3.13.toml", "logs/cpython-3.13.log"
NOWHERE = """\
interlock: step fetching a.tgz
interlock: tried https://example.org/a.tgz: curl: (6) Could not resolve host: example.org
interlock: tried file:///interlock/a.tgz: curl: (37) Couldn't open file /interlock/a.tgz
interlock: tried http://127.0.0.1:81/pool/a.tgz: curl: (22) The requested URL returned error: 404
"""
TRIED = (
    "example.org: Could not resolve host: example.org; "
    "file:///interlock/a.tgz: Couldn't open file /interlock/a.tgz; "
    "apt's mirror: The requested URL returned error: 404"
)
POOL = "interlock: tried http://{}.example/debian/pool/a.tgz: curl: (22) The requested URL returned error: 404\n"
OTHER_SUM = "interlock: tried https://example.org/a.tgz: sha256 is 12ab (3 bytes), wanted 34cd\n"
OTHER_SUM_TRIED = (
    "example.org: sha256 is 12ab (3 bytes), wanted 34cd; apt's mirror: The requested URL returned error: 404"
)
UNSIGNED = "interlock: tried https://example.org/a.tgz.asc: the signature is not by author.asc: No key\n"
# Of curl 7.88 on a full tmpfs.
FULL = "interlock: tried https://example.org/a.tgz: curl: (23) Failure writing output to destination\n"
MIRROR, DISK = "INTERLOCK_SOURCE_MIRROR", "docker system df"


@pytest.mark.parametrize(
    ("log", "code", "kind", "where", "found", "todo"),
    [
        ("", 69, SourceUnavailableError, (FILE, "places"), "no location", MIRROR),
        (NOWHERE, 69, SourceUnavailableError, (FILE, "places"), TRIED, MIRROR),
        (POOL.format(1) + POOL.format(2), 69, SourceUnavailableError, (FILE, "places"), "apt's mirror: The", MIRROR),
        (OTHER_SUM + POOL.format(1), 65, BuildError, (FILE, "sha256"), OTHER_SUM_TRIED, MIRROR),
        (UNSIGNED, 66, BuildError, (FILE, "signature"), "example.org: the signature is not by author.asc: No key", ""),
        ("cc: error: a.o: No space left on device\n", 1, EngineError, ("", ""), "cpython-3.13", DISK),
        (FULL, 69, EngineError, ("", ""), "cpython-3.13", DISK),
        ("one\n\nmake: *** [all] Error 2\n", 2, BuildError, (LOG, ""), "failed: make: *** [all] Error 2", LOG),
    ],
    ids=[
        *("no place", "every place and its answer", "one answer of all of Debian's archives", "wrong bytes alone"),
        *("another key", "a full disk", "a disk full of sources", "the end of the log"),
    ],
)
def test_a_failed_build_is_told_by_its_exit_code_and_what_was_tried(
    log: str, code: int, kind: type[Exception], where: tuple[str, str], found: str, todo: str
) -> None:
    error = image.build_failure(f"{log}interlock: exit code {code}\n", make_variant(), LOG)
    assert type(error) is kind
    assert (error.file, error.key) == where
    assert error.found.count(found) == 1
    assert todo in error.todo


DIGEST = f"sha256:{'a' * 64}"
IMAGE_ID = f"sha256:{'b' * 64}"
PULLED = make_base(reference=f"debian:trixie-slim@{DIGEST}", origin="registry", image_id=IMAGE_ID)
MADE = make_base(reference="interlock/base:trixie-0123456789ab", image_id=IMAGE_ID)


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A committed project."""
    root = tmp_path / "clone"
    (root / TRACKED_FILE).parent.mkdir(parents=True)
    (root / TRACKED_FILE).write_text("[trixie]\n")
    (root / ".gitignore").write_text("results/\n")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
    return root


@pytest.mark.parametrize(
    ("changed", "mark"),
    [(None, ""), (TRACKED_FILE, "-dirty"), ("variants/new.toml", "-dirty"), ("results/experiment.json", "")],
    ids=["nothing", "a file", "a new variant", "what git ignores"],
)
def test_the_revision_is_the_commit_and_says_that_more_was_changed(clone: Path, changed: str | None, mark: str) -> None:
    if changed:
        (clone / changed).parent.mkdir(exist_ok=True)
        (clone / changed).write_text("[bookworm]\n")
    assert project_revision(clone) == f"{git(clone, 'rev-parse', 'HEAD')}{mark}"


def test_what_is_no_clone_with_a_commit_has_no_revision(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project_revision(tmp_path) is None, "outside of git"
    assert "org.opencontainers.image.revision" not in provenance_labels(tmp_path, PULLED)
    copy = clone / "results/copy"
    (copy / TRACKED_FILE).parent.mkdir(parents=True)
    (copy / TRACKED_FILE).write_text("[trixie]\n")
    assert project_revision(copy) is None, "the commit is another project's"
    git(tmp_path, "init", "--quiet")
    assert project_revision(tmp_path) is None, "without a commit"
    monkeypatch.setenv("PATH", "")
    assert project_revision(clone) is None, "without git"


@pytest.mark.parametrize(
    ("base", "name", "digest"),
    [
        (PULLED, "debian:trixie-slim", DIGEST),
        (MADE, "interlock/base:trixie-0123456789ab", IMAGE_ID),  # its local tag and id
    ],
    ids=["pulled", "made here"],
)
def test_the_labels_name_commit_parent_and_builder(clone: Path, base: BaseImage, name: str, digest: str) -> None:
    assert provenance_labels(clone, base) == {
        "org.opencontainers.image.revision": git(clone, "rev-parse", "HEAD"),
        "org.opencontainers.image.base.name": name,
        "org.opencontainers.image.base.digest": digest,
        "interlock.version": __version__,
    }


OUTPUT = """\
version=2.7.18
implementation=cpython
thread_error=
thread_flavour=gnu-pth
gil=on
loaded_libraries=linux-vdso.so.1 libpth.so.20 libc.so.6
optimisation=-O3
prefix=/usr/local
mapped_files=/lib/libc.so.6:/usr/local/bin/python2.7
"""


def test_the_lines_of_an_interpreter_become_facts() -> None:
    facts = parse_facts(OUTPUT)
    assert facts.version == "2.7.18"
    assert (facts.thread_flavour, facts.gil) == (ThreadFlavour.GNU_PTH, Gil.ON)
    assert facts.loaded_libraries == ["linux-vdso.so.1", "libpth.so.20", "libc.so.6"]
    assert facts.thread_error is None
    assert facts.optimisation == "-O3"
    assert facts.prefix == "/usr/local"
    assert facts.mapped_files == ["/lib/libc.so.6", "/usr/local/bin/python2.7"]


@given(st.lists(st.from_regex(r"[a-z0-9.+-]{1,20}", fullmatch=True)))
def test_any_libraries_come_back(libraries: list[str]) -> None:
    line = "loaded_libraries=linux-vdso.so.1 libpth.so.20 libc.so.6"
    assert parse_facts(OUTPUT.replace(line, f"loaded_libraries={' '.join(libraries)}")).loaded_libraries == libraries


@pytest.mark.parametrize("output", ["", "Segmentation fault\n", OUTPUT.replace("gil=on", "gil=maybe")])
def test_an_interpreter_that_does_not_answer_has_no_facts(output: str) -> None:
    with pytest.raises(ValidationError):
        parse_facts(output)


def asked(prelude: str = "") -> Facts:
    """What the interpreter that runs this says of itself after the prelude has made it another one."""
    done = subprocess.run([sys.executable, "-c", prelude + QUESTION], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return parse_facts(done.stdout)


def test_the_question_is_answered_by_the_python_that_runs_this() -> None:
    facts = asked()
    assert facts.version == platform.python_version()
    assert facts.implementation == sys.implementation.name
    is_gil_enabled = getattr(sys, "_is_gil_enabled", lambda: True)
    assert facts.gil is (Gil.ON if is_gil_enabled() else Gil.OFF)
    assert facts.thread_flavour in {ThreadFlavour.PTHREAD, ThreadFlavour.FREE_THREADED}
    assert facts.thread_error is None
    assert "libc.so.6" in facts.loaded_libraries
    assert facts.optimisation.startswith("-O")
    assert os.path.realpath(sys.executable) in facts.mapped_files
    assert any(Path(path).name == "libc.so.6" for path in facts.mapped_files)


def test_an_interpreter_that_cannot_start_threads_says_so() -> None:
    refuse = "def refuse(self): raise RuntimeError('no threads here')"
    facts = asked(f"import threading\n{refuse}\nthreading.Thread.start = refuse\n")
    assert facts.thread_flavour is ThreadFlavour.NONE
    assert facts.thread_error == "RuntimeError: no threads here"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#define HAVE_PTH 1\n", ThreadFlavour.GNU_PTH),
        ("/* #undef HAVE_PTH */\n", ThreadFlavour.PTHREAD),
        ("#define HAVE_PTHREAD_H 1\n", ThreadFlavour.PTHREAD),
        (None, ThreadFlavour.PTHREAD),  # without the file
    ],
)
def test_an_interpreter_on_pth_is_known_by_its_pyconfig(
    tmp_path: Path, line: str | None, expected: ThreadFlavour
) -> None:
    header = tmp_path / "pyconfig.h"
    if line is not None:
        header.write_text(f"#define HAVE_ALARM 1\n{line}", encoding="utf-8")
    facts = asked(f"import sysconfig\nsysconfig.get_config_h_filename = lambda: {str(header)!r}\n")
    assert facts.thread_flavour is expected


def flags(**values: str) -> str:
    return f"import sysconfig\nsysconfig.get_config_var = {values!r}.get\n"


@pytest.mark.parametrize(
    ("prelude", "key", "expected"),
    [
        (flags(CC="gcc -O2", CFLAGS="-g -O3"), "optimisation", "-O3"),
        (flags(CC="gcc", CFLAGS="-O0 -Os"), "optimisation", "-Os"),
        (flags(CFLAGS="-O2"), "optimisation", "-O2"),
        (flags(CC="gcc"), "optimisation", "unknown"),
        (flags(), "optimisation", "unknown"),
        ("import sys\nsys.implementation.name = 'pypy'\n", "implementation", "pypy"),
    ],
)
def test_the_last_level_that_the_compiler_was_told_counts_and_another_implementation_says_its_name(
    prelude: str, key: str, expected: str
) -> None:
    assert getattr(asked(prelude), key) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": "3.13.2"}, ("version", "3.13.1", "3.13.2")),
        ({"thread_flavour": "free-threaded"}, ("proof.thread_flavour", "pthread", "free-threaded")),
        ({"gil": "off"}, ("proof.gil", "on", "off")),
        ({"loaded_libraries": ["a.so", "b.so"]}, ("proof.thread_library", "libc.so.6", "a.so b.so")),
        ({"optimisation": "-O2"}, ("proof.optimisation", "-O3", "-O2")),
        ({"implementation": "pypy"}, ("proof.implementation", "cpython", "pypy")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_an_image_does_not_show_is_named(changes: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert contradictions(make_variant(), make_facts(**changes)) == [expected]


def test_the_first_contradiction_ends_the_build_with_its_key() -> None:
    with pytest.raises(BuildError) as caught:
        require_proof(make_variant(), make_facts(gil="off", optimisation="-O0"))
    assert (caught.value.file, caught.value.key) == ("variants/cpython-3.13.toml", "proof.gil")
    assert all(gil in caught.value.found for gil in ("'on'", "'off'"))


def subject(**mode: Any) -> Subject:
    return Subject(variant="cpython-2.7", image_id="sha256:1", mode="slow", **mode)


@pytest.mark.parametrize(
    ("mode", "named"),
    [
        ({"gil": None}, []),
        ({"gil": Gil.ON}, []),
        ({"gil": Gil.OFF}, ["'off'", "'on'"]),
        ({"environment": {"LD_PRELOAD": ""}}, []),
        ({"environment": {"LD_PRELOAD": "/interlock/a.so /interlock/b.so"}}, []),
        ({"environment": {"LD_PRELOAD": "/interlock/b.so:a.so"}}, []),
        ({"environment": {"LD_PRELOAD": "/interlock/a.so:/interlock/c.so"}}, ["/interlock/c.so"]),
    ],
)
def test_a_mode_is_broken_by_another_gil_or_by_what_the_loader_passed_over(
    mode: dict[str, Any], named: list[str]
) -> None:
    facts = make_facts(gil="on", loaded_libraries=["a.so", "b.so", "libc.so.6"])
    said = broken_mode(subject(**mode), facts)
    assert bool(said) is bool(named)
    assert all(name in said for name in named)
    assert "/interlock/a.so" not in said
