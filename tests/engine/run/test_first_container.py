"""What is started to see whether an engine starts containers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from interlock.engine.run.first_container import why_no_container


def test_this_machines_own_program_is_started_wherever_it_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not every system has it in /usr/bin, and such an engine was said to start no container."""
    (tmp_path / "true").symlink_to(str(shutil.which("true")))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    client: Any = MagicMock()
    client.images.list.return_value = [MagicMock()]
    assert why_no_container(client) == ""
    assert client.containers.run.call_args.args[1] == [str(tmp_path / "true")]
