"""The fixtures of the tests of the engine: proofs are such tests that take too long for every change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import ROOT
from tests.integration.conftest import (  # noqa: F401
    buildx,
    built,
    catalog,
    cell,
    client,
    instruments,
    instruments_image,
    nothing_left,
    options,
    pytest_collection_modifyitems,
    quick,
    swap,
    unreachable,
    volume,
)
from tests.integration.test_profiler import programs, truth  # noqa: F401


@pytest.fixture(scope="session")
def root() -> Path:
    """The project as it is: what is proved is compiled as users compile it."""
    return ROOT
