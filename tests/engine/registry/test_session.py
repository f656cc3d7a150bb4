"""Where a registry's answers may lead, who gets a password, and how much is read."""

from __future__ import annotations

import pytest

from interlock.engine.registry.session import (
    LOGIN_SERVICES,
    UnsafeAnswerError,
    allows_plain,
    may_have_password,
    origin,
)

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


@pytest.mark.parametrize(
    ("realm", "registry", "may"),
    [
        ("registry.example.org", "registry.example.org", True),
        ("REGISTRY.example.org", "registry.example.org", True),
        ("auth.docker.io", "registry-1.docker.io", True),
        ("gitlab.com", "registry.gitlab.com", True),
        ("auth.ghcr.io", "ghcr.io", True),
        ("quay.io", "ghcr.io", False),
        ("evil.example", "registry.example.org", False),
        ("notexample.org", "registry.example.org", False),
        ("example.org.evil.example", "registry.example.org", False),
        ("evil.co.uk", "registry.co.uk", False),
        ("auth.team.co.uk", "registry.team.co.uk", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.2", "127.0.0.1", False),
        ("10.0.0.1", "registry.10.0.0.1", False),
        ("localhost", "localhost", True),
        ("evil", "registry", False),
        ("", "registry.example.org", False),
    ],
)
def test_a_password_goes_to_a_login_service_of_the_registrys_own_domain(realm: str, registry: str, may: bool) -> None:
    assert may_have_password(realm, registry) is may


def test_a_login_service_that_the_user_names_may_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOGIN_SERVICES, "Login.corp.example, other.example")
    assert may_have_password("login.corp.example", "registry.team.example")
    assert not may_have_password("corp.example", "registry.team.example")


@pytest.mark.parametrize(
    "url",
    [
        "https://[::1",
        "https://user:word@host/",
        "https://evil.example\\.registry.example/",
        "https://host:99999/",
        "https://host:0/",
        "https:///path",
        "https://h\u00f6st/",
        "/v2/",
        "",
    ],
)
def test_what_could_be_read_as_another_address_is_none(url: str) -> None:
    with pytest.raises(UnsafeAnswerError):
        origin(url)


def test_an_origin_has_the_port_that_its_scheme_means() -> None:
    assert origin("https://A.example/x") == origin("https://a.example:443/y") == ("https", "a.example", 443)
    assert origin("http://[::1]:5000/") == ("http", "::1", 5000)
