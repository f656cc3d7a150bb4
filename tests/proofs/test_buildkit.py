"""BuildKit builds what the classic builder builds: the engine's tests of builds pass with the real buildx.

Debian 12 has no package of buildx: it comes out of an image with Debian 13's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.engine.build import one_build
from interlock.engine.docker import connect
from tests.builders import ROOT

TESTS = ("build", "sources", "symbols", "verify", "cells", "audit", "trial")


def test_the_engines_tests_of_builds_pass_with_buildkit(buildx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(buildx))
    monkeypatch.delenv("DOCKER_BUILDKIT", raising=False)
    assert one_build.has_buildkit(connect().client)
    files = [str(ROOT / f"tests/integration/test_{name}.py") for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-n2", "-p", "no:cacheprovider", "-m", "not slow", *files]
    done = subprocess.run(command, cwd=ROOT, env=os.environ.copy(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
