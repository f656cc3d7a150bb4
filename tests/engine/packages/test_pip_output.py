"""pip's own words, as it printed them in images: those that say why it failed."""

from __future__ import annotations

import time

import pytest

from interlock.engine.packages import pip_output
from interlock.engine.packages.pip_output import last_words, not_fetched, pip_version

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
CUT = "xxxx\n      RuntimeError: it was loud\n      [end of output]\n\nerror: subprocess-exited-with-error\n"


def none_fits(wanted: str, versions: str, before: str = "") -> str:
    return (
        f"{before}ERROR: Could not find a version that satisfies the requirement {wanted} (from versions: {versions})\n"
        f"ERROR: No matching distribution found for {wanted}\n"
    )


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            BACKEND_FAILED,
            "Exception: Can not find valid pkg-config name. / "
            "Specify MYSQLCLIENT_CFLAGS and MYSQLCLIENT_LDFLAGS env vars manually",
        ),
        (OLD_SETUP_FAILED, "EnvironmentError: mysql_config not found"),
        (OLD_WHEEL_FAILED, "_toy.c:6:48: error: 'NOTHING' undeclared (first use in this function)"),
        (CONFLICT, "conflict: The user requested urllib3<1.20; requests 2.32.0 depends on urllib3<3 and >=1.21.1"),
        (
            none_fits("torch==2.7.0", "2.9.0, 2.15.0"),
            "Could not find a version that satisfies the requirement torch==2.7.0 (from versions: 2.9.0, 2.15.0) / "
            "No matching distribution found for torch==2.7.0",
        ),
        (COMPILER_FAILED, "toy.c:2:10: fatal error: mysql/mysql.h: No such file or directory"),
        (CARGO_FAILED, "orjson v3.13.0 does not support free-threaded Python"),
        (ASKED_FOR_A_TOOL, "Error: pg_config executable not found."),
        (CUT, "RuntimeError: it was loud"),
        ("one\n\ntwo\nthree\n", "two / three"),
        ("chatter\nERROR: Cannot find command 'git'\n[notice] A new release\n", "Cannot find command 'git'"),
        ("", ""),
        ("x" * 10_000, "x" * 397 + "..."),
    ],
    ids=[
        *("backend", "old set-up", "old wheel", "conflict", "no version", "compiler", "cargo", "tool"),
        *("without its beginning", "of no known form", "of pip alone", "nothing", "long"),
    ],
)
def test_the_lines_that_say_why_are_quoted(output: str, words: str) -> None:
    assert last_words(output) == words


def test_of_an_index_that_does_not_answer_the_connection_s_words_are_quoted_too() -> None:
    retried = (
        "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection "
        "broken by 'NewConnectionError('<X object at 0x7f>: Failed to establish a new connection: [Errno 111] "
        "Connection refused')': /simple/six/\n"
    )
    assert last_words(retried + none_fits("six", "none")).endswith("[Errno 111] Connection refused')")


def test_of_a_hash_both_sums_are_quoted_and_of_a_missing_one_the_package() -> None:
    assert last_words(WRONG_HASH).endswith("Expected sha256 aaaa / Got        946d")
    assert "Werkzeug>=3.1" in last_words(UNHASHED)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (UNREACHABLE, "[Errno -2] Name or service not known')) "),
        (UNTRUSTED, "self-signed certificate in certificate chain (_ssl.c:1028)'))) "),
        (DENIED, "401 Client Error: Unauthorized "),
        (DENIED.replace("401 Client Error: Unauthorized", "404 Client Error: Not Found"), " "),
    ],
)
def test_a_page_that_an_index_did_not_give_is_quoted_from_the_log(log: str, words: str) -> None:
    assert f"{not_fetched(log)} ".endswith(words)


def test_pips_version_is_read_or_there_is_no_pip() -> None:
    assert pip_version("pip 25.1.1 from /usr/local/lib (python 3.13)") == (25, 1)
    for other in ("/usr/local/bin/python: No module named pip", f"pip {'9' * 5000}.1"):
        assert pip_version(other) is None


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
    pip_output.not_fetched(said)
    pip_output.last_words(said)
    assert time.process_time() - start < 2
