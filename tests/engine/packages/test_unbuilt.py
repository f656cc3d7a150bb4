"""What the log of a build says of a package without a wheel."""

from __future__ import annotations

import pytest

from interlock.engine.packages.unbuilt import unbuilt_words

# ruff: noqa: RUF001  as pip and uv print it
OLD_PIP = """\
#9 3.114   Building wheel for gevent (pyproject.toml): started
#9 8.201   error: subprocess-exited-with-error
#9 8.201   × Building wheel for gevent (pyproject.toml) did not run successfully.
#9 8.201   ╰─> [9 lines of output]
#9 8.201       configure: error: no acceptable C compiler found in $PATH
#9 8.201       subprocess.CalledProcessError: Command '['sh', './configure', '-C']' returned non-zero exit status 1.
#9 8.201       [end of output]
#9 8.202   ERROR: Failed building wheel for gevent
#9 8.203 ERROR: Failed to build installable wheels for some pyproject.toml based projects: gevent
"""
NEW_PIP = """\
Collecting cffi==1.17.1
  error: subprocess-exited-with-error
  × Getting requirements to build wheel did not run successfully.
  ╰─> [3 lines of output]
      RuntimeError: CFFI does not support the free-threaded build of CPython 3.13.
      [end of output]
ERROR: Failed to build 'cffi' when getting requirements to build wheel
"""
UV = """\
  × Failed to build `orjson==3.10.0`
  ├─▶ The build backend returned an error
      error: can't find Rust compiler
"""


@pytest.mark.parametrize(
    ("log", "first"),
    [
        (OLD_PIP, "gevent has no wheel for cp314t and needs a C compiler to build; pip: configure: error:"),
        (NEW_PIP, "cffi has no wheel for cp314t and does not build; pip: RuntimeError: CFFI does not support"),
        (NEW_PIP.replace("ERROR: Failed to build 'cffi' when", "ERROR: Failed"), "cffi 1.17.1 has no wheel for cp314t"),
        (UV, "orjson 3.10.0 has no wheel for cp314t and needs a Rust compiler to build; pip: "),
        (
            OLD_PIP.replace("configure: error: no acceptable C compiler found in $PATH", "sh: 1: pg_config: not found"),
            "gevent has no wheel for cp314t and needs what is in Debian's libpq-dev to build",
        ),
    ],
)
def test_a_package_without_a_wheel_is_named_with_what_its_build_lacks(log: str, first: str) -> None:
    assert unbuilt_words(log, "cp314t").startswith(first)


def test_of_what_is_no_package_nothing_is_said() -> None:
    assert unbuilt_words("#7 0.9 make: *** No rule to make target 'all'.  Stop.", "cp314t") == ""
