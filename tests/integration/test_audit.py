"""Requirements in a real image: wheels, builds, failures, hangs, and gates."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.engine.ownership import PID
from interlock.engine.packages import audit, dependency_files, pip_container
from interlock.engine.packages.kept_wheels import CACHE_VOLUME
from interlock.errors import RequirementsError
from interlock.results.answers import Origin, PackageAudit, VariantAudit
from interlock.results.experiments import Built, State
from interlock.untrusted import read_text
from tests.apart import command
from tests.builders import Entry
from tests.integration import wheelhouse
from tests.integration.images import NO_THREADS, QUICK, Images
from tests.integration.resources import owned
from tests.integration.toys import copy_project

Auditing = Callable[..., list[VariantAudit]]

# libcurl comes with the builder's git; no image of a variant has it.
LIBRARY = "-Wl,--no-as-needed -l:libcurl-gnutls.so.4"
# Fails if it runs as root, or with a way out to a network.
SURROUNDINGS = """\
import errno, os, socket
assert (os.getuid(), os.getgroups()) == (1000, [])
try:
    socket.create_connection(("192.0.2.1", 80), 5)
except OSError as error:
    assert error.errno == errno.ENETUNREACH, error
else:
    raise AssertionError("there is a network")
"""
# A build may run any code, as root: this one writes over every wheel that it finds.
POISON = """\
import glob, os
for path in glob.glob("/[acrtuv]*/**/*.whl", recursive=True):
    with open(path, "wb") as file:
        file.write(b"poisoned")
"""
# What pip prints of a build that failed: 60 MB.
LOUD = """\
for _ in range(60):
    print("x" * 999_999)
raise RuntimeError("it was loud")
"""
# Tells whether a service that listens at this machine's own address alone is reached.
CURIOUS = """\
import os, socket
try:
    socket.create_connection(("127.0.0.1", PORT), 5)
except OSError as error:
    raise RuntimeError(f"not reached, {os.listdir('/sys/class/net')}")
raise RuntimeError("reached")
"""
HERE = f"python_version == '{sys.version_info[0]}.{sys.version_info[1]}'"
PACKAGES = dict(
    [
        wheelhouse.wheel("toy-app", {"toy_app.py": "import toy_user"}, "toy-user", "toy-unready"),
        wheelhouse.wheel("toy-user", {"toy_user.py": "import toy_switcher._c"}, "toy-switcher"),
        wheelhouse.wheel("toy-hangs", {"toy_hangs.py": "import time\ntime.sleep(100)"}),
        wheelhouse.wheel("toy-surroundings", {"toy_surroundings.py": SURROUNDINGS}),
        wheelhouse.wheel("toy-versions", {"toy_versions.py": ""}),
        wheelhouse.wheel("toy-versions", {"toy_versions.py": ""}, version="2.0"),
        wheelhouse.source("toy-switcher", wheelhouse.SWITCHING),
        wheelhouse.source("toy-safe", wheelhouse.SAFE, "from toy_safe import _c"),
        wheelhouse.source("toy-uncompiled", "#include <no/such/header.h>\n"),
        wheelhouse.source("toy-unready", before="raise RuntimeError('toy-config is not there')"),
        wheelhouse.source("toy-library", wheelhouse.SAFE, "", LIBRARY),
        wheelhouse.source("toy-poison", before=POISON),
        wheelhouse.source("toy-loud", before=LOUD),
    ]
)
WANTED = """\
# all of it
--index-url {url}
toy-app
toy-hangs
toy-surroundings
toy-safe ; python_version > "3"
toy-uncompiled
toy-library
toy-elsewhere ; python_version < "3"
-e ./project[extra]
"""


@pytest.fixture(scope="module")
def alone(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one variant and without its control, which would be audited with it: an image more, twice."""
    return copy_project(root, tmp_path_factory.mktemp("alone") / "project", [QUICK], [])


@pytest.fixture(scope="module")
def url(here: str) -> Iterator[str]:
    with wheelhouse.index(PACKAGES, host=here) as address:
        yield address


def auditing(client: Any, catalog: Catalog, root: Path, image: Built) -> Auditing:
    """Audits the lines of files, in this image unless others are named."""

    def run_audit(
        *files: Path, images: Sequence[Built] | None = None, modules: Sequence[str] = ()
    ) -> list[VariantAudit]:
        wanted = dependency_files.read([*map(str, files)], read_text, Path.exists)
        asked = replace(wanted, modules=list(modules))
        return audit.audit(client, catalog, root, images or [image], asked, lambda *_: None)

    return run_audit


