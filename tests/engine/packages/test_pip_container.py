"""What ended a program of a container of packages: its deadline, or it itself."""

from __future__ import annotations

import netrc
import shlex
import string
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.engine.packages.pip_container import (
    CERTIFICATES,
    KILLED,
    NETRC,
    TIMED_OUT,
    PipSettings,
    builder_on_image,
    settings_of,
    translate,
    was_late,
)
from interlock.errors import EngineError


@pytest.mark.parametrize("code", [TIMED_OUT, KILLED])
@pytest.mark.parametrize("took_s", [2.99999, 3.0, 13.2])
def test_a_program_that_timeout_ended_was_late_whichever_clock_is_a_little_faster(code: int, took_s: float) -> None:
    assert was_late(code, took_s, 3)


@pytest.mark.parametrize(("code", "took_s"), [(0, 3.0), (1, 5.0), (TIMED_OUT, 0.5), (KILLED, 2.8)])
def test_a_program_that_ended_by_itself_was_not(code: int, took_s: float) -> None:
    assert not was_late(code, took_s, 3)


def test_the_builder_of_an_image_that_is_not_built_from_source_is_made_on_that_image() -> None:
    lines = builder_on_image(["gcc", "libc6-dev"]).splitlines()
    assert lines[:2] == ["ARG VARIANT", "FROM ${VARIANT}"]
    assert {"gcc", "libc6-dev", "git"} <= set(lines[-1].split())


NOTHING_ELSE = {"NETRC": "/nowhere"}
# Before Python 3.14, Path.exists raises for it, and for what is in a folder that this user may not enter.
NO_NAME = f"/{'x' * 300}"


def of(known: dict[str, str], **environment: str) -> PipSettings:
    return translate(known, {**NOTHING_ELSE, **environment}, {})


def test_settings_of_files_and_of_the_environment_are_joined_as_pip_joins_them() -> None:
    listed = (
        ":env:.default-timeout='180'\n"
        "global.extra-index-url='\\nhttps://a.example\\nhttps://b.example'\n"
        "global.index-url='https://global.example'\n"
        "global.timeout='5'\n"
        "install.index-url='https://install.example'\n"
        "list.format='columns'\n"
        "global.cache-dir='/somewhere'\n"
    )
    assert settings_of(listed, {}) == {
        "timeout": "180",
        "extra-index-url": "https://a.example https://b.example",
        "index-url": "https://install.example",
    }


def test_without_a_pip_the_environment_alone_is_asked() -> None:
    known = settings_of("", {"PIP_INDEX_URL": "https://x.example", "PIP_CACHE_DIR": "/c", "PATH": "/bin"})
    assert known == {"index-url": "https://x.example"}


