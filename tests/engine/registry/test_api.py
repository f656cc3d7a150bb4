"""Which registries an engine takes without TLS, and what a manifest is."""

from __future__ import annotations

import hashlib
import json

import pytest
from docker.errors import DockerException
from hypothesis import given
from hypothesis import strategies as st
from requests.exceptions import ConnectionError as NotConnected

from interlock.engine.registry.api import (
    DOCKER_LIST,
    MANIFESTS,
    OCI_INDEX,
    Manifest,
    Tagged,
    allows_plain,
    cause_of,
    entry_of,
    explain,
    index_of,
    platform_of,
    platform_text,
    registry_errors,
)
from interlock.errors import RegistryError

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


HOST = "registry.example:5000"
URL = f'Get "https://{HOST}/v2/": '


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (f'Head "https://{HOST}/v2/x": no basic auth credentials', "no login"),
        ("unauthorized: authentication required", "wrong login"),
        ("401 Unauthorized: unauthorized: authentication required", "wrong login"),
        ("denied: requested access to the resource is denied", "denied"),
        ("401 Unauthorized: insufficient_scope", "denied"),
        (
            "error parsing HTTP 405 response body: invalid character 'M' looking for beginning of value: "
            '"Method not allowed\\n"',
            "read-only",
        ),
        ("405 Method Not Allowed: unsupported: The operation is unsupported.", "read-only"),
        (URL + "x509: certificate signed by unknown authority", "untrusted certificate"),
        (
            "HTTPSConnectionPool(host='registry.example', port=5000): Max retries exceeded with url: /v2/x (Caused by "
            "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed')))",
            "untrusted certificate",
        ),
        (URL + "http: server gave HTTP response to HTTPS client", "no TLS"),
        (URL + "dial tcp 192.0.2.1:5000: connect: connection refused", "unreachable"),
        (URL + "dial tcp: lookup registry.example: no such host", "unreachable"),
        (
            "HTTPSConnectionPool(host='registry.example', port=5000): Max retries exceeded with url: /v2/x (Caused by "
            "NewConnectionError('<urllib3>: Failed to establish a new connection: [Errno 111] Connection refused'))",
            "unreachable",
        ),
        ("received unexpected HTTP status: 500 Internal Server Error", "server error"),
        ("write /var/lib/docker/tmp/x: no space left on device", "engine disk full"),
        ("toomanyrequests: You have reached your pull rate limit.", "rate limit"),
        (
            "Credentials store error: StoreError('Credentials store docker-credential-x exited with \"locked\".')",
            "credential store",
        ),
        ("something new", ""),
    ],
)
def test_each_refusal_has_its_cause_and_is_one_line_about_its_registry(message: str, cause: str) -> None:
    assert cause_of(message) == cause
    error = explain(HOST, message)
    assert error.key == HOST
    assert error.todo
    assert "\n" not in str(error)
    assert "{" not in str(error)


def test_a_message_that_no_pattern_knows_is_shown_as_it_is() -> None:
    assert explain(HOST, "a: something new").found.endswith("something new")


@pytest.mark.parametrize("raised", [DockerException("no basic auth credentials"), NotConnected("Connection refused")])
def test_errors_of_the_engine_and_of_the_connection_become_the_registrys(raised: Exception) -> None:
    with pytest.raises(RegistryError), registry_errors(HOST):
        raise raised
