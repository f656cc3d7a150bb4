"""pip's own words, as it printed them in images: at which package it stopped and why; and its report."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from interlock.engine.packages import pip_output
from interlock.engine.packages.pip_output import (
    PipFailure,
    blame,
    blame_deadline,
    fitting_version,
    last_words,
    parse_report,
    pip_version,
    stub_wheel,
)

BACKEND_FAILED = """\
Collecting requests (from -r /r.txt (line 1))
  Downloading requests-2.34.2-py3-none-any.whl (73 kB)
Collecting mysqlclient<3,>=2 (from -r /r.txt (line 3))
  Downloading mysqlclient-2.3.1.tar.gz (103 kB)
  Installing build dependencies: started
  Installing build dependencies: finished with status 'done'
  Getting requirements to build wheel: started
  Getting requirements to build wheel: finished with status 'error'
  error: subprocess-exited-with-error

  \u00d7 Getting requirements to build wheel did not run successfully.
  │ exit code: 1
  ╰─> [35 lines of output]
      Trying pkg-config --exists mysqlclient
      Traceback (most recent call last):
        File "<string>", line 27, in find_package_name
      Exception: Can not find valid pkg-config name.
      Specify MYSQLCLIENT_CFLAGS and MYSQLCLIENT_LDFLAGS env vars manually
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
ERROR: Failed to build 'mysqlclient' when getting requirements to build wheel
"""
COMPILER_FAILED = """\
  error: subprocess-exited-with-error

  \u00d7 Building wheel for toy (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [9 lines of output]
      running build_ext
      gcc -pthread -Wsign-compare -fPIC -I/usr/local/include/python3.13t -c toy.c -o build/toy.o
      toy.c:2:10: fatal error: mysql/mysql.h: No such file or directory
          2 | #include <mysql/mysql.h>
            |          ^~~~~~~~~~~~~~~
      toy.c:9:1: error: unknown type name 'MYSQL'
      compilation terminated.
      error: command '/usr/bin/gcc' failed with exit code 1
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for toy
"""
CARGO_FAILED = """\
  error: subprocess-exited-with-error
  \u2570\u2500> [58 lines of output]
         Compiling orjson v3.13.0 (/tmp/pip-wheel-0dqhaaxl/orjson)
      error: failed to run custom build command for `orjson v3.13.0 (/tmp/pip-wheel-0dqhaaxl/orjson)`

      Caused by:
        process didn't exit successfully: `/tmp/build-script-build` (exit status: 1)
        --- stderr



        orjson v3.13.0 does not support free-threaded Python

      Error: command ['maturin', 'pep517', 'build-wheel'] returned non-zero exit status 1
      [end of output]
"""
ASKED_FOR_A_TOOL = """\
  error: subprocess-exited-with-error
  \u2570\u2500> [23 lines of output]
      running egg_info
      Error: pg_config executable not found.

      pg_config is required to build psycopg2 from source.
      For further information please check the 'doc/src/install.rst' file.
      [end of output]
"""
LOCAL_FAILED = """\
Processing /audit/local/0 (from -r /audit/requirements.txt (line 1))
  Preparing metadata (pyproject.toml): started
  Preparing metadata (pyproject.toml): finished with status 'error'
  error: subprocess-exited-with-error
"""
UNREACHABLE = """\
2026-11-21T16:00:00,123   Could not fetch URL https://x.invalid/simple/idna/: connection error: \
HTTPSConnectionPool(host='x.invalid', port=443): Max retries exceeded with url: /simple/idna/ (Caused by \
NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new \
connection: [Errno -2] Name or service not known')) - skipping
"""
UNTRUSTED = """\
2026-11-21T16:00:00,123   Could not fetch URL https://x.example/simple/idna/: There was a problem confirming the ssl \
certificate: HTTPSConnectionPool(host='x.example', port=443): Max retries exceeded with url: /simple/idna/ (Caused by \
SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed \
certificate in certificate chain (_ssl.c:1028)'))) - skipping
"""
DENIED = """\
16:00:00,123   Could not fetch URL http://me:****@x.example/simple/foo/: 401 Client Error: Unauthorized for url: \
http://x.example/simple/foo/ - skipping
"""
CONFLICT = """\
ERROR: Cannot install -r /r.txt (line 2) and urllib3<1.20 because these package versions have conflicting dependencies.

The conflict is caused by:
    The user requested urllib3<1.20
    requests 2.32.0 depends on urllib3<3 and >=1.21.1

Additionally, some packages in these conflicts have no matching distributions available for your environment:
    urllib3

ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/
"""
WRONG_HASH = """\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, \
please update the hashes. Otherwise, examine the package contents carefully; someone may have tampered with them.
    idna==3.10 from https://files.example/idna-3.10-py3-none-any.whl#sha256=946d (from -r /r.txt (line 1)):
        Expected sha256 aaaa
             Got        946d
"""
UNHASHED = """\
ERROR: In --require-hashes mode, all requirements must have their versions pinned with ==. These do not:
    Werkzeug>=3.1 from https://files.example/werkzeug-3.1.9-py3-none-any.whl#sha256=6392 (from flask==3.1.0)
"""


def none_fits(wanted: str, versions: str, before: str = "") -> str:
    return (
        f"{before}ERROR: Could not find a version that satisfies the requirement {wanted} (from versions: {versions})\n"
        f"ERROR: No matching distribution found for {wanted}\n"
    )


def test_a_package_whose_backend_fails_is_named_with_its_version_and_the_exceptions_words() -> None:
    words = (
        "Exception: Can not find valid pkg-config name. / "
        "Specify MYSQLCLIENT_CFLAGS and MYSQLCLIENT_LDFLAGS env vars manually"
    )
    assert blame(BACKEND_FAILED) == PipFailure(words, "mysqlclient", "2.3.1", "mysqlclient<3,>=2")


def test_a_package_without_a_fitting_version_is_named_with_what_there_is() -> None:
    found = blame(none_fits("torch==2.7.0", "2.9.0, 2.9.1, 2.14.1, 2.15.0"))
    assert (found.name, found.version, found.made_up) == ("torch", "2.7.0", True)
    wanted, _, there = found.words.partition(": ")
    assert wanted.split()[-1] == "torch==2.7.0"
    assert re.findall(r"[0-9.]+", there) == ["2.9.1", "2.14.1", "2.15.0"]


def test_who_asks_for_it_is_no_part_of_the_requirement() -> None:
    found = blame(none_fits("Zope.Interface>=9 (from pyramid)", "none"))
    assert (found.name, found.version) == ("zope-interface", "9")
    assert "pyramid" not in found.words


def test_versions_for_another_python_are_told() -> None:
    other = "ERROR: Ignored the following versions that require a different python version: 1.0 Requires-Python <3.13; "
    found = blame(none_fits("foo", "none", f"{other}2.0 Requires-Python <3.14\n"))
    assert found.words.endswith("(others: 2.0 Requires-Python <3.14)")


def test_a_refused_password_is_told_and_a_package_that_an_index_does_not_know_is_no_refusal() -> None:
    assert blame(none_fits("foo", "none"), DENIED).words.endswith("(401 Client Error: Unauthorized)")
    unknown = DENIED.replace("401 Client Error: Unauthorized", "404 Client Error: Not Found")
    assert "Error" not in blame(none_fits("foo", "none"), unknown).words


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (UNREACHABLE, "[Errno -2] Name or service not known"),
        (UNTRUSTED, "self-signed certificate in certificate chain (_ssl.c:1028)"),
        (DENIED.replace("401 Client Error: Unauthorized", "503 Server Error: Busy"), "503 Server Error: Busy"),
    ],
)
def test_an_index_that_does_not_answer_is_no_packages_fault(log: str, words: str) -> None:
    found = blame(none_fits("foo", "none"), log)
    assert (found.unreachable, found.words) == (True, words)


def test_an_index_that_answered_after_all_is_not_unreachable() -> None:
    assert not blame(BACKEND_FAILED, UNREACHABLE).unreachable
    assert not blame(none_fits("idna==99", "3.10"), UNREACHABLE).unreachable


def test_a_conflict_is_no_packages_fault_and_is_told_whole() -> None:
    expected = "conflict: The user requested urllib3<1.20; requests 2.32.0 depends on urllib3<3 and >=1.21.1"
    assert blame(CONFLICT) == PipFailure(expected, suspects=frozenset({"urllib3", "requests"}))


def test_a_wrong_and_a_missing_hash_name_their_package() -> None:
    found = blame(WRONG_HASH)
    assert found.name == "idna"
    assert {"aaaa,", "946d"} <= set(found.words.split())
    assert blame(UNHASHED).name == "werkzeug"


def test_a_local_project_is_known_by_its_place_alone() -> None:
    found = blame(LOCAL_FAILED)
    assert (found.name, found.place) == ("", "/audit/local/0")


def test_at_the_deadline_the_package_is_named_whose_own_code_ran() -> None:
    before = BACKEND_FAILED.partition("  Getting requirements to build wheel: finished")[0]
    found = blame_deadline(before, 30)
    assert (found.name, found.version, found.place) == ("mysqlclient", "2.3.1", "mysqlclient<3,>=2")
    assert "30 s" in found.words
    assert blame_deadline("Collecting requests\n", 30) == PipFailure(found.words)


def test_of_a_compilers_words_its_first_error_counts() -> None:
    assert last_words(COMPILER_FAILED) == "toy.c:2:10: fatal error: mysql/mysql.h: No such file or directory"


def test_of_the_words_of_those_who_call_compilers_the_cause_counts() -> None:
    assert last_words(CARGO_FAILED) == "orjson v3.13.0 does not support free-threaded Python"
    assert last_words(ASKED_FOR_A_TOOL) == "Error: pg_config executable not found."


def test_without_a_known_form_the_last_lines_count() -> None:
    assert last_words("one\n\ntwo\nthree\n") == "two / three"
    assert (
        last_words("chatter\nERROR: Cannot find command 'git'\n[notice] A new release\n") == "Cannot find command 'git'"
    )
    assert last_words("") == ""


def test_last_words_are_short() -> None:
    assert len(last_words("x" * 10_000)) == 400


@given(st.text())
def test_any_output_is_blamed_on_something(output: str) -> None:
    assert isinstance(blame(output).words, str)
    assert isinstance(blame_deadline(output, 1).words, str)


@given(
    st.lists(
        st.builds(
            "{}{}".format,
            st.sampled_from([">=", ">", "==", "~=", "<", "<=", "!="]),
            st.sampled_from(["1.2", "3.0", "0.9"]),
        ),
        max_size=3,
        unique=True,
    )
)
def test_a_version_is_made_up_that_fits_if_one_of_these_can(specifiers: list[str]) -> None:
    wanted = f"foo{','.join(specifiers)}"
    fits = Requirement(wanted).specifier.contains
    if any(fits(one) for one in ("0", "0.9", "1.2", "3.0", "0.9.1", "1.2.1", "3.0.1", "1.0", "2.0", "4.0")):
        assert fits(fitting_version(wanted))


def test_pips_version_is_read_or_there_is_no_pip() -> None:
    assert pip_version("pip 25.1.1 from /usr/local/lib (python 3.13)") == (25, 1)
    assert pip_version("/usr/local/bin/python: No module named pip") is None


def test_pip_takes_a_stand_in_for_the_package_of_its_name_and_version(tmp_path: Path) -> None:
    file, data = stub_wheel("Some.Name", "1.2.3")
    (tmp_path / file).write_bytes(data)
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-index", "--quiet"]
    wanted = ["--report", "-", "--find-links", str(tmp_path), "some-name>=1.2"]
    said = subprocess.run([*command, *wanted], capture_output=True, text=True, check=True, timeout=60).stdout
    (found,) = parse_report(said)
    assert (found.key, found.version) == ("some-name", "1.2.3")


@pytest.mark.parametrize("name", ["foo", "Some.Name"])
def test_equal_stand_ins_are_equal_bytes(name: str) -> None:
    assert stub_wheel(name, "1.0") == stub_wheel(name, "1.0")


# What pip 19.2 of 2.7 prints, which knows no other way to build than setup.py.
OLD_SETUP_FAILED = """\
Collecting six
  Downloading six-1.17.0-py2.py3-none-any.whl
Collecting mysqlclient==1.4.6
  Downloading https://files.example/mysqlclient-1.4.6.tar.gz (85kB)
    ERROR: Command errored out with exit status 1:
     command: /usr/local/bin/python -c 'import sys, setuptools' egg_info
         cwd: /tmp/pip-wheel-Z5hRry/mysqlclient/
    Complete output (12 lines):
    sh: 1: mysql_config: not found
    Traceback (most recent call last):
      File "<string>", line 1, in <module>
      File "setup_posix.py", line 29, in mysql_config
        raise EnvironmentError("%s not found" % (_mysql_config_path,))
    EnvironmentError: mysql_config not found
    ----------------------------------------
ERROR: Command errored out with exit status 1: python setup.py egg_info Check the logs for full command output.
"""
OLD_WHEEL_FAILED = """\
Collecting toy==2.0
  Downloading https://files.example/toy-2.0.tar.gz
Collecting six
  Downloading six-1.17.0-py2.py3-none-any.whl
Building wheels for collected packages: toy
  Building wheel for toy (setup.py): started
  Building wheel for toy (setup.py): finished with status 'error'
  ERROR: Command errored out with exit status 1:
   command: /usr/local/bin/python -u -c 'import sys, setuptools' bdist_wheel -d /tmp/pip-wheel-1 --python-tag cp27
       cwd: /tmp/pip-wheel-2/toy/
  Complete output (9 lines):
  running build_ext
  gcc -pthread -fno-strict-aliasing -fPIC -I/usr/local/include/python2.7 -c _toy.c -o build/_toy.o
  _toy.c:6:48: error: 'NOTHING' undeclared (first use in this function)
  error: command 'gcc' failed with exit status 1
  ----------------------------------------
  ERROR: Failed building wheel for toy
  Running setup.py clean for toy
Failed to build toy
ERROR: Failed to build one or more wheels
"""


def test_an_old_pip_whose_package_cannot_be_asked_names_it_and_the_exceptions_words() -> None:
    found = blame(OLD_SETUP_FAILED)
    assert (found.name, found.version) == ("mysqlclient", "1.4.6")
    assert found.words == "EnvironmentError: mysql_config not found"


def test_a_wheel_that_cannot_be_built_is_to_blame_and_not_what_was_collected_last() -> None:
    words = "_toy.c:6:48: error: 'NOTHING' undeclared (first use in this function)"
    assert blame(OLD_WHEEL_FAILED) == PipFailure(words, "toy", "2.0")


def test_an_old_pip_s_indented_error_is_read_as_well() -> None:
    found = blame(f"  {none_fits('six==99', '1.15.0, 1.16.0')}")
    assert all(version in found.words for version in ("six==99", "1.15.0", "1.16.0"))


def item(name: str, info: dict[str, Any], *requires: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "version": "1.0", "requires_dist": list(requires)}
    return {"metadata": metadata, "download_info": info, "requested": False, **more}


def report(*items: dict[str, Any]) -> str:
    environment = {
        "implementation_name": "cpython",
        "implementation_version": "3.13.5",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_release": "6",
        "platform_system": "Linux",
        "platform_version": "1",
        "python_full_version": "3.13.5",
        "python_version": "3.13",
        "sys_platform": "linux",
    }
    return json.dumps({"version": "1", "install": items, "environment": environment})


def archive(file: str) -> dict[str, Any]:
    return {"url": f"https://files.example/{file}", "archive_info": {"hashes": {"sha256": "00ff"}}}


def test_a_wheel_and_a_source_are_told_apart_and_got_again_by_their_hash() -> None:
    wheel, source = parse_report(
        report(item("Foo", archive("foo-1.0-py3-none-any.whl")), item("bar", archive("bar-1.0.tar.gz")))
    )
    assert (wheel.is_wheel, wheel.key, wheel.lasting) == (True, "foo", True)
    assert wheel.spec == "Foo @ https://files.example/foo-1.0-py3-none-any.whl#sha256=00ff"
    assert (source.is_wheel, source.lasting) == (False, True)


def test_a_folder_and_a_repository_may_change_and_are_not_lasting() -> None:
    git = {
        "url": "https://example.org/p.git",
        "vcs_info": {"vcs": "git", "commit_id": "abc"},
        "subdirectory": "python",
    }
    folder, repository = parse_report(
        report(item("foo", {"url": "file:///audit/local/0", "dir_info": {}}), item("bar", git, requested=True))
    )
    assert (folder.spec, folder.lasting) == ("foo @ file:///audit/local/0", False)
    assert repository.spec == "bar @ git+https://example.org/p.git@abc#subdirectory=python"
    assert (repository.lasting, repository.requested) == (False, True)


def test_who_needs_a_package_follows_markers_and_extras() -> None:
    items = [
        item("app", archive("app-1.whl"), "Web[fast]>=1", "old; python_version < '3'", requested=True),
        item("web", archive("web-1.whl"), "core", "speed; extra == 'fast'", "slow; extra == 'slow'"),
        item("core", archive("core-1.whl"), "app"),
        item("speed", archive("speed-1.whl")),
        item("slow", archive("slow-1.whl"), "not a requirement at all"),
        item("old", archive("old-1.whl")),
    ]
    found = {one.name: one.needed_by for one in parse_report(report(*items))}
    assert found == {"app": ["core"], "web": ["app"], "core": ["web"], "speed": ["web"], "slow": [], "old": []}


def test_an_extra_that_a_line_asks_for_counts() -> None:
    items = [
        item("web", archive("web-1.whl"), "speed; extra == 'fast'", requested_extras=["fast"]),
        item("speed", archive("speed-1.whl")),
    ]
    assert parse_report(report(*items))[1].needed_by == ["web"]


def test_a_version_of_thousands_of_digits_fits_nothing() -> None:
    assert fitting_version(f"a>={'9' * 5000}") == "0"
    assert pip_version(f"pip {'9' * 5000}.1") is None


@pytest.mark.parametrize(
    "piece",
    [
        "\n",
        " \n",
        "DO NOT MATCH THE HASHES\n  a from ",
        "DO NOT MATCH THE HASHES",
        "all requirements must have their versions pinned ",
        "Complete output (1 lines):\n",
        "ERROR: Could not find a version that satisfies the requirement ",
        "error: subprocess-exited-with-error\n",
    ],
)
def test_what_a_build_prints_again_and_again_takes_no_time(piece: str) -> None:
    said, start = piece * (200_000 // len(piece)), time.process_time()
    pip_output.blame(said, said)
    pip_output.last_words(said)
    assert time.process_time() - start < 2
