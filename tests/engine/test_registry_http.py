"""Which registries an engine takes without TLS, and what a manifest is."""

from __future__ import annotations

import hashlib

import pytest

from interlock.engine.registry_http import DOCKER_LIST, MANIFESTS, Manifest, allows_plain

INFO = {
    "RegistryConfig": {
        "InsecureRegistryCIDRs": ["127.0.0.0/8", "::1/128"],
        "IndexConfigs": {"docker.io": {"Secure": True}, "registry.invalid:5000": {"Secure": False}},
    }
}


@pytest.mark.parametrize(
    ("host", "plain"),
    [
        ("127.0.0.1:5000", True),
        ("localhost:5000", True),
        ("registry.invalid:5000", True),
        ("registry.invalid", False),
        ("docker.io", False),
        ("192.0.2.1:5000", False),
    ],
)
def test_a_registry_may_be_without_tls_where_the_engine_says_so(host: str, plain: bool) -> None:
    assert allows_plain(INFO, host) is plain
    assert allows_plain({}, host) is False


def test_a_manifest_has_the_digest_of_its_bytes_and_knows_an_index() -> None:
    content = b'{"manifests": []}'
    index = Manifest(DOCKER_LIST, content)
    assert index.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert index.is_index
    assert index.fields == {"manifests": []}
    assert not Manifest(MANIFESTS[0], content).is_index
