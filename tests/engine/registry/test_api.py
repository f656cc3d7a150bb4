"""What a manifest, an index and a platform are."""

from __future__ import annotations

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.registry.api import (
    DOCKER_LIST,
    MANIFESTS,
    OCI_INDEX,
    Manifest,
    Tagged,
    entry_of,
    index_of,
    platform_of,
    platform_text,
)


def test_a_manifest_has_the_digest_of_its_bytes_and_knows_an_index() -> None:
    content = b'{"manifests": []}'
    index = Manifest(DOCKER_LIST, content)
    assert index.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert index.is_index
    assert not Manifest(MANIFESTS[0], content).is_index


AMD64 = {"os": "linux", "architecture": "amd64"}
ARM64 = {"os": "linux", "architecture": "arm64", "variant": "v8"}
DOCKER, OCI = MANIFESTS[:2]

entries = st.builds(
    lambda kind, text, platform: entry_of(Manifest(kind, text.encode()), platform),
    st.sampled_from([DOCKER, OCI]),
    st.text(),
    st.sampled_from([AMD64, ARM64]),
)


def test_a_platform_is_read_from_an_image_and_from_what_the_engine_says_of_it() -> None:
    assert platform_of({"os": "linux", "architecture": "arm64", "variant": "v8", "config": {}}) == ARM64
    assert platform_of({"Os": "linux", "Architecture": "amd64", "Variant": ""}) == AMD64
    assert platform_text(ARM64) == "linux/arm64/v8"


def test_an_entry_is_found_by_its_platform_and_others_are_kept_as_they_stand() -> None:
    ours = entry_of(Manifest(DOCKER, b"ours"), AMD64)
    arm = {**entry_of(Manifest(DOCKER, b"arm"), ARM64), "annotations": {"by": "them"}}
    nowhere = {"mediaType": OCI, "digest": "sha256:0", "size": 1}
    tagged = Tagged("sha256:1", (arm, ours, nowhere))
    assert tagged.entry_for(AMD64) == ours
    assert tagged.others(AMD64) == [arm, nowhere]
    assert tagged.entry_for({"os": "linux", "architecture": "s390x"}) is None


def test_an_entry_has_the_digest_and_size_of_the_very_bytes() -> None:
    content = b'{"schemaVersion": 2}'
    entry = entry_of(Manifest(DOCKER, content), AMD64)
    assert entry["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert entry["size"] == len(content)


@given(st.lists(entries, min_size=1, max_size=4, unique_by=lambda one: one["digest"]), st.randoms())
def test_an_index_is_the_same_in_whatever_order_its_images_came(found: list[dict[str, object]], random: object) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert index_of(found) == index_of(shuffled)
    fields = json.loads(index_of(found).content)
    assert {one["digest"] for one in fields["manifests"]} == {one["digest"] for one in found}
    kinds = {one["mediaType"] for one in found}
    assert fields["mediaType"] == (DOCKER_LIST if kinds == {DOCKER} else OCI_INDEX)
