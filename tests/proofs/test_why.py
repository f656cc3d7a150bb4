"""Stacks on each interpreter whose frames are found in another way: see tests/integration/test_why.py."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine.run import cells
from interlock.engine.run.workspace import ContainerSandbox
from tests.integration import lock_lines
from tests.integration.images import Images
from tests.integration.test_why import OWNER, image_id, lock_sites, volume

__all__ = ["image_id", "volume"]


@pytest.mark.parametrize("pairs", [1, 8])
@pytest.mark.parametrize("variant", ["cpython-3.9", "cpython-3.11", "cpython-3.13", "cpython-3.14", "cpython-3.14t"])
def test_each_contended_acquire_comes_back_at_its_line(
    client: Any,
    built: Images,
    volume: str,
    image_id: str,
    variant: str,
    pairs: int,
) -> None:
    cell = cells.start_cell(client, built[variant].image_id, cells.CellOptions(OWNER, volume, None))
    lock_lines.assert_exact(lock_sites(ContainerSandbox(client, cell, OWNER, image_id), pairs), pairs)