def test_pips_own_list_of_its_settings_is_understood(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://file.example\nextra-index-url =\n    https://a.example\n    https://b.example\n"
    )
    environment = {"PIP_CONFIG_FILE": str(file), "PIP_TRUSTED_HOST": "a.example", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    found = settings_of(listed, environment)
    assert found["trusted-host"] == "a.example"
    assert found["index-url"] == "https://file.example"
    assert found["extra-index-url"] == "https://a.example https://b.example"


def test_settings_become_variables_and_the_audit_keeps_its_own() -> None:
    found = of({"index-url": "https://x.example", "no-binary": "numpy"}).environment
    assert found["PIP_INDEX_URL"] == "https://x.example"
    assert found["PIP_NO_BINARY"] == "numpy"
    assert found["PIP_CACHE_DIR"] == "/audit/pip"


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_the_certificates_that_this_machine_trusts_go_along(tmp_path: Path, variable: str) -> None:
    bundle, other = tmp_path / "own.pem", tmp_path / "other.pem"
    bundle.touch()
    other.touch()
    found = of({}, **{variable: str(bundle)})
    assert found.files[CERTIFICATES] == bundle
    assert {found.environment[name] for name in ("PIP_CERT", "SSL_CERT_FILE", "GIT_SSL_CAINFO")} == {CERTIFICATES}
    assert of({"cert": str(other)}, **{variable: str(bundle)}).files[CERTIFICATES] == other


def test_without_any_setting_the_systems_certificates_are_taken() -> None:
    bundle = of({}).files.get(CERTIFICATES)
    assert bundle is None or (isinstance(bundle, Path) and bundle.is_file())


def test_folders_of_wheels_and_constraints_go_along_and_what_is_not_there_does_not(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "c.txt").touch()
    links = f"https://x.example/links.html {tmp_path}/wheels /nowhere file://{tmp_path}/wheels {NO_NAME}"
    found = of({"find-links": links, "constraint": f"{tmp_path}/c.txt"})
    places = found.environment["PIP_FIND_LINKS"].split()
    assert places[0] == "https://x.example/links.html"
    assert [found.files[place] for place in places[1:]] == [tmp_path / "wheels"] * 2
    assert found.files[found.environment["PIP_CONSTRAINT"]] == tmp_path / "c.txt"
    assert "PIP_FIND_LINKS" not in of({"find-links": "/nowhere"}).environment


def test_proxies_and_variables_that_files_name_go_along() -> None:
    environment = {"https_proxy": "http://proxy:3128", "NO_PROXY": "localhost,127.0.0.1", "SECRET": "no"}
    found = translate({}, environment, {"USER_OF_INDEX": "t"})
    assert found.environment["https_proxy"] == "http://proxy:3128"
    assert found.environment["NO_PROXY"] == "localhost,127.0.0.1"
    assert found.environment["USER_OF_INDEX"] == "t"
    assert "SECRET" not in found.environment


@pytest.mark.promise(escapes=True)
def test_of_the_passwords_those_of_named_hosts_go_along_and_no_others(tmp_path: Path) -> None:
    path, kept = tmp_path / "netrc", tmp_path / "kept"
    path.write_text(
        'machine a.example login me password "x\\"ä y"\nmachine b.example login b password b\n'
        "machine other.example login o password o\ndefault login d password d\n"
    )
    environment = {"NETRC": str(path)}
    settings, lines = {"index-url": "https://a.example/simple"}, ["x @ git+https://u@b.example:8/x"]
    kept.write_bytes(bytes(translate(settings, environment, {}, lines).files[NETRC]))
    assert netrc.netrc(kept).hosts == {"a.example": ("me", "", 'x"ä y'), "b.example": ("b", "", "b")}
    assert NETRC not in translate({"index-url": "https://c.example"}, environment, {}).files
    path.write_text("machine\n")
    with pytest.raises(EngineError):
        translate(settings, environment, {})


@pytest.mark.parametrize("word", ["plain", "it's", "#x!{}~"])
def test_a_password_is_read_by_every_version_of_the_netrc_module(word: str, tmp_path: Path) -> None:
    path = tmp_path / "netrc"
    path.write_text(f"machine a.example login me password {word}\n")
    written = bytes(translate({"index-url": "https://a.example"}, {"NETRC": str(path)}, {}).files[NETRC]).decode()
    before_3_11 = shlex.shlex(written)
    before_3_11.wordchars += string.punctuation
    before_3_11.commenters = ""
    assert list(before_3_11) == ["machine", "a.example", "login", "me", "password", word]
    path.write_text(written)
    assert netrc.netrc(path).hosts == {"a.example": ("me", "", word)}


@pytest.mark.promise(escapes=True)
@pytest.mark.parametrize(
    ("known", "environment"),
    [
        ({"index-url": "http://localhost:3141/simple"}, {}),
        ({"extra-index-url": "https://x.example http://user:pw@127.0.0.1:80/"}, {}),
        ({}, {"HTTPS_PROXY": "http://[::1]:3128"}),
    ],
)
def test_a_setting_that_names_this_very_machine_is_refused_because_a_build_has_not_its_network(
    known: dict[str, str], environment: dict[str, str]
) -> None:
    of({"index-url": "https://localhost.example/simple"}, NO_PROXY="localhost,127.0.0.1")
    with pytest.raises(EngineError):
        of(known, **environment)
