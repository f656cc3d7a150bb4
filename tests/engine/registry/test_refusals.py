"""What registries and engines say when they refuse has a cause, and is one line."""

from __future__ import annotations

import pytest
from docker.errors import DockerException
from requests.exceptions import ConnectionError as NotConnected

from interlock.engine.registry.refusals import cause_of, explain, registry_errors
from interlock.errors import RegistryError

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
