"""What Interlock signs, verified by Sigstore's own library in Rust (the crate `sigstore`), which does what cosign does.

Needs cargo, and some minutes to compile it the first time.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from interlock.catalog.project import cache_folder
from interlock.engine.registry.keys import SigningKey
from interlock.engine.registry.signatures import ImageByDigest, sign
from tests.builders import ROOT
from tests.engine.registry.test_signatures import address, keys, others, ours, place

__all__ = ["address", "keys", "others", "ours", "place"]
Keys = list[tuple[Path, Path]]


@pytest.fixture(scope="module")
def verify(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program: an image and a public key in, 0 if the key has signed the image."""
    source = tmp_path_factory.mktemp("verify") / "source"
    shutil.copytree(ROOT / "tests/proofs/verify", source)
    there = cache_folder() / "tests-verify"
    subprocess.run(["cargo", "build", "--quiet", "--target-dir", str(there)], cwd=source, check=True)
    return there / "debug/verify"


def says(verify: Path, place: ImageByDigest, key: Path) -> subprocess.CompletedProcess[str]:
    image = f"{place.host}/team/python@{place.digest}"
    return subprocess.run([str(verify), image, str(key)], capture_output=True, text=True, check=False)


def test_what_we_sign_is_verified_by_the_key_and_by_no_other(
    verify: Path, place: ImageByDigest, ours: SigningKey, keys: Keys
) -> None:
    assert says(verify, place, keys[0][1]).returncode != 0
    sign(place, ours)
    done = says(verify, place, keys[0][1])
    assert done.returncode == 0, done.stderr
    assert place.digest in done.stdout
    assert says(verify, place, keys[1][1]).returncode != 0


def test_a_second_signature_leaves_the_first_one_valid(
    verify: Path, place: ImageByDigest, ours: SigningKey, others: SigningKey, keys: Keys
) -> None:
    sign(place, ours)
    sign(place, others)
    assert [says(verify, place, public).returncode for _, public in keys] == [0, 0]
