"""Where this machine's pip gets packages from, for pip in a container: its settings, certificates, proxies, passwords.

https://pip.pypa.io/en/stable/topics/configuration/
"""

from __future__ import annotations

import ast
import os
import ssl
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

# The folder in a container that has all files of an audit.
AUDIT = "/audit"
CERTIFICATES, CLIENT_CERTIFICATE, NETRC = f"{AUDIT}/ca.pem", f"{AUDIT}/client.pem", "/root/.netrc"
CONSTRAINTS = f"{AUDIT}/machine-constraints"
# Settings that say where packages come from and which are chosen; where pip writes is set by OF_THE_AUDIT.
KEPT = (
    "index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "proxy", "timeout", "retries", "cert",
    "client-cert", "no-binary", "only-binary", "prefer-binary", "pre", "require-hashes", "constraint",
)  # fmt: skip
# Later sections win, as in pip.
SECTIONS = ("global", "install", ":env:")
ALIASES = {"default-timeout": "timeout", "pypi-url": "index-url"}
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
SYSTEM_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
OF_THE_AUDIT = {
    "PIP_CACHE_DIR": "/cache/pip",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_NO_COLOR": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    "GIT_TERMINAL_PROMPT": "0",
}


@dataclass(frozen=True)
class PipSettings:
    """Environment variables for pip, this machine's files by their path in a container, and whether it needs the host's
    network.
    """

    environment: dict[str, str]
    files: dict[str, Path] = field(default_factory=dict)
    host_network: bool = False


def gather(variables: Iterable[str], lines: Iterable[str]) -> PipSettings:
    """Return this machine's settings, with the variables and paths that lines of requirements files need."""
    known = settings_of(_config_list(), os.environ)
    named = {name: os.environ[name] for name in variables if name in os.environ}
    found = translate(known, os.environ, named)
    return replace(found, host_network=found.host_network or _is_here(lines))


def _config_list() -> str:
    """Return the output of `pip config list`; empty where Interlock runs without a pip."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def settings_of(config_list: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the kept settings by pip's names, from `pip config list` or, if that is empty, from the environment."""
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in config_list.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in found:
            found[section][name] = str(ast.literal_eval(value))
    for name, value in environment.items() if not config_list else ():
        if name.startswith("PIP_"):
            found[":env:"][name.removeprefix("PIP_").lower().replace("_", "-")] = value
    merged = {ALIASES.get(name, name): value for section in SECTIONS for name, value in found[section].items()}
    return {name: " ".join(value.split()) for name, value in merged.items() if name in KEPT and value.strip()}


def translate(known: Mapping[str, str], environment: Mapping[str, str], named: Mapping[str, str]) -> PipSettings:
    """Return the settings as a container's environment variables, with the files that they name."""
    settings = dict(known)
    files: dict[str, Path] = {}
    bundle = _bundle(settings.pop("cert", ""), environment)
    if bundle is not None:
        files[CERTIFICATES] = bundle
    client = Path(settings.pop("client-cert", "")).expanduser()
    if client.is_file():
        files[CLIENT_CERTIFICATE] = client
        settings["client-cert"] = CLIENT_CERTIFICATE
    for name, place in (("find-links", f"{AUDIT}/machine-links"), ("constraint", CONSTRAINTS)):
        settings[name] = " ".join(_moved(settings.get(name, ""), place, files))
    netrc = Path(environment.get("NETRC", "~/.netrc")).expanduser()
    if netrc.is_file():
        files[NETRC] = netrc
    proxies = {name: value for name, value in environment.items() if name.lower() in PROXIES}
    variables = {f"PIP_{name.upper().replace('-', '_')}": value for name, value in settings.items() if value}
    return PipSettings(
        {**OF_THE_AUDIT, **named, **proxies, **variables, **(_trusting(CERTIFICATES) if bundle else {})},
        files,
        _is_here([*settings.values(), *proxies.values()]),
    )


def _bundle(cert: str, environment: Mapping[str, str]) -> Path | None:
    """Return the CA bundle that pip uses here: its own setting, the environment's, or the system's."""
    named = [cert, *(environment.get(name, "") for name in BUNDLES)]
    default = ssl.get_default_verify_paths().cafile
    paths = [Path(name).expanduser() for name in named if name] + [SYSTEM_BUNDLE] + ([Path(default)] if default else [])
    return next((path for path in paths if path.is_file()), None)


def _trusting(bundle: str) -> dict[str, str]:
    return dict.fromkeys(
        ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"), bundle
    )


def _moved(value: str, place: str, files: dict[str, Path]) -> list[str]:
    """Return URLs unchanged and this machine's paths as paths in the container; drop paths that do not exist."""
    words = []
    for number, word in enumerate(value.split()):
        if "://" in word and not word.startswith("file:"):
            words.append(word)
            continue
        path = Path(urlsplit(word).path if word.startswith("file:") else word).expanduser()
        if path.exists():
            words.append(f"{place}/{number}")
            files[words[-1]] = path.absolute()
    return words


def _is_here(values: Iterable[str]) -> bool:
    """Return whether a URL names this machine, which a container in its own network does not reach."""
    hosts = {urlsplit(word).hostname for value in values for word in value.split() if "://" in word}
    return bool(hosts & {"localhost", "127.0.0.1", "::1"})
