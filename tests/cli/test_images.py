"""Which build of a variant a command takes, and the line that builds it."""

from __future__ import annotations

from interlock.cli.images import build_line
from tests.builders import make_built


def test_what_is_missing_is_built_by_its_name() -> None:
    assert build_line(make_built("cpython-3.14")) == "interlock build cpython-3.14"
