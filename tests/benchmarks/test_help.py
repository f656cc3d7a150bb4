"""How long `interlock --help` takes, beside a Python that does nothing. Printed; the aim is 0.35 s."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

PROGRAMS = {
    "nothing": [sys.executable, "-c", "pass"],
    "--help": [sys.executable, "-c", "from interlock.cli.main import main; main()", "--help"],
    "--version": [sys.executable, "-c", "from interlock.cli.main import main; main()", "--version"],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_start(benchmark: BenchmarkFixture, name: str) -> None:
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        subprocess.run,
        args=(PROGRAMS[name],),
        kwargs={"check": True, "capture_output": True},
        rounds=20,
        warmup_rounds=2,
    )
