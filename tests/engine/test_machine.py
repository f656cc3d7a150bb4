"""What this machine says of itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.engine import machine


def test_the_facts_name_processor_memory_kernel_and_system() -> None:
    facts = machine.facts()
    assert facts["cores"] == os.cpu_count()
    assert facts["kernel"] == os.uname().release
    assert facts["memory_bytes"] > 2**28
    assert facts["cpu"]
    assert facts["system"]
    assert None not in facts.values()


@pytest.mark.parametrize("missing", ["not/there", "x" * 300])  # the last one cannot be asked for
def test_free_space_is_told_of_the_nearest_folder_that_exists(missing: str, tmp_path: Path) -> None:
    usage = os.statvfs(tmp_path)
    found = machine.free_bytes(tmp_path / missing)
    assert found is not None
    assert 0 < found <= usage.f_blocks * usage.f_frsize
