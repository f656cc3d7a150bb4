"""The real b2 client, in the releases that its workload names, downloads every byte from the real server."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.integration.test_downloads import Downloads, downloads

__all__ = ["downloads"]


@pytest.fixture(scope="module")
def single_mib() -> int:
    """So much that the client asks for it in ranges."""
    return 200


@pytest.fixture(scope="module")
def b2_packages(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The releases that workloads/download-b2.toml names for this interpreter."""
    folder = tmp_path_factory.mktemp("b2")
    lines = tomllib.loads((root / "workloads/download-b2.toml").read_text())["requirements"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *lines],
        check=True,
    )
    return folder


@pytest.mark.parametrize("more", [(), ("--tls-port", "8443")], ids=["in the clear", "by TLS"])
@pytest.mark.parametrize(
    ("what", "mib"),
    [("sdk-single", 200), ("sdk-many", 12), ("command-single", 200), ("command-sync", 12)],
)
def test_the_real_b2_client_downloads_every_byte(
    downloads: Downloads, b2_packages: Path, root: Path, tmp_path: Path, what: str, mib: int, more: tuple[str, ...]
) -> None:
    # On the network of the engine's host, which reaches its containers by address.
    done = subprocess.run(
        [
            sys.executable, str(root / "workloads/download_b2.py"), "--what", what, "--server", downloads.url,
            "--destination", str(tmp_path), "--loops", "1", "--warmups", "0", "--values", "1", *more,
        ],
        env={"PYTHONPATH": str(b2_packages), "no_proxy": "*", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["inner_loops"] == mib
    assert report["metadata"]["b2sdk"]
    assert ("tls" in report["metadata"]) is bool(more)
    assert list(tmp_path.iterdir()) == []