@pytest.fixture(scope="module")
def own_builder(client: Any, catalog: Catalog, root: Path, quick: Built) -> Iterator[None]:
    """The builder of all audits of this file, with a tag of its own.

    Another worker may build another one of the same name meanwhile, and what was kept is known by the builder.
    """
    builder_id, tag = pip_container.ensure_builder(client, root, quick, catalog), f"test-audit-{os.getpid()}"
    client.images.get(builder_id).tag("interlock/builder", tag)

    def builder_of(engine: Any, folder: Path, image: Built, known: Catalog) -> str:
        is_own = image.image_id == quick.image_id
        return builder_id if is_own else pip_container.ensure_builder(engine, folder, image, known)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "ensure_builder", builder_of)
        yield
    client.images.remove(f"interlock/builder:{tag}")


@pytest.fixture(scope="module")
def run(client: Any, catalog: Catalog, root: Path, quick: Built, own_builder: None) -> Auditing:
    return auditing(client, catalog, root, quick)


@pytest.fixture(scope="module")
def audited(run: Auditing, url: str, tmp_path_factory: pytest.TempPathFactory) -> VariantAudit:
    """All the toys, in one audit."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "project").mkdir()
    for path, text in wheelhouse.project("toy-local", init="import toy_safe._c").items():
        (folder / "project" / path).parent.mkdir(exist_ok=True)
        (folder / "project" / path).write_text(text)
    (folder / "requirements.txt").write_text(WANTED.format(url=url))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "IMPORT_S", 6.0)
        (found,) = run(folder / "requirements.txt", modules=["toy_user", "json", "no.such"])
    return found


def packages(audited: VariantAudit) -> Mapping[str, PackageAudit]:
    return {one.name: one for one in audited.packages}


def errors(audited: VariantAudit, name: str) -> list[str]:
    return [one.error for one in packages(audited)[name].imports]


def test_every_package_is_there_those_that_others_need_included(audited: VariantAudit) -> None:
    assert audited.outcome.state is State.OK
    assert set(packages(audited)) == {
        *("toy-app", "toy-user", "toy-hangs", "toy-surroundings", "toy-switcher", "toy-safe"),
        *("toy-uncompiled", "toy-unready", "toy-library", "toy-local"),
    }


def test_what_has_a_wheel_is_told_from_what_was_built_here_and_how_long_that_took(audited: VariantAudit) -> None:
    origins = {name: one.origin for name, one in packages(audited).items()}
    assert {name for name, origin in origins.items() if origin is Origin.BUILT} == {
        *("toy-switcher", "toy-safe", "toy-library", "toy-local")
    }
    assert 0.1 < (packages(audited)["toy-safe"].build_s or 0) < 120
    assert packages(audited)["toy-app"].build_s is None


def test_who_asks_for_a_package_is_told_by_line_or_by_package(audited: VariantAudit) -> None:
    rows = packages(audited)
    assert re.search(r"requirements\.txt:6 toy-safe ; python_version > \"3\"$", rows["toy-safe"].requirement)
    assert re.search(r"requirements\.txt:10 .*/project\[extra\]$", rows["toy-local"].requirement)
    assert (rows["toy-switcher"].requirement, rows["toy-switcher"].needed_by) == ("", ["toy-user"])
    assert rows["toy-unready"].needed_by == ["toy-app"]


def test_failures_have_the_last_words_of_who_failed_and_hide_no_other(audited: VariantAudit) -> None:
    failed = {one.name: one.reason for one in audited.packages if one.origin is Origin.FAILED}
    assert failed == {
        "toy-uncompiled": "toy.c:1:10: fatal error: no/such/header.h: No such file or directory",
        "toy-unready": "RuntimeError: toy-config is not there",
    }


def test_a_hang_is_a_result(audited: VariantAudit) -> None:
    (error,) = errors(audited, "toy-hangs")
    assert error.endswith("6 s")


def test_modules_are_imported_by_a_normal_user_without_a_network(audited: VariantAudit) -> None:
    assert errors(audited, "toy-surroundings") == [""]


def test_a_library_that_only_the_builder_has_is_missed_where_it_will_run(audited: VariantAudit) -> None:
    assert packages(audited)["toy-library"].origin is Origin.BUILT
    assert errors(audited, "toy-library") == [
        "",
        "ImportError: libcurl-gnutls.so.4: cannot open shared object file: No such file or directory",
    ]


def test_further_modules_are_imported_besides(audited: VariantAudit) -> None:
    assert [(one.module, one.error, one.gil_by) for one in audited.further] == [
        ("toy_user", "", ""),
        ("json", "", ""),
        ("no.such", "ModuleNotFoundError: No module named 'no'", ""),
    ]


def test_a_second_audit_takes_what_was_built_before_and_what_a_build_writes_reaches_neither_it_nor_its_neighbours(
    run: Auditing, audited: VariantAudit, url: str, tmp_path: Path
) -> None:
    (tmp_path / "poison.txt").write_text(f"--index-url {url}\ntoy-poison\ntoy-switcher\n")
    (poisoned,) = run(tmp_path / "poison.txt")
    assert {one.name: one.reason for one in poisoned.packages} == {"toy-poison": "", "toy-switcher": ""}
    (tmp_path / "r.txt").write_text(f"--index-url {url}\ntoy-safe\n")
    (found,) = run(tmp_path / "r.txt")
    (row,) = found.packages
    assert (row.origin, row.reason, [one.error for one in row.imports]) == (Origin.BUILT, "", [""])
    assert row.build_s == packages(audited)["toy-safe"].build_s, "it is the one that was kept"


@pytest.mark.promise
def test_one_package_that_prints_without_end_is_one_row(run: Auditing, url: str, tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text(f"--index-url {url}\ntoy-loud\ntoy-safe\ntoy-user\n")
    (found,) = run(tmp_path / "r.txt")
    rows = packages(found)
    assert {name: row.origin is Origin.FAILED for name, row in rows.items()} == {
        **dict.fromkeys(("toy-safe", "toy-user", "toy-switcher"), False),
        "toy-loud": True,
    }
    assert rows["toy-loud"].reason == "RuntimeError: it was loud"


@pytest.mark.promise(escapes=True)
def test_a_build_reaches_no_service_of_this_machine_alone_and_no_file_outside_of_the_users_folder(
    run: Auditing, here: str, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "secret").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as service:
        file, data = wheelhouse.source("toy-curious", before=CURIOUS.replace("PORT", str(service.getsockname()[1])))
        with wheelhouse.index({file: data}, host=here) as address:
            (tmp_path / "mine/r.txt").write_text(f"--index-url {address}\ntoy-curious\n")
            (found,) = run(tmp_path / "mine/r.txt")
            assert re.search(r"not reached, .*eth0", packages(found)["toy-curious"].reason)
            (tmp_path / "mine/r.txt").write_text("--index-url http://127.0.0.1:1\ntoy-curious\n")
            with pytest.raises(RequirementsError, match="line 1"):
                run(tmp_path / "mine/r.txt")
    (tmp_path / "mine/r.txt").write_text("six\n--find-links ..\n")
    with pytest.raises(RequirementsError, match="line 2"):
        run(tmp_path / "mine/r.txt")


def test_a_private_index_is_asked_with_the_password_that_a_variable_has_and_hashes_hold(
    run: Auditing, here: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_PASSWORD", "secret")
    lines = [
        f"{file.partition('-')[0]}==1.0 \\\n    {wheelhouse.hash_of(PACKAGES[file])}"
        for file in ("toy_user-1.0-py3-none-any.whl", "toy_switcher-1.0.tar.gz")
    ]
    with wheelhouse.index(PACKAGES, "me:secret", here) as address:
        guarded = address.replace("http://", "http://me:${TOY_PASSWORD}@")
        (tmp_path / "r.txt").write_text("\n".join([f"--index-url {guarded}", "--require-hashes", *lines]))
        (found,) = run(tmp_path / "r.txt")
    assert {one.name: one.origin for one in found.packages} == {
        "toy-user": Origin.WHEEL,
        "toy-switcher": Origin.BUILT,
    }
    assert "secret" not in found.model_dump_json()


def test_constraints_includes_folders_of_wheels_and_repositories_hold(run: Auditing, here: str, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    for file in ("toy_versions-1.0-py3-none-any.whl", "toy_versions-2.0-py3-none-any.whl"):
        (tmp_path / "wheels" / file).write_bytes(PACKAGES[file])
    (tmp_path / "wheels" / "toy_hangs-1.0-py3-none-any.whl").write_bytes(PACKAGES["toy_hangs-1.0-py3-none-any.whl"])
    (tmp_path / "base.txt").write_text("--no-index\n--find-links ./wheels\ntoy-versions\n")
    (tmp_path / "c.txt").write_text("toy-versions<2\ntoy-hangs==7\n")
    folder = tmp_path / "repository"
    for path, text in wheelhouse.project("toy-local", init="").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    with git_server(tmp_path, here) as address:
        (tmp_path / "r.txt").write_text(f"-r base.txt\n-c c.txt\ntoy-local @ git+{address}/repository\n")
        (found,) = run(tmp_path / "r.txt")
    assert [(one.name, one.version, one.origin, one.reason) for one in found.packages] == [
        ("toy-local", "1.0", Origin.BUILT, ""),
        ("toy-versions", "1.0", Origin.WHEEL, ""),
    ]


@contextmanager
def git_server(folder: Path, host: str) -> Iterator[str]:
    with socket.create_server((host, 0)) as free:
        port = free.getsockname()[1]
    where = [f"--listen={host}", f"--port={port}", f"--base-path={folder}"]
    # --strict-paths and a file to export by are for servers that others reach.
    with subprocess.Popen(["git", "daemon", "--export-all", "--reuseaddr", *where, str(folder)]) as server:
        try:
            yield f"git://{host}:{port}"
        finally:
            server.terminate()


@pytest.mark.slow
def test_a_variant_whose_pip_cannot_be_asked_is_unsupported_and_says_why(
    run: Auditing, built: Images, tmp_path: Path
) -> None:
    (tmp_path / "r.txt").write_text("six\n")
    (none,) = run(tmp_path / "r.txt", images=[built[NO_THREADS]])
    assert none.outcome.state is State.UNSUPPORTED
    assert re.search(r"\bpip\b", none.outcome.reason)


def test_the_command_is_a_gate_with_a_table_or_json(
    alone: Path, quick: Built, url: str, tmp_path: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(alone)
    (tmp_path / "good.txt").write_text(f"--index-url {url}\ntoy-safe\n")
    (tmp_path / "bad.txt").write_text(f"--index-url {url}\ntoy-user\ntoy-library\n")
    asked = ["audit", "--variants", quick.variant]
    code, said, errors = entry(*asked, "-r", tmp_path / "good.txt")
    assert (code, errors) == (0, "")
    assert "toy-safe 1.0" in said
    code, said, errors = entry(*asked, "-r", tmp_path / "bad.txt", "--json")
    assert code == 1
    error = json.loads(errors)["error"]
    assert error["kind"] == "AuditError"
    assert "toy-library 1.0 on debian-3.13" in error["message"]
    read = json.loads(said)
    (audited,) = read["variants"]
    assert audited["variant"] == QUICK
    assert [one["name"] for one in audited["packages"]] == ["toy-library", "toy-switcher", "toy-user"]


def test_an_interrupted_audit_leaves_nothing_behind(
    client: Any, alone: Path, quick: Built, here: str, tmp_path: Path
) -> None:
    file, data = wheelhouse.source("toy-slow", slow="import time; time.sleep(300)")
    with wheelhouse.index({file: data}, host=here) as address:
        (tmp_path / "r.txt").write_text(f"--index-url {address}\ntoy-slow\n")
        words = command("audit", "-r", str(tmp_path / "r.txt"), "--variants", quick.variant)
        with subprocess.Popen(words, cwd=alone, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            watchdog = threading.Timer(300, process.kill)
            watchdog.start()
            assert process.stdout is not None
            assert any("building toy-slow" in line for line in process.stdout)
            time.sleep(1)
            during = owned(client, PID, process.pid)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate()
            watchdog.cancel()
    assert process.returncode == 130
    assert "interrupted" in said
    assert len(during) > 1
    assert owned(client, PID, process.pid) == {}
    assert CACHE_VOLUME in {volume.name for volume in client.volumes.list()}


PYLOCK = """\
lock-version = "1.0"
created-by = "a test"
default-groups = ["default"]
dependency-groups = ["default", "test"]
"""
LOCKED = """
[[packages]]
name = "toy-versions"
version = "{version}"
marker = "{marker}"
wheels = [{{ url = "{url}/{file}", hashes = {{ sha256 = "{sum}" }} }}]
"""


def test_of_a_lock_what_the_variants_own_markers_ask_for_is_audited(run: Auditing, url: str, tmp_path: Path) -> None:
    assert sys.version_info[:2] != (3, 13), "this process's markers would be the variant's"
    text = PYLOCK
    for version, marker in (("1.0", "python_version == '3.13' and 'default' in dependency_groups"), ("2.0", HERE)):
        file = f"toy_versions-{version}-py3-none-any.whl"
        checked = wheelhouse.hash_of(PACKAGES[file]).removeprefix("--hash=sha256:")
        text += LOCKED.format(version=version, marker=marker, url=url, file=file, sum=checked)
    (tmp_path / "pylock.toml").write_text(text)
    (tmp_path / "where.txt").write_text(f"--index-url {url}\n")
    (found,) = run(tmp_path / "where.txt", tmp_path / "pylock.toml")
    assert [(one.name, one.version, one.origin) for one in found.packages] == [("toy-versions", "1.0", Origin.WHEEL)]
    assert "pylock.toml:7 toy-versions==1.0" in found.packages[0].requirement
