"""What engines and registries say, each message as one of them really said it, in words that say what to do."""

from __future__ import annotations

import pytest
from docker.errors import DockerException
from requests.exceptions import ConnectionError as NotConnected

from interlock.engine.registry_errors import explain, explained
from interlock.errors import RegistryError

HOST = "registry.example:5000"
URL = f'Get "https://{HOST}/v2/": '


@pytest.mark.parametrize(
    ("message", "found", "todo"),
    [
        (f'Head "https://{HOST}/v2/x": no basic auth credentials', "asks for a login", f"docker login {HOST}"),
        ("unauthorized: authentication required", "refuses the user or password", f"docker login {HOST}"),
        ("401 Unauthorized: unauthorized: authentication required", "refuses the user or password", "Log in anew"),
        ("denied: requested access to the resource is denied", "does not allow this user", "another namespace"),
        ("401 Unauthorized: insufficient_scope", "does not allow this user", "another namespace"),
        (
            "error parsing HTTP 405 response body: invalid character 'M' looking for beginning of value: "
            '"Method not allowed\\n"',
            "it is read-only",
            "end its maintenance",
        ),
        ("405 Method Not Allowed: unsupported: The operation is unsupported.", "it is read-only", "maintenance"),
        (URL + "x509: certificate signed by unknown authority", "does not trust", f"/certs.d/{HOST}/ca.crt"),
        (
            "HTTPSConnectionPool(host='registry.example', port=5000): Max retries exceeded with url: /v2/x (Caused by "
            "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed')))",
            "does not trust",
            f"/certs.d/{HOST}/ca.crt",
        ),
        (URL + "http: server gave HTTP response to HTTPS client", "without TLS", "insecure-registries"),
        (
            URL + "dial tcp 192.0.2.1:5000: connect: connection refused",
            "cannot be reached (connection refused)",
            "name",
        ),
        (URL + "dial tcp: lookup registry.example: no such host", "cannot be reached (no such host)", "name"),
        (
            "HTTPSConnectionPool(host='registry.example', port=5000): Max retries exceeded with url: /v2/x (Caused by "
            "NewConnectionError('<urllib3>: Failed to establish a new connection: [Errno 111] Connection refused'))",
            "cannot be reached (Connection refused)",
            "Start it",
        ),
        (
            "received unexpected HTTP status: 500 Internal Server Error",
            "fails (500 Internal Server Error)",
            "its disk may be full",
        ),
        ("write /var/lib/docker/tmp/x: no space left on device", "engine's disk has no room", "docker system df"),
        ("toomanyrequests: You have reached your pull rate limit.", "too many requests", "Log in"),
        (
            "Credentials store error: StoreError('Credentials store docker-credential-x exited with \"locked\".')",
            "the engine's credential store fails",
            "config.json",
        ),
        ("something new", "the registry or the engine says: something new", "log"),
    ],
)
def test_each_refusal_is_one_sentence_with_what_to_do(message: str, found: str, todo: str) -> None:
    error = explain(HOST, message)
    assert found in error.found
    assert todo in error.todo
    assert error.key == HOST
    assert "\n" not in str(error)


@pytest.mark.parametrize("raised", [DockerException("no basic auth credentials"), NotConnected("Connection refused")])
def test_errors_of_the_engine_and_of_the_connection_become_the_registrys(raised: Exception) -> None:
    with pytest.raises(RegistryError), explained(HOST):
        raise raised
